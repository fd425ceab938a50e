/**
 * `belfry run logs --lines`: what a function logged in an attempt, line by line; with `--follow` of all
 * attempts, as it is written, until the run has ended.
 */
import type { RunLog } from '@belfry/contract'
import type { Client } from '@belfry/sdk'
import type { Call } from '../command.ts'
import { plain } from '../output/text.ts'
import { timeWords } from '../output/times.ts'

type Line = RunLog['lines'][number]

export async function printLines(call: Call, client: Client, id: string): Promise<undefined> {
  const attempt = call.flags.whole('attempt', 1, 2_147_483_647)
  if (call.flags.on('follow')) return followLines(call, client, id, attempt)
  let after = -1
  for (;;) {
    const page = await client.logs.get(id, { attempt, after })
    if (page.lines.length > 0) print(call, page.lines)
    after = page.lastLine
    if (page.more) continue
    if (page.full) sayFull(call, page.attempt ?? 1, page.logCapBytes)
    if (page.attempt === null) call.printer.say('Nothing was logged.')
    return undefined
  }
}

async function followLines(
  call: Call,
  client: Client,
  id: string,
  wanted: number | undefined,
): Promise<undefined> {
  let shown: number | undefined
  for await (const event of client.runs.followLogs(id)) {
    if (event.kind === 'end') {
      const why = event.reason === null ? '' : ` (${event.reason})`
      if (shown === undefined) call.printer.say('Nothing was logged.')
      call.printer.say(`The run has ended: ${event.state}${why}.`)
      return undefined
    }
    const attempt = event.kind === 'line' ? event.line.attempt : event.attempt
    // attempts come one after the other
    if (wanted !== undefined && attempt > wanted) return undefined
    if (wanted !== undefined && attempt < wanted) continue
    if (shown !== undefined && attempt !== shown) call.printer.say(`Attempt ${attempt}:`)
    shown = attempt
    if (event.kind === 'line') print(call, [event.line])
    else sayFull(call, event.attempt, event.logCapBytes)
  }
}

function sayFull(call: Call, attempt: number, capBytes: number): void {
  call.printer.say(`The log of attempt ${attempt} ends here: it is full (${capBytes} bytes).`)
}

function print(call: Call, lines: readonly Line[]): void {
  const { clock } = call.printer
  call.printer.value(
    lines,
    lines.map((line) => wordsOf(line, timeWords(line.at, clock))),
  )
}

function wordsOf({ level, message, fields }: Line, time: string): string {
  const more = fields === undefined || fields === null ? '' : ` ${plain(JSON.stringify(fields))}`
  return `${time} ${level.padEnd(5)} ${plain(message)}${more}`
}

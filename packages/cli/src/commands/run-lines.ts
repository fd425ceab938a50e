/**
 * `belfry run logs --lines`: what a function logged in an attempt, line by line, also while it runs. Pages
 * are asked for until there are no more, or, following, until the run has ended.
 */
import { setTimeout as pause } from 'node:timers/promises'
import type { RunLog } from '@belfry/contract'
import { isTerminal } from '@belfry/contract'
import type { Client } from '@belfry/sdk'
import type { Call } from '../command.ts'
import { plain } from '../output/text.ts'
import { timeWords } from '../output/times.ts'

const followMs = 500

type Line = RunLog['lines'][number]

export async function printLines(call: Call, client: Client, id: string): Promise<undefined> {
  const follow = call.flags.on('follow')
  const attempt = call.flags.whole('attempt', 1, 2_147_483_647)
  let after = -1
  let shown: number | null = attempt ?? null
  for (;;) {
    // asked for before the lines, so that none of an ended run is missed
    const { state } = follow ? await client.runs.get(id) : { state: 'succeeded' as const }
    const page = await client.logs.get(id, { attempt, after })
    // the next attempt has begun, and its lines count from 0 again
    if (page.attempt !== shown && shown !== null && attempt === undefined) after = -1
    else if (page.lines.length > 0) print(call, page)
    if (page.attempt === shown || shown === null) after = page.lastLine
    shown = page.attempt
    if (page.more) continue
    if (page.full)
      call.printer.say(`The log of attempt ${shown ?? 1} ends here: it is full (${page.logCapBytes} bytes).`)
    if (!follow || isTerminal(state)) break
    await pause(followMs)
  }
  if (shown === null) call.printer.say('Nothing was logged.')
}

function print(call: Call, page: RunLog): void {
  const { clock } = call.printer
  call.printer.value(
    page.lines,
    page.lines.map((line) => wordsOf(line, timeWords(line.at, clock))),
  )
}

function wordsOf({ level, message, fields }: Line, time: string): string {
  const more = fields === undefined || fields === null ? '' : ` ${plain(JSON.stringify(fields))}`
  return `${time} ${level.padEnd(5)} ${plain(message)}${more}`
}

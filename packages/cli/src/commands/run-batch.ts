/**
 * `belfry run batch`: a file with a request for a run in each line, sent in calls of up to 1,000. Each line
 * has a result of its own; one that is refused keeps no other from being taken, unless --atomic is given.
 */
import type { RunReceipt, RunRefusal } from '@belfry/contract'
import { maxBatchItems } from '@belfry/contract'
import { inParts } from '@belfry/sdk/functions'
import type { Call, Command } from '../command.ts'
import { exitCodes, UsageError } from '../exit-codes.ts'
import { plain } from '../output/text.ts'

interface Line {
  readonly line: number
  readonly item: unknown
}
type LineResult =
  | { readonly line: number; readonly run: RunReceipt }
  | { readonly line: number; readonly error: RunRefusal }

async function batch(call: Call): Promise<number> {
  const text = await call.flags.file('file')
  if (text === undefined)
    throw new UsageError('say which file: --file runs.ndjson, or --file - for standard input')
  const fromLine = call.flags.whole('from-line', 1, Number.MAX_SAFE_INTEGER) ?? 1
  const { lines, unreadable } = readLines(text, call.flags.text('job'), fromLine)
  const atomic = call.flags.on('atomic')
  const [fault] = unreadable
  if (atomic && fault !== undefined)
    throw new UsageError(`line ${fault.line}: ${fault.error.message}; nothing was sent`)
  if (lines.length + unreadable.length === 0)
    throw new UsageError('--file has no lines; write a request in each: {"job": "report", "input": {"n": 1}}')
  const results: LineResult[] = []
  show(call, unreadable)
  results.push(...unreadable)
  for (const part of parts(lines)) {
    const made = await sendPart(call, part, atomic)
    show(call, made)
    results.push(...made)
  }
  return summary(call, results)
}

function readLines(text: string, job: string | undefined, fromLine: number) {
  const lines: Line[] = []
  const unreadable: Extract<LineResult, { error: unknown }>[] = []
  for (const [index, raw] of text
    .replace(/^\ufeff/, '')
    .split(/\r?\n/)
    .entries()) {
    const line = index + 1
    if (line < fromLine || raw.trim() === '') continue
    try {
      const item: unknown = JSON.parse(raw)
      const isObject = typeof item === 'object' && item !== null && !Array.isArray(item)
      lines.push({ line, item: isObject && job !== undefined ? { job, ...item } : item })
    } catch (error) {
      const why = error instanceof Error ? error.message : 'unreadable'
      unreadable.push({
        line,
        error: { code: 'malformed_json', message: `is not valid JSON: ${why}`, errors: [] },
      })
    }
  }
  return { lines, unreadable }
}

/** As many lines as a call takes. */
function* parts(lines: readonly Line[]): Generator<readonly Line[]> {
  let from = 0
  for (const part of inParts(lines.map(({ item }) => item))) {
    yield lines.slice(from, from + part.length)
    from += part.length
  }
}

async function sendPart(call: Call, part: readonly Line[], atomic: boolean): Promise<LineResult[]> {
  const client = await call.client()
  const body = { items: part.map(({ item }) => item), atomic }
  try {
    const { results } = await client.runs.enqueueBatch(body, { dryRun: call.dryRun })
    return results.flatMap(({ run, error }, index): LineResult[] => {
      const line = part[index]?.line ?? 0
      if (run !== null) return [{ line, run }]
      return error === null ? [] : [{ line, error: ofLine(error, index) }]
    })
  } catch (error) {
    const first = part[0]?.line ?? 1
    call.printer.warn(`Stopped at line ${first}: what is before it was sent. Go on with --from-line ${first}`)
    throw error
  }
}

/** Pointers within the line, not within the call. */
function ofLine({ code, message, errors }: RunRefusal, index: number): RunRefusal {
  const prefix = `/items/${index}`
  const within = (pointer: string): string =>
    pointer.startsWith(prefix) ? pointer.slice(prefix.length) : pointer
  return { code, message, errors: errors.map((fault) => ({ ...fault, pointer: within(fault.pointer) })) }
}

/** Lines for programs as they come; for people only what was refused. */
function show(call: Call, results: readonly LineResult[]): void {
  if (call.printer.format === 'jsonl') {
    if (results.length > 0) call.printer.value(results, [])
    return
  }
  if (call.printer.format !== 'table') return
  for (const result of results) {
    if ('error' in result)
      call.printer.warn(`Line ${result.line}: ${plain(result.error.message)} (${plain(result.error.code)})`)
  }
}

function summary(call: Call, results: readonly LineResult[]): number {
  const { printer } = call
  const runs = results.flatMap((result) => ('run' in result ? [result.run] : []))
  const refused = results.length - runs.length
  const duplicates = runs.filter(({ duplicate }) => duplicate).length
  const gathered = runs.filter((run) => run.gathered !== null).length
  const taken = `${runs.length - duplicates - gathered} runs, ${gathered} inputs for runs that gather`
  const words = `${taken}, ${duplicates} duplicates, ${refused} refused`
  if (printer.format === 'table') printer.value(results, [])
  else if (printer.format === 'name') printer.value(results, [...new Set(runs.map(({ id }) => id))])
  else if (printer.format !== 'jsonl')
    printer.value(
      results.toSorted((a, b) => a.line - b.line),
      [],
    )
  printer.say(call.dryRun ? `Dry run, nothing was stored: would ask for ${words}` : `Asked for ${words}.`)
  return refused === 0 ? exitCodes.ok : exitCodes.failed
}

export const runBatchCommand: Command = {
  noun: 'run',
  verb: 'batch',
  summary: 'Ask for many runs, from a file with one request a line',
  details:
    'A line is what the API takes for one run: {"job": "report", "input": {"n": 1}, "dedupeKey": "n1"}. ' +
    `Lines are sent in calls of up to ${maxBatchItems}. With -o jsonl each has its result as it comes. ` +
    'Exit code 1 if any was refused.',
  flags: [
    { name: 'file', short: 'f', value: 'path', summary: 'File of JSON lines, `-` for standard input' },
    { name: 'job', value: 'name', summary: 'Job of lines that name none' },
    {
      name: 'atomic',
      summary: 'A call with a line that is refused takes none of its lines, and is the last',
    },
    { name: 'from-line', value: 'number', summary: 'Begin at this line' },
  ],
  effect: 'change',
  fieldFlags: { '/items': '--file' },
  examples: [
    { words: 'All lines of a file', command: 'belfry run batch --file runs.ndjson' },
    {
      words: 'From another program, with the result of each line',
      command: 'belfry run batch --file - --job report -o jsonl',
    },
  ],
  run: batch,
}

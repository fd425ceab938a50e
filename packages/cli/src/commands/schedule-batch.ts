/**
 * `belfry schedule next --batch`: a file of cases, one JSON line for each, in order. A case that is refused
 * is a line with its error and no reason to stop, also one without an id; only a file without a list is.
 *
 *     {"cases": [{"id": "c1", "dialect": "unix", "expr": "0 2 * * *", "tz": "Europe/Berlin",
 *                 "from": "2026-01-01T00:00:00Z", "start"?, "seed"?, "next"?: [ … ]}]}
 *
 * As many instants are given as the case has in `next` (else in `recommended`), else 5.
 */
import type { Schedule, ScheduleFault } from '@belfry/server/schedule'
import { UsageError } from '../exit-codes.ts'
import { toJsonLine } from '../output/structured.ts'
import type { Stream } from '../io.ts'
import type { Evaluator } from './schedule-evaluator.ts'
import { isWritable, scheduleInput, utcText } from './schedule-evaluator.ts'
import { given } from './shared.ts'

type Case = Readonly<Record<string, unknown>>
type Answer = { readonly next: readonly string[] } | { readonly fault: ScheduleFault }

const usualCount = 5
const linesPerWrite = 200

/** Writes one line a case. `fromMs` is used for cases without `from`. */
export function answerBatch(text: string, evaluator: Evaluator, fromMs: number, out: Stream): void {
  const lines: string[] = []
  const flush = (): void => {
    if (lines.length > 0) out.write(`${lines.splice(0).join('\n')}\n`)
  }
  for (const entry of casesOf(text)) {
    lines.push(toJsonLine(lineOf(entry, evaluator, fromMs)))
    if (lines.length >= linesPerWrite) flush()
  }
  flush()
}

function casesOf(text: string): readonly unknown[] {
  const fault = (what: string): UsageError =>
    new UsageError(
      `--batch ${what}; the file is {"cases": [{"id": "c1", "dialect": "unix", "expr": "0 2 * * *"}, …]}`,
    )
  let file: unknown
  try {
    file = JSON.parse(text)
  } catch (cause) {
    throw fault(`is not valid JSON (${cause instanceof Error ? cause.message : 'unreadable'})`)
  }
  const cases = typeof file === 'object' && file !== null && 'cases' in file ? file.cases : undefined
  if (!Array.isArray(cases)) throw fault('has no list "cases"')
  return cases
}

/** Without an id of its own the line has null, and its place tells whose it is. */
function lineOf(entry: unknown, evaluator: Evaluator, nowMs: number): object {
  if (!isCase(entry)) return { id: null, ...shownAnswer(refusal('', 'a case is an object')) }
  const id = entry['id']
  if (typeof id === 'string' || typeof id === 'number')
    return { id, ...shownAnswer(answerOf(entry, evaluator, nowMs)) }
  return { id: null, ...shownAnswer(refusal('/id', 'give the case an id: a text or a number')) }
}

const isCase = (entry: unknown): entry is Case =>
  typeof entry === 'object' && entry !== null && !Array.isArray(entry)

const shownAnswer = (answer: Answer): object =>
  'next' in answer ? answer : { error: { code: 'invalid_schedule', ...answer.fault } }

function answerOf(entry: Case, evaluator: Evaluator, nowMs: number): Answer {
  const notText = ['dialect', 'expr', 'tz', 'from', 'start', 'seed'].find(
    (name) => (entry[name] ?? null) !== null && typeof entry[name] !== 'string',
  )
  if (notText !== undefined) return refusal(`/${notText}`, 'write a text')
  const text = (name: string): string | undefined => (entry[name] ?? undefined) as string | undefined
  const [dialect, expr] = [text('dialect') ?? 'unix', text('expr')]
  if (expr === undefined) return refusal('/expr', 'give the expression of the case')
  const from = timeOf(text('from'), '/from', evaluator)
  const start = timeOf(text('start'), '/start', evaluator)
  for (const time of [from, start]) if (typeof time === 'object') return { fault: time }
  const spec = scheduleInput(evaluator, dialect, expr)
  if (!spec.ok) return { fault: spec.error }
  const asked = { ...spec.value, ...given({ zone: text('tz'), seed: text('seed') }) }
  const bounds = typeof start === 'number' ? { startAtMs: start } : {}
  const compiled = evaluator.compile(asked, { ...bounds, zones: evaluator.zones })
  if (compiled.ok) {
    const afterMs = typeof from === 'number' ? from : nowMs
    return { next: nextTimes(compiled.value, afterMs, countOf(entry)) }
  }
  const [fault = { pointer: '', message: 'refused' }] = compiled.error
  // A date that never comes is no mistake of a case: it says so by an empty list.
  return evaluator.isNeverFires(fault) ? { next: [] } : { fault }
}

const refusal = (pointer: string, message: string): Answer => ({ fault: { pointer, message } })

function timeOf(
  text: string | undefined,
  pointer: string,
  { parseInstant, zones, resolveZone }: Evaluator,
): number | ScheduleFault | undefined {
  if (text === undefined) return undefined
  const utc = resolveZone(zones, 'UTC')
  if (!utc.ok) return { pointer, message: utc.error }
  const parsed = parseInstant(text, utc.value)
  return parsed.ok ? parsed.value.instantMs : { pointer, message: parsed.error.message }
}

function countOf(entry: Case): number {
  const listed = [entry['next'], entry['recommended']].find((value) => Array.isArray(value))
  return listed === undefined ? usualCount : listed.length
}

function nextTimes(schedule: Schedule, fromMs: number, count: number): string[] {
  const times: string[] = []
  let timeMs = schedule.next(fromMs)
  while (timeMs !== null && isWritable(timeMs) && times.length < count) {
    times.push(utcText(timeMs))
    timeMs = schedule.next(timeMs)
  }
  return times
}

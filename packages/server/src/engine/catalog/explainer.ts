/**
 * Puts an explanation together: chooses the times (explain-stretch.ts), reads what is on record of them, and
 * lets the domain judge each one (domain/explanation/verdict.ts). At most `limit` times and a bounded number
 * of rows are read, whatever the stretch: the planned times of the timing as it is, joined with the rows that
 * are there, in order; the cut falls where either list was cut.
 */
import { standingWords } from '../../domain/explanation/standing-words.ts'
import type { ExplainMoment, RecordFacts, ScheduleFacts } from '../../domain/explanation/facts.ts'
import { type Explained, explainTime, type Known } from '../../domain/explanation/verdict.ts'
import { dstNoteOf } from '../../domain/schedule/dst-note.ts'
import type { CompiledSchedule } from '../../domain/schedule/schedule-spec.ts'
import type { TimesCount } from '../../domain/schedule/schedule-times.ts'
import type { ExplainedRun, ExplanationStore, LedgerRow } from '../../ports/explanations.ts'
import type { Stretch } from './explain-stretch.ts'

const shownNext = 3
const mostCountedMs = 400 * 86_400_000

export interface ExplainSubject {
  readonly scheduleId: string
  readonly facts: ScheduleFacts
  /** Null: its timing cannot be read, or it was deleted. */
  readonly times: CompiledSchedule | null
  readonly moment: ExplainMoment
}

/** One time with its runs: the schedule's own first, then those of backfills and of people. */
export interface ExplainedWithRuns extends Explained {
  readonly note: string | null
  readonly runs: readonly (ExplainedRun & { readonly backfillId: string | null })[]
}

export interface ExplanationDraft {
  readonly standing: string
  readonly next: readonly ExplainedWithRuns[]
  readonly fromMs: number
  readonly toMs: number
  readonly planned: TimesCount | null
  readonly times: readonly ExplainedWithRuns[]
  readonly moreMs: number | null
}

export async function explain(
  store: ExplanationStore,
  subject: ExplainSubject,
  stretch: Stretch,
  limit: number,
): Promise<ExplanationDraft> {
  const chosen =
    stretch.kind === 'moment'
      ? await aroundMoment(store, subject, stretch.atMs)
      : await withinStretch(store, subject, stretch, limit)
  const { timesMs, rows, fromMs, toMs } = chosen
  const { scheduleId, facts, times } = subject
  const sumsBefore = await store.sumsBefore(scheduleId, fromMs)
  const extra = await store.extraRuns(scheduleId, fromMs, toMs)
  // the run of an occurrence that a backfill made is among both
  const ids = new Set([...rows.flatMap(({ runId }) => runId ?? []), ...extra.map(({ runId }) => runId)])
  const runs = await store.runs([...ids])
  const records = new Map(rows.map((row) => [row.scheduledForMs, withRun(row, runs)]))
  const sums = [...sumsBefore.map((row) => withRun(row, runs)), ...records.values()].filter(
    ({ missedCount }) => missedCount > 1,
  )
  const known: Known = { schedule: facts, times, moment: subject.moment, sums }
  const told = (timeMs: number): ExplainedWithRuns => {
    const explained = explainTime(known, timeMs, records.get(timeMs))
    const ownId = explained.record?.runId ?? null
    const own = ownId === null ? undefined : runs.get(ownId)
    const here = extra.filter(({ scheduledForMs }) => scheduledForMs === timeMs)
    const ownBackfillId = here.find(({ runId }) => runId === ownId)?.backfillId ?? null
    const others = here.flatMap(({ runId, backfillId }) => {
      const run = runId === ownId ? undefined : runs.get(runId)
      return run === undefined ? [] : [{ ...run, backfillId }]
    })
    const asked = stretch.kind === 'moment' && stretch.atMs === timeMs ? stretch.note : null
    return {
      ...explained,
      note: asked ?? noteOf(times, timeMs),
      runs: [...(own === undefined ? [] : [{ ...own, backfillId: ownBackfillId }]), ...others],
    }
  }
  return {
    standing: standingWords(facts, subject.moment),
    next: upcoming(subject).map(told),
    fromMs,
    toMs,
    planned: stretch.kind === 'moment' || times === null ? null : countOf(times, fromMs, toMs),
    times: timesMs.map(told),
    moreMs: chosen.moreMs,
  }
}

/** Under calendars counting is no mere arithmetic, so a long stretch is counted in part. */
function countOf(times: CompiledSchedule, fromMs: number, toMs: number): TimesCount {
  const endMs = times.exclusionOf === undefined ? toMs : Math.min(toMs, fromMs + mostCountedMs)
  const { count, capped } = times.countBetween(fromMs - 1, endMs - 1)
  return { count, capped: capped || endMs < toMs }
}

interface Chosen {
  readonly timesMs: readonly number[]
  readonly rows: readonly LedgerRow[]
  readonly fromMs: number
  readonly toMs: number
  readonly moreMs: number | null
}

/** The time itself, and the planned ones next to it where it is none. */
async function aroundMoment(
  store: ExplanationStore,
  { scheduleId, times, facts }: ExplainSubject,
  atMs: number,
): Promise<Chosen> {
  const at = await store.records(scheduleId, atMs, atMs + 1, 1)
  const planned = at.length > 0 || times === null || times.next(atMs - 1) === atMs
  const beside =
    planned || facts.next?.scheduledForMs === atMs ? [] : [times.previous(atMs), times.next(atMs)]
  const rows = [...at]
  const timesMs = [atMs]
  for (const timeMs of beside) {
    if (timeMs === null) continue
    timesMs.push(timeMs)
    rows.push(...(await store.records(scheduleId, timeMs, timeMs + 1, 1)))
  }
  timesMs.sort((a, b) => a - b)
  return { timesMs, rows, fromMs: timesMs[0] ?? atMs, toMs: (timesMs.at(-1) ?? atMs) + 1, moreMs: null }
}

async function withinStretch(
  store: ExplanationStore,
  { scheduleId, times }: ExplainSubject,
  { fromMs, toMs }: { readonly fromMs: number; readonly toMs: number },
  limit: number,
): Promise<Chosen> {
  const rows = await store.records(scheduleId, fromMs, toMs, limit + 1)
  const planned = times?.between(fromMs - 1, toMs - 1, limit + 1) ?? []
  const all = new Set([...planned, ...rows.map(({ scheduledForMs }) => scheduledForMs)])
  const timesMs = [...all].toSorted((a, b) => a - b)
  return { timesMs: timesMs.slice(0, limit), rows, fromMs, toMs, moreMs: timesMs[limit] ?? null }
}

/** What comes next; of a schedule that is paused, what would. */
function upcoming({ facts, times, moment }: ExplainSubject): number[] {
  const { state, next } = facts
  if (state === 'completed' || state === 'deleted') return []
  const found = next === null ? [] : [next.scheduledForMs]
  let timeMs = times?.next(next?.scheduledForMs ?? moment.nowMs) ?? null
  while (timeMs !== null && found.length < shownNext) {
    found.push(timeMs)
    timeMs = times?.next(timeMs) ?? null
  }
  return found
}

function withRun(row: LedgerRow, runs: ReadonlyMap<string, ExplainedRun>): RecordFacts {
  return { ...row, run: (row.runId === null ? undefined : runs.get(row.runId)) ?? null }
}

/** What a change of the clock did to a planned time. */
function noteOf(times: CompiledSchedule | null, timeMs: number): string | null {
  return times !== null && times.next(timeMs - 1) === timeMs ? dstNoteOf(times, timeMs) : null
}

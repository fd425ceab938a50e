/**
 * Puts an explanation together: chooses the times (explain-stretch.ts), reads what is on record of them, and
 * lets the domain judge each one (domain/explanation/verdict.ts). At most `limit` times and a bounded number
 * of rows are read, whatever the stretch: the planned times of the timing as it is, joined with the rows that
 * are there, in order; the cut falls where either list was cut.
 */
import { type RunsNext, standingWords } from '../../domain/explanation/standing-words.ts'
import type { ExplainMoment, RecordFacts, ScheduleFacts } from '../../domain/explanation/facts.ts'
import { type Explained, explainTime, type Known } from '../../domain/explanation/verdict.ts'
import { dstNoteOf } from '../../domain/schedule/dst-note.ts'
import type { CompiledSchedule } from '../../domain/schedule/schedule-spec.ts'
import type { TimesCount } from '../../domain/schedule/schedule-times.ts'
import type { ExplainedRun, ExplanationStore, LedgerRow } from '../../ports/explanations.ts'
import type { Stretch } from './explain-stretch.ts'
import { runningNext } from './schedule-preview.ts'

const shownNext = 3
const mostCountedMs = 400 * 86_400_000
/** How many planned times in a row that calendars leave out are passed by on the way to one that runs. */
const mostLooks = 10_000

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
  const backfills = new Map(extra.map(({ runId, backfillId }) => [runId, backfillId]))
  const withRun = (row: LedgerRow): RecordFacts => {
    const { runId } = row
    if (runId === null) return { ...row, run: null, backfillId: null }
    return { ...row, run: runs.get(runId) ?? null, backfillId: backfills.get(runId) ?? null }
  }
  const records = new Map(rows.map((row) => [row.scheduledForMs, withRun(row)]))
  const sums = [...sumsBefore.map(withRun), ...records.values()].filter(({ missedCount }) => missedCount > 1)
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
    standing: standingWords(facts, subject.moment, runsNext(subject)),
    next: upcoming(subject).map(told),
    fromMs,
    toMs,
    planned:
      stretch.kind === 'moment' || times === null
        ? null
        : countOf(times, justBefore(subject, fromMs), fromMs, toMs),
    times: timesMs.map(told),
    moreMs: chosen.moreMs,
  }
}

/** Under calendars counting is no mere arithmetic, so a long stretch is counted in part. */
function countOf(times: CompiledSchedule, afterMs: number, fromMs: number, toMs: number): TimesCount {
  const endMs = times.exclusionOf === undefined ? toMs : Math.min(toMs, fromMs + mostCountedMs)
  const { count, capped } = times.countBetween(afterMs, endMs - 1)
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

/** A rate counts from the moment it is made, and runs a period later for the first time. */
function justBefore({ times, facts }: ExplainSubject, fromMs: number): number {
  const { createdAtMs } = facts
  const counts = times?.timing.kind === 'rate' && times.timing.anchorMs === createdAtMs
  return counts ? Math.max(fromMs - 1, createdAtMs) : fromMs - 1
}

async function withinStretch(
  store: ExplanationStore,
  subject: ExplainSubject,
  { fromMs, toMs }: { readonly fromMs: number; readonly toMs: number },
  limit: number,
): Promise<Chosen> {
  const { scheduleId, times } = subject
  const rows = await store.records(scheduleId, fromMs, toMs, limit + 1)
  const planned = times?.between(justBefore(subject, fromMs), toMs - 1, limit + 1) ?? []
  const all = new Set([...planned, ...rows.map(({ scheduledForMs }) => scheduledForMs)])
  const timesMs = [...all].toSorted((a, b) => a - b)
  return { timesMs: timesMs.slice(0, limit), rows, fromMs, toMs, moreMs: timesMs[limit] ?? null }
}

/** The next time that runs, if one is near enough, and why an earlier planned one does not. */
function runsNext({ facts, times }: ExplainSubject): RunsNext | null {
  const plannedMs = facts.next?.scheduledForMs ?? null
  if (times === null || plannedMs === null) return null
  const sleepUntilMs = facts.sleep?.untilMs ?? null
  const found = runningNext(times, plannedMs, sleepUntilMs, 1, mostLooks)
  return {
    atMs: found.times[0] ?? null,
    lookedToMs: found.lookedToMs,
    leftOut: times.exclusionOf?.(plannedMs)?.detail ?? null,
  }
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

/** What a change of the clock did to a planned time. */
function noteOf(times: CompiledSchedule | null, timeMs: number): string | null {
  return times !== null && times.next(timeMs - 1) === timeMs ? dstNoteOf(times, timeMs) : null
}

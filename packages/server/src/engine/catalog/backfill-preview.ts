/**
 * What a backfill would do: which planned times would run, how many, what is on record of the others. Looks
 * at a bounded number of times one by one, with the same decision as a step takes, and says so where there
 * are more of them; the far end of the range is looked at as well then, to show what would run there.
 */
import type { BackfillPreview } from '@belfry/contract'
import { maxPreviewedTimes } from '@belfry/contract'
import type { TimeFacts, TimeVerdict } from '../../domain/backfill.ts'
import { decideTime, factsOf, upcomingTimes } from '../../domain/backfill.ts'
import type { CompiledSchedule } from '../../domain/schedule/schedule-spec.ts'
import type { BackfillStore, NewBackfill, TimeRecord } from '../../ports/backfills.ts'
import type { ScheduleRecord } from '../../ports/schedule-store.ts'

const dayMs = 86_400_000
/** Planned times that are shown at either end. */
const shownTimes = 10
/** Looked at from the far end of a long range. */
const timesAtFarEnd = 1_000
const timesPerQuery = 1_000

const noCounts = {
  wouldRun: 0,
  excluded: 0,
  leftToSchedule: 0,
  without: 0,
  alive: 0,
  succeeded: 0,
  failed: 0,
  canceled: 0,
  unknown: 0,
}
type Kind = keyof typeof noCounts

interface Parts {
  readonly backfills: Pick<BackfillStore, 'timeRecords'>
  readonly times: CompiledSchedule
  readonly nowMs: number
  readonly retentionDays: number
}

interface Judged {
  readonly scheduledForMs: number
  readonly facts: TimeFacts
  readonly verdict: TimeVerdict
}

export async function previewBackfill(
  parts: Parts,
  schedule: ScheduleRecord,
  backfill: NewBackfill,
): Promise<BackfillPreview> {
  const near = upcomingTimes(parts.times, backfill, maxPreviewedTimes)
  const exact = near.behindMs === null
  const judged = await judge(parts, schedule, backfill, near.timesMs)
  const counts = { ...noCounts }
  for (const each of judged) for (const kind of kindsOf(each)) counts[kind]++
  const farEnd = exact
    ? judged.toReversed()
    : await judge(parts, schedule, backfill, timesFromFarEnd(parts.times, backfill))
  return {
    exact,
    looked: judged.length,
    ...counts,
    ...shown(backfill, judged, farEnd),
    notes: notesOf(parts, schedule, backfill),
  }
}

async function judge(
  { backfills, times }: Parts,
  { id, next }: ScheduleRecord,
  { reprocess }: NewBackfill,
  timesMs: readonly number[],
): Promise<Judged[]> {
  const records = new Map<number, TimeRecord>()
  for (let from = 0; from < timesMs.length; from += timesPerQuery) {
    const some = timesMs.slice(from, from + timesPerQuery)
    for (const record of await backfills.timeRecords(id, some)) records.set(record.scheduledForMs, record)
  }
  return timesMs.map((scheduledForMs) => {
    const facts = factsOf(scheduledForMs, records.get(scheduledForMs), times, next?.scheduledForMs ?? null)
    return { scheduledForMs, facts, verdict: decideTime(facts, reprocess) }
  })
}

/** As what a planned time counts: what would become of it, and what is on record of it. */
function kindsOf({ facts, verdict }: Judged): Kind[] {
  const becomes: Partial<Record<TimeVerdict, Kind>> = {
    run: 'wouldRun',
    excluded: 'excluded',
    left_to_schedule: 'leftToSchedule',
  }
  const kind = becomes[verdict]
  return [...(kind === undefined ? [] : [kind]), standing(facts)]
}

function standing({ hasRun, alive, endedAs }: TimeFacts): Kind {
  if (!hasRun) return 'without'
  if (alive) return 'alive'
  if (endedAs === null) return 'unknown'
  if (endedAs === 'succeeded') return 'succeeded'
  return endedAs === 'canceled' || endedAs === 'skipped' ? 'canceled' : 'failed'
}

function timesFromFarEnd(times: CompiledSchedule, { order, fromMs, toMs }: NewBackfill): readonly number[] {
  const far =
    order === 'oldest_first'
      ? ({ order: 'newest_first', nextAtMs: toMs - 1 } as const)
      : ({ order: 'oldest_first', nextAtMs: fromMs } as const)
  return upcomingTimes(times, { ...far, fromMs, toMs }, timesAtFarEnd).timesMs
}

/** What would run at either end, in the order of the calendar. */
function shown(
  { order }: NewBackfill,
  near: readonly Judged[],
  far: readonly Judged[],
): Pick<BackfillPreview, 'first' | 'last'> {
  const ends = [near, far].map((judged) =>
    judged
      .filter(({ verdict }) => verdict === 'run')
      .slice(0, shownTimes)
      .map(({ scheduledForMs }) => scheduledForMs)
      .sort((a, b) => a - b),
  )
  const [first = [], last = []] = order === 'oldest_first' ? ends : ends.toReversed()
  const iso = (atMs: number): string => new Date(atMs).toISOString()
  return { first: first.map(iso), last: last.filter((atMs) => !first.includes(atMs)).map(iso) }
}

function notesOf(
  { nowMs, retentionDays }: Parts,
  schedule: ScheduleRecord,
  { fromMs, reprocess, total }: NewBackfill,
): string[] {
  const notes: string[] = []
  const keptFromMs = (Math.floor(nowMs / dayMs) - retentionDays) * dayMs
  if (total === 0) notes.push('No planned time lies in this range.')
  if (fromMs < keptFromMs && reprocess !== 'all' && total > 0) {
    const kept = new Date(keptFromMs).toISOString().slice(0, 10)
    const words = `History is kept for ${retentionDays} days: what ran before ${kept} is no longer on record`
    notes.push(`${words}, and its planned times count as without a run.`)
  }
  if (schedule.state === 'paused') notes.push('The schedule is paused; a backfill runs all the same.')
  return notes
}

/**
 * What a backfill does with a planned time, and which times a step of it looks at: decided from data alone.
 * Written down by postgres/backfilling.ts, in the transaction that read the data.
 *
 * Invariants: a time with a run that waits or runs is passed over, whatever `reprocess` says; so is a time
 * that the schedule has yet to fire. The work of a step is bounded, and each step moves the cursor or leaves
 * it where a run has to wait for a free place.
 */
import type { BackfillOrder, BackfillReprocess, RunState } from '@belfry/contract'
import type { CompiledSchedule } from './schedule/schedule-spec.ts'

/** What has to be known of one planned time. */
export interface TimeFacts {
  /** Left out by a calendar. */
  readonly excluded: boolean
  /** At or after the next time of the schedule's timer, which fires it. */
  readonly leftToSchedule: boolean
  /** Whether any run of it waits or runs. */
  readonly alive: boolean
  /** Whether any run of it is on record. */
  readonly hasRun: boolean
  /** How the newest run ended; null where it has not, or its end is no longer on record. */
  readonly endedAs: RunState | null
}

/** What the record of a time comes to; `timerAtMs` is where the schedule's timer stands, null without one. */
export function factsOf(
  scheduledForMs: number,
  record: (Pick<TimeFacts, 'alive' | 'endedAs'> & { readonly runId: string | null }) | undefined,
  times: Pick<CompiledSchedule, 'exclusionOf'>,
  timerAtMs: number | null,
): TimeFacts {
  return {
    excluded: (times.exclusionOf?.(scheduledForMs) ?? null) !== null,
    leftToSchedule: timerAtMs !== null && scheduledForMs >= timerAtMs,
    alive: record?.alive ?? false,
    hasRun: (record?.runId ?? null) !== null,
    endedAs: record?.endedAs ?? null,
  }
}

export type TimeVerdict = 'run' | 'excluded' | 'left_to_schedule' | 'alive' | 'has_run'

/** A run that ended like this did not do what it was for. */
const unsuccessful: ReadonlySet<RunState> = new Set(['failed', 'upstream_failed', 'canceled'])

export function decideTime(facts: TimeFacts, reprocess: BackfillReprocess): TimeVerdict {
  if (facts.leftToSchedule) return 'left_to_schedule'
  if (facts.excluded) return 'excluded'
  if (facts.alive) return 'alive'
  if (!facts.hasRun || reprocess === 'all') return 'run'
  const failed = facts.endedAs !== null && unsuccessful.has(facts.endedAs)
  return reprocess === 'failed' && failed ? 'run' : 'has_run'
}

/** The planned times of a backfill that are not looked at yet: in [fromMs, toMs), from `nextAtMs` on. */
export interface RemainingTimes {
  readonly order: BackfillOrder
  readonly fromMs: number
  readonly toMs: number
  readonly nextAtMs: number | null
}

type Times = Pick<CompiledSchedule, 'next' | 'previous'>

/**
 * The next planned times in order, at most `limit`, and the one behind them. The one that was expected next
 * may be no planned time any more (other zone data, another calendar); then the one that takes its place is.
 */
export function upcomingTimes(
  times: Times,
  remaining: RemainingTimes,
  limit: number,
): { readonly timesMs: readonly number[]; readonly behindMs: number | null } {
  const found: number[] = []
  let timeMs = firstRemaining(times, remaining)
  while (timeMs !== null && found.length < limit) {
    found.push(timeMs)
    timeMs = following(times, remaining, timeMs)
  }
  return { timesMs: found, behindMs: timeMs }
}

/** The first planned time that a backfill of this range looks at; null where there is none. */
export function firstOfRange(times: Times, range: Omit<RemainingTimes, 'nextAtMs'>): number | null {
  const edgeMs = range.order === 'oldest_first' ? range.fromMs : range.toMs - 1
  return firstRemaining(times, { ...range, nextAtMs: edgeMs })
}

function firstRemaining(times: Times, remaining: RemainingTimes): number | null {
  const { order, nextAtMs } = remaining
  if (nextAtMs === null) return null
  return within(remaining, order === 'oldest_first' ? times.next(nextAtMs - 1) : times.previous(nextAtMs + 1))
}

function following(times: Times, remaining: RemainingTimes, timeMs: number): number | null {
  return within(remaining, remaining.order === 'oldest_first' ? times.next(timeMs) : times.previous(timeMs))
}

function within({ fromMs, toMs }: RemainingTimes, timeMs: number | null): number | null {
  return timeMs !== null && timeMs >= fromMs && timeMs < toMs ? timeMs : null
}

export interface JudgedTime {
  readonly scheduledForMs: number
  readonly verdict: TimeVerdict
}

export interface BackfillMove {
  /** To be started, in order. */
  readonly startMs: readonly number[]
  readonly skipped: number
  /** Where the cursor goes; null: no planned time is left. */
  readonly nextAtMs: number | null
}

/** Takes judged times in order until there are `free` runs to start; `behindMs` is the time after them. */
export function takeTimes(
  judged: readonly JudgedTime[],
  free: number,
  behindMs: number | null,
): BackfillMove {
  const startMs: number[] = []
  let skipped = 0
  for (const { scheduledForMs, verdict } of judged) {
    if (verdict !== 'run') skipped++
    else if (startMs.length >= free) return { startMs, skipped, nextAtMs: scheduledForMs }
    else startMs.push(scheduledForMs)
  }
  return { startMs, skipped, nextAtMs: behindMs }
}

/** As what the end of a run counts. What ended out of sight is not known to have succeeded. */
export function countedAs(endedAs: RunState | 'unknown'): 'succeeded' | 'failed' | 'canceled' {
  if (endedAs === 'succeeded') return 'succeeded'
  return endedAs === 'canceled' || endedAs === 'skipped' ? 'canceled' : 'failed'
}

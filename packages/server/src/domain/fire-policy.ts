/**
 * What becomes of one planned time that is due: excluded, slept through, missed or to be run, by the policies
 * of its schedule alone. A judge is asked from the newest time to the oldest, because that is how catch-up
 * counts; it keeps the count, and nothing else.
 *
 * `ran` is not the last word: while a run of the schedule is alive, or its limit of runs is reached, the
 * firing transaction decides (postgres/statements/firing.ts).
 */
import type { OccurrenceReason, OverlapPolicy } from '@belfry/contract'
import type { CompiledSchedule, SearchBounds } from './schedule/schedule-spec.ts'

/** Under the policy `none` a planned time that is later than this is missed. */
export const catchUpGraceMs = 60_000
/** As many planned times can be within the grace: the shortest period is a second. */
const mostInGrace = catchUpGraceMs / 1_000 + 1

/** How much later than planned a time is due; at most one of the two windows is set. */
export interface DelayPolicy {
  readonly scheduleId: string
  /** Another delay at each planned time. */
  readonly jitterMs: number
  /** One delay for all planned times. */
  readonly flexibleWindowMs: number
}

/** The policies of a schedule that a fire needs; part of SchedulePlan. */
export interface FirePolicy extends DelayPolicy {
  readonly catchUp: {
    readonly policy: 'latest' | 'all' | 'none'
    /** Under `latest` and `all`: what is later than this is missed. */
    readonly windowMs: number
    /** Of `all`. */
    readonly maxRuns: number
  }
  readonly overlap: OverlapPolicy
  /** Planned times before this are skipped; null: it is awake. */
  readonly sleepUntilMs: number | null
  readonly sleepReason: string | null
}

/**
 * The times of a schedule. With calendars, they are those that run together with those that are excluded, and
 * `exclusionOf` tells which is which.
 */
export type FireTimes = Pick<CompiledSchedule, 'next' | 'previous' | 'missedBetween'> & {
  readonly exclusionOf?: ((scheduledForMs: number) => { readonly detail: string } | null) | undefined
  /** How much a fire may look at under calendars, as a search may. */
  readonly search?: Pick<SearchBounds, 'mostLooks'> | undefined
}

export interface PlannedTime {
  /** Nominal time: the identity of the occurrence. */
  readonly scheduledForMs: number
  /** Nominal time plus jitter or flexible delay. */
  readonly dueAtMs: number
}

export interface DecidedOccurrence extends PlannedTime {
  readonly outcome: 'ran' | 'skipped' | 'missed'
  readonly reason: OccurrenceReason | null
  /** The calendar and why, or the reason given for the sleep. */
  readonly detail: string | null
  /** More than 1: this row stands for so many planned times, itself the first of them. */
  readonly missedCount: number
}

export interface Judge {
  /** Asked once for each time, from the newest to the oldest. */
  judge(time: PlannedTime): DecidedOccurrence
  /** Nothing that is older will run. */
  close(): void
}

/** How many planned times catching up may run at once, at most. */
export function mostCaughtUp({ catchUp }: Pick<FirePolicy, 'catchUp'>): number {
  return { latest: 1, all: catchUp.maxRuns, none: mostInGrace }[catchUp.policy]
}

/** How many times that are due at once may run: the newest, in the order of their times. */
const mostAtOnce: Readonly<Record<OverlapPolicy, number>> = {
  skip: 1,
  cancel_other: 1,
  terminate_other: 1,
  buffer_one: 2,
  buffer_all: Infinity,
  allow: Infinity,
}

export function createJudge(policy: FirePolicy, times: FireTimes, atMs: number): Judge {
  const { catchUp, overlap, sleepReason } = policy
  const sleepUntilMs = policy.sleepUntilMs ?? -Infinity
  const most = mostCaughtUp(policy)
  const patienceMs = catchUp.policy === 'none' ? catchUpGraceMs : catchUp.windowMs
  let candidates = 0
  let running = 0
  let closed = false

  return {
    judge(time) {
      const excluded = times.exclusionOf?.(time.scheduledForMs) ?? null
      if (excluded !== null) return skipped(time, 'calendar', excluded.detail)
      if (time.scheduledForMs < sleepUntilMs) return skipped(time, 'asleep', sleepReason)
      const rank = candidates++
      if (catchUp.policy === 'latest' && rank > 0) return missed(time, 'catch_up_latest')
      if (closed || rank >= most || atMs - time.dueAtMs > patienceMs) {
        return missed(time, catchUp.policy === 'none' ? 'catch_up_none' : 'catch_up_window')
      }
      if (running >= mostAtOnce[overlap]) return skipped(time, 'overlap', null)
      running++
      return { ...time, outcome: 'ran', reason: null, detail: null, missedCount: 1 }
    },
    close() {
      closed = true
    },
  }
}

function skipped(time: PlannedTime, reason: OccurrenceReason, detail: string | null): DecidedOccurrence {
  return { ...time, outcome: 'skipped', reason, detail, missedCount: 1 }
}

function missed(time: PlannedTime, reason: OccurrenceReason): DecidedOccurrence {
  return { ...time, outcome: 'missed', reason, detail: null, missedCount: 1 }
}

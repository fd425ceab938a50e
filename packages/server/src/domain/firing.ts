/**
 * What a fire does, decided from data alone: which planned times came due between the timer's own and now,
 * what becomes of each (catch-up and overlap policy), and the next planned time. Written down by
 * postgres/firing.ts.
 *
 * Invariants: the timer's own planned time always gets a row; the next one is strictly after every due one,
 * and due after now; the work and the number of rows are bounded, however long the outage was and however
 * short the period.
 */
import type { CompiledSchedule } from './schedule/schedule-spec.ts'
import { jitterMs } from './schedule/jitter.ts'

/** Under the policy `none` a planned time that is later than this is missed. */
export const catchUpGraceMs = 60_000
/** As many planned times can be within the grace: the shortest period is a second. */
const mostInGrace = catchUpGraceMs / 1_000 + 1
/**
 * Missed planned times that get a row each; older ones share one row. Few, because an outage leaves them to
 * every schedule at once, and what is due now waits for the same database.
 */
export const maxMissedRows = 50
/**
 * Planned times of a calendar schedule are counted one by one up to this; beyond, the count is a lower bound.
 */
export const maxCounted = 100_000

/** The policies of a schedule that a fire needs; part of SchedulePlan. */
export interface FirePolicy {
  readonly scheduleId: string
  readonly jitterMs: number
  readonly catchUp: {
    readonly policy: 'latest' | 'all' | 'none'
    readonly windowMs: number
    readonly maxRuns: number
  }
  readonly overlap: 'skip' | 'allow'
}

export interface PlannedTime {
  /** Nominal time: the identity of the occurrence. */
  readonly scheduledForMs: number
  /** Nominal time plus jitter. */
  readonly dueAtMs: number
}

export interface DecidedOccurrence extends PlannedTime {
  readonly outcome: 'ran' | 'skipped' | 'missed'
  readonly reason: 'overlap' | 'catch_up_latest' | 'catch_up_none' | 'catch_up_window' | null
  /** More than 1: this row stands for so many planned times, itself the first of them. */
  readonly missedCount: number
}

export interface DecidedFire {
  /** In the order of their times, at least one. */
  readonly occurrences: readonly DecidedOccurrence[]
  /** Null: no planned time is left. */
  readonly next: PlannedTime | null
}

type Times = Pick<CompiledSchedule, 'next' | 'missedBetween'>

/**
 * Decides a fire of `timer` at `nowMs`. A `nowMs` before the timer's due instant (a clock that is behind) is
 * taken as that instant: whether the timer is due was decided elsewhere, and the chain of planned times must
 * not break over it.
 */
export function planFire(policy: FirePolicy, times: Times, timer: PlannedTime, nowMs: number): DecidedFire {
  const atMs = Math.max(nowMs, timer.dueAtMs)
  const second = plannedTimeAfter(policy, times, timer.scheduledForMs)
  if (second === null || second.dueAtMs > atMs) {
    return { occurrences: decide(policy, [timer], atMs), next: second }
  }
  const latestMs = latestDue(policy, times, second.scheduledForMs, atMs)
  const mayRun = policy.catchUp.policy === 'all' ? policy.catchUp.maxRuns : mostInGrace
  const limit = maxMissedRows + mayRun
  const newest = newestTimes(times, timer.scheduledForMs, latestMs, limit, second.scheduledForMs)
  const later = newest.map((scheduledForMs) => planned(policy, times, scheduledForMs))
  const whole = newest[0] === second.scheduledForMs
  const decided = decide(policy, whole ? [timer, ...later] : later, atMs)
  return {
    occurrences: whole && decided.length <= maxMissedRows ? decided : summed(timer, decided, times),
    next: plannedTimeAfter(policy, times, latestMs),
  }
}

/** The first planned time after `afterMs` with its jitter, or null when none is left. */
export function plannedTimeAfter(
  policy: Pick<FirePolicy, 'scheduleId' | 'jitterMs'>,
  times: Times,
  afterMs: number,
): PlannedTime | null {
  const scheduledForMs = times.next(afterMs)
  return scheduledForMs === null ? null : planned(policy, times, scheduledForMs)
}

function planned(
  policy: Pick<FirePolicy, 'scheduleId' | 'jitterMs'>,
  times: Times,
  scheduledForMs: number,
): PlannedTime {
  if (policy.jitterMs === 0) return { scheduledForMs, dueAtMs: scheduledForMs }
  const delayMs = jitterMs(policy.scheduleId, scheduledForMs, policy.jitterMs, times.next(scheduledForMs))
  return { scheduledForMs, dueAtMs: scheduledForMs + delayMs }
}

/**
 * The last planned time that is due; `dueMs` is one that is. Jitter stays below the gap, so only the last can
 * be early.
 */
function latestDue(policy: FirePolicy, times: Times, dueMs: number, atMs: number): number {
  const latestMs = times.missedBetween(dueMs, atMs, 0).latestMs ?? dueMs
  if (latestMs === dueMs || planned(policy, times, latestMs).dueAtMs <= atMs) return latestMs
  return times.missedBetween(dueMs, latestMs - 1, 0).latestMs ?? dueMs
}

/**
 * The newest planned times in (afterMs, latestMs], at most `limit`, in order. Looks for an instant from which
 * on there are enough but not far too many, first by the gap between the first two, then by halving.
 */
function newestTimes(
  times: Times,
  afterMs: number,
  latestMs: number,
  limit: number,
  secondMs: number,
): number[] {
  const tooMany = 4 * limit
  let lowMs = afterMs
  let highMs = latestMs
  let fromMs = Math.max(afterMs, latestMs - limit * (secondMs - afterMs))
  for (;;) {
    const { count, capped } = times.missedBetween(fromMs, latestMs, tooMany)
    if (capped || count > tooMany) lowMs = fromMs
    else if (count >= limit || fromMs === afterMs) break
    else highMs = fromMs
    if (highMs - lowMs <= 1) fromMs = lowMs
    else fromMs = Math.floor((lowMs + highMs) / 2)
  }
  const found: number[] = []
  for (let timeMs = times.next(fromMs); timeMs !== null && timeMs <= latestMs; timeMs = times.next(timeMs)) {
    found.push(timeMs)
  }
  return found.slice(-limit)
}

/**
 * Applies the catch-up policy, then overlap: of several that would run at once only the first does under
 * `skip`.
 */
function decide(policy: FirePolicy, dueTimes: readonly PlannedTime[], atMs: number): DecidedOccurrence[] {
  const { catchUp } = policy
  const last = dueTimes.length - 1
  let running = 0
  return dueTimes.map((time, index) => {
    const lateMs = atMs - time.dueAtMs
    if (catchUp.policy === 'latest' && index !== last) return missed(time, 'catch_up_latest')
    if (catchUp.policy === 'none' && lateMs > catchUpGraceMs) return missed(time, 'catch_up_none')
    // `all` is never less than `latest`: the last one runs however late it is.
    const outside = lateMs > catchUp.windowMs || last - index >= catchUp.maxRuns
    if (catchUp.policy === 'all' && outside && index !== last) return missed(time, 'catch_up_window')
    running++
    const overlaps = running > 1 && policy.overlap === 'skip'
    return {
      ...time,
      outcome: overlaps ? 'skipped' : 'ran',
      reason: overlaps ? 'overlap' : null,
      missedCount: 1,
    }
  })
}

function missed(
  time: PlannedTime,
  reason: Exclude<DecidedOccurrence['reason'], 'overlap' | null>,
): DecidedOccurrence {
  return { ...time, outcome: 'missed', reason, missedCount: 1 }
}

/**
 * Keeps the newest missed rows and puts one in front, at the timer's own time, that stands for all older
 * ones.
 */
function summed(
  timer: PlannedTime,
  decided: readonly DecidedOccurrence[],
  times: Times,
): DecidedOccurrence[] {
  const missedCount = decided.filter((occurrence) => occurrence.outcome === 'missed').length
  const kept = decided.slice(Math.max(0, missedCount - maxMissedRows))
  const [first] = kept
  const reason = first?.outcome === 'missed' ? first.reason : null
  if (first === undefined || reason === null || first.scheduledForMs === timer.scheduledForMs) return kept
  const { count } = times.missedBetween(timer.scheduledForMs, first.scheduledForMs - 1, maxCounted)
  const rest: DecidedOccurrence = {
    scheduledForMs: timer.scheduledForMs,
    dueAtMs: timer.dueAtMs,
    outcome: 'missed',
    reason,
    missedCount: count + 1,
  }
  return [rest, ...kept]
}

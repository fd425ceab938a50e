/**
 * What a fire does, decided from data alone: which planned times came due between the timer's own and now,
 * what becomes of each (fire-policy.ts), and the next planned time. Written down by postgres/firing.ts.
 *
 * Invariants: the timer's own planned time always gets a row; the next one is strictly after every due one,
 * and due after now; the work and the number of rows are bounded, however long the outage was, however short
 * the period, and however much a calendar excludes.
 */
import type {
  DecidedOccurrence,
  DelayPolicy,
  FirePolicy,
  FireTimes,
  Judge,
  PlannedTime,
} from './fire-policy.ts'
import { createJudge, mostCaughtUp } from './fire-policy.ts'
import { createSums, isQuiet, type Sums } from './fire-sums.ts'
import { flexibleDelayMs, jitterMs } from './schedule/jitter.ts'

/**
 * Planned times without a run that get a row each; older ones share one row a kind. Few, because an outage
 * leaves them to every schedule at once, and what is due now waits for the same database.
 */
export const maxMissedRows = 50
/**
 * Planned times of a calendar schedule are counted one by one up to this; beyond, the count is a lower bound.
 */
export const maxCounted = 100_000
/**
 * Older planned times of a schedule with calendars that are looked at one by one, for some that may run and
 * to tell the excluded ones from the missed ones; what is older still is counted as the timer's own time is.
 * Fewer where a look is dear.
 */
export const maxLookedAt = 2_000
const leastLookedAt = 50

export interface DecidedFire {
  /** In the order of their times, at least one. */
  readonly occurrences: readonly DecidedOccurrence[]
  /** Null: no planned time is left. */
  readonly next: PlannedTime | null
}

/**
 * Decides a fire of `timer` at `nowMs`. A `nowMs` before the timer's due instant (a clock that is behind) is
 * taken as that instant: whether the timer is due was decided elsewhere, and the chain of planned times must
 * not break over it.
 */
export function planFire(
  policy: FirePolicy,
  times: FireTimes,
  timer: PlannedTime,
  nowMs: number,
): DecidedFire {
  const atMs = Math.max(nowMs, timer.dueAtMs)
  const judge = createJudge(policy, times, atMs)
  const second = plannedTimeAfter(policy, times, timer.scheduledForMs)
  if (second === null || second.dueAtMs > atMs) return { occurrences: [judge.judge(timer)], next: second }
  const latestMs = latestDue(policy, times, second.scheduledForMs, atMs)
  const limit = maxMissedRows + mostCaughtUp(policy)
  const newest = newestTimes(times, timer.scheduledForMs, latestMs, limit, second.scheduledForMs)
  const whole = newest[0] === second.scheduledForMs
  const later = newest.map((scheduledForMs) => planned(policy, times, scheduledForMs))
  const rows = judgeAll(judge, whole ? [timer, ...later] : later)
  const sums = createSums()
  const older = whole ? [] : judgeOlder({ policy, times, timer, judge, sums }, newest[0] ?? latestMs)
  return {
    occurrences: inOrder([...older, ...withoutOldQuiet(rows, sums), ...sums.rows()]),
    next: plannedTimeAfter(policy, times, latestMs),
  }
}

/** The first planned time after `afterMs` with its delay, or null when none is left. */
export function plannedTimeAfter(
  policy: DelayPolicy,
  times: Pick<FireTimes, 'next'>,
  afterMs: number,
): PlannedTime | null {
  const scheduledForMs = times.next(afterMs)
  return scheduledForMs === null ? null : planned(policy, times, scheduledForMs)
}

function planned(
  { scheduleId, jitterMs: jitterWindowMs, flexibleWindowMs }: DelayPolicy,
  times: Pick<FireTimes, 'next'>,
  scheduledForMs: number,
): PlannedTime {
  if (jitterWindowMs === 0 && flexibleWindowMs === 0) return { scheduledForMs, dueAtMs: scheduledForMs }
  const nextMs = times.next(scheduledForMs)
  const delayMs =
    jitterWindowMs > 0
      ? jitterMs(scheduleId, scheduledForMs, jitterWindowMs, nextMs)
      : flexibleDelayMs(scheduleId, scheduledForMs, flexibleWindowMs, nextMs)
  return { scheduledForMs, dueAtMs: scheduledForMs + delayMs }
}

/**
 * The last planned time that is due; `dueMs` is one that is. A delay stays below the gap, so only the last
 * can be early.
 */
function latestDue(policy: FirePolicy, times: FireTimes, dueMs: number, atMs: number): number {
  const latestMs = times.missedBetween(dueMs, atMs, 0).latestMs ?? dueMs
  if (latestMs === dueMs || planned(policy, times, latestMs).dueAtMs <= atMs) return latestMs
  return times.missedBetween(dueMs, latestMs - 1, 0).latestMs ?? dueMs
}

/**
 * The newest planned times in (afterMs, latestMs], at most `limit`, in order. Looks for an instant from which
 * on there are enough but not far too many, first by the gap between the first two, then by halving.
 */
function newestTimes(
  times: FireTimes,
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
    // there is at most one time between the two, however many may be thought to be there
    const found = highMs - lowMs <= 1
    fromMs = found ? lowMs : Math.floor((lowMs + highMs) / 2)
    if (found) break
  }
  const found: number[] = []
  for (let timeMs = times.next(fromMs); timeMs !== null && timeMs <= latestMs; timeMs = times.next(timeMs)) {
    found.push(timeMs)
  }
  return found.slice(-limit)
}

/** Judges `due`, which is in the order of the times, from its end. */
function judgeAll(judge: Judge, due: readonly PlannedTime[]): DecidedOccurrence[] {
  return due
    .toReversed()
    .map((time) => judge.judge(time))
    .reverse()
}

/** The newest quiet rows and all others; what is quiet and older goes to the sums. */
function withoutOldQuiet(rows: readonly DecidedOccurrence[], sums: Sums): DecidedOccurrence[] {
  let toSum = rows.filter(isQuiet).length - maxMissedRows
  return rows.filter((row) => {
    if (toSum <= 0 || !isQuiet(row)) return true
    toSum--
    sums.add(row, 1)
    return false
  })
}

interface Older {
  readonly policy: FirePolicy
  readonly times: FireTimes
  readonly timer: PlannedTime
  readonly judge: Judge
  readonly sums: Sums
}

/** What becomes of the timer's own time and of all from there to before `untilMs`: rows, and sums. */
function judgeOlder(older: Older, untilMs: number): DecidedOccurrence[] {
  const rows: DecidedOccurrence[] = []
  const note = (row: DecidedOccurrence, count = 1): void => {
    if (isQuiet(row)) older.sums.add(row, count)
    else rows.push(row)
  }
  const { policy, times, timer, judge } = older
  if (times.exclusionOf !== undefined) {
    let lookedToMs = untilMs
    const bound = Math.min(maxLookedAt, times.search?.mostLooks ?? maxLookedAt)
    const most = Math.max(leastLookedAt, bound)
    for (let looked = 0; ; looked++) {
      const timeMs = times.previous(lookedToMs)
      if (timeMs === null || timeMs <= timer.scheduledForMs) break
      if (looked === most) {
        judge.close()
        note(judge.judge(timer), 1 + between(times, timer.scheduledForMs, lookedToMs))
        return rows
      }
      note(judge.judge(planned(policy, times, timeMs)))
      lookedToMs = timeMs
    }
    note(judge.judge(timer))
    return rows
  }
  // Without calendars there are enough newer ones: nothing here runs. What is asleep comes first.
  judge.close()
  const wakesMs = Math.min(policy.sleepUntilMs ?? -Infinity, untilMs)
  const own = judge.judge(timer)
  if (timer.scheduledForMs >= wakesMs) {
    note(own, 1 + between(times, timer.scheduledForMs, untilMs))
    return rows
  }
  note(own, 1 + between(times, timer.scheduledForMs, wakesMs))
  const awakeMs = times.next(wakesMs - 1)
  if (awakeMs !== null && awakeMs < untilMs) {
    note(judge.judge(planned(policy, times, awakeMs)), 1 + between(times, awakeMs, untilMs))
  }
  return rows
}

/** How many planned times lie between the two instants, neither of them counted. */
function between(times: FireTimes, afterMs: number, untilMs: number): number {
  return times.missedBetween(afterMs, untilMs - 1, maxCounted).count
}

function inOrder(rows: readonly DecidedOccurrence[]): DecidedOccurrence[] {
  return rows.toSorted((a, b) => a.scheduledForMs - b.scheduledForMs)
}

/**
 * What becomes of a schedule's timer when the data that its next time was computed with has changed (rules of
 * a zone, a calendar). Pure.
 *
 *   1. Nothing is retroactive: a planned time that has come (also one that only waits for its jitter) is left
 *      to fire, and a new one lies strictly after now.
 *   2. Nothing is lost: where the new data puts the awaited time into the past, so that it would be passed
 *      over, the timer stays as it is and fires then. The one time of an `at` always does.
 *   3. What is about to fire unchanged is looked at again: a node with the older data may be firing it now,
 *      and would compute the time after it.
 */
import type { DelayPolicy, FireTimes, PlannedTime } from './fire-policy.ts'
import { plannedTimeAfter } from './firing.ts'
import type { CompiledSchedule } from './schedule/schedule-spec.ts'

/** Longer than a batch of a replan and a fire together. */
export const nearMs = 10_000

export type Replanned =
  /** Left to fire, and to be looked at again. */
  | { readonly kind: 'due' }
  /** As it was. */
  | { readonly kind: 'same' }
  | { readonly kind: 'moved'; readonly next: PlannedTime }
  /** No planned time is left. */
  | { readonly kind: 'ended' }

/** `fromMs`: it depends on whether a planned time from this one until now is on record. */
export type ReplanAnswer =
  | Replanned
  | {
      readonly kind: 'asks'
      readonly fromMs: number
      readonly ifOnRecord: Replanned
      readonly otherwise: Replanned
    }

export interface ReplanQuestion {
  readonly policy: DelayPolicy
  readonly times: FireTimes & Pick<CompiledSchedule, 'timing'>
  readonly timer: PlannedTime
  readonly nowMs: number
  /** When the schedule was made, edited, resumed or replanned last: older times are none of this timer's. */
  readonly sinceMs: number
}

export function replan({ policy, times, timer, nowMs, sinceMs }: ReplanQuestion): ReplanAnswer {
  if (timer.scheduledForMs <= nowMs) return { kind: 'due' }
  const unchanged: Replanned = { kind: timer.dueAtMs <= nowMs + nearMs ? 'due' : 'same' }
  const next = plannedTimeAfter(policy, times, nowMs)
  if (next?.scheduledForMs === timer.scheduledForMs && next.dueAtMs === timer.dueAtMs) return unchanged
  if (next === null && times.timing.kind === 'at') return unchanged
  const changed: Replanned = next === null ? { kind: 'ended' } : { kind: 'moved', next }
  if (next !== null && next.scheduledForMs <= timer.scheduledForMs) return changed
  const fromMs = times.previous(nowMs + 1)
  if (fromMs === null || fromMs <= sinceMs) return changed
  return { kind: 'asks', fromMs, ifOnRecord: changed, otherwise: unchanged }
}

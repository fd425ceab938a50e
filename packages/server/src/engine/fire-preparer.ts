/**
 * Turns due timers into decisions, ahead of time where possible: for a timer that will be fired on time the
 * decision is made while waiting for it; one that is late, or has more planned times due meanwhile, is
 * decided anew at the fire.
 */
import { catchUpGraceMs } from '../domain/fire-policy.ts'
import { intervalsOf } from '../domain/data-interval.ts'
import { type DecidedFire, planFire } from '../domain/firing.ts'
import type { SchedulePlan } from '../ports/firing.ts'
import type { DueTimer } from '../ports/timer-index.ts'
import type { CompiledPlan, PlanCache } from './plan-cache.ts'
import type { TimerEntry } from './timer-heap.ts'

export type ScheduleTimer = Extract<DueTimer, { kind: 'schedule' }>

/**
 * A timer in memory; `ready` once its fire on time is decided, `tag` once its place in the fair order was
 * taken.
 */
export interface HeapEntry extends TimerEntry {
  ready?: PreparedFire
  tag?: number
}

export interface PreparedFire {
  readonly plan: SchedulePlan
  readonly fire: DecidedFire
  /** When the plan was loaded, monotonic ms, where calendars had a say: they change without the schedule. */
  readonly loadedAtMs?: number
  /** Of a workflow: where the data interval of each time that runs begins. */
  readonly intervals?: ReadonlyMap<number, number | null>
}

/** Why a timer has no decision: it is no longer what was read, or its schedule cannot be evaluated. */
export type Unprepared = { readonly stale: true } | { readonly fault: string }

export interface FirePreparer {
  /** Loads what is needed to decide these, in few queries. */
  load(timers: readonly ScheduleTimer[]): Promise<void>
  /** The decision for a fire on time, if its plan is at hand. */
  onTime(timer: ScheduleTimer): PreparedFire | undefined
  /** The decision for a fire at `nowMs`; after `load`. */
  decide(entry: HeapEntry, timer: ScheduleTimer, nowMs: number): PreparedFire | Unprepared
  /** The schedule was changed since its plan was loaded. */
  forget(timer: ScheduleTimer): void
  /** Whether `decide` at `nowMs` needs more than what the entry has. */
  needsPlan(entry: HeapEntry, nowMs: number): boolean
}

export function createFirePreparer(plans: PlanCache): FirePreparer {
  function evaluate(
    timer: ScheduleTimer,
    found: CompiledPlan | undefined,
    nowMs: number,
  ): PreparedFire | Unprepared {
    if (found === undefined || found.plan.gen !== timer.gen) return { stale: true }
    const { plan, times } = found
    if ('fault' in times) return times
    try {
      const fire = planFire(plan, times, timer, nowMs)
      const { loadedAtMs } = found
      const prepared = times.exclusionOf === undefined ? { plan, fire } : { plan, fire, loadedAtMs }
      return plan.target === 'job' ? prepared : { ...prepared, intervals: intervalsOf(fire, times) }
    } catch (error) {
      return { fault: error instanceof Error ? error.message : String(error) }
    }
  }

  const needsPlan = ({ timer, ready }: HeapEntry, nowMs: number): boolean => {
    if (ready === undefined || nowMs - timer.dueAtMs > catchUpGraceMs) return true
    if (ready.loadedAtMs !== undefined && plans.isOld(ready.loadedAtMs)) return true
    const { next } = ready.fire
    return next !== null && next.dueAtMs <= nowMs
  }

  return {
    needsPlan,
    load: (timers) => plans.load(timers),
    forget: ({ id }) => plans.drop(id),
    onTime(timer) {
      const prepared = evaluate(timer, plans.get(timer.id, timer.gen), timer.dueAtMs)
      return 'fire' in prepared ? prepared : undefined
    },
    decide(entry, timer, nowMs) {
      if (entry.ready !== undefined && !needsPlan(entry, nowMs)) return entry.ready
      return evaluate(timer, plans.get(timer.id, timer.gen), nowMs)
    },
  }
}

/**
 * Plans of schedules, compiled, for as long as they are likely to be needed again. Bounded; the least lately
 * used goes first. An entry is good for one generation of its schedule, and for a minute at most.
 *
 * A change of the schedule that keeps its generation (catch-up, overlap) is not seen here: the fire names the
 * version that it was decided by and is refused where the schedule has another one, then the plan is dropped
 * and read again. What belongs to others (the weight of a tenant, the queue and priority of a job, new zone
 * data) is seen after a minute; but for zone data it only matters for the tag.
 *
 * A change of a calendar counts up the version of the schedules that use it, so no fire goes by the calendar
 * as it was. Of those beyond the first few thousand it does not (engine/catalog/calendar-editor.ts), and a
 * decision by such a plan is good for no longer than the plan.
 */
import { compileStored } from '../domain/stored-schedule.ts'
import type { CompiledSchedule } from '../domain/schedule/schedule-spec.ts'
import type { Clock } from '../ports/clock.ts'
import type { Firing, SchedulePlan } from '../ports/firing.ts'
import type { ZoneSource } from '../ports/zones.ts'

const maxAgeMs = 60_000
const plansPerQuery = 500

export interface CompiledPlan {
  readonly plan: SchedulePlan
  /** Monotonic ms. */
  readonly loadedAtMs: number
  /** Or why the stored timing cannot be evaluated. */
  readonly times: CompiledSchedule | { readonly fault: string }
}

export interface PlanCache {
  /** The plan as it was loaded last, if that is not too long ago and not older than generation `gen`. */
  get(scheduleId: string, gen: number): CompiledPlan | undefined
  /** Forgets a plan that turned out to be old. */
  drop(scheduleId: string): void
  /** Whether a plan that was loaded then is too old to go by. */
  isOld(loadedAtMs: number): boolean
  /** Loads what `get` does not have. Afterwards `get` answers undefined only for schedules that are gone. */
  load(wanted: readonly { readonly id: string; readonly gen: number }[]): Promise<void>
}

export function createPlanCache(options: {
  readonly clock: Clock
  readonly firing: Pick<Firing, 'plans'>
  readonly zones: ZoneSource
  readonly maxPlans: number
}): PlanCache {
  const { clock, firing, zones, maxPlans } = options
  const plans = new Map<string, CompiledPlan>()
  const isOld = (loadedAtMs: number): boolean => clock.monotonicMs() - loadedAtMs > maxAgeMs

  function keep(plan: SchedulePlan): void {
    const compiled = compileStored(plan, zones)
    const times = compiled.ok ? compiled.value : { fault: compiled.error }
    plans.delete(plan.scheduleId)
    plans.set(plan.scheduleId, { plan, times, loadedAtMs: clock.monotonicMs() })
    const oldest = plans.size > maxPlans ? plans.keys().next().value : undefined
    if (oldest !== undefined) plans.delete(oldest)
  }

  function get(scheduleId: string, gen: number): CompiledPlan | undefined {
    const found = plans.get(scheduleId)
    if (found === undefined) return undefined
    plans.delete(scheduleId)
    if (found.plan.gen < gen || isOld(found.loadedAtMs)) return undefined
    plans.set(scheduleId, found)
    return found
  }

  return {
    get,
    isOld,
    drop: (scheduleId) => plans.delete(scheduleId),
    async load(wanted) {
      const missing = wanted.filter(({ id, gen }) => get(id, gen) === undefined).map(({ id }) => id)
      for (let first = 0; first < missing.length; first += plansPerQuery) {
        for (const plan of await firing.plans(missing.slice(first, first + plansPerQuery))) keep(plan)
      }
    },
  }
}

/**
 * Plans of schedules, compiled, for as long as they are likely to be needed again. Bounded; the least lately
 * used goes first. An entry is good for one generation of its schedule, and for a minute at most.
 *
 * A change of the schedule that keeps its generation (catch-up, overlap) is not seen here: the fire names the
 * version that it was decided by and is refused where the schedule has another one, then the plan is dropped
 * and read again. What belongs to others (the weight of a tenant, the queue and priority of a job, new zone
 * data) is seen after a minute; but for zone data it only matters for the tag.
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
  /** Or why the stored timing cannot be evaluated. */
  readonly times: CompiledSchedule | { readonly fault: string }
}

export interface PlanCache {
  /** The plan as it was loaded last, if that is not too long ago and not older than generation `gen`. */
  get(scheduleId: string, gen: number): CompiledPlan | undefined
  /** Forgets a plan that turned out to be old. */
  drop(scheduleId: string): void
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
  const plans = new Map<string, CompiledPlan & { readonly loadedAtMs: number }>()

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
    if (found.plan.gen < gen || clock.monotonicMs() - found.loadedAtMs > maxAgeMs) return undefined
    plans.set(scheduleId, found)
    return found
  }

  return {
    get,
    drop: (scheduleId) => plans.delete(scheduleId),
    async load(wanted) {
      const missing = wanted.filter(({ id, gen }) => get(id, gen) === undefined).map(({ id }) => id)
      for (let first = 0; first < missing.length; first += plansPerQuery) {
        for (const plan of await firing.plans(missing.slice(first, first + plansPerQuery))) keep(plan)
      }
    },
  }
}

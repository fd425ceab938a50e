/**
 * The planned times of backfills. The timing is that of the backfill, which an edit of the schedule does not
 * touch; calendars, and the queue that its runs go to, are the schedule's own, in one version of it. A step
 * names the version that it finds under its locks; where another one was read here, it is read again.
 */
import type { CompiledSchedule } from '../domain/schedule/schedule-spec.ts'
import { compileStored } from '../domain/stored-schedule.ts'
import type { BackfillTiming } from '../ports/backfills.ts'
import type { Clock } from '../ports/clock.ts'
import type { Firing, SchedulePlan } from '../ports/firing.ts'
import type { ZoneSource } from '../ports/zones.ts'
import { createPlanCache } from './plan-cache.ts'

const maxPlans = 1_000
/** The version tells which plan is meant; a generation says nothing here. */
const anyGen = 0

export interface BackfillPlans {
  /** Reads the plan of a schedule unless it is at hand; undefined where the schedule is gone. */
  load(scheduleId: string): Promise<SchedulePlan | undefined>
  /** Forgets what turned out to be old. */
  drop(scheduleId: string): void
  /** The planned times of a backfill under this plan. Throws where its timing cannot be evaluated. */
  timesOf(plan: SchedulePlan, timing: BackfillTiming): CompiledSchedule
}

export function createBackfillPlans(options: {
  readonly clock: Clock
  readonly firing: Pick<Firing, 'plans'>
  readonly zones: ZoneSource
}): BackfillPlans {
  const { zones } = options
  const cache = createPlanCache({ ...options, maxPlans })
  return {
    async load(scheduleId) {
      await cache.load([{ id: scheduleId, gen: anyGen }])
      return cache.get(scheduleId, anyGen)?.plan
    },
    drop: (scheduleId) => cache.drop(scheduleId),
    timesOf(plan, timing) {
      const compiled = compileStored({ ...plan, ...timing }, zones)
      if (compiled.ok) return compiled.value
      throw new Error(`The timing of the backfill cannot be evaluated: ${compiled.error}`)
    },
  }
}

/**
 * Settles a schedule before it is changed: what has come due by now is fired first, within the request that
 * changes it, by the plan as it was. So an edit, a pause or a deletion at the very minute takes no planned
 * time away and none runs twice.
 *
 *   1. the caller holds the schedule and its timer (`tx.schedules.lock`) and has checked its precondition;
 *   2. `settleDue`: where the planned time of the timer is not after now, the schedule is fired, also if its
 *      jitter would have kept it a while;
 *   3. the caller goes on with the record that is answered, whose next planned time lies after now;
 *   4. the effects are made known after the commit.
 */
import type { EngineEvents } from '@belfry/contract'
import { intervalsOf } from '../../domain/data-interval.ts'
import type { FirePolicy, FireTimes, PlannedTime } from '../../domain/fire-policy.ts'
import { type DecidedFire, planFire } from '../../domain/firing.ts'
import { shardOf } from '../../domain/shard.ts'
import type { CatalogTx, RunTemplate } from '../../ports/catalog.ts'
import type { SettleResult, TimerFire } from '../../ports/firing.ts'
import type { Hint } from '../../ports/hints.ts'
import type { Ids } from '../../ports/ids.ts'
import type { ScheduleRecord } from '../../ports/schedule-store.ts'
import type { FairTags } from '../fair-tags.ts'
import { isPlain, tidingsOf, withRuns } from '../fire-tidings.ts'
import { laneOfRun } from './run-maker.ts'

export type SettleEffect =
  | { readonly kind: 'hint'; readonly hint: Hint }
  | { readonly kind: 'enqueued'; readonly count: number; readonly queue: string; readonly source: 'schedule' }
  | { readonly kind: 'fired'; readonly outcomes: EngineEvents['occurrences_fired']['outcomes'] }

export interface Settled {
  /** As it is now; undefined: this was its last planned time, and it is deleted after completion. */
  readonly schedule: ScheduleRecord | undefined
  /** Empty where nothing was due. */
  readonly effects: readonly SettleEffect[]
}

export interface SettleParts {
  readonly ids: Ids
  readonly tags: Pick<FairTags, 'next' | 'ready'>
  readonly tenantId: string
  /** Of the database. */
  readonly nowMs: number
  /** The timing as it was; asked for only where something is due. */
  readonly times: () => FireTimes
}

/** Fires `current` if it is due. The caller has locked it in `tx`. */
export async function settleDue(
  tx: CatalogTx,
  current: ScheduleRecord,
  parts: SettleParts,
): Promise<Settled> {
  const { next: timer } = current
  if (timer === null || timer.scheduledForMs > parts.nowMs) return { schedule: current, effects: [] }
  if (current.jobId === null) return settleWorkflow(tx, current, timer, parts)
  const template = await tx.runs.templateByJobId(current.jobId)
  // its job is gone, and with it what could run: there is nothing that a change could take away
  if (template === undefined) return { schedule: current, effects: [] }
  const fire = planFire(policyOf(current), parts.times(), timer, parts.nowMs)
  await parts.tags.ready([laneOfRun(template, parts.tenantId, undefined)])
  const result = await tx.schedules.settle(toFire(current, timer, fire, template, parts))
  return { schedule: await tx.schedules.find(current.id), effects: effectsOf(result) }
}

/** The same of a schedule that runs a workflow, whose runs stand in no queue. */
async function settleWorkflow(
  tx: CatalogTx,
  current: ScheduleRecord,
  timer: PlannedTime,
  { ids, nowMs, times: timesOf }: SettleParts,
): Promise<Settled> {
  const times = timesOf()
  const fire = planFire(policyOf(current), times, timer, nowMs)
  const result = await tx.schedules.settle({
    scheduleId: current.id,
    shard: shardOf(current.id),
    gen: current.gen,
    version: current.version,
    target: 'workflow',
    expectedDueAtMs: timer.dueAtMs,
    next: fire.next,
    plain: false,
    occurrences: withRuns(fire.occurrences, ids, nowMs, () => 0, intervalsOf(fire, times)),
  })
  return { schedule: await tx.schedules.find(current.id), effects: effectsOf(result) }
}

function policyOf(schedule: ScheduleRecord): FirePolicy {
  const { id, jitterMs, flexibleWindowMs, catchUp, overlap, sleep } = schedule
  return {
    scheduleId: id,
    jitterMs,
    flexibleWindowMs,
    catchUp,
    overlap,
    sleepUntilMs: sleep?.untilMs ?? null,
    sleepReason: sleep === null || sleep.reason === '' ? null : sleep.reason,
  }
}

function toFire(
  schedule: ScheduleRecord,
  timer: PlannedTime,
  fire: DecidedFire,
  template: RunTemplate,
  { ids, tags, tenantId, nowMs }: SettleParts,
): TimerFire {
  const { id: scheduleId, gen, version } = schedule
  const { tenantWeight: weight } = template
  const { priority } = template.definition
  const queue = laneOfRun(template, tenantId, undefined)
  return {
    scheduleId,
    shard: shardOf(scheduleId),
    gen,
    version,
    expectedDueAtMs: timer.dueAtMs,
    next: fire.next,
    plain: isPlain(schedule),
    occurrences: withRuns(fire.occurrences, ids, nowMs, () =>
      tags.next({ queue, tenantId, weight, priority }),
    ),
  }
}

function effectsOf(result: SettleResult): SettleEffect[] {
  const { outcomes, started, hints } = tidingsOf(result)
  return [
    ...(outcomes.length === 0 ? [] : [{ kind: 'fired', outcomes } as const]),
    ...[...started].map(
      ([queue, count]) => ({ kind: 'enqueued', count, queue, source: 'schedule' }) as const,
    ),
    ...hints.map((hint) => ({ kind: 'hint', hint }) as const),
  ]
}

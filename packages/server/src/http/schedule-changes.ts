/**
 * The steps that every change of a schedule has in common, for the endpoints in routes/schedules.ts and
 * routes/schedule-actions.ts: hold it, settle what has come due, write the change, answer.
 *
 *   1. `held` locks timer and schedule and checks the precondition;
 *   2. `settled` fires what has come due by now, as it was planned (engine/catalog/settle.ts);
 *   3. the endpoint decides what the request means, by the schedule as it is then;
 *   4. `applied` writes that and reads the answer.
 *
 * Whatever is thrown takes the fire back with everything else, and the scheduler makes it.
 */
import type { RouteName } from '@belfry/contract'
import { shardOf } from '../domain/shard.ts'
import { compileStored } from '../domain/stored-schedule.ts'
import { columnOf } from '../domain/stored-spec.ts'
import { settleDue } from '../engine/catalog/settle.ts'
import type { CatalogTx } from '../ports/catalog.ts'
import type { RecordedTime, ScheduleChange, ScheduleRecord } from '../ports/schedule-store.ts'
import type { Call, Effect, Tools } from './endpoint.ts'
import { checkIfMatch } from './etag.ts'
import { noSuch } from './missing.ts'
import { scheduleView } from './views.ts'

type Parts = Pick<Call<RouteName, CatalogTx>, 'tx' | 'tools' | 'credential' | 'after' | 'ifMatch'> & {
  readonly params: { readonly id: string }
}

/** The schedule, held until the end of the transaction. Throws `not_found`, `precondition_failed`. */
export async function held({ tx, params, ifMatch }: Pick<Parts, 'tx' | 'params' | 'ifMatch'>) {
  const current = await tx.schedules.lock(params.id)
  if (current === undefined) throw noSuch('schedule', params.id)
  checkIfMatch(ifMatch, current.version)
  return current
}

/**
 * The schedule after what has come due was fired; undefined where that completed and deleted it. One whose
 * timing cannot be read is left as it is: nobody can say what would fire, and it has to be possible to mend,
 * pause or delete it.
 */
export async function settled(
  { tx, tools, credential, after }: Parts,
  current: ScheduleRecord,
): Promise<ScheduleRecord | undefined> {
  const nowMs = await tx.nowMs()
  if (current.next === null || current.next.scheduledForMs > nowMs) return current
  const spec = columnOf(current.spec)
  const compiled = compileStored({ ...current, spec, scheduleId: current.id }, tools.zones)
  if (!compiled.ok) return current
  const { ids, tags } = tools
  const parts = { ids, tags, tenantId: credential.tenantId, nowMs, times: () => compiled.value }
  const { schedule, effects } = await settleDue(tx, current, parts)
  for (const effect of effects) after(effect)
  return schedule
}

/** Both; a schedule that went away by its own last fire is not found. */
export async function heldAndSettled(parts: Parts): Promise<ScheduleRecord> {
  const schedule = await settled(parts, await held(parts))
  if (schedule === undefined) throw noSuch('schedule', parts.params.id)
  return schedule
}

/** Writes a change, or nothing where there is none, and answers the schedule. */
export async function applied(
  { tx, tools, after }: Pick<Parts, 'tx' | 'tools' | 'after'>,
  current: ScheduleRecord,
  change: ScheduleChange | undefined,
) {
  if (change !== undefined) {
    await tx.schedules.change(current.id, change)
    passedOver(current.id, change.records, await tx.nowMs()).forEach(after)
    after(timerHint(current.id))
    if (change.settings.overlap === 'allow' && current.overlap !== 'allow') {
      const { shards } = await tx.schedules.letWaitingGo(current.id)
      for (const shard of shards) after({ kind: 'hint', hint: { topic: 'timers', key: String(shard) } })
    }
  }
  return answered(tx, tools, current.id)
}

export async function answered(tx: CatalogTx, tools: Tools, id: string) {
  const schedule = await tx.schedules.find(id)
  if (schedule === undefined) throw noSuch('schedule', id)
  return { body: scheduleView(schedule, tools.zones, await tx.nowMs()), version: schedule.version }
}

/** That planned times were put on record without a fire. */
export function passedOver(scheduleId: string, records: readonly RecordedTime[], nowMs: number): Effect[] {
  if (records.length === 0) return []
  const outcomes = records.map(({ scheduledForMs: scheduledFor, reason, missedCount: count }) => {
    const lateMs = nowMs - scheduledFor
    return { scheduleId, scheduledFor, outcome: 'skipped', reason, count, lateMs } as const
  })
  return [{ kind: 'fired', outcomes }]
}

export function timerHint(id: string): Effect {
  return { kind: 'hint', hint: { topic: 'timers', key: String(shardOf(id)) } }
}

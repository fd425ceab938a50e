/**
 * Schedules of one tenant, their timers and their occurrences. A lock takes the timer first, as the firing
 * transaction does.
 */
import type { JsonValue, OccurrenceReason } from '@belfry/contract'
import { BelfryError } from '@belfry/contract'
import type { StoredSpec } from '../../domain/stored-spec.ts'
import type {
  CatchUp,
  OccurrenceRecord,
  ScheduleRecord,
  ScheduleSettings,
  ScheduleStore,
  ScheduleSummaryRecord,
} from '../../ports/catalog.ts'
import type { Transaction } from '../database.ts'
import type { OccurrenceRow, ScheduleRow, ScheduleSummaryRow } from '../statements/schedules.ts'
import * as statements from '../statements/schedules.ts'
import { isoOf, isoOrNull, lastId, msOf, msOrNull, refusingTaken } from './values.ts'

/** How many rows are looked at for a page, where not all of them pass. */
const mostLooked = 5_000

export function createScheduleStore(tx: Transaction): ScheduleStore {
  const first = (rows: readonly ScheduleRow[]): ScheduleRecord | undefined => rows.map(scheduleRecord)[0]
  return {
    async insert({ id, name, jobId, settings, first: { scheduledForMs, dueAtMs } }) {
      const taken = `A schedule named "${name}" exists; choose another name or change that schedule.`
      const times = [isoOf(scheduledForMs), isoOf(dueAtMs)] as const
      const write = tx.query(statements.insertSchedule, [id, ...columnsOf(settings), name, jobId, ...times])
      await refusingTaken('schedule_name', taken, write)
    },
    find: async (id) => first(await tx.query(statements.findSchedule, [id])),
    async lock(id) {
      // sent together, done one after the other
      const [, , newTimer, rows] = await Promise.all([
        tx.query(statements.lockTimer, [id]),
        tx.query(statements.lockSchedule, [id]),
        tx.query(statements.lockNewTimer, [id]),
        tx.query(statements.findSchedule, [id]),
      ])
      const schedule = first(rows)
      if (schedule !== undefined && schedule.next !== null && newTimer.length === 0) {
        throw new BelfryError('serialization_conflict', 'The schedule was resumed just now; try again.')
      }
      return schedule
    },
    async list({ beforeId, limit }, { name, state, jobId }) {
      const look = state === undefined && jobId === undefined ? limit : mostLooked
      const wanted = [beforeId ?? lastId, limit, state ?? null, jobId ?? null, look] as const
      const rows =
        name === undefined
          ? await tx.query(statements.listSchedules, wanted)
          : await tx.query(statements.listSchedulesNamed, [...wanted, name])
      const items = rows.flatMap((row) => (row.id === null ? [] : [summaryRecord(row)]))
      return { items, lookedTo: rows[0]?.looked_to ?? null }
    },
    async change(id, { settings, state, pausedReason, timer }) {
      const genStep = timer.kind === 'keep' ? 0 : 1
      await tx.query(statements.updateSchedule, [id, ...columnsOf(settings), state, pausedReason, genStep])
      if (timer.kind === 'drop') await tx.query(statements.dropTimer, [id])
      if (timer.kind !== 'set') return
      const { scheduledForMs, dueAtMs } = timer.next
      await tx.query(statements.setTimer, [id, isoOf(scheduledForMs), isoOf(dueAtMs)])
    },
    async remove(id) {
      await tx.query(statements.dropTimer, [id])
      await tx.query(statements.removeSchedule, [id])
    },
    everExisted: async (id) => (await tx.query(statements.scheduleEverExisted, [id])).length > 0,
    async occurrences(id, { beforeMs, limit }, { outcome, fromMs, toMs }) {
      const before = [beforeMs, toMs].filter((bound) => bound !== null)
      const beforeText = before.length === 0 ? 'infinity' : isoOf(Math.min(...before))
      const fromText = isoOrNull(fromMs) ?? '-infinity'
      const rows = await tx.query(statements.listOccurrences, [
        id,
        beforeText,
        fromText,
        limit,
        outcome ?? null,
        outcome === undefined ? limit : mostLooked,
      ])
      const items = rows.flatMap((row) => (row.schedule_id === null ? [] : [occurrenceRecord(row)]))
      return { items, lookedTo: msOrNull(rows[0]?.looked_to ?? null) }
    },
  }
}

function columnsOf(settings: ScheduleSettings) {
  const { input } = settings
  return [
    settings.description,
    JSON.stringify(settings.spec),
    settings.zone,
    settings.zoneDataVersion,
    isoOrNull(settings.startAtMs),
    isoOrNull(settings.endAtMs),
    settings.jitterMs,
    JSON.stringify(settings.catchUp),
    settings.overlap,
    input === undefined ? null : JSON.stringify(input),
  ] as const
}

function scheduleRecord(row: ScheduleRow): ScheduleRecord {
  return { ...summaryRecord(row), input: row.has_input ? (row.input as JsonValue) : undefined }
}

function summaryRecord(row: ScheduleSummaryRow): ScheduleSummaryRecord {
  const { scheduled_for: scheduledFor, due_at: dueAt } = row
  return {
    id: row.id,
    name: row.name,
    description: row.description,
    jobId: row.job_id,
    jobName: row.job_name,
    spec: row.spec as StoredSpec,
    zone: row.zone,
    zoneDataVersion: row.zone_data_version,
    startAtMs: msOrNull(row.start_at),
    endAtMs: msOrNull(row.end_at),
    jitterMs: row.jitter_ms,
    catchUp: row.catch_up as CatchUp,
    overlap: row.overlap,
    state: row.state,
    pausedReason: row.paused_reason,
    pausedAtMs: msOrNull(row.paused_at),
    gen: row.gen,
    version: row.version,
    createdAtMs: msOf(row.created_at),
    updatedAtMs: msOf(row.updated_at),
    next:
      scheduledFor === null || dueAt === null
        ? null
        : { scheduledForMs: msOf(scheduledFor), dueAtMs: msOf(dueAt) },
  }
}

function occurrenceRecord(row: OccurrenceRow): OccurrenceRecord {
  return {
    scheduleId: row.schedule_id,
    scheduledForMs: msOf(row.scheduled_for),
    outcome: row.outcome,
    reason: row.reason as OccurrenceReason | null,
    missedCount: row.missed_count,
    runId: row.run_id,
    dueAtMs: msOf(row.due_at),
    firedAtMs: msOf(row.fired_at),
  }
}

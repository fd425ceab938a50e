/**
 * Schedules of one tenant, their timers and their occurrences. A lock takes the timer first, as the firing
 * transaction does.
 */
import type { JsonValue, OccurrenceReason } from '@belfry/contract'
import { BelfryError } from '@belfry/contract'
import type { CalendarRef, CalendarUse } from '../../domain/calendar/calendar-lookup.ts'
import type { StoredSpec, UnreadableSpec } from '../../domain/stored-spec.ts'
import { columnOf, readStoredSpec } from '../../domain/stored-spec.ts'
import type { CalendarShelf } from '../../ports/calendars.ts'
import type {
  CatchUp,
  OccurrenceRecord,
  RecordedTime,
  ScheduleChange,
  ScheduleRecord,
  ScheduleSettings,
  ScheduleStore,
  ScheduleSummaryRecord,
} from '../../ports/schedule-store.ts'
import type { Transaction } from '../database.ts'
import { intervalColumn, toFireColumns, toFireResult } from '../fire-rows.ts'
import { holdBackfillsOfSchedule } from '../statements/backfills.ts'
import { dropScheduleCalendars, insertScheduleCalendars } from '../statements/calendars.ts'
import type { OccurrenceRow, ScheduleRow, ScheduleSummaryRow } from '../statements/schedules.ts'
import { settleTimer } from '../statements/fire.ts'
import { letWorkflowRunsGo, settleWorkflowTimer } from '../statements/fire-workflows.ts'
import { letChainGo } from '../statements/followers.ts'
import * as statements from '../statements/schedules.ts'
import { readDefinitions } from './calendar-store.ts'
import { isoOf, isoOrNull, lastId, msOf, msOrNull, refusingTaken } from './values.ts'

/** How many rows are looked at for a page, where not all of them pass. */
const mostLooked = 5_000

type UseOf = (ref: CalendarRef) => CalendarUse

/** `dataVersion`: release of the zone data that this process computes next times with. */
export function createScheduleStore(
  tx: Transaction,
  { dataVersion, shelf }: { readonly dataVersion: string | null; readonly shelf: CalendarShelf },
): ScheduleStore {
  return { ...readingSide(tx, shelf), ...writingSide(tx, dataVersion) }
}

type Reading = 'find' | 'lock' | 'list' | 'ranUnderDeleted' | 'everExisted' | 'occurrences' | 'onRecord'

function readingSide(tx: Transaction, shelf: CalendarShelf): Pick<ScheduleStore, Reading> {
  const usesIn = (rows: readonly Pick<ScheduleRow, 'calendars'>[]): Promise<UseOf> =>
    shelf.take(rows.flatMap(refsOf), readDefinitions(tx.query))
  const first = async (rows: readonly ScheduleRow[]): Promise<ScheduleRecord | undefined> => {
    const useOf = await usesIn(rows)
    return rows.map((row) => scheduleRecord(row, useOf))[0]
  }
  return {
    find: async (id) => first(await tx.query(statements.findSchedule, [id])),
    async lock(id) {
      // sent together, done one after the other
      const [, , newTimer, rows] = await Promise.all([
        tx.query(statements.lockTimer, [id]),
        tx.query(statements.lockSchedule, [id]),
        tx.query(statements.lockNewTimer, [id]),
        tx.query(statements.findSchedule, [id]),
      ])
      const schedule = await first(rows)
      if (schedule !== undefined && schedule.next !== null && newTimer.length === 0) {
        throw new BelfryError('serialization_conflict', 'The schedule was resumed just now; try again.')
      }
      return schedule
    },
    async list({ beforeId, limit }, { name, state, targetId }) {
      const look = state === undefined && targetId === undefined ? limit : mostLooked
      const wanted = [beforeId ?? lastId, limit, state ?? null, targetId ?? null, look] as const
      const rows =
        name === undefined
          ? await tx.query(statements.listSchedules, wanted)
          : await tx.query(statements.listSchedulesNamed, [...wanted, name])
      const there = rows.flatMap((row) => (row.id === null ? [] : [row]))
      const useOf = await usesIn(there)
      return { items: there.map((row) => summaryRecord(row, useOf)), lookedTo: rows[0]?.looked_to ?? null }
    },
    ranUnderDeleted: async (name, scheduledForMs) =>
      (await tx.query(statements.ranUnderDeleted, [name, isoOf(scheduledForMs)])).length > 0,
    everExisted: async (id) => (await tx.query(statements.scheduleEverExisted, [id])).length > 0,
    async onRecord(id, { afterMs, untilMs }, limit) {
      await tx.query(holdBackfillsOfSchedule, [id])
      const [row] = await tx.query(statements.recordedTimes, [id, isoOf(afterMs), isoOf(untilMs), limit])
      return { timesMs: row?.times_ms ?? [], count: row?.count ?? 0 }
    },
    async occurrences(id, { beforeMs, limit }, { outcome, reason, fromMs, toMs }) {
      const before = [beforeMs, toMs].filter((bound) => bound !== null)
      const beforeText = before.length === 0 ? 'infinity' : isoOf(Math.min(...before))
      const fromText = isoOrNull(fromMs) ?? '-infinity'
      const rows = await tx.query(statements.listOccurrences, [
        id,
        beforeText,
        fromText,
        limit,
        outcome ?? null,
        outcome === undefined && reason === undefined ? limit : mostLooked,
        reason ?? null,
      ])
      const items = rows.flatMap((row) => (row.schedule_id === null ? [] : [occurrenceRecord(row)]))
      return { items, lookedTo: msOrNull(rows[0]?.looked_to ?? null) }
    },
  }
}

function writingSide(tx: Transaction, dataVersion: string | null): Omit<ScheduleStore, Reading> {
  return {
    async insert({ id, name, target, settings, first: { scheduledForMs, dueAtMs } }) {
      const taken = `A schedule named "${name}" exists; choose another name or change that schedule.`
      const times = [isoOf(scheduledForMs), isoOf(dueAtMs)] as const
      const { jobId, workflowId } = target
      const placed = [name, jobId, ...times, workflowId] as const
      const write = tx.query(statements.insertSchedule, [id, ...columnsOf(settings), ...placed])
      await refusingTaken('schedule_name', taken, write)
      if (settings.calendars.length === 0) return
      await tx.query(insertScheduleCalendars, placedCalendars(id, settings))
    },
    async change(id, change) {
      const { settings, timer, records } = change
      await tx.query(statements.updateSchedule, [id, ...columnsOf(settings), ...standingOf(change)])
      if (change.replacesCalendars) {
        const placed = placedCalendars(id, settings)
        await tx.query(dropScheduleCalendars, placed)
        await tx.query(insertScheduleCalendars, placed)
      }
      if (records.length > 0) await tx.query(statements.recordSkipped, [id, ...recordColumns(records)])
      if (timer.kind === 'drop') await tx.query(statements.dropTimer, [id])
      if (timer.kind === 'keep') await tx.query(statements.renewTimer, [id])
      if (timer.kind !== 'set') return
      const { scheduledForMs, dueAtMs } = timer.next
      await tx.query(statements.setTimer, [id, isoOf(scheduledForMs), isoOf(dueAtMs)])
    },
    async remove(id, records) {
      if (records.length > 0) await tx.query(statements.recordSkipped, [id, ...recordColumns(records)])
      await tx.query(statements.dropTimer, [id])
      await tx.query(statements.removeSchedule, [id])
    },
    async settle(fire) {
      const columns = [...toFireColumns([fire]), dataVersion] as const
      const [row] =
        fire.target === 'workflow'
          ? await tx.query(settleWorkflowTimer, [...columns, intervalColumn([fire])])
          : await tx.query(settleTimer, [...columns])
      const result = toFireResult(row)
      if (result.movedScheduleIds.length > 0) return result
      throw new BelfryError('serialization_conflict', 'The schedule was changed just now; try again.')
    },
    async letWaitingGo(id) {
      const rows = await tx.query(letChainGo, [id])
      await tx.query(letWorkflowRunsGo, [id])
      return { shards: [...new Set(rows.map(({ shard }) => shard))] }
    },
  }
}

function columnsOf(settings: ScheduleSettings<StoredSpec | UnreadableSpec>) {
  const { input } = settings
  return [
    settings.description,
    JSON.stringify(columnOf(settings.spec)),
    settings.zone,
    settings.zoneDataVersion,
    isoOrNull(settings.startAtMs),
    isoOrNull(settings.endAtMs),
    settings.jitterMs,
    JSON.stringify(settings.catchUp),
    settings.overlap,
    input === undefined ? null : JSON.stringify(input),
    settings.flexibleWindowMs,
    settings.runLimit,
    settings.pauseAfterFailures,
    settings.afterCompletion,
    settings.onExcluded,
  ] as const
}

function placedCalendars(id: string, { calendars }: Pick<ScheduleSettings, 'calendars'>) {
  const ofUse = (use: CalendarUse['use']) => calendars.filter((calendar) => calendar.use === use)
  const placed = [...ofUse('skip').entries(), ...ofUse('only').entries()]
  return [
    id,
    placed.map(([, calendar]) => calendar.id),
    placed.map(([, { use }]) => use),
    placed.map(([position]) => position),
  ] as const
}

function standingOf(change: ScheduleChange) {
  const { state, pausedReason, pausedFromMs, sleep, runCount, forgivesFailures, replacesCalendars } = change
  return [
    state,
    pausedReason,
    isoOrNull(pausedFromMs),
    isoOrNull(sleep?.untilMs ?? null),
    sleep === null || sleep.reason === '' ? null : sleep.reason,
    runCount,
    forgivesFailures,
    replacesCalendars,
  ] as const
}

function recordColumns(records: readonly RecordedTime[]) {
  return [
    records.map(({ scheduledForMs }) => isoOf(scheduledForMs)),
    records.map(({ reason }) => reason),
    records.map(({ detail }) => detail),
    records.map(({ missedCount }) => missedCount),
  ] as const
}

const refsOf = ({ calendars }: Pick<ScheduleRow, 'calendars'>): readonly CalendarRef[] =>
  calendars as readonly CalendarRef[]

function scheduleRecord(row: ScheduleRow, useOf: UseOf): ScheduleRecord {
  return { ...summaryRecord(row, useOf), input: row.has_input ? (row.input as JsonValue) : undefined }
}

function summaryRecord(row: ScheduleSummaryRow, useOf: UseOf): ScheduleSummaryRecord {
  const { scheduled_for: scheduledFor, due_at: dueAt } = row
  return {
    id: row.id,
    name: row.name,
    description: row.description,
    jobId: row.job_id,
    jobName: row.job_name,
    workflowId: row.workflow_id,
    workflowName: row.workflow_name,
    spec: readStoredSpec(row.spec) ?? { unreadable: row.spec },
    zone: row.zone,
    zoneDataVersion: row.zone_data_version,
    startAtMs: msOrNull(row.start_at),
    endAtMs: msOrNull(row.end_at),
    calendars: refsOf(row).map(useOf),
    onExcluded: row.on_excluded,
    jitterMs: row.jitter_ms,
    catchUp: row.catch_up as CatchUp,
    overlap: row.overlap,
    flexibleWindowMs: row.flexible_window_ms,
    runLimit: row.run_limit,
    pauseAfterFailures: row.pause_after_failures,
    afterCompletion: row.after_completion,
    state: row.state,
    pausedReason: row.paused_reason,
    pausedAtMs: msOrNull(row.paused_at),
    pausedFromMs: msOrNull(row.paused_from ?? row.paused_at),
    resumedAtMs: msOrNull(row.resumed_at),
    sleep:
      row.sleep_until === null ? null : { untilMs: msOf(row.sleep_until), reason: row.sleep_reason ?? '' },
    runCount: row.run_count,
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
    detail: row.detail,
    missedCount: row.missed_count,
    runId: row.of_workflow ? null : row.run_id,
    workflowRunId: row.of_workflow ? row.run_id : null,
    laterRunIds: row.later_run_ids,
    dueAtMs: msOf(row.due_at),
    firedAtMs: msOf(row.fired_at),
  }
}

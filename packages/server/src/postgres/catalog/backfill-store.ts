/**
 * Backfills of one tenant, and the runs for nominal times that no fire made. A list looks at a bounded
 * stretch for those of a state.
 */
import type { BackfillOrder, BackfillReprocess, BackfillState, JsonValue } from '@belfry/contract'
import type { BackfillRecord, BackfillStore } from '../../ports/backfills.ts'
import type { Transaction } from '../database.ts'
import type { BackfillRow } from '../statements/backfills.ts'
import * as statements from '../statements/backfills.ts'
import { timeRecord } from '../time-records.ts'
import { isoOf, isoOrNull, lastId, msOf, msOrNull, only } from './values.ts'

/** How many are looked at for a page of one state. */
const mostLooked = 1_000

export function createBackfillStore(tx: Transaction, tenantId: string): BackfillStore {
  const find = async (id: string): Promise<BackfillRecord | undefined> => {
    const [row] = await tx.query(statements.findBackfill, [id])
    if (row === undefined) return undefined
    return { ...record(row), input: row.has_input ? (row.input as JsonValue) : undefined }
  }
  return {
    find,
    async insert(backfill) {
      await tx.query(statements.insertBackfill, [
        backfill.id,
        backfill.scheduleId,
        isoOf(backfill.fromMs),
        isoOf(backfill.toMs),
        backfill.order,
        backfill.concurrency,
        backfill.reprocess,
        backfill.input === undefined ? null : JSON.stringify(backfill.input),
        JSON.stringify(backfill.timing),
        backfill.total,
        isoOrNull(backfill.nextAtMs),
      ])
    },
    async lock(id) {
      await tx.query(statements.lockBackfill, [id])
      return find(id)
    },
    async list({ beforeId, limit }, { scheduleId, state }) {
      const look = state === undefined ? limit : Math.max(limit, mostLooked)
      const page = [beforeId ?? lastId, limit, state ?? null, look] as const
      const rows =
        scheduleId === undefined
          ? await tx.query(statements.listBackfills, page)
          : await tx.query(statements.listBackfillsOfSchedule, [...page, scheduleId])
      const items = rows.flatMap((row) => (row.id === null ? [] : [record(row)]))
      return { items, lookedTo: rows[0]?.looked_to ?? null }
    },
    countOpen: async (limit) => only(await tx.query(statements.countOpenBackfills, [limit])).count,
    async change(id, { to, reason }) {
      await tx.query(statements.changeBackfill, [id, to, reason])
    },
    async cancelOfSchedule(scheduleId, reason) {
      await tx.query(statements.cancelBackfillsOfSchedule, [scheduleId, reason])
    },
    async aliveRuns(id) {
      const rows = await tx.query(statements.listAliveOfBackfill, [id])
      const idsOf = (ofWorkflow: boolean) =>
        rows.filter((row) => row.of_workflow === ofWorkflow).map((row) => row.run_id)
      return { runIds: idsOf(false), workflowRunIds: idsOf(true) }
    },
    timeRecords: async (scheduleId, scheduledForMs) =>
      (await tx.query(statements.readTimeRecords, [tenantId, scheduleId, scheduledForMs])).map(timeRecord),
    async insertExtraRun({ scheduleId, scheduledForMs, runId }) {
      await tx.query(statements.insertExtraRun, [scheduleId, isoOf(scheduledForMs), runId])
    },
  }
}

/** Without the input. */
function record(row: Omit<BackfillRow, 'has_input' | 'input'>): BackfillRecord {
  return {
    id: row.id,
    scheduleId: row.schedule_id,
    scheduleName: row.schedule_name,
    fromMs: msOf(row.from_at),
    toMs: msOf(row.to_at),
    order: row.time_order as BackfillOrder,
    concurrency: row.concurrency,
    reprocess: row.reprocess as BackfillReprocess,
    input: undefined,
    state: row.state as BackfillState,
    reason: row.reason,
    total: row.total,
    started: row.started,
    skipped: row.skipped,
    alive: row.alive,
    succeeded: row.succeeded,
    failed: row.failed,
    canceled: row.canceled,
    nextAtMs: msOrNull(row.next_at),
    createdAtMs: msOf(row.created_at),
    startedAtMs: msOrNull(row.started_at),
    endedAtMs: msOrNull(row.ended_at),
    version: row.version,
  }
}

/**
 * Steps of backfills on Postgres. What makes a step safe stands in ports/backfilling.ts and with its
 * statements; here are its columns and rows.
 */
import { laneOf } from '../domain/route.ts'
import type { BackfillTx, Backfilling, LockedBackfill, UnsettledRun } from '../ports/backfilling.ts'
import type { Database, Transaction } from './database.ts'
import type { LockedBackfillRow } from './statements/backfill-steps.ts'
import {
  advanceBackfill,
  advanceWorkflowBackfill,
  listDueBackfills,
  lockBackfillForStep,
  lockBackfillsOfSchedule,
  readLockedBackfill,
} from './statements/backfill-steps.ts'
import { readTimeRecords } from './statements/backfills.ts'
import { timeRecord } from './time-records.ts'

const engine = { role: 'belfry_engine' } as const

export function createPostgresBackfilling(db: Database): Backfilling {
  return {
    async due(shards, exceptIds, limit) {
      const rows = await db.run({ ...engine, readOnly: true }, listDueBackfills, [shards, exceptIds, limit])
      const due = rows.flatMap((row) =>
        row.id === null ? [] : [{ id: row.id, scheduleId: row.schedule_id }],
      )
      return { due, open: rows[0]?.open ?? 0 }
    },
    within: (work) => db.transaction(engine, (tx) => work(backfillTx(tx))),
  }
}

function backfillTx(tx: Transaction): BackfillTx {
  return {
    async lock({ id, scheduleId }) {
      // sent together, done one after the other
      const [, , rows] = await Promise.all([
        tx.query(lockBackfillsOfSchedule, [scheduleId]),
        tx.query(lockBackfillForStep, [id]),
        tx.query(readLockedBackfill, [id]),
      ])
      return rows.map((row) => lockedBackfill(id, row))[0]
    },
    async timeRecords({ tenantId, scheduleId }, scheduledForMs) {
      return (await tx.query(readTimeRecords, [tenantId, scheduleId, scheduledForMs])).map(timeRecord)
    },
    async advance(advance) {
      const { starts, ended } = advance
      const columns = [
        advance.id,
        advance.expectedNextAtMs,
        advance.nextAtMs,
        advance.state,
        advance.reason,
        advance.skipped,
        advance.alive,
        advance.succeeded,
        advance.failed,
        advance.canceled,
        ended.map(({ runId }) => runId),
        ended.map(({ endedAs }) => endedAs),
        starts.map(({ scheduledForMs }) => scheduledForMs),
        starts.map(({ runId }) => runId),
        starts.map(({ tag }) => tag),
        starts.map(({ occurrence }) => occurrence),
      ] as const
      const [row] =
        advance.target === 'workflow'
          ? await tx.query(advanceWorkflowBackfill, [
              ...columns,
              starts.map(({ intervalStartMs }) => intervalStartMs ?? null),
            ])
          : await tx.query(advanceBackfill, [...columns])
      if (row === undefined) throw new Error(`The backfill ${advance.id} moved on while its row was held.`)
      return row.started
    },
  }
}

function lockedBackfill(id: string, row: LockedBackfillRow): LockedBackfill {
  return {
    id,
    tenantId: row.tenant_id,
    scheduleId: row.schedule_id,
    state: row.state,
    order: row.time_order,
    concurrency: row.concurrency,
    reprocess: row.reprocess,
    fromMs: row.from_ms,
    toMs: row.to_ms,
    nextAtMs: row.next_ms,
    timing: row.timing,
    runs: row.runs.map(([runId, endedAs]) => ({ runId, endedAs: endedAs as UnsettledRun['endedAs'] })),
    schedule:
      row.version === null
        ? null
        : {
            version: row.version,
            target: row.of_workflow ? 'workflow' : 'job',
            queue: row.queue ?? '',
            lane: row.queue === null ? '' : laneOf(row.queue, row.handler ?? ''),
            timerAtMs: row.timer_ms,
          },
    nowMs: row.now_ms,
  }
}

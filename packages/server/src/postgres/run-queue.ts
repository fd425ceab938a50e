/**
 * The run queue in Postgres. How a claim works, and what keeps it fast, stands in statements/claim.ts; here
 * is only the way from rows to what the port promises.
 */
import type { Claim, ClaimedRun, RunQueue } from '../ports/run-queue.ts'
import type { Database } from './database.ts'
import { type ClaimRow, claimRuns, listActiveQueues } from './statements/claim.ts'

const engine = { role: 'belfry_engine' } as const

export function createPostgresRunQueue(db: Database): RunQueue {
  return {
    async claim({ sessionId, shares, handlers, deadlineMarginMs }) {
      const rows = await db.run(engine, claimRuns, [
        sessionId,
        shares.map((share) => share.queue),
        shares.map((share) => share.minTag),
        shares.map((share) => share.limit),
        handlers,
        deadlineMarginMs,
      ])
      return toClaim(rows)
    },
    async activeQueues() {
      const rows = await db.run({ ...engine, readOnly: true }, listActiveQueues, [])
      return rows.map((row) => row.queue)
    },
  }
}

function toClaim(rows: readonly ClaimRow[]): Claim {
  const runs = rows.flatMap((row) => (row.run_id === null ? [] : [toClaimedRun(row, row.run_id)]))
  return { runs, alive: rows[0]?.alive ?? false, nowMs: rows[0]?.now_ms ?? 0 }
}

function toClaimedRun(row: ClaimRow, runId: string): ClaimedRun {
  return {
    runId,
    tenantId: row.tenant_id,
    jobId: row.job_id,
    jobVersion: row.job_version,
    queue: row.queue,
    tag: row.tag,
    priority: row.priority,
    attempt: row.attempt,
    crashCount: row.crash_count,
    failures: row.failure_count,
    leaseEpoch: row.lease_epoch,
    timeoutMs: row.timeout_ms,
    scheduledForMs: row.scheduled_for_ms,
    dueAtMs: row.due_at_ms,
    availableAtMs: row.available_at_ms,
    input: row.input,
  }
}

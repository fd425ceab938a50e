/**
 * Runs that their target took over, in Postgres (statements/callbacks.ts). As the engine, which sees all
 * tenants: a token is all that whoever reports has to show.
 */
import type { TerminalRunState } from '@belfry/contract'
import type { AttemptName, CallbackStore } from '../ports/callbacks.ts'
import type { Database } from './database.ts'
import * as statements from './statements/callbacks.ts'

const engine = { role: 'belfry_engine' } as const
const reading = { ...engine, readOnly: true } as const
/** Rows in one statement. */
const settledAtOnce = 1_000

const nameOf = ({ tenantId, runId, leaseEpoch }: AttemptName) => [tenantId, runId, leaseEpoch] as const

export function createPostgresCallbackStore(db: Database): CallbackStore {
  return {
    async open(sessionId, attempt, tokenHash) {
      const rows = await db.run(engine, statements.openCallback, [...nameOf(attempt), sessionId, tokenHash])
      return rows.length > 0
    },
    async park(sessionId, attempt, { deadlineMs, heartbeatMs }) {
      const params = [...nameOf(attempt), sessionId, deadlineMs, heartbeatMs] as const
      return (await db.run(engine, statements.parkRun, [...params])).length > 0
    },
    async find(tokenHash) {
      const [row] = await db.run(reading, statements.findCallback, [tokenHash])
      if (row === undefined) return undefined
      return {
        tenantId: row.tenant_id,
        runId: row.run_id,
        leaseEpoch: row.lease_epoch,
        sessionId: row.session_id,
        jobId: row.job_id,
        jobVersion: row.job_version,
        cancelRequested: row.cancel_requested,
        claimedAtMs: row.claimed_at_ms,
        reportByMs: row.report_by_ms,
        heartbeatByMs: row.heartbeat_by_ms,
        nowMs: row.now_ms,
      }
    },
    async hear(attempt) {
      await db.run(engine, statements.hearOfRun, [...nameOf(attempt)])
    },
    async endOf(attempt, result) {
      const given = result === undefined ? null : JSON.stringify(result)
      const [row] = await db.run(reading, statements.findEndOfAttempt, [...nameOf(attempt), given])
      if (row === undefined) return undefined
      const { outcome, error_code: errorCode, same_result: sameResult } = row
      // the CHECK on `attempt.run_state` holds these words
      return { outcome, errorCode, sameResult, runState: row.run_state as TerminalRunState | null }
    },
    async settle(attempt) {
      await db.run(engine, statements.settleCallback, [...nameOf(attempt)])
    },
    async anyDue() {
      if (!(await isAnyDue(db))) return false
      // some of them were reported on in time, by a process that died then
      await db.run(engine, statements.settleCallbacks, [settledAtOnce])
      return isAnyDue(db)
    },
  }
}

async function isAnyDue(db: Database): Promise<boolean> {
  const [row] = await db.run(reading, statements.anyCallbackDue, [])
  return row?.due ?? false
}

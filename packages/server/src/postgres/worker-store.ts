/**
 * Sessions, progress and logs of workers of functions in Postgres (statements/workers.ts). As the engine,
 * which sees all tenants: whose a session is, is checked by those who call.
 */
import type { TerminalRunState } from '@belfry/contract'
import { maxLogBytes, utf8Bytes } from '@belfry/contract'
import type { HeldAttempt, LogAppend, LogKept, WorkerStore } from '../ports/worker-store.ts'
import type { Database } from './database.ts'
import * as statements from './statements/workers.ts'

const engine = { role: 'belfry_engine' } as const
const reading = { ...engine, readOnly: true } as const

/** What the rescuer writes into an attempt that it ended in the worker's place. */
const rescuerCodes = ['worker_lost', 'deadline_passed']

export function createPostgresWorkerStore(db: Database): WorkerStore {
  return {
    async findSession(sessionId) {
      const [row] = await db.run(reading, statements.findSession, [sessionId])
      if (row === undefined || row.tenant_id === null || row.functions === null) return undefined
      const { tenant_id: tenantId, api_key_id: keyId, queues, functions } = row
      return { tenantId, keyId, queues, functions }
    },
    async heldAttempts(sessionId, runs) {
      const rows = await db.run(reading, statements.listHeldAttempts, [
        sessionId,
        runs.map((run) => run.runId),
        runs.map((run) => run.leaseEpoch),
      ])
      return rows.map(toHeldAttempt)
    },
    async reportedBefore(sessionId, ends) {
      const rows = await db.run(reading, statements.listReportedBefore, [
        sessionId,
        ends.map((end) => end.runId),
        ends.map((end) => end.leaseEpoch),
        ends.map((end) => end.outcome),
        rescuerCodes,
      ])
      // the CHECK on `attempt.run_state` holds these words
      return rows.map((row) => ({ runId: row.run_id, runState: row.run_state as TerminalRunState | null }))
    },
    async reportProgress(sessionId, reports) {
      await db.run(engine, statements.reportProgress, [
        sessionId,
        reports.map((each) => each.runId),
        reports.map((each) => each.leaseEpoch),
        reports.map((each) => JSON.stringify(each.progress)),
      ])
    },
    appendLogs: (sessionId, chunks) => appendLogs(db, sessionId, chunks),
    async supply(wanted, limit) {
      const queues = wanted.map((each) => each.queue)
      const routes = wanted.map((each) => each.route)
      const rows = await db.run(reading, statements.countSupply, [queues, routes, limit])
      return rows.flatMap(({ place, count }) => {
        const asked = wanted[place]
        return asked === undefined ? [] : [{ ...asked, count }]
      })
    },
  }
}

async function appendLogs(
  db: Database,
  sessionId: string,
  chunks: readonly LogAppend[],
): Promise<readonly LogKept[]> {
  const texts = chunks.map((chunk) => JSON.stringify(chunk.lines))
  const rows = await db.run(engine, statements.appendLogs, [
    sessionId,
    chunks.map((chunk) => chunk.runId),
    chunks.map((chunk) => chunk.leaseEpoch),
    chunks.map((chunk) => chunk.firstLine),
    chunks.map((chunk) => chunk.firstLine + chunk.lines.length - 1),
    texts,
    texts.map(utf8Bytes),
    maxLogBytes,
  ])
  const kept = new Map(rows.map((row) => [row.place, row.full_after]))
  return chunks.map(({ runId, leaseEpoch }, place) => {
    const fullAfter = kept.get(place)
    return { runId, leaseEpoch, kept: fullAfter !== undefined, full: fullAfter ?? true }
  })
}

function toHeldAttempt(row: statements.HeldAttemptRow): HeldAttempt {
  return {
    runId: row.run_id,
    leaseEpoch: row.lease_epoch,
    tenantId: row.tenant_id,
    jobId: row.job_id,
    jobVersion: row.job_version,
    queue: row.queue,
    attempt: row.attempt,
    crashCount: row.crash_count,
    failures: row.failure_count,
    claimedAtMs: row.claimed_at_ms,
    nowMs: row.now_ms,
    cancelRequested: row.cancel_requested,
    timeoutMs: row.timeout_ms,
    runDeadlineMs: row.run_deadline_ms,
    backfillOf: row.backfill_of,
  }
}

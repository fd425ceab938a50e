/**
 * Sessions and ends of attempts in Postgres (statements/sessions.ts, completion.ts, rescue.ts).
 *
 * Heartbeats go through `heartbeats`, a Database of their own with one connection, so that a pool that is
 * busy or stuck never costs a worker its lease.
 */
import type { TerminalRunState } from '@belfry/contract'
import { jobDefinitionSchema, retryPolicySchema } from '@belfry/contract'
import type { AppliedEnd, AttemptEnd, LetGo, PausedSchedule, RunStore, StuckRun } from '../ports/run-store.ts'
import type { Database, Transaction } from './database.ts'
import { recordDeadLetters } from './dead-letters.ts'
import { mayPause, pausingAfterFailures } from './failure-pauses.ts'
import type { Statement } from './statement.ts'
import { sortEnds, writeSuccesses, type WrittenSuccesses } from './success-ends.ts'
import { listDefinitions } from './statements/claim.ts'
import type { AppliedRow, EndColumns } from './statements/completion.ts'
import { completeAttempts, listAppliedBefore, rescueAttempts } from './statements/completion.ts'
import {
  healHeldRuns,
  listStuckRuns,
  settleClaims,
  settleClaimsOf,
  type StuckRow,
} from './statements/rescue.ts'
import { listIdentities } from './statements/service-accounts.ts'
import {
  closeSession,
  endExpiredSessions,
  handBackRuns,
  listHeldRuns,
  openSession,
  renewSession,
} from './statements/sessions.ts'

const engine = { role: 'belfry_engine' } as const
const nilId = '00000000-0000-0000-0000-000000000000'

export function createPostgresRunStore(options: { db: Database; heartbeats: Database }): RunStore {
  const { db, heartbeats } = options
  return {
    async openSession({ id, host, version, queues, slots, owner }, leaseMs) {
      const scope = { ...engine, timeoutMs: heartbeatTimeoutMs(leaseMs) }
      const whose = [owner?.tenantId ?? null, owner?.keyId ?? null, owner?.functions ?? null] as const
      const params = [id, host, version, queues, slots, leaseMs, ...whose] as const
      const [row] = await heartbeats.run(scope, openSession, [...params])
      return { nowMs: row?.now_ms ?? 0 }
    },
    async renewSession(sessionId, leaseMs) {
      const scope = { ...engine, timeoutMs: heartbeatTimeoutMs(leaseMs) }
      const [row] = await heartbeats.run(scope, renewSession, [sessionId, leaseMs])
      return {
        alive: row?.alive ?? false,
        heldRunIds: row?.held_run_ids ?? [],
        cancelRunIds: row?.cancel_run_ids ?? [],
        nowMs: row?.now_ms ?? 0,
      }
    },
    async closeSession(sessionId) {
      await heartbeats.run(engine, closeSession, [sessionId])
    },
    doubts: db.doubts,
    async definitions(versions) {
      const tenantIds = versions.map((each) => each.tenantId)
      const jobIds = versions.map((each) => each.jobId)
      const numbers = versions.map((each) => each.version)
      const rows = await db.run({ ...engine, readOnly: true }, listDefinitions, [tenantIds, jobIds, numbers])
      return rows.flatMap((row) => {
        const { success, data } = jobDefinitionSchema.safeParse(row.definition)
        return success
          ? [{ tenantId: row.tenant_id, jobId: row.job_id, version: row.version, definition: data }]
          : []
      })
    },
    async identities(wanted) {
      const tenantIds = wanted.map((each) => each.tenantId)
      const names = wanted.map((each) => each.name)
      const rows = await db.run({ ...engine, readOnly: true }, listIdentities, [tenantIds, names])
      return rows.map(({ tenant_id, ...rest }) => ({ tenantId: tenant_id, ...rest }))
    },
    complete: (sessionId, ends) => complete(db, sessionId, ends),
    async handBack(sessionId, runs) {
      const ids = runs.map((run) => run.runId)
      const epochs = runs.map((run) => run.leaseEpoch)
      const rows = await db.run(engine, handBackRuns, [sessionId, ids, epochs])
      const handedBackRunIds = rows.filter((row) => !row.canceled).map((row) => row.run_id)
      return { handedBackRunIds, timerShards: rows[0]?.timer_shards ?? [] }
    },
    async heldRuns(sessionId) {
      const rows = await db.run({ ...engine, readOnly: true }, listHeldRuns, [sessionId])
      return rows.map((row) => ({ runId: row.run_id, leaseEpoch: row.lease_epoch, queue: row.queue }))
    },
    ...rescuing(db),
  }
}

/** What the rescuer asks for. */
function rescuing(
  db: Database,
): Pick<RunStore, 'endExpiredSessions' | 'settleClaims' | 'healHeldRuns' | 'stuckRuns' | 'rescue'> {
  return {
    async endExpiredSessions(claimsOlderThanMs = 0) {
      const [row] = await db.run(engine, endExpiredSessions, [claimsOlderThanMs])
      const { session_ids: sessionIds = [], claims = false, parked_due: parkedDue = false } = row ?? {}
      return { sessionIds, claims, parkedDue }
    },
    async settleClaims(limit, { olderThanMs = 0, sessionIds } = {}) {
      const [row] =
        sessionIds === undefined
          ? await db.run(engine, settleClaims, [limit, olderThanMs])
          : await db.run(engine, settleClaimsOf, [limit, sessionIds])
      return row?.count ?? 0
    },
    async healHeldRuns(afterRunId, limit) {
      const [row] = await db.run(engine, healHeldRuns, [afterRunId ?? nilId, limit])
      return { next: row?.last_run_id ?? null, healed: row?.healed ?? 0 }
    },
    async stuckRuns(after, limit) {
      const params = [after?.sessionId ?? nilId, after?.runId ?? nilId, limit] as const
      const rows = await db.run({ ...engine, readOnly: true }, listStuckRuns, [...params])
      const runs = rows.flatMap((row) => (row.run_id === null ? [] : [toStuckRun(row, row.run_id)]))
      return { runs, nowMs: rows[0]?.now_ms ?? 0 }
    },
    async rescue(ends) {
      const sessionIds = ends.map((end) => end.sessionId)
      const { rows, ...more } = await writeEnds(db, ends, rescueAttempts, [...toColumns(ends), sessionIds])
      return { applied: toApplied(rows), ...more }
    },
  }
}

/** Two failed tries must fit into a lease. */
function heartbeatTimeoutMs(leaseMs: number): number {
  return Math.max(500, Math.floor(leaseMs / 6))
}

/**
 * One round trip; where runs fail, a transaction, and a look before it whether that may pause a schedule:
 * only then schedules are locked. A limit that is set between the two counts from the next failure on, which
 * looks at this one as well.
 */
async function writeEnds<Params extends readonly unknown[]>(
  db: Database,
  ends: readonly AttemptEnd[],
  statement: Statement<AppliedRow, Params>,
  params: Params,
): Promise<{ rows: AppliedRow[]; paused: readonly PausedSchedule[] } & LetGo> {
  const failed = ends.filter(({ runState }) => runState === 'failed')
  const { result: rows, paused } =
    failed.length === 0
      ? { result: await db.run(engine, statement, params), paused: [] }
      : await writeFailures(db, ends, failed, (tx) => tx.query(statement, params))
  const [first] = rows
  const gateTenants = first?.gate_tenants ?? []
  return { rows, paused, timerShards: first?.timer_shards ?? [], gateTenants }
}

/** Failed runs become dead letters with their end. */
async function writeFailures<Row>(
  db: Database,
  ends: readonly AttemptEnd[],
  failed: readonly AttemptEnd[],
  write: (tx: Transaction) => Promise<Row[]>,
): Promise<{ result: Row[]; paused: readonly PausedSchedule[] }> {
  const pauses = await mayPause(db, ends)
  return db.transaction(engine, async (tx) => {
    const written = pauses
      ? await pausingAfterFailures(tx, ends, () => write(tx))
      : { result: await write(tx), paused: [] }
    await recordDeadLetters(tx, failed)
    return written
  })
}

const nothing: WrittenSuccesses = { applied: [], timerShards: [], gateTenants: [], nowMs: 0 }

async function complete(
  db: Database,
  sessionId: string,
  ends: readonly AttemptEnd[],
): ReturnType<RunStore['complete']> {
  const { successes, others } = sortEnds(ends)
  const good = successes.length === 0 ? nothing : await writeSuccesses(db, sessionId, successes)
  if (others.length === 0 && good.applied.length === ends.length) return { ...good, paused: [] }
  const { rows, ...more } =
    others.length === 0
      ? { ...nothing, rows: [], paused: [] }
      : await writeEnds(db, others, completeAttempts, [...toColumns(others), sessionId])
  const applied = [...good.applied, ...toApplied(rows)]
  const written = {
    ...more,
    timerShards: [...good.timerShards, ...more.timerShards],
    gateTenants: [...good.gateTenants, ...(more.gateTenants ?? [])],
    nowMs: rows[0]?.now_ms ?? good.nowMs,
  }
  if (applied.length === ends.length) return { applied, ...written }
  // Refused: the lease was lost, or an earlier call was committed and its answer got lost.
  const done = new Set(applied.map((end) => end.runId))
  const rest = ends.filter((end) => !done.has(end.runId))
  const before = await db.run({ ...engine, readOnly: true }, listAppliedBefore, [
    sessionId,
    rest.map((end) => end.runId),
    rest.map((end) => end.leaseEpoch),
    rest.map((end) => end.endedAtMs),
    rest.map((end) => end.outcome),
  ])
  const earlier = before.map((row) => ({ runId: row.run_id, runState: asEndState(row.run_state) }))
  return { applied: [...applied, ...earlier], ...written }
}

function toColumns(ends: readonly AttemptEnd[]): EndColumns {
  return [
    ends.map((end) => end.runId),
    ends.map((end) => end.leaseEpoch),
    ends.map((end) => end.outcome),
    ends.map((end) => end.runState),
    ends.map((end) => end.reason),
    ends.map((end) => end.retryDelayMs),
    ends.map((end) => end.countAs),
    ends.map((end) => end.startedAtMs),
    ends.map((end) => end.endedAtMs),
    ends.map((end) => end.errorCode),
    ends.map((end) => end.errorMessage),
    ends.map((end) => end.httpStatus),
    ends.map((end) => end.response),
    ends.map((end) => end.responseTruncated),
    ends.map((end) => (end.result === undefined ? null : JSON.stringify(end.result))),
    ends.map((end) => (end.responseHeaders === undefined ? null : JSON.stringify(end.responseHeaders))),
  ]
}

function toApplied(rows: readonly AppliedRow[]): AppliedEnd[] {
  return rows.flatMap((row) =>
    row.run_id === null ? [] : [{ runId: row.run_id, runState: asEndState(row.run_state) }],
  )
}

/** The CHECK on `attempt.run_state` holds these words. */
function asEndState(text: string | null): TerminalRunState | null {
  return text as TerminalRunState | null
}

function toStuckRun(row: StuckRow, runId: string): StuckRun {
  // a definition that this version cannot read must not keep the run from being rescued: the cautious way is
  // taken
  const { data } = jobDefinitionSchema.safeParse(row.definition)
  const retry = data?.retry ?? retryPolicySchema.parse({})
  const delivery = data?.delivery ?? 'at_most_once'
  return {
    runId,
    tenantId: row.tenant_id,
    jobId: row.job_id,
    queue: row.queue,
    sessionId: row.session_id,
    leaseEpoch: row.lease_epoch,
    attempt: row.attempt,
    crashCount: row.crash_count,
    failures: row.failure_count,
    claimedAtMs: row.claimed_at_ms,
    runDeadlineMs: row.run_deadline_ms,
    cause: row.cause,
    reportByMs: row.report_by_ms,
    delivery,
    retry,
    cancelRequested: row.cancel_requested,
  }
}

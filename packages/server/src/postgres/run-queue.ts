/**
 * The run queue in Postgres. How a claim works, and what keeps it fast, stands in statements/claim.ts; here
 * is only the way from rows to what the port promises.
 */
import type { Claim, ClaimedRun, ReadyCursor, ReadyLook, RunQueue } from '../ports/run-queue.ts'
import type { Database } from './database.ts'
import {
  type ClaimDetail,
  type ClaimRow,
  claimRuns,
  listReadyQueues,
  type ReadyQueueRow,
} from './statements/claim.ts'

const engine = { role: 'belfry_engine' } as const
const nilId = '00000000-0000-0000-0000-000000000000'

/** Bounds of one look at what is ready: some 10 ms. */
const maxTenants = 100
const maxSteps = 1_000
/** Tenants of which the place is kept; another begins at its first queue again. */
const maxResumed = 1_000

export function createPostgresRunQueue(db: Database): RunQueue {
  return {
    async claim({ sessionId, shares, routes, deadlineMarginMs }) {
      const rows = await db.run(engine, claimRuns, [
        sessionId,
        shares.map((share) => share.queue),
        shares.map((share) => share.minTag),
        shares.map((share) => share.limit),
        routes,
        deadlineMarginMs,
      ])
      return toClaim(rows)
    },
    async readyQueues(cursor) {
      const resumed = cursor?.afterQueues ?? []
      const rows = await db.run({ ...engine, readOnly: true }, listReadyQueues, [
        cursor?.afterTenantId ?? nilId,
        maxTenants,
        maxSteps,
        resumed.map((each) => each.tenantId),
        resumed.map((each) => each.queue),
      ])
      return toLook(rows, cursor)
    },
  }
}

function toClaim(rows: readonly ClaimRow[]): Claim {
  const details = new Map<string, ClaimDetail>()
  for (const { parcel } of rows) for (const detail of parcel ?? []) details.set(detail[0], detail)
  const runs: ClaimedRun[] = []
  for (const row of rows) addRuns(runs, row, details)
  runs.sort((a, b) => a.tag - b.tag || (a.runId < b.runId ? -1 : 1))
  return { runs, alive: rows[0]?.alive ?? false, nowMs: rows[0]?.now_ms ?? 0 }
}

function addRuns(runs: ClaimedRun[], row: ClaimRow, details: ReadonlyMap<string, ClaimDetail>): void {
  if (row.run_ids === null) return
  const tags = listOf(row.tags)
  const availableAtMs = listOf(row.available_at_ms)
  for (const [index, runId] of listOf(row.run_ids).entries()) {
    const atMs = Number(availableAtMs[index])
    const [, scheduledForMs, dueAtMs, backfillOf, input] = details.get(runId) ?? unsaid
    runs.push({
      runId,
      tenantId: row.tenant_id,
      jobId: row.job_id,
      jobVersion: row.job_version,
      queue: row.queue,
      tag: Number(tags[index]),
      priority: row.priority,
      attempt: row.attempt,
      crashCount: row.crash_count,
      failures: row.failure_count,
      leaseEpoch: row.lease_epoch,
      timeoutMs: row.timeout_ms,
      overdue: row.overdue,
      runDeadlineMs: row.run_deadline_ms,
      scheduledForMs,
      dueAtMs: dueAtMs ?? atMs,
      availableAtMs: atMs,
      backfillOf,
      input,
    })
  }
}

/** Of a run of which `run` says no more. */
const unsaid = ['', null, null, null, null] as const

/** An array of ids or numbers, as Postgres writes it. */
const listOf = (text: string): string[] => text.slice(1, -1).split(',')

function toLook(rows: readonly ReadyQueueRow[], cursor: ReadyCursor | null): ReadyLook {
  const byTenant = Map.groupBy(rows, (row) => row.tenant_id)
  const found = rows.flatMap(({ tenant_id: tenantId, weight, queue }) =>
    queue === null ? [] : [{ tenantId, weight, queue }],
  )
  const resumed = new Map(cursor?.afterQueues.map(({ tenantId, queue }) => [tenantId, queue]))
  for (const [tenantId, its] of byTenant) {
    resumed.delete(tenantId)
    const last = its.at(-1)
    if (last !== undefined && last.queue !== null && its.length >= last.share)
      resumed.set(tenantId, last.queue)
  }
  const afterQueues = [...resumed].slice(-maxResumed).map(([tenantId, queue]) => ({ tenantId, queue }))
  const afterTenantId = byTenant.size < maxTenants ? null : (rows.at(-1)?.tenant_id ?? null)
  const seenAll = afterTenantId === null && afterQueues.length === 0
  return { found, next: seenAll ? null : { afterTenantId, afterQueues } }
}

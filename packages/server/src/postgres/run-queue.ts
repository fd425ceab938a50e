/**
 * The run queue in Postgres. How a claim works, and what keeps it fast, stands in statements/claim.ts; here
 * is only the way from rows to what the port promises.
 */
import type {
  AnnouncedRuns,
  Claim,
  ClaimedRun,
  ReadyCursor,
  ReadyLook,
  RunQueue,
} from '../ports/run-queue.ts'
import type { Database } from './database.ts'
import { listOf } from './list-text.ts'
import { claimAnnouncedRuns } from './statements/announced.ts'
import {
  type ClaimedPlan,
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
    async claim({ sessionId, shares, routes, deadlineMarginMs, number = 0, overNumbers = [] }) {
      const rows = await db.run(engine, claimRuns, [
        sessionId,
        shares.map((share) => share.queue),
        shares.map((share) => share.minTag),
        shares.map((share) => share.limit),
        routes,
        deadlineMarginMs,
        number,
        overNumbers,
        shares.map((share) => share.maxTag ?? Infinity),
      ])
      return toClaim(rows, number)
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

/** The claim of what was announced. */
export function createPostgresAnnouncedRuns(db: Database): AnnouncedRuns {
  return {
    async claimNamed({ sessionId, runs, routes, deadlineMarginMs, number = 0, overNumbers = [] }) {
      const rows = await db.run(engine, claimAnnouncedRuns, [
        sessionId,
        runs.map((run) => run.queue),
        runs.map((run) => run.tag),
        runs.map((run) => run.runId),
        routes,
        deadlineMarginMs,
        number,
        overNumbers,
      ])
      return toClaim(rows, number)
    },
  }
}

/** What `run` says of runs of which it says more. */
interface Details {
  /** Of a run in the two lists. */
  readonly places: ReadonlyMap<string, number>
  readonly inputs: readonly unknown[]
  readonly dueAtMs: readonly number[]
  readonly plans: ReadonlyMap<string, ClaimedPlan>
}

function toClaim(rows: readonly ClaimRow[], number: number): Claim {
  const details = detailsIn(rows)
  const runs: ClaimedRun[] = []
  for (const row of rows) addRuns(runs, row, number, details)
  runs.sort((a, b) => a.tag - b.tag || (a.runId < b.runId ? -1 : 1))
  return { runs, alive: rows[0]?.alive ?? false, nowMs: rows[0]?.now_ms ?? 0 }
}

function detailsIn(rows: readonly ClaimRow[]): Details {
  const places = new Map<string, number>()
  const inputs: unknown[] = []
  const dueAtMs: number[] = []
  const plans = new Map<string, ClaimedPlan>()
  for (const row of rows) {
    if (row.detailed_ids === null || row.due_at_ms === null) continue
    const due = listOf(row.due_at_ms)
    for (const [index, runId] of listOf(row.detailed_ids).entries()) {
      places.set(runId, inputs.push(row.inputs?.[index] ?? null) - 1)
      dueAtMs.push(Number(due[index]))
    }
    for (const plan of row.plans ?? []) plans.set(plan[0], plan)
  }
  return { places, inputs, dueAtMs, plans }
}

function addRuns(
  runs: ClaimedRun[],
  row: ClaimRow,
  claim: number,
  { places, inputs, dueAtMs, plans }: Details,
): void {
  if (row.run_ids === null) return
  const tags = listOf(row.tags)
  const availableAtMs = listOf(row.available_at_ms)
  for (const [index, runId] of listOf(row.run_ids).entries()) {
    const atMs = Number(availableAtMs[index])
    const place = places.get(runId) ?? -1
    const plan = plans.size === 0 ? undefined : plans.get(runId)
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
      claim,
      timeoutMs: row.timeout_ms,
      overdue: row.overdue,
      runDeadlineMs: row.run_deadline_ms,
      scheduledForMs: plan?.[1] ?? null,
      dueAtMs: dueAtMs[place] ?? atMs,
      availableAtMs: atMs,
      backfillOf: plan?.[2] ?? null,
      input: inputs[place] ?? null,
    })
  }
}

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

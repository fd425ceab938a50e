/**
 * Limits of one tenant (ports/limits.ts). Whatever changes a limit holds the limits of the tenant alone and
 * tells its jobs (statements/gate-changes.ts); the gatekeeper does the rest.
 */
import { gateName, limitsOfGroup } from '../../domain/gate/group-limits.ts'
import type { GroupStanding, Obstacle } from '../../domain/gate/holds.ts'
import { obstacleOf } from '../../domain/gate/holds.ts'
import { sharedRoutes } from '../../domain/route.ts'
import type { HoldRecord, LimitStore, PoolFields, QueueRecord } from '../../ports/limits.ts'
import type { Transaction } from '../database.ts'
import { jobOf, readStanding, readTenantLimits } from '../gate/pass.ts'
import { listJobFacts } from '../statements/gate.ts'
import * as changes from '../statements/gate-changes.ts'
import { readNow } from '../statements/idempotency.ts'
import type { QueueRow } from '../statements/queue-view.ts'
import * as views from '../statements/queue-view.ts'
import { pauseRecord, poolRecord } from './limit-records.ts'
import { lastId, msOf, msOrNull, only, refusingTaken } from './values.ts'

/** From so many on, a tenant's runs are met often enough along the claim index. */
const denseFrom = 10_000
/** How many of its group before a run are counted. */
const mostAhead = 1_000

export function createLimitStore(tx: Transaction, tenantId: string): LimitStore {
  const change = async <T>(write: () => Promise<T>): Promise<T> => {
    await tx.query(changes.holdLimits, [])
    const result = await write()
    await tx.query(changes.refreshLimited, [])
    return result
  }
  return {
    ...pools(tx, change),
    async gateOf(runId) {
      const [row] = await tx.query(views.findGateOf, [runId, mostAhead])
      if (row === undefined) return undefined
      const { gate, ahead, available_at_ms: availableAtMs, now_ms: nowMs } = row
      const standing = row.look_at === null ? undefined : standingOf({ ...row, look_at: row.look_at })
      const [hold] = await holdsOf(tx, tenantId, nowMs, [{ gate, standing }])
      return hold && { hold, ahead, aheadCapped: ahead >= mostAhead, availableAtMs, nowMs }
    },
    async tenantLimit() {
      const row = only(await tx.query(changes.readTenantLimit, []))
      return { runLimit: row.run_limit, used: row.used }
    },
    setTenantLimit: (runLimit) =>
      change(async () => void (await tx.query(changes.setTenantLimit, [runLimit]))),
    async pauseJob(id, reason) {
      await tx.query(changes.setJobPause, [id, reason])
    },
    pauseQueue: (queue, reason) =>
      change(async () => {
        if (reason === null) await tx.query(changes.resumeQueue, [queue])
        else await tx.query(changes.pauseQueue, [queue, reason])
      }),
    queues: async () => (await tx.query(views.listQueues, [])).map(queueRecord),
    queue: async (name) => queueRecord(only(await tx.query(views.findQueue, [name]))),
    async nextRuns(queue, limit) {
      const { ready } = only(await tx.query(views.findQueue, [queue]))
      const rows = await tx.query(views.listNextRuns, [queue, limit, ready >= denseFrom, sharedRoutes])
      return rows.map((row) => ({
        runId: row.run_id,
        job: row.job,
        priority: row.priority,
        tag: row.tag,
        virtualTime: row.virtual_time,
        availableAtMs: msOf(row.available_at),
      }))
    },
    async heldGroups(queue, limit) {
      const rows = await tx.query(views.listHeldGroups, [queue, limit])
      const groups = rows.map((row) => ({ gate: row.gate, standing: standingOf(row) }))
      const nowMs = await nowOf(tx)
      const holds = await holdsOf(tx, tenantId, nowMs, groups)
      const names = await jobNames(
        tx,
        tenantId,
        rows.map(({ gate }) => gateName(gate).jobId),
      )
      return rows.flatMap(({ gate, runs, first_run_id: firstRunId }, index) => {
        const hold = holds[index]
        const job = names.get(gateName(gate).jobId) ?? ''
        return hold === undefined || runs === 0 ? [] : [{ job, runs, firstRunId, hold, nowMs }]
      })
    },
    weight: async () => only(await tx.query(views.readOwnWeight, [])).weight,
  }
}

type Change = <T>(write: () => Promise<T>) => Promise<T>

function pools(tx: Transaction, change: Change) {
  const taken = (name: string, write: Promise<changes.PoolRow[]>) =>
    refusingTaken(
      'pool_name',
      `A pool named "${name}" exists; choose another name or change that one.`,
      write,
    )
  const hostTaken = (host: string | null, write: Promise<changes.PoolRow[]>) =>
    refusingTaken('pool_host', `Another pool has the host "${host ?? ''}"; change that one.`, write)
  const columns = ({ slots, rate, host }: PoolFields) =>
    [slots, rate === null ? null : JSON.stringify(rate), host] as const
  return {
    insertPool: (pool: { readonly id: string; readonly name: string } & PoolFields) =>
      change(async () => {
        const write = tx.query(changes.insertPool, [pool.id, pool.name, ...columns(pool)])
        return poolRecord(only(await hostTaken(pool.host, taken(pool.name, write))))
      }),
    findPool: async (id: string) => (await tx.query(changes.findPool, [id])).map(poolRecord)[0],
    lockPool: async (id: string) => (await tx.query(changes.lockPool, [id])).map(poolRecord)[0],
    async listPools(
      { beforeId, limit }: { beforeId: string | null; limit: number },
      { name }: { name: string | undefined },
    ) {
      return (await tx.query(changes.listPools, [beforeId ?? lastId, limit, name ?? null])).map(poolRecord)
    },
    countPools: async () => only(await tx.query(changes.countPools, [])).count,
    updatePool: (id: string, fields: PoolFields) =>
      change(async () => {
        const write = tx.query(changes.updatePool, [id, ...columns(fields)])
        return poolRecord(only(await hostTaken(fields.host, write)))
      }),
    removePool: ({ id, name }: { readonly id: string; readonly name: string }) =>
      change(async () => {
        const [user] = await tx.query(changes.findPoolUser, [name])
        if (user === undefined) await tx.query(changes.removePool, [id])
        return user?.name
      }),
    async missingPools(names: readonly string[]) {
      await tx.query(changes.shareLimits, [])
      const known = new Set((await tx.query(changes.findPoolNames, [names])).map(({ name }) => name))
      return names.filter((name) => !known.has(name))
    },
  }
}

const nowOf = async (tx: Transaction): Promise<number> => msOf(only(await tx.query(readNow, [])).now)

async function jobNames(tx: Transaction, tenantId: string, jobIds: readonly string[]) {
  const rows = jobIds.length === 0 ? [] : await tx.query(listJobFacts, [tenantId, jobIds])
  return new Map(rows.map(({ id, name }) => [id, name]))
}

interface AskedGroup {
  readonly gate: string
  readonly standing: GroupStanding | undefined
}

/** What holds each of these groups, in their order; undefined where the job is gone. */
async function holdsOf(
  tx: Transaction,
  tenantId: string,
  nowMs: number,
  groups: readonly AskedGroup[],
): Promise<(HoldRecord | undefined)[]> {
  if (groups.length === 0) return []
  const jobIds = [...new Set(groups.map(({ gate }) => gateName(gate).jobId))]
  const jobs = new Map((await tx.query(listJobFacts, [tenantId, jobIds])).map((row) => [row.id, jobOf(row)]))
  const tenant = await readTenantLimits(tx, tenantId)
  const known = groups.flatMap((group) => {
    const job = jobs.get(gateName(group.gate).jobId)
    return job === undefined ? [] : [{ ...group, limits: limitsOfGroup(gateName(group.gate), job, tenant) }]
  })
  const standing = await readStanding(tx, tenantId, known, nowMs)
  const found = new Map<string, Obstacle>()
  for (const each of known) found.set(each.gate, obstacleOf(each.limits, standing, each.standing))
  const keys = [...new Set([...found.values()].flatMap(({ slotKey }) => slotKey ?? []))]
  const holders = Map.groupBy(await tx.query(views.listHolders, [keys]), ({ key }) => key)
  const pauses = await tx.query(views.listPauses, [jobIds])
  return groups.map(({ gate }) => {
    const obstacle = found.get(gate)
    if (obstacle === undefined) return undefined
    const { slotKey, ...facts } = obstacle
    const { jobId, queue } = gateName(gate)
    const subject = obstacle.kind === 'paused_job' ? `job ${jobId}` : `queue ${queue}`
    const pause = obstacle.kind.startsWith('paused')
      ? pauses.find((each) => `${each.kind} ${each.subject}` === subject)
      : undefined
    const ofPause = obstacle.kind === 'paused_queue' ? queue : (jobs.get(jobId)?.name ?? null)
    return {
      ...facts,
      name: pause === undefined ? facts.name : ofPause,
      holders: (slotKey === null ? [] : (holders.get(slotKey) ?? [])).map((row) => row.run_id),
      sinceMs: msOrNull(pause?.at ?? null),
      reason: pause?.reason ?? null,
    }
  })
}

function standingOf(row: { waits_on: string | null; held_by: string | null; look_at: Date }): GroupStanding {
  return { waitsOn: row.waits_on, heldBy: row.held_by, lookAtMs: msOf(row.look_at) }
}

function queueRecord(row: QueueRow): QueueRecord {
  return {
    name: row.name,
    ready: row.ready,
    held: row.held,
    running: row.running,
    oldestReadyMs: msOrNull(row.oldest_at),
    paused: pauseRecord(row.paused_at, row.paused_reason),
  }
}

/**
 * What limits the runs of a group: all that stand behind the gate under one name have the same. Made of the
 * present definition of the job, the pools and the limit of the tenant, and the pauses. Pure.
 */
import type { AtLimit, Concurrency, Rate, RateLimit } from '@belfry/contract'

/** What the name of a group says; see belfry.gate_of (migrations/0017_gate.sql). */
export interface GateName {
  readonly jobId: string
  /** Hash of the value of the key of the concurrency, or of the rate; empty without one. */
  readonly keyHash: string
  readonly rateKeyHash: string
  readonly queue: string
}

/** `<job>/<key>/<rate key>/<queue>`; names of queues hold no slash. */
export function gateName(gate: string): GateName {
  const [jobId = '', keyHash = '', rateKeyHash = '', queue = ''] = gate.split('/')
  return { jobId, keyHash, rateKeyHash, queue }
}

export type LimitKind = 'key' | 'job' | 'pool' | 'tenant'

export interface SlotLimit {
  readonly kind: LimitKind
  /** As it stands in `slot`. */
  readonly key: string
  /** Of the job, the pool or the tenant, for people. */
  readonly name: string
  readonly most: number
  readonly weight: number
  /** Where the key stands in the input, for people. */
  readonly path?: string
}

export interface TokenLimit {
  /** As it stands in `bucket`. */
  readonly key: string
  readonly name: string
  readonly path?: string
  readonly count: number
  readonly perMs: number
  readonly burst: number
}

export interface GroupLimits {
  readonly paused: 'paused_job' | 'paused_queue' | null
  /** Narrowest first: a group waits for the narrowest limit that is full. */
  readonly slots: readonly SlotLimit[]
  readonly rates: readonly TokenLimit[]
  readonly onLimit: AtLimit
}

export interface LimitedJob {
  readonly id: string
  readonly name: string
  readonly concurrency: Concurrency | null
  readonly rateLimit: RateLimit | null
  readonly targetHost: string | null
  readonly paused: boolean
}

export interface LimitedPool {
  readonly id: string
  readonly name: string
  readonly slots: number | null
  readonly rate: Rate | null
  readonly host: string | null
}

export interface TenantLimits {
  readonly runLimit: number | null
  /** Attempts that may start in a second; null: no limit. */
  readonly startRate?: number | null
  readonly pools: readonly LimitedPool[]
  readonly pausedQueues: ReadonlySet<string>
}

/** A pool that a job names and that is not there holds nothing. */
export function limitsOfGroup(name: GateName, job: LimitedJob, tenant: TenantLimits): GroupLimits {
  const { concurrency, rateLimit } = job
  const slots: SlotLimit[] = []
  const rates: TokenLimit[] = []
  if (concurrency !== null && concurrency.key !== null) {
    const key = `key:${job.id}:${name.keyHash}`
    const { keyLimit: most, key: path } = concurrency
    slots.push({ kind: 'key', key, name: job.name, most, weight: 1, path })
  }
  if (concurrency !== null && concurrency.limit !== null) {
    slots.push({ kind: 'job', key: `job:${job.id}`, name: job.name, most: concurrency.limit, weight: 1 })
  }
  if (rateLimit !== null) {
    const { key: path } = rateLimit
    const key = path === null ? `job:${job.id}` : `key:${job.id}:${name.rateKeyHash}`
    rates.push({ ...tokenLimit(key, job.name, rateLimit), ...(path === null ? {} : { path }) })
  }
  for (const { pool, weight } of poolsOf(job, tenant.pools)) {
    const key = `pool:${pool.id}`
    // one that is heavier than the whole pool takes all of it, and is not stuck for ever
    const most = pool.slots
    if (most !== null)
      slots.push({ kind: 'pool', key, name: pool.name, most, weight: Math.max(1, Math.min(weight, most)) })
    if (pool.rate !== null) rates.push(tokenLimit(key, pool.name, pool.rate))
  }
  if (tenant.runLimit !== null)
    slots.push({ kind: 'tenant', key: 'tenant', name: '', most: tenant.runLimit, weight: 1 })
  const { startRate = null } = tenant
  if (startRate !== null)
    rates.push(tokenLimit('tenant', '', { count: startRate, perMs: 1_000, burst: null }))
  const queuePaused = tenant.pausedQueues.has(name.queue) ? 'paused_queue' : null
  const paused = job.paused ? 'paused_job' : queuePaused
  return { paused, slots, rates, onLimit: concurrency?.onLimit ?? 'queue' }
}

function poolsOf({ concurrency, targetHost }: LimitedJob, pools: readonly LimitedPool[]) {
  const named = new Map((concurrency?.pools ?? []).map(({ name, weight }) => [name, weight]))
  return pools.flatMap((pool) => {
    const weight = named.get(pool.name) ?? (pool.host !== null && pool.host === targetHost ? 1 : undefined)
    return weight === undefined ? [] : [{ pool, weight }]
  })
}

function tokenLimit(key: string, name: string, { count, perMs, burst }: Rate): TokenLimit {
  return { key, name, count, perMs, burst: burst ?? count }
}

/**
 * One look at the gate of a tenant. The protocol (statements in statements/gate.ts and gate-writes.ts, the
 * decision in domain/gate/openings.ts):
 *
 *   1. hold      the gate of the tenant, by a lock that ends with the transaction; who does not get it leaves
 *                the work to who has it. So of all limits of a tenant one transaction at a time decides, on a
 *                snapshot that has what the one before it has written
 *   2. notice    runs that arrived behind the gate: their groups come to be looked at. A transaction of its
 *                own, the rest is another: it locks rows as they come, which would not fit the order of the
 *                locks of step 6
 *   3. freed     slots that the ends of runs have freed are deleted, and as many groups of their lines come
 *                to be looked at; so do those at the head of a rate whose next token is due
 *   4. read      those groups, the lowest tags first, with their first runs and their limits; what is used of
 *                the limits, what is in the buckets, who is first in their lines
 *   5. decide    pure
 *   6. write     runs opened with their slots, runs ended by a limit, tokens, where each group stands; and
 *                for limits that still have room, the next of their lines come to be looked at. Rows of
 *                `ready` are locked in the order of run ids, by the first statement that writes any
 *
 * Crash at any point: nothing of a step happened; what was to be done stands in the tables as before. What is
 * looked at but cannot open moves to another line, so each event costs about as many looks as it lets runs
 * in, however many groups wait.
 */
import type { Concurrency, Rate, RateLimit } from '@belfry/contract'
import type { Bucket } from '../../domain/gate/buckets.ts'
import type { LimitedJob, TenantLimits } from '../../domain/gate/group-limits.ts'
import { gateName, limitsOfGroup } from '../../domain/gate/group-limits.ts'
import type { Decision, Standing, WaitingGroup } from '../../domain/gate/openings.ts'
import { decideOpenings, lineOf } from '../../domain/gate/openings.ts'
import type { GateLook } from '../../ports/gate.ts'
import type { Database, Transaction } from '../database.ts'
import type { JobFactsRow } from '../statements/gate.ts'
import * as read from '../statements/gate.ts'
import * as write from '../statements/gate-writes.ts'

const engine = { role: 'belfry_engine' } as const
const maxArrivals = 2_000
const maxFreed = 2_000
const maxGroups = 250
const maxHeads = 1_000

export const nothing: GateLook = {
  opened: 0,
  skipped: 0,
  replaced: 0,
  queues: [],
  sessionIds: [],
  timerShards: [],
  again: false,
}

export async function lookAtGate(db: Database, tenantId: string): Promise<GateLook | undefined> {
  const arrived = await noticeArrivals(db, tenantId)
  if (arrived === undefined) return undefined
  return db.transaction(engine, async (tx) => {
    const [held] = await tx.query(read.tryGate, [tenantId])
    if (held?.mine !== true) return undefined
    const freed = await tx.query(read.takeFreed, [tenantId, maxFreed])
    if (freed.length > 0) {
      await wake(tx, tenantId, new Map(freed.map(({ line, units }) => [line, units])))
      await tx.query(write.quietBuckets, [tenantId])
    }
    const groups = await readGroups(tx, tenantId)
    const more = arrived >= maxArrivals || freed.length >= maxFreed
    if (groups.length === 0) return { ...nothing, again: more }
    const standing = await readStanding(tx, tenantId, groups, held.now_ms)
    const decision = decideOpenings(groups, standing)
    const done = await apply(tx, tenantId, decision)
    const unfinished = decision.places.some(
      ({ headTag, waitsOn }) => headTag !== undefined && waitsOn === null,
    )
    const again = done.again || more || unfinished || decision.room.size > 0 || groups.length >= maxGroups
    return { ...done, again }
  })
}

/** How many; undefined: somebody else is at the gate. */
function noticeArrivals(db: Database, tenantId: string): Promise<number | undefined> {
  return db.transaction(engine, async (tx) => {
    const [held] = await tx.query(read.tryGate, [tenantId])
    if (held?.mine !== true) return undefined
    const [arrived] = await tx.query(read.noticeArrivals, [tenantId, maxArrivals])
    return arrived?.count ?? 0
  })
}

async function wake(tx: Transaction, tenantId: string, units: ReadonlyMap<string, number>): Promise<void> {
  const counts = [...units.values()].map((count) => Math.min(count, maxGroups))
  await tx.query(read.wakeLines, [tenantId, [...units.keys()], counts])
}

async function readGroups(tx: Transaction, tenantId: string): Promise<WaitingGroup[]> {
  const rows = await tx.query(read.listDueGroups, [tenantId, maxGroups])
  if (rows.length === 0) return []
  const tenant = await readTenantLimits(tx, tenantId)
  const known = rows.map((row) => {
    return { gate: row.gate, limits: limitsOfGroup(gateName(row.gate), jobOf(row), tenant) }
  })
  const each = Math.max(4, Math.floor(maxHeads / known.length))
  const newest = known.map(({ limits }) => limits.onLimit === 'replace')
  const heads = await tx.query(read.listHeads, [known.map(({ gate }) => gate), newest, each])
  const byGate = Map.groupBy(heads, ({ gate }) => gate)
  return known.map((group) => {
    const its = byGate.get(group.gate) ?? []
    const first = its.map(({ run_id: runId, tag, attempt }) => ({ runId, tag, attempt }))
    return { ...group, heads: first, more: its.length >= each }
  })
}

export async function readTenantLimits(tx: Transaction, tenantId: string): Promise<TenantLimits> {
  const [facts] = await tx.query(read.readTenantFacts, [tenantId])
  const pools = (facts?.pools ?? []).map(([id, name, slots, rate, host]) => {
    return { id, name, slots, rate: rate as Rate | null, host }
  })
  const { run_limit: runLimit = null, start_rate: startRate = null } = facts ?? {}
  return { runLimit, startRate, pools, pausedQueues: new Set(facts?.paused_queues) }
}

/** Stored definitions were checked when they came. */
export function jobOf(row: JobFactsRow): LimitedJob {
  return {
    id: row.id,
    name: row.name,
    concurrency: row.concurrency as Concurrency | null,
    rateLimit: row.rate_limit as RateLimit | null,
    targetHost: row.target_host,
    paused: row.paused,
  }
}

/** `groups`: their limits are what is asked for. */
export async function readStanding(
  tx: Transaction,
  tenantId: string,
  groups: readonly Pick<WaitingGroup, 'limits'>[],
  nowMs: number,
): Promise<Standing> {
  const slotKeys = [...new Set(groups.flatMap(({ limits }) => limits.slots.map(({ key }) => key)))]
  const rateKeys = [...new Set(groups.flatMap(({ limits }) => limits.rates.map(({ key }) => key)))]
  const lines = [...slotKeys.map((key) => lineOf('slot', key)), ...rateKeys.map((key) => lineOf('rate', key))]
  const rows = await tx.query(read.readStanding, [tenantId, slotKeys, rateKeys, lines])
  const of = (kind: string) => rows.filter((row) => row.kind === kind)
  const bucket = (row: (typeof rows)[number]): Bucket => ({ tokens: row.value, atMs: row.at_ms ?? nowMs })
  return {
    nowMs,
    used: new Map(of('used').map(({ key, value }) => [key, value])),
    buckets: new Map(of('bucket').map((row) => [row.key, bucket(row)])),
    lines: new Map(of('line').map(({ key, value }) => [key, value])),
  }
}

async function apply(tx: Transaction, tenantId: string, decision: Decision): Promise<GateLook> {
  const { openings, places, buckets, displacements } = decision
  const displaced = await displace(tx, tenantId, decision)
  const slots = openings.flatMap(({ runId, slots: its }) => its.map((slot) => ({ runId, ...slot })))
  const opened =
    openings.length === 0
      ? []
      : await tx.query(write.openRuns, [
          tenantId,
          openings.map(({ runId }) => runId),
          openings.map(({ gate }) => gate),
          slots.map(({ runId }) => runId),
          slots.map(({ key }) => key),
          slots.map(({ weight }) => weight),
        ])
  const ended = await endRuns(tx, decision, displaced)
  await tx.query(write.placeGroups, [
    places.map(({ gate }) => gate),
    places.map(({ headTag }) => headTag ?? null),
    places.map(({ waitsOn }) => waitsOn),
    places.map(({ heldBy }) => heldBy),
  ])
  if (buckets.length > 0) {
    await tx.query(write.saveBuckets, [
      tenantId,
      buckets.map(({ key }) => key),
      buckets.map(({ tokens }) => tokens),
      buckets.map(({ atMs }) => atMs),
      buckets.map(({ fullMs }) => fullMs),
      buckets.map(({ nextMs }) => nextMs),
    ])
  }
  if (decision.room.size > 0) await wake(tx, tenantId, decision.room)
  const openedCount = opened.reduce((sum, { count }) => sum + count, 0)
  const missed = openings.length - openedCount
  // ended by somebody else meanwhile: who lined up behind them may have their place
  if (missed > 0) {
    const keys = openings.flatMap(({ slots: its }) => its.map(({ key }) => key))
    await wake(tx, tenantId, new Map(keys.map((key) => [lineOf('slot', key), missed])))
  }
  return {
    ...nothing,
    ...ended,
    opened: openedCount,
    queues: opened.map(({ queue }) => queue),
    again: missed > 0 || (displacements.length > 0 && ended.replaced > 0),
  }
}

const words = {
  skipped: [
    'skipped',
    'skipped',
    'concurrency_limit',
    'concurrency_limit',
    'Its job was at its limit of runs at once.',
  ],
  replaced: ['canceled', 'canceled', 'replaced', 'canceled', 'A newer run took its place at the limit.'],
} as const

interface Displaced {
  readonly run_id: string
  readonly session_id: string | null
}

/** Runs that make room for newer ones. From here on the look holds all rows that it ends or opens. */
async function displace(tx: Transaction, tenantId: string, decision: Decision): Promise<Displaced[]> {
  const { openings, skippedRunIds, replacedRunIds, displacements } = decision
  const endedRunIds = [...skippedRunIds, ...replacedRunIds]
  if (endedRunIds.length + displacements.length === 0) return []
  return tx.query(write.displaceHolders, [
    tenantId,
    [...openings.map(({ runId }) => runId), ...endedRunIds],
    displacements.map(({ limitKey }) => limitKey),
    displacements.map(({ gate }) => gateName(gate).jobId),
    displacements.map(({ count }) => count),
  ])
}

async function endRuns(tx: Transaction, decision: Decision, displaced: readonly Displaced[]) {
  const { skippedRunIds, replacedRunIds } = decision
  const unclaimed = displaced.filter((row) => row.session_id === null).map((row) => row.run_id)
  const gone = [...replacedRunIds, ...unclaimed]
  const end = async (runIds: readonly string[], kind: keyof typeof words) =>
    runIds.length === 0 ? [] : tx.query(write.endWaitingRuns, [runIds, ...words[kind]])
  const skipped = await end(skippedRunIds, 'skipped')
  const replaced = await end(gone, 'replaced')
  return {
    skipped: skipped.length,
    replaced: replaced.length,
    sessionIds: [...new Set(displaced.flatMap((row) => row.session_id ?? []))],
    timerShards: [...new Set([...skipped, ...replaced].flatMap((row) => row.timer_shards ?? []))],
  }
}

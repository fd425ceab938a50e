// The protocols with a piece left out, each as somebody might have written it: put in place of a port's
// adapter, so that the rest of the engine is as it is. The simulation has to find each of them.
import type { Elector } from '../../../packages/server/src/engine/elector.ts'
import type { Firing, FireResult } from '../../../packages/server/src/ports/firing.ts'
import type { AnnouncementInbox } from '../../../packages/server/src/ports/announcements.ts'
import type { ClaimedRun, RunQueue } from '../../../packages/server/src/ports/run-queue.ts'
import type { RunStore } from '../../../packages/server/src/ports/run-store.ts'
import { statement } from '../../../packages/server/src/postgres/statement.ts'
import type { Strike } from './faults.ts'
import type { WorldKind } from './kinds.ts'
import type { SimNode } from './node.ts'
import type { Breakage } from './roles.ts'

export interface BrokenProtocol extends Breakage {
  /** Where it shows. */
  readonly kind: WorldKind
  /** What has to happen for it to show, where that is seldom. */
  readonly strikes?: readonly Strike[]
  /** What the check says of it. */
  readonly shows: RegExp
}

export const brokenProtocols = {
  'no term check': {
    kind: 'timers',
    shows: /fired in shard \d+, which another holds/,
    elector: neverLettingGo,
    firing: withoutTerms,
  },
  'fire in two steps, as the naive loop on Redis': {
    kind: 'timers',
    shows: /no occurrence for/,
    firing: inTwoSteps,
  },
  'acknowledged and begun before the claim': {
    kind: 'runs',
    shows: /called twice under one lease|may be called once/,
    queue: beforeTheClaim,
  },
  'no fence': {
    kind: 'runs',
    shows: /has the answer of call|has an attempt of|without a call|although its call failed/,
    strikes: [stoppedWhileItWorks('w1'), stoppedWhileItWorks('w2')],
    store: withoutFence,
  },
  'settled before the claim, and claimed by nothing else': {
    kind: 'announced',
    shows: /a ready run is left/,
    strikes: [diesWithWhatItTook('w1'), diesWithWhatItTook('w2')],
    announcing: { inbox: settlingFirst, queue: withoutDirectClaims, againMs: Infinity },
  },
  'a lost attempt of an at-most-once job is tried again': {
    kind: 'runs',
    shows: /may be called once/,
    store: triedAgain,
  },
} as const satisfies Readonly<Record<string, BrokenProtocol>>

export type BrokenName = keyof typeof brokenProtocols

/** For longer than its lease, so that others have its runs when it goes on. */
function stoppedWhileItWorks(node: string): Strike {
  return { node, what: 'pause', named: 'call', step: 1, when: 'after', lateMs: 20, forMs: 6_500 }
}

function diesWithWhatItTook(node: string): Strike {
  return { node, what: 'die', named: 'carrier_take', step: 0, when: 'after', lateMs: 10, forMs: 0 }
}

const engine = { role: 'belfry_engine' } as const

const readOwners = statement<{ shard: number; term: number; owner_id: string | null }, [readonly number[]]>(
  'broken_read_owners',
  'SELECT shard, term::int, owner_id FROM belfry.shard_term WHERE shard = ANY ($1::smallint[])',
)

/** Who once held a shard goes on with it. */
export function neverLettingGo(elector: Elector): Elector {
  const terms = new Map<number, number>()
  let said = elector.heldShards()
  let all = said
  return {
    ...elector,
    heldShards() {
      const held = elector.heldShards()
      if (held === said) return all
      said = held
      for (const { shard, term } of held) terms.set(shard, term)
      all = [...terms].map(([shard, term]) => ({ shard, term }))
      return all
    },
  }
}

/** Whoever fires, it is done in the names of those that hold the shards now. */
function withoutTerms(firing: Firing, { db }: SimNode): Firing {
  return {
    ...firing,
    async fire(nodeId, terms, fires, assumed) {
      const shards = terms.map(({ shard }) => shard)
      const owners = Map.groupBy(await db.run(engine, readOwners, [shards]), (row) => row.owner_id ?? nodeId)
      const results: FireResult[] = []
      for (const [owner, its] of owners) {
        const held = new Set(its.map(({ shard }) => shard))
        const part = fires.filter(({ shard }) => held.has(shard))
        results.push(await firing.fire(owner, its, part, assumed))
      }
      return {
        fired: results.flatMap(({ fired }) => fired),
        displaced: results.flatMap(({ displaced }) => displaced),
        toldDependents: results.some(({ toldDependents }) => toldDependents),
        movedScheduleIds: results.flatMap(({ movedScheduleIds }) => movedScheduleIds),
        endedScheduleIds: results.flatMap(({ endedScheduleIds }) => endedScheduleIds),
        changedScheduleIds: results.flatMap(({ changedScheduleIds }) => changedScheduleIds),
        heldShards: shards,
        nowMs: results.at(-1)?.nowMs ?? assumed.nowMs,
      }
    },
  }
}

/** Out of sight of every scheduler. */
const removeTimers = statement<{ schedule_id: string; due_at: string }, [readonly string[]]>(
  'broken_remove_timers',
  `UPDATE belfry.timer SET due_at = 'infinity' FROM belfry.timer AS old
   WHERE timer.schedule_id = ANY ($1::uuid[]) AND old.schedule_id = timer.schedule_id
     AND timer.due_at <= belfry.now()
   RETURNING timer.schedule_id, old.due_at::text`,
)
const putTimers = statement<unknown, [readonly string[], readonly string[]]>(
  'broken_put_timers',
  `UPDATE belfry.timer SET due_at = was.due_at
   FROM unnest($1::uuid[], $2::timestamptz[]) AS was (schedule_id, due_at)
   WHERE timer.schedule_id = was.schedule_id`,
)

/** Taken out first, then enqueued: who dies in between loses the timer. */
function inTwoSteps(firing: Firing, { db }: SimNode): Firing {
  return {
    ...firing,
    async fire(nodeId, terms, fires, assumed) {
      const taken = await db.run(engine, removeTimers, [fires.map(({ scheduleId }) => scheduleId)])
      await db.run(engine, putTimers, [taken.map((row) => row.schedule_id), taken.map((row) => row.due_at)])
      return firing.fire(nodeId, terms, fires, assumed)
    },
  }
}

interface PeekedRow {
  readonly run_id: string
  readonly tenant_id: string
  readonly job_id: string
  readonly queue: string
  readonly tag: number
  readonly attempt: number
  readonly crash_count: number
  readonly failure_count: number
  readonly lease_epoch: number
  readonly timeout_ms: number
  readonly available_ms: number
  readonly now_ms: number
}

const peek = statement<PeekedRow, [limit: number]>(
  'broken_peek',
  `SELECT run_id, tenant_id, job_id, queue, tag, attempt, crash_count, failure_count, lease_epoch::int,
     timeout_ms, (extract(epoch FROM available_at) * 1000)::float8 AS available_ms,
     (extract(epoch FROM belfry.now()) * 1000)::float8 AS now_ms
   FROM belfry.ready WHERE session_id IS NULL AND gate IS NULL AND available_at <= belfry.now()
   ORDER BY tag LIMIT $1`,
)

/** What a message tells of is begun at once, and claimed a moment later. */
function beforeTheClaim(queue: RunQueue, { db }: SimNode): RunQueue {
  return {
    ...queue,
    async claim(asked) {
      const limit = asked.shares.reduce((sum, share) => sum + share.limit, 0)
      const rows = await db.run(engine, peek, [limit])
      if (rows.length > 0) queue.claim(asked).catch(() => undefined)
      return {
        runs: rows.map((row) => toRun(row, asked.number ?? 0)),
        alive: true,
        nowMs: rows[0]?.now_ms ?? (await queue.claim({ ...asked, shares: [] })).nowMs,
      }
    },
  }
}

function toRun(row: PeekedRow, claim: number): ClaimedRun {
  return {
    runId: row.run_id,
    tenantId: row.tenant_id,
    jobId: row.job_id,
    jobVersion: 1,
    queue: row.queue,
    tag: row.tag,
    priority: 0,
    attempt: row.attempt + 1,
    crashCount: row.crash_count,
    failures: row.failure_count,
    leaseEpoch: row.lease_epoch + 1,
    claim,
    timeoutMs: row.timeout_ms,
    overdue: null,
    runDeadlineMs: null,
    scheduledForMs: null,
    dueAtMs: row.available_ms,
    availableAtMs: row.available_ms,
    backfillOf: null,
    input: null,
  }
}

const readLeases = statement<
  { run_id: string; lease_epoch: number; session_id: string },
  [readonly string[]]
>(
  'broken_read_leases',
  `SELECT run_id, lease_epoch::int, session_id FROM belfry.ready
   WHERE run_id = ANY ($1::uuid[]) AND session_id IS NOT NULL`,
)

/** Ends are written whatever lease they come under. */
function withoutFence(store: RunStore, { db }: SimNode): RunStore {
  return {
    ...store,
    async complete(sessionId, ends) {
      const leases = await db.run(engine, readLeases, [ends.map(({ runId }) => runId)])
      const [foreign] = leases.filter((row) => row.session_id !== sessionId)
      if (foreign === undefined) return store.complete(sessionId, ends)
      const stale = ends.filter(({ runId }) => runId === foreign.run_id)
      const done = await store.complete(
        foreign.session_id,
        stale.map((end) => ({ ...end, leaseEpoch: foreign.lease_epoch })),
      )
      const rest = ends.filter((end) => !stale.includes(end))
      if (rest.length === 0) return done
      const others = await store.complete(sessionId, rest)
      return { ...others, applied: [...done.applied, ...others.applied] }
    },
  }
}

/** What was lost is taken for what may be tried again, always. */
function triedAgain(store: RunStore): RunStore {
  return {
    ...store,
    async stuckRuns(after, limit) {
      const page = await store.stuckRuns(after, limit)
      return { ...page, runs: page.runs.map((run) => ({ ...run, delivery: 'at_least_once' as const })) }
    },
  }
}

/** What is taken is settled at once, whatever becomes of it. */
function settlingFirst(inbox: AnnouncementInbox): AnnouncementInbox {
  return {
    ...inbox,
    get up() {
      return inbox.up
    },
    async take(mostRuns, waitMs, signal) {
      const taken = await inbox.take(mostRuns, waitMs, signal)
      if (taken.length > 0) await inbox.settle(taken)
      return taken
    },
  }
}

/** It only tells whether the session is alive. */
function withoutDirectClaims(queue: RunQueue): RunQueue {
  return { ...queue, claim: (asked) => queue.claim({ ...asked, shares: [] }) }
}

// Shards with real processes, by Postgres and by Redis: spread evenly, moved when a scheduler joins or
// leaves, taken over in time when one is killed or stopped; and a rolling restart that nobody notices.
import { shardCount } from '../../packages/server/src/domain/shard.ts'
import type { Cluster } from '@belfry/contract'
import type { Client } from '@belfry/sdk'
import { describe, expect, it, vi } from 'vitest'
import { describeNeeding } from '../support/needs.ts'
import { startRedisServer } from '../support/redis-server.ts'
import { type Arena, arenaHarness } from './support/arena.ts'

const harness = arenaHarness()
const patience = { timeout: 40_000, interval: 50 }
/** Between two looks. */
const lookMs = 300
const scheduleCount = 24

async function openCluster(env: Record<string, string>): Promise<{ arena: Arena; client: Client }> {
  const arena = await harness.open({ env: { BELFRY_ROLES: 'scheduler', ...env } })
  await arena.start('api', { BELFRY_ROLES: 'api,worker' })
  await arena.rows(`UPDATE belfry.api_key SET scopes = '{admin,platform}'`)
  return { arena, client: arena.client() }
}

/** Shards by node, of nodes that lead any. */
function spreadOf({ shards }: Cluster): number[] {
  const led = shards.items.flatMap(({ nodeId }) => (nodeId === null ? [] : [nodeId]))
  const counts = new Map<string, number>()
  for (const nodeId of led) counts.set(nodeId, (counts.get(nodeId) ?? 0) + 1)
  return [...counts.values()].toSorted((a, b) => b - a)
}

const spread = (client: Client, expected: readonly number[]) =>
  vi.waitFor(async () => expect(spreadOf(await client.cluster())).toEqual(expected), patience)

/** Schedules that fire each second, in many shards. */
async function fireEachSecond(arena: Arena, client: Client): Promise<void> {
  await client.jobs.create({ name: 'tick', handler: { kind: 'http', url: `${arena.ledger.url}/work` } })
  for (let n = 0; n < scheduleCount; n += 1)
    await client.schedules.create({
      name: `tick-${n}`,
      job: 'tick',
      every: '1s',
      overlap: 'allow',
      catchUp: { policy: 'all' },
    })
}

/** The largest lateness of a fire, and planned times that have no occurrence, by the tables. */
async function record(arena: Arena): Promise<{ readonly lateMs: number; readonly gaps: number }> {
  const [row] = await arena.rows<{ late_ms: number; gaps: number; schedules: number }>(
    `SELECT max(late_ms)::float8 AS late_ms, sum(planned - fired)::int AS gaps, count(*)::int AS schedules
     FROM (
       SELECT max(extract(epoch FROM fired_at - due_at)) * 1000 AS late_ms, sum(missed_count) AS fired,
              extract(epoch FROM max(scheduled_for) - min(scheduled_for)) + 1 AS planned
       FROM belfry.occurrence GROUP BY schedule_id) AS each`,
  )
  expect(row?.schedules).toBe(scheduleCount)
  return { lateMs: row?.late_ms ?? Infinity, gaps: row?.gaps ?? Infinity }
}

/** How late fires are while nothing happens: what this machine adds at present to everything below. */
async function usualLateness(arena: Arena): Promise<number> {
  await vi.waitFor(async () => {
    const [row] = await arena.rows<{ n: number }>(
      `SELECT count(*)::int AS n FROM (
         SELECT FROM belfry.occurrence GROUP BY schedule_id HAVING count(*) >= 3) AS each`,
    )
    expect(row?.n).toBe(scheduleCount)
  }, patience)
  return (await record(arena)).lateMs
}

/** How long it takes until all shards are led by others than the process that is no more. */
async function takenOver(client: Client, heirs: number): Promise<number> {
  const sinceMs = performance.now()
  await vi.waitFor(
    async () => {
      const counts = spreadOf(await client.cluster())
      expect(counts).toHaveLength(heirs)
      expect(counts.reduce((sum, each) => sum + each, 0)).toBe(shardCount)
    },
    { timeout: 60_000, interval: 20 },
  )
  return performance.now() - sinceMs
}

function describeTakeover(env: () => Promise<Record<string, string>>): void {
  it('joins, leaves and crashes move shards within 2 s where that is configured', {
    timeout: 480_000,
  }, async () => {
    const { arena, client } = await openCluster({ ...(await env()), BELFRY_TERM_MS: '1500' })
    await Promise.all(['a', 'b', 'c'].map((name) => arena.start(name)))
    await spread(client, [22, 21, 21])
    await fireEachSecond(arena, client)
    const slackMs = lookMs + (await usualLateness(arena))

    arena.nodes.get('a')?.signal('SIGKILL')
    const tookMs = await takenOver(client, 2)
    expect(tookMs).toBeLessThanOrEqual(2_000 + slackMs)
    await spread(client, [32, 32])

    arena.nodes.get('b')?.signal('SIGSTOP')
    expect(await takenOver(client, 1)).toBeLessThanOrEqual(2_000 + slackMs)
    arena.nodes.get('b')?.signal('SIGCONT')
    await spread(client, [32, 32])

    await arena.start('a')
    await spread(client, [22, 21, 21])
    arena.nodes.get('b')?.signal('SIGTERM')
    await arena.nodes.get('b')?.ended
    await spread(client, [32, 32])
    const { nodes, problems } = await client.cluster()
    expect(nodes.filter(({ state }) => state === 'silent').length).toBeLessThanOrEqual(1)
    expect(problems.filter(({ level }) => level === 'fail')).toEqual([])

    const { lateMs, gaps } = await record(arena)
    expect(gaps).toBe(0)
    // processes that start take the processors of a small machine for a second
    expect(lateMs).toBeLessThanOrEqual(3_000 + slackMs)
    process.stdout.write(
      `took over in ${Math.round(tookMs)} ms with a term of 1.5 s; latest fire ${Math.round(lateMs)} ms\n`,
    )
  })

  it('a crash is made up for within 15 s by default', { timeout: 480_000 }, async () => {
    const { arena, client } = await openCluster({ ...(await env()), BELFRY_TERM_MS: '15000' })
    await Promise.all(['a', 'b'].map((name) => arena.start(name)))
    await spread(client, [32, 32])
    await fireEachSecond(arena, client)
    const slackMs = lookMs + (await usualLateness(arena))
    arena.nodes.get('a')?.signal('SIGKILL')
    const tookMs = await takenOver(client, 1)
    expect(tookMs).toBeLessThanOrEqual(15_000 + slackMs)
    await vi.waitFor(async () => expect((await client.cluster()).lag.timersMs).toBeLessThan(1_000), patience)
    const { lateMs, gaps } = await record(arena)
    expect(gaps).toBe(0)
    expect(lateMs).toBeLessThanOrEqual(15_000 + slackMs)
    process.stdout.write(
      `took over in ${Math.round(tookMs)} ms with the default; latest fire ${Math.round(lateMs)} ms\n`,
    )
  })
}

describe('leadership by Postgres', () => describeTakeover(async () => ({})))

describeNeeding('redis', 'leadership by Redis', (program) =>
  describeTakeover(async () => {
    const redis = await startRedisServer(program)
    harness.defer(() => redis.kill())
    return { REDIS_URL: redis.url }
  }),
)

it('a rolling restart of everything loses nothing and adds no more than 1 s of lateness', {
  timeout: 300_000,
}, async () => {
  const env = {
    BELFRY_ROLES: 'api,scheduler,worker,resolver',
    BELFRY_TERM_MS: '15000',
    BELFRY_LEASE_MS: '30000',
  }
  const arena = await harness.open({ env: { ...env, BELFRY_HEARTBEAT_MS: '10000' } })
  await arena.start('a')
  await arena.start('b')
  await fireEachSecond(arena, arena.client())
  const usual = { fireMs: await usualLateness(arena), startMs: (await starts(arena)).lateMs }
  for (const name of ['a', 'b']) {
    const old = arena.nodes.get(name)
    // the new one first, as a rolling update does
    await arena.start(name)
    old?.signal('SIGTERM')
    expect(await old?.ended, old?.log.slice(-3).join('\n')).toBe(0)
  }
  const { lateMs, gaps } = await record(arena)
  const after = await starts(arena)
  expect(gaps).toBe(0)
  expect(after.notSucceeded).toBe(0)
  expect(lateMs).toBeLessThanOrEqual(1_000 + usual.fireMs)
  expect(after.lateMs).toBeLessThanOrEqual(1_000 + usual.startMs)
  process.stdout.write(
    `latest fire ${Math.round(lateMs)} ms (before: ${Math.round(usual.fireMs)}), latest start ` +
      `${Math.round(after.lateMs)} ms (before: ${Math.round(usual.startMs)})\n`,
  )
})

/** The largest lateness of an attempt, and attempts that did not succeed. */
async function starts(arena: Arena): Promise<{ readonly lateMs: number; readonly notSucceeded: number }> {
  const [row] = await arena.rows<{ late_ms: number; n: number }>(
    `SELECT max(extract(epoch FROM a.started_at - r.due_at))::float8 * 1000 AS late_ms,
            count(*) FILTER (WHERE a.outcome <> 'succeeded')::int AS n
     FROM belfry.attempt AS a JOIN belfry.run AS r ON r.id = a.run_id`,
  )
  return { lateMs: row?.late_ms ?? Infinity, notSucceeded: row?.n ?? Infinity }
}

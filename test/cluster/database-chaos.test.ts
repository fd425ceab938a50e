// A database under fire while schedules fire and functions run, remote and embedded: its connections cut at
// random and the server restarted; no connection left for Belfry, or none of its own free; connections that
// go silent without a word. Nothing is lost, nothing runs twice without a reason on record, and everybody
// goes on by himself when it is over. The seed is printed; SEED=… replays.
import pg from 'pg'
import { describe, expect, test } from 'vitest'
import { drawer, seedOf } from '../support/random-draws.ts'
import { eventually } from '../support/running.ts'
import type { Arena } from './support/arena.ts'
import { arenaHarness } from './support/arena.ts'
import type { ExpectedSchedule } from './support/checker.ts'
import { findFaults } from './support/checker.ts'
import { taskJob } from './support/function-worker.ts'
import { nextSecond, planEachSecond, untilQuiet } from './support/quiet.ts'
import { startSilentProxy } from './support/silent-proxy.ts'
import { enqueueMany, openWorkerRig } from './support/worker-rig.ts'
import type { WorkerRig } from './support/worker-rig.ts'

const harness = arenaHarness()
const settleMs = 90_000

async function planLoad(arena: Arena, seconds: number, count = 10): Promise<ExpectedSchedule[]> {
  const handler = { kind: 'http', url: `${arena.ledger.url}/work` } as const
  const retry = { maxAttempts: 20, baseMs: 200, capMs: 1_000 }
  await arena.client().jobs.create({ name: 'each', handler, retry, attemptTimeoutMs: 20_000 })
  return planEachSecond(arena.client(), { job: 'each', count, firstMs: nextSecond(1_000), seconds })
}

/** Schedules by the checker; of functions, each run has one end, and it succeeded. */
async function expectNothingLost(
  arena: Arena,
  expected: readonly ExpectedSchedule[],
  runIds: readonly string[] = [],
): Promise<void> {
  const sql = await untilQuiet(arena, Date.now() + settleMs)
  harness.defer(() => sql.end())
  const { calls } = arena.ledger
  const faults = await findFaults({ sql, expected, calls, atMostOnceScheduleIds: new Set() })
  const words = [...arena.nodes.values()].flatMap((node) => node.log.slice(-5)).join('\n')
  expect(faults.slice(0, 20), words).toEqual([])
  const ends = await sql.query<{ run_id: string; states: string }>(
    `SELECT run_id, string_agg(run_state, ',') AS states FROM belfry.attempt
     WHERE run_id = ANY($1) AND run_state IS NOT NULL GROUP BY 1`,
    [runIds],
  )
  expect(ends.rows.filter(({ states }) => states !== 'succeeded')).toEqual([])
  expect(ends.rows, 'an end for each run').toHaveLength(runIds.length)
}

async function moreCalls(arena: Arena, count: number): Promise<void> {
  const wanted = arena.ledger.calls.length + count
  await eventually(() => arena.ledger.calls.length >= wanted, `${count} more calls`, 60_000)
}

async function workersOf(rig: WorkerRig): Promise<void> {
  await rig.start({ task: 'after:50', slots: 5 })
  await rig.start({ task: 'after:50', slots: 5, databaseUrl: rig.arena.databaseUrl })
}

describe('a database under fire', () => {
  test('connections cut at random, the server restarted twice: nothing is lost', async () => {
    const seed = seedOf('cut connections')
    const draw = drawer(seed)
    const rig = await openWorkerRig(harness)
    const { arena, client } = rig
    await arena.start('b')
    await workersOf(rig)
    const expected = await planLoad(arena, 20)
    const asked = [enqueueMany(client, taskJob(), 200)]
    const restartAt = [60, 120]
    let cut = 0
    // a call or more come through between two cuts
    while (arena.ledger.calls.length < 180) {
      await moreCalls(arena, 1)
      if (arena.ledger.calls.length >= (restartAt[0] ?? Infinity)) {
        restartAt.shift()
        await arena.stopPostgres()
        await arena.startPostgres()
        asked.push(enqueueMany(client, taskJob(), 50))
      }
      // some of them, and now and then all
      const most = draw(8) === 0 ? 1_000 : 1 + draw(4)
      const some = await arena.rows(
        `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
         WHERE usename = 'belfry' ORDER BY md5(pid::text || $1) LIMIT $2`,
        [String(draw(1_000_000)), most],
      )
      cut += some.length
    }
    process.stdout.write(`cut at random: ${cut} connections\n`)
    expect([cut > 20, restartAt], `SEED=${seed}: ${cut} connections`).toEqual([true, []])
    const runIds = (await Promise.all(asked)).flat()
    await expectNothingLost(arena, expected, runIds)
  })

  test('no connection left for anybody: nothing is lost, and it goes on when there is one', async () => {
    const rig = await openWorkerRig(harness)
    const { arena, client } = rig
    await workersOf(rig)
    const expected = await planLoad(arena, 15)
    const asked = enqueueMany(client, taskJob(), 100)
    await moreCalls(arena, 20)
    const admin = await arena.connect()
    harness.defer(() => admin.end())
    // what others leave free is taken, and then what Belfry had
    const takers: pg.Client[] = []
    const take = async (): Promise<boolean> => {
      const taker = new pg.Client(arena.databaseUrl)
      taker.on('error', () => undefined)
      const taken = await taker.connect().then(
        () => true,
        () => false,
      )
      if (taken) takers.push(taker)
      return taken
    }
    const cutOthers = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
      WHERE application_name LIKE 'belfry%'`
    const held = `SELECT FROM pg_stat_activity WHERE application_name LIKE 'belfry%'`
    await eventually(
      async () => {
        while (await take());
        await admin.query(cutOthers)
        while (await take());
        return (await admin.query(held)).rowCount === 0
      },
      'every connection taken',
      30_000,
    )
    const [node] = arena.nodes.values()
    const lost = () => node?.log.some((text) => text.includes('"session_lost"'))
    await eventually(lost, 'the session lost', 30_000)
    expect((await fetch(`${node?.opsUrl}/livez`)).status).toBe(200)
    await Promise.all(takers.map((taker) => taker.end()))
    const backMs = performance.now()
    await moreCalls(arena, 5)
    process.stdout.write(
      `no connections: runs again ${Math.round(performance.now() - backMs)} ms after there were\n`,
    )
    await expectNothingLost(arena, expected, await asked)
  })

  test('its own connections all wait for a lock: runs start and leases hold', async () => {
    const arena = await harness.open()
    const node = await arena.start('a')
    const expected = await planLoad(arena, 14)
    await moreCalls(arena, 10)
    const locker = await arena.connect()
    harness.defer(() => locker.end())
    await locker.query('BEGIN; LOCK TABLE belfry.calendar IN ACCESS EXCLUSIVE MODE')
    const requests = Array.from({ length: 40 }, () => arena.call(node, 'GET', '/v1/calendars'))
    const waiting = `SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND usename = 'belfry'`
    await eventually(async () => (await arena.rows(waiting)).length >= 5, 'requests that wait', 30_000)
    // nine more seconds of schedules come through meanwhile
    await moreCalls(arena, 80)
    await locker.query('ROLLBACK')
    const statuses = new Set((await Promise.all(requests)).map(({ status }) => status))
    expect([200, 503].filter((status) => statuses.has(status))).toHaveLength(statuses.size)
    await expectNothingLost(arena, expected)
    expect(node.log.filter((text) => text.includes('"session_lost"'))).toEqual([])
  })
})

describe('connections that go silent', () => {
  test.each(['open', 'all'] as const)('%s: are given up, and nothing is lost', async (which) => {
    const rig = await openWorkerRig(harness)
    const { arena, client } = rig
    const { port } = new URL(arena.databaseUrl)
    const proxy = await startSilentProxy({ host: '127.0.0.1', port: Number(port) })
    harness.defer(proxy.close)
    const databaseUrl = arena.databaseUrl.replace(`:${port}/`, `:${proxy.port}/`)
    // who asks and fires is behind the proxy, and so is the embedded worker
    arena.nodes.get('a')?.signal('SIGTERM')
    await arena.nodes.get('a')?.ended
    const node = await arena.start('a', { DATABASE_URL: databaseUrl })
    await rig.start({ task: 'after:50', slots: 5, databaseUrl })
    const expected = await planLoad(arena, 12)
    const asked = enqueueMany(arena.client(), taskJob(), 50)
    await moreCalls(arena, 20)
    expect(proxy.live()).toBeGreaterThan(5)
    proxy.silence(which)
    const silentMs = performance.now()
    if (which === 'all') {
      const lost = () => node.log.some((text) => text.includes('"session_lost"'))
      await eventually(lost, 'the session lost', 30_000)
      proxy.speak()
    }
    const spokenMs = performance.now()
    await moreCalls(arena, 10)
    const words = which === 'all' ? 'all spoke again' : 'they went silent'
    const sinceMs = which === 'all' ? spokenMs : silentMs
    process.stdout.write(
      `silent connections: runs again ${Math.round(performance.now() - sinceMs)} ms after ${words}\n`,
    )
    expect(client.url).not.toBe(node.apiUrl)
    await expectNothingLost(arena, expected, await asked)
  })
})

/**
 * How a Belfry process ends. One SIGTERM: not ready, no new requests, no new claims; what runs may end, what
 * is left is somebody else's, and nothing of it counts as lost. What runs longer than the drain is cut off:
 * at least once it runs again elsewhere, at most once its outcome is unknown. A second signal ends the
 * process at once.
 */
import type { Client } from '@belfry/sdk'
import { describe, expect, it } from 'vitest'
import { eventually } from '../support/running.ts'
import { arenaHarness } from './support/arena.ts'
import type { Arena } from './support/arena.ts'
import { findFaults } from './support/checker.ts'
import { freeze } from './support/freeze.ts'
import { taskJob } from './support/function-worker.ts'
import type { NodeProcess } from './support/node-process.ts'
import { nextSecond, planEachSecond, untilQuiet } from './support/quiet.ts'
import { openWorkerRig } from './support/worker-rig.ts'

const harness = arenaHarness()

/** The smallest time to wait for what should be at once, on a machine that does other things too. */
const soon = { timeout: 10_000, interval: 20 }

async function makeJob(client: Client, name: string, url: string, more: object = {}): Promise<void> {
  await client.jobs.create({ name, handler: { kind: 'http', url }, attemptTimeoutMs: 120_000, ...more })
}

async function enqueue(client: Client, job: string, count: number): Promise<string[]> {
  const runs = await Promise.all(Array.from({ length: count }, () => client.runs.create({ job })))
  return runs.map((run) => run.id)
}

async function statusOf(url: string): Promise<number> {
  const response = await fetch(url, { signal: AbortSignal.timeout(5_000) })
  await response.arrayBuffer()
  return response.status
}

async function outcomes(arena: Arena): Promise<Record<string, number>> {
  const rows = await arena.rows<{ outcome: string; n: number }>(
    'SELECT outcome, count(*)::int AS n FROM belfry.attempt GROUP BY outcome',
  )
  return Object.fromEntries(rows.map(({ outcome, n }) => [outcome, n]))
}

async function ended(node: NodeProcess, withinMs: number): Promise<number | string> {
  const late = new Promise<string>((resolve) => {
    const timer = setTimeout(() => resolve('still running'), withinMs)
    void node.ended.then(() => clearTimeout(timer))
  })
  return Promise.race([node.ended, late])
}

describe('SIGTERM', () => {
  it('lets what runs end, takes nothing new, and leaves the rest to the next process', async () => {
    const arena = await harness.open({ env: { BELFRY_DRAIN_MS: '60000', BELFRY_WORKER_SLOTS: '5' } })
    const node = await arena.start('a')
    await makeJob(arena.client(), 'held', `${arena.ledger.url}/held`)
    const runIds = await enqueue(arena.client(), 'held', 10)
    await expect.poll(arena.ledger.holding, soon).toBe(5)

    node.signal('SIGTERM')
    const sentMs = performance.now()
    await expect.poll(() => statusOf(`${node.opsUrl}/readyz`), soon).toBe(503)
    const notReadyMs = Math.round(performance.now() - sentMs)
    expect(await statusOf(`${node.opsUrl}/livez`)).toBe(200)
    for (const [method, path, body] of [
      ['GET', '/v1/jobs', undefined],
      ['POST', '/v1/runs', { job: 'held' }],
    ] as const) {
      const answer = await arena.call(node, method, path, body)
      expect([answer.status, answer.body['code']]).toEqual([503, 'shutting_down'])
    }
    arena.ledger.release()
    expect(await ended(node, 20_000), node.log.slice(-5).join('\n')).toBe(0)
    process.stdout.write(`shutdown: not ready ${notReadyMs} ms after SIGTERM\n`)

    expect(arena.ledger.calls, 'nothing is claimed after the signal').toHaveLength(5)
    expect(await outcomes(arena)).toEqual({ succeeded: 5 })
    const left = await arena.rows('SELECT run_id FROM belfry.ready WHERE session_id IS NULL')
    expect(left, 'the rest waits for anybody').toHaveLength(5)
    expect(await arena.rows('SELECT id FROM belfry.session')).toEqual([])
    expect(await arena.rows('SELECT shard FROM belfry.shard_term WHERE owner_id IS NOT NULL')).toEqual([])

    await arena.start('b')
    const sql = await untilQuiet(arena, Date.now() + 20_000)
    harness.defer(() => sql.end())
    expect(await outcomes(arena), 'nothing was lost, so nothing ran twice').toEqual({ succeeded: 10 })
    expect(arena.ledger.calls.map((call) => call.runId).sort()).toEqual([...runIds].sort())
  })

  it('cuts off what outlasts the drain: again elsewhere at once, or outcome unknown', async () => {
    const arena = await harness.open({ env: { BELFRY_DRAIN_MS: '1000', BELFRY_LEASE_MS: '30000' } })
    const node = await arena.start('a')
    const url = `${arena.ledger.url}/held`
    await makeJob(arena.client(), 'least', url)
    await makeJob(arena.client(), 'most', url, { delivery: 'at_most_once' })
    const [least = ''] = await enqueue(arena.client(), 'least', 1)
    const [most = ''] = await enqueue(arena.client(), 'most', 1)
    await expect.poll(arena.ledger.holding, soon).toBe(2)
    await arena.start('b')

    node.signal('SIGTERM')
    await expect.poll(() => arena.ledger.calls.length, { ...soon, timeout: 20_000 }).toBe(3)
    arena.ledger.release()
    expect(await ended(node, 20_000), node.log.slice(-5).join('\n')).toBe(0)

    const client = arena.client('b')
    await expect.poll(async () => (await client.runs.get(least)).state, soon).toBe('succeeded')
    const again = await client.runs.get(least)
    expect(again.attemptList.map((attempt) => attempt.outcome)).toEqual(['released', 'succeeded'])
    const [first, second] = again.attemptList
    const gapMs = Date.parse(second?.startedAt ?? '') - Date.parse(first?.endedAt ?? '')
    process.stdout.write(`shutdown: released and started elsewhere ${gapMs} ms later\n`)
    expect(gapMs, 'no lease has to run out first').toBeLessThan(5_000)

    const once = await client.runs.get(most)
    expect([once.state, once.reason, once.attemptList.length]).toEqual(['failed', 'outcome_unknown', 1])
    expect(arena.ledger.calls.map((call) => [call.runId, call.idempotencyKey])).toEqual(
      expect.arrayContaining([
        [least, least],
        [most, most],
      ]),
    )
    expect(arena.ledger.calls.filter((call) => call.runId === most)).toHaveLength(1)
  })
})

describe('SIGTERM while the database does not answer', () => {
  it.each(['down', 'frozen'] as const)('%s: ends by itself all the same', async (how) => {
    const arena = await harness.open({ env: { BELFRY_DRAIN_MS: '1000' } })
    const node = await arena.start('a')
    await makeJob(arena.client(), 'held', `${arena.ledger.url}/held`)
    const [runId = ''] = await enqueue(arena.client(), 'held', 1)
    await expect.poll(arena.ledger.holding, soon).toBe(1)
    let back = (): Promise<void> | void => arena.startPostgres()
    if (how === 'down') await arena.stopPostgres()
    else {
      const frozen = await freeze(arena, false)
      harness.defer(frozen.thaw)
      back = frozen.thaw
    }

    node.signal('SIGTERM')
    const sentMs = performance.now()
    expect(await ended(node, 60_000), node.log.slice(-5).join('\n')).toBe(0)
    process.stdout.write(
      `shutdown: database ${how}, ended after ${Math.round(performance.now() - sentMs)} ms\n`,
    )

    await back()
    arena.ledger.release()
    await arena.start('b')
    const run = await arena.client('b').waitForRun(runId, { timeoutMs: 30_000 })
    expect(run.attemptList.map((attempt) => attempt.outcome)).toEqual(['lost', 'succeeded'])
  })
})

describe('a second signal', () => {
  it.each([
    ['SIGTERM', 'SIGTERM'],
    ['SIGTERM', 'SIGINT'],
    ['SIGINT', 'SIGINT'],
  ] as const)('%s, then %s: ends at once, and what ran is run again', async (first, second) => {
    const arena = await harness.open({ env: { BELFRY_DRAIN_MS: '60000' } })
    const node = await arena.start('a')
    await makeJob(arena.client(), 'held', `${arena.ledger.url}/held`)
    const [runId = ''] = await enqueue(arena.client(), 'held', 1)
    await expect.poll(arena.ledger.holding, soon).toBe(1)
    await arena.start('b')

    node.signal(first)
    await expect.poll(() => statusOf(`${node.opsUrl}/readyz`), soon).toBe(503)
    const sentMs = performance.now()
    node.signal(second)
    expect(await ended(node, 5_000)).toBe(130)
    process.stdout.write(
      `shutdown: ended ${Math.round(performance.now() - sentMs)} ms after the second signal\n`,
    )

    arena.ledger.release()
    const client = arena.client('b')
    await expect
      .poll(async () => (await client.runs.get(runId)).state, { ...soon, timeout: 30_000 })
      .toBe('succeeded')
    const run = await client.runs.get(runId)
    expect(run.attemptList.map((attempt) => attempt.outcome)).toEqual(['lost', 'succeeded'])
  })
})

describe('SIGTERM to every process, in the middle of everything', () => {
  it('ends each in good order with nothing lost, and what is left is done by the next ones', async () => {
    const rig = await openWorkerRig(harness, { env: { BELFRY_DRAIN_MS: '3000' }, queues: ['embedded'] })
    const { arena, client } = rig
    const nodes = [...arena.nodes.values(), await arena.start('b')]
    const remote = { task: 'after:300', slots: 5 } as const
    const embedded = { ...remote, queue: 'embedded', databaseUrl: arena.databaseUrl } as const
    const workers = [await rig.start(remote), await rig.start(embedded)]
    await client.jobs.create({
      name: 'each',
      handler: { kind: 'http', url: `${arena.ledger.url}/work` },
      retry: { maxAttempts: 20, baseMs: 200, capMs: 1_000 },
    })
    const plan = { job: 'each', count: 10, firstMs: nextSecond(1_000), seconds: 10 }
    const expected = await planEachSecond(client, plan)
    // requests that come before, during and after the signal; some of them are refused
    const asked = [taskJob(), taskJob({ queue: 'embedded' })].flatMap((job) =>
      Array.from({ length: 60 }, (_, index) => client.enqueue(job, { index }, { runAt: later(index * 100) })),
    )
    const answers = Promise.allSettled(asked)
    await eventually(() => arena.ledger.calls.length >= 40, 'runs under way', 30_000)

    for (const each of [...nodes, ...workers]) each.signal('SIGTERM')
    for (const node of nodes) expect(await ended(node, 20_000), node.log.slice(-5).join('\n')).toBe(0)
    for (const worker of workers) expect(await worker.ended, worker.errors()).toBe(0)
    // a remote worker whose servers are all gone can give nothing back: what it held waits for its lease
    const [left] = await arena.rows<{ held: number; sessions: number; shards: number; lost: number }>(
      `WITH gone AS (SELECT id FROM belfry.session WHERE tenant_id IS NULL OR queues <> '{default}')
       SELECT (SELECT count(*) FROM belfry.ready WHERE session_id IN (SELECT id FROM gone))::int AS held,
              (SELECT count(*) FROM gone)::int AS sessions,
              (SELECT count(*) FROM belfry.shard_term WHERE owner_id IS NOT NULL)::int AS shards,
              (SELECT count(*) FROM belfry.attempt WHERE outcome = 'lost')::int AS lost`,
    )
    expect(left).toEqual({ held: 0, sessions: 0, shards: 0, lost: 0 })

    await arena.start('a')
    const { url } = arena.client('a')
    await rig.start({ ...remote, url })
    await rig.start(embedded)
    const sql = await untilQuiet(arena, Date.now() + 60_000)
    harness.defer(() => sql.end())
    const { calls } = arena.ledger
    const faults = await findFaults({ sql, expected, calls, atMostOnceScheduleIds: new Set() })
    expect(faults.slice(0, 20)).toEqual([])
    const taken = (await answers).flatMap((each) => (each.status === 'fulfilled' ? [each.value.id] : []))
    expect(taken.length).toBeGreaterThan(0)
    const done = await sql.query(
      `SELECT FROM belfry.attempt WHERE run_id = ANY($1) AND run_state = 'succeeded'`,
      [taken],
    )
    expect(done.rows, 'each that was taken has run once').toHaveLength(taken.length)
    const others = await sql.query<{ outcome: string; queue: string }>(
      `SELECT outcome, run.queue FROM belfry.attempt JOIN belfry.run ON run.id = attempt.run_id
       WHERE outcome NOT IN ('succeeded', 'released')
         AND NOT (outcome = 'lost' AND source = 'manual' AND queue = 'default')`,
    )
    expect(others.rows, 'a shutdown costs no attempt').toEqual([])
  })
})

const later = (ms: number): Date => new Date(Date.now() + ms)

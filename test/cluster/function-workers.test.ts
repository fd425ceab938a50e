// Remote workers as real processes under fire: killed with many runs in their hands, stopped past their lease
// and woken, with a blocked event loop, with the server restarted under them.
import type { Client } from '@belfry/sdk'
import { describe, expect, test } from 'vitest'
import { type Arena, arenaHarness, freePort } from './support/arena.ts'
import {
  type FunctionWorker,
  type FunctionWorkerOptions,
  spawnFunctionWorker,
  taskJob,
} from './support/function-worker.ts'

const harness = arenaHarness()

async function until<T>(
  what: string,
  look: () => Promise<T | undefined | false> | T | undefined | false,
  limitMs = 30_000,
) {
  const deadline = performance.now() + limitMs
  for (;;) {
    const found = await look()
    if (found !== undefined && found !== false) return found
    if (performance.now() > deadline) throw new Error(`${what}: not within ${limitMs} ms`)
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
}

interface Rig {
  readonly arena: Arena
  readonly client: Client
  readonly start: (options?: Partial<FunctionWorkerOptions>) => Promise<FunctionWorker>
}

async function openRig(nodeEnv: Record<string, string> = {}): Promise<Rig> {
  const arena = await harness.open({ env: nodeEnv })
  const node = await arena.start('a')
  const client = arena.client()
  const { secret } = await client.keys.create({ name: 'worker', scopes: ['worker'], queues: ['default'] })
  return {
    arena,
    client,
    async start(options = {}) {
      const worker = spawnFunctionWorker({ url: node.apiUrl, token: secret ?? '', ...options })
      harness.defer(async () => {
        worker.signal('SIGCONT')
        worker.signal('SIGKILL')
        await worker.ended
      })
      await until('the worker serves', () => worker.said.some(({ event }) => event === 'serves')).catch(
        (error: unknown) => {
          throw new Error(`${String(error)}: ${worker.errors()}${JSON.stringify(worker.said)}`)
        },
      )
      return worker
    },
  }
}

/** Longer than the server needs to come back on a busy machine. */
const longLease = { BELFRY_LEASE_MS: '30000', BELFRY_HEARTBEAT_MS: '1000' }

const begun = (worker: FunctionWorker) => worker.said.filter(({ event }) => event === 'begun')
const heard = (worker: FunctionWorker, event: string) => worker.said.filter((each) => each.event === event)

describe('a worker that is killed', () => {
  test('with 200 runs in its hands loses none of them, and none counts as failed', async () => {
    const { arena, client, start } = await openRig()
    const doomed = await start({ task: 'wait', slots: 200 })
    await Promise.all(Array.from({ length: 200 }, () => client.enqueue(taskJob())))
    await until('all runs have begun', () => begun(doomed).length === 200)
    doomed.signal('SIGKILL')
    await doomed.ended
    const heir = await start({ slots: 50 })
    await until('all runs have begun again', () => begun(heir).length === 200, 20_000)
    await until('all have ended', async () => {
      const rows = await arena.rows<{ count: number }>(
        `SELECT count(*)::int AS count FROM belfry.attempt WHERE run_state = 'succeeded'`,
      )
      return rows[0]?.count === 200
    })
    const outcomes = await arena.rows<{ outcome: string; count: number }>(
      'SELECT outcome, count(*)::int AS count FROM belfry.attempt GROUP BY 1 ORDER BY 1',
    )
    expect(outcomes).toEqual([
      { outcome: 'lost', count: 200 },
      { outcome: 'succeeded', count: 200 },
    ])
  })
})

describe('a worker that is stopped past its lease, and woken', () => {
  test('hears that its lease is lost, and what it reports changes nothing', async () => {
    const { client, start } = await openRig()
    const sleeper = await start({ task: 'wait' })
    const { id } = await client.enqueue(taskJob())
    await until('it has begun', () => begun(sleeper).length === 1)
    sleeper.signal('SIGSTOP')
    await start()
    const run = await client.waitForRun(id, { timeoutMs: 30_000 })
    sleeper.signal('SIGCONT')
    await until('it has noticed', () => heard(sleeper, 'signal').length === 1)
    expect(heard(sleeper, 'signal')[0]).toMatchObject({ reason: 'lease_lost' })
    // its function returns after the signal: a success, which is refused
    await until('its end was refused', () => heard(sleeper, 'end_refused').length === 1)
    await until('it serves again', () => heard(sleeper, 'session_opened').length === 2)
    expect(run.state).toBe('succeeded')
    const after = await client.runs.get(id)
    expect(after.attemptList.map(({ outcome }) => outcome)).toEqual(['lost', 'succeeded'])
    expect(after.attemptList[1]?.result).toEqual({ attempt: 2 })
  })
})

describe('a function that blocks the event loop', () => {
  test('for longer than the lease costs its worker nothing', async () => {
    const { client, start } = await openRig()
    const worker = await start({ task: 'block:10000' })
    const { id } = await client.enqueue(taskJob())
    const run = await client.waitForRun(id, { timeoutMs: 30_000 })
    expect(run).toMatchObject({ state: 'succeeded', attempts: 1 })
    expect(heard(worker, 'session_lost')).toEqual([])
  })
})

describe('a function that blocks the event loop of the program that Belfry is embedded in', () => {
  test('for longer than the lease costs it nothing', async () => {
    const { arena, client, start } = await openRig()
    await start({ task: 'block:10000', databaseUrl: arena.databaseUrl })
    const { id } = await client.enqueue(taskJob())
    const run = await client.waitForRun(id, { timeoutMs: 40_000 })
    expect(run).toMatchObject({ state: 'succeeded', attempts: 1 })
  })
})

describe('a server that is restarted under its workers', () => {
  test('finds them again: what ran goes on, and what comes is run', async () => {
    const port = String(await freePort())
    const { arena, client, start } = await openRig({ BELFRY_PORT: port, ...longLease })
    const worker = await start({ task: 'block:1500' })
    const { id } = await client.enqueue(taskJob())
    await until('it has begun', () => begun(worker).length === 1)
    const before = arena.nodes.get('a')
    before?.signal('SIGKILL')
    await before?.ended
    await arena.start('a')
    const again = arena.client()
    const first = await again.waitForRun(id, { timeoutMs: 30_000 })
    expect(first).toMatchObject({ state: 'succeeded', attempts: 1 })
    const second = await again.enqueue(taskJob())
    expect(await again.waitForRun(second.id, { timeoutMs: 30_000 })).toMatchObject({ state: 'succeeded' })
    expect(heard(worker, 'session_opened')).toHaveLength(1)
  })
})

describe('a worker that is asked to stop', () => {
  test('ends in good order, with nothing left in its hands', async () => {
    const { arena, client, start } = await openRig()
    const worker = await start({ task: 'wait', slots: 20 })
    await Promise.all(Array.from({ length: 20 }, () => client.enqueue(taskJob())))
    await until('all have begun', () => begun(worker).length === 20)
    worker.signal('SIGTERM')
    expect(await worker.ended).toBe(0)
    const [left] = await arena.rows<{ held: number; sessions: number }>(
      `SELECT (SELECT count(*) FROM belfry.ready WHERE session_id IS NOT NULL)::int AS held,
              (SELECT count(*) FROM belfry.session WHERE tenant_id IS NOT NULL)::int AS sessions`,
    )
    expect(left).toEqual({ held: 0, sessions: 0 })
  })

  test('a second signal ends it at once', async () => {
    const { client, start } = await openRig()
    const worker = await start({ task: 'wait' })
    await client.enqueue(taskJob())
    await until('it has begun', () => begun(worker).length === 1)
    worker.signal('SIGTERM')
    await until('it drains', () => heard(worker, 'stopping').length === 1)
    worker.signal('SIGTERM')
    expect(await worker.ended).toBe(143)
    expect(heard(worker, 'signal')).toEqual([])
  })
})

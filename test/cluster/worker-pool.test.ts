// `belfry worker pool` with real processes: it grows with what waits, survives kill -9 of a worker and of
// itself, and shrinks without aborting a run.
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, it, vi } from 'vitest'
import { type Arena, arenaHarness } from './support/arena.ts'
import { taskJob } from './support/function-worker.ts'
import { isAlive, type PoolProcess, spawnPool, workersIn } from './support/pool-process.ts'

const harness = arenaHarness()
const patience = { timeout: 45_000, interval: 100 }

/** A target that holds each call until it is let go, by run. */
async function startHolder() {
  const held = new Map<string, ServerResponse>()
  const aborted: string[] = []
  const server = createServer((request, response) => {
    request.resume()
    const runId = String(request.headers['belfry-run-id'])
    held.set(runId, response)
    response.on('close', () => {
      if (!response.writableFinished) aborted.push(runId)
      if (held.get(runId) === response) held.delete(runId)
    })
  }).listen(0, '127.0.0.1')
  await new Promise((resolve) => server.once('listening', resolve))
  harness.defer(
    () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  )
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/held`,
    held,
    aborted,
    letGo: (runIds: Iterable<string>) => {
      for (const runId of runIds) held.get(runId)?.end('done')
    },
  }
}

async function keyFor(arena: Arena, name: string, scope: 'read' | 'worker'): Promise<string> {
  const { secret } = await arena.client().keys.create({ name, scopes: [scope] })
  return secret ?? ''
}

async function openRig() {
  const arena = await harness.open({ env: { BELFRY_ROLES: 'api,scheduler,resolver' } })
  const server = await arena.start('server')
  const stateDir = mkdtempSync(join(tmpdir(), 'belfry-pool-'))
  harness.defer(() => rmSync(stateDir, { recursive: true, force: true }))
  const directory = join(stateDir, 'test')
  // what a failed test leaves
  harness.defer(() => workersIn(directory).forEach(({ pid }) => process.kill(pid, 'SIGKILL')))
  const env = {
    DATABASE_URL: arena.databaseUrl,
    BELFRY_URL: server.apiUrl,
    BELFRY_API_KEY: await keyFor(arena, 'pool', 'read'),
    BELFRY_LEASE_MS: '4000',
    BELFRY_HEARTBEAT_MS: '1000',
    // would abort what is held; the pool asks for longer
    BELFRY_DRAIN_MS: '1000',
    BELFRY_EGRESS_ALLOW: '127.0.0.0/8',
    XDG_CONFIG_HOME: '/nonexistent',
  }
  const pool = (args: readonly string[], more: Record<string, string> = {}): PoolProcess => {
    const started = spawnPool(['--name', 'test', '--state-dir', stateDir, ...args], { ...env, ...more })
    harness.defer(async () => {
      started.signal('SIGKILL')
      await started.ended
    })
    return started
  }
  return { arena, directory, pool }
}

const serving = (directory: string) => workersIn(directory).filter(({ draining }) => !draining)

/** What each live session holds. */
async function heldBySession(arena: Arena): Promise<readonly (readonly string[])[]> {
  const rows = await arena.rows<{ run_ids: string[] }>(
    `SELECT array_agg(run_id::text) AS run_ids FROM belfry.ready
     WHERE session_id IS NOT NULL GROUP BY session_id`,
  )
  return rows.map((row) => row.run_ids)
}

type Rig = Awaited<ReturnType<typeof openRig>>
type Holder = Awaited<ReturnType<typeof startHolder>>

/** Kills the first worker, and waits until another has its place and its runs. */
async function killFirstWorker({ directory }: Rig, pool: PoolProcess, target: Holder): Promise<void> {
  const [victim] = serving(directory)
  process.kill(victim?.pid ?? 0, 'SIGKILL')
  await vi.waitFor(() => {
    expect(pool.told).toContainEqual({ event: 'ended', worker: 1, pid: victim?.pid, asked: false })
    expect(serving(directory).map(({ number }) => number)).toEqual([1, 2, 3])
  }, patience)
  // once its lease is over
  await vi.waitFor(() => expect(target.held.size).toBe(6), patience)
}

/** Kills the pool; the next one has its workers, and no other may have them too. */
async function replacePool({ pool }: Rig, first: PoolProcess, args: readonly string[]): Promise<PoolProcess> {
  first.signal('SIGKILL')
  expect(await first.ended).toBe('SIGKILL')
  const second = pool(args)
  await vi.waitFor(() => {
    const taken = second.told.filter(({ event }) => event === 'taken_over')
    expect(taken, second.errors()).toHaveLength(3)
  }, patience)
  const third = pool(args)
  expect(await third.ended, third.errors()).toBe(2)
  expect(third.errors()).toContain(`the process ${second.pid} runs this pool`)
  return second
}

/** Half of what each holds ends: two workers are enough, and the third, which drains, has a run yet. */
async function shrinkWhileRunning({ arena, directory }: Rig, pool: PoolProcess, target: Holder) {
  await vi.waitFor(async () => expect(await heldBySession(arena)).toHaveLength(3), patience)
  const before = serving(directory)
  target.letGo((await heldBySession(arena)).flatMap(([one = '']) => [one]))
  await vi.waitFor(() => expect(pool.told.map(({ event }) => event)).toContain('draining'), patience)
  const drained = workersIn(directory).find(({ draining }) => draining)
  // longer than the drain that the environment asks for
  const untilMs = performance.now() + 3_000
  await vi.waitFor(() => expect(performance.now()).toBeGreaterThan(untilMs), patience)
  expect(isAlive(drained?.pid ?? 0)).toBe(true)
  expect(target.held.size).toBe(3)
  expect(serving(directory).map(({ pid }) => pid)).toEqual(before.slice(0, 2).map(({ pid }) => pid))
  return drained
}

it('grows, survives kill -9 of a worker and of itself, shrinks, and aborts nothing', {
  timeout: 480_000,
}, async () => {
  const rig = await openRig()
  const { arena, directory } = rig
  const target = await startHolder()
  const client = arena.client()
  const handler = { kind: 'http', url: target.url } as const
  await client.jobs.create({ name: 'long', handler, attemptTimeoutMs: 600_000, retry: { maxAttempts: 5 } })
  const args = ['--min', '1', '--max', '3', '--slots', '2', '--scale-in-after', '5s']
  const first = rig.pool(args)
  await vi.waitFor(() => expect(serving(directory), first.errors()).toHaveLength(1), patience)

  const runIds: string[] = []
  for (let n = 0; n < 6; n += 1) runIds.push((await client.runs.create({ job: 'long' })).id)
  await vi.waitFor(() => expect(serving(directory), first.errors()).toHaveLength(3), patience)
  await vi.waitFor(() => expect(target.held.size).toBe(6), patience)
  expect(first.told.filter(({ event }) => event === 'started').at(-1)).toMatchObject({
    why: expect.stringContaining('2 a worker') as string,
  })

  await killFirstWorker(rig, first, target)
  const lostWithWorker = new Set(target.aborted)
  expect(lostWithWorker.size).toBeLessThanOrEqual(2)
  const second = await replacePool(rig, first, args)
  const drained = await shrinkWhileRunning(rig, second, target)

  target.letGo(target.held.keys())
  await vi.waitFor(() => expect(isAlive(drained?.pid ?? 0)).toBe(false), patience)
  await vi.waitFor(() => expect(serving(directory)).toHaveLength(1), patience)
  for (const id of runIds) expect(await client.waitForRun(id)).toMatchObject({ state: 'succeeded' })
  expect(new Set(target.aborted), 'a run was aborted without kill -9').toEqual(lostWithWorker)
  const ends = await arena.rows(
    'SELECT outcome, count(*)::int AS n FROM belfry.attempt GROUP BY 1 ORDER BY 1',
  )
  expect(ends).toEqual([
    ...(lostWithWorker.size === 0 ? [] : [{ outcome: 'lost', n: lostWithWorker.size }]),
    { outcome: 'succeeded', n: 6 },
  ])

  second.signal('SIGTERM')
  expect(await second.ended, second.errors()).toBe(0)
  expect(workersIn(directory)).toEqual([])
})

it('runs workers of functions by a command, and replaces them when that changes', {
  timeout: 300_000,
}, async () => {
  const { arena, directory, pool } = await openRig()
  const client = arena.client()
  await client.functions.register([taskJob()])
  const node = [...arena.nodes.values()][0]
  // a key for workers is enough to scale them as well
  const token = await keyFor(arena, 'functions', 'worker')
  const options = JSON.stringify({
    url: node?.apiUrl,
    token,
    slots: 1,
    task: 'after:3000',
  })
  const script = fileURLToPath(new URL('./support/function-worker.ts', import.meta.url))
  const hook = fileURLToPath(new URL('../../scripts/lib/from-source.mjs', import.meta.url))
  const env = { WORKER_OPTIONS: options, BELFRY_API_KEY: token }
  const args = ['--min', '0', '--max', '2', '--slots', '1', '--scale-in-after', '2s', '--keep-workers']
  const command = ['--', process.execPath, '--import', hook, script]
  const first = pool([...args, ...command], env)
  const runs = []
  for (let n = 0; n < 4; n += 1) runs.push(await client.runs.create({ job: 'task' }))
  await vi.waitFor(() => expect(serving(directory), first.errors()).toHaveLength(2), patience)
  const before = serving(directory).map(({ pid }) => pid)
  first.signal('SIGTERM')
  expect(await first.ended).toBe(0)
  expect(serving(directory).map(({ pid }) => pid)).toEqual(before)

  const second = pool([...args, ...command, '--changed'], env)
  for (const { id } of runs) expect(await client.waitForRun(id)).toMatchObject({ state: 'succeeded' })
  await vi.waitFor(() => expect(workersIn(directory), second.errors()).toEqual([]), patience)
  const reasons = second.told.filter(({ event }) => event === 'draining').map(({ why }) => why)
  expect(reasons).toContain('it was started as something else')
})

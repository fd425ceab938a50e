// Remote workers as real processes under fire: killed with many runs in their hands, stopped past their lease
// and woken, with the server restarted under them, and asked to stop. (Blocked ones are in
// blocked-workers.test.ts.)
import { describe, expect, test } from 'vitest'
import { eventually } from '../support/running.ts'
import { arenaHarness, freePort } from './support/arena.ts'
import { taskJob } from './support/function-worker.ts'
import { begun, enqueueMany, heard, openWorkerRig } from './support/worker-rig.ts'

const harness = arenaHarness()

/** Longer than the server needs to come back on a busy machine. */
const longLease = { BELFRY_LEASE_MS: '30000', BELFRY_HEARTBEAT_MS: '1000' }
const leaseMs = 4_000

describe('a worker that is killed', () => {
  test('incident 25, incident 41: all of its 500 runs run again within the lease, none failed', async () => {
    const count = 500
    const rig = await openWorkerRig(harness, { env: { BELFRY_RESCUE_MS: '200' } })
    // every process rescues: here are two that look for the same runs at the same time
    await rig.arena.start('b')
    // one attempt each: a lost one that counted as failed would be the last
    const lone = { maxAttempts: 1 }
    const doomed = await rig.start({ ...lone, task: 'wait', slots: count })
    await enqueueMany(rig.client, taskJob(lone), count)
    await eventually(() => begun(doomed).length === count, 'all runs begun', 30_000)
    const heir = await rig.start({ ...lone, slots: 50 })
    doomed.signal('SIGKILL')
    const killedMs = Date.now()
    await doomed.ended
    await eventually(() => begun(heir).length === count, 'all runs begun again', 30_000)
    const lastMs = Math.max(...begun(heir).map(({ atMs }) => Number(atMs))) - killedMs
    process.stdout.write(`${count} claimed runs, kill -9: the last began again ${lastMs} ms later\n`)
    expect(lastMs, 'lease, a look for it, the pause before the retry, and time to run them').toBeLessThan(
      leaseMs + 10_000,
    )
    const ended = `SELECT FROM belfry.attempt WHERE run_state = 'succeeded'`
    await eventually(async () => (await rig.arena.rows(ended)).length === count, 'all ended', 30_000)
    const outcomes = await rig.arena.rows<{ outcome: string; n: number; runs: number }>(
      `SELECT outcome, count(*)::int AS n, count(DISTINCT run_id)::int AS runs
       FROM belfry.attempt GROUP BY 1 ORDER BY 1`,
    )
    expect(outcomes).toEqual([
      { outcome: 'lost', n: count, runs: count },
      { outcome: 'succeeded', n: count, runs: count },
    ])
    expect(new Set(begun(heir).map(({ runId }) => runId)).size).toBe(count)
  })
})

describe('a worker that is stopped past its lease, and woken', () => {
  test('incident 7: hears that its lease is lost, and what it reports changes nothing', async () => {
    const rig = await openWorkerRig(harness, { queues: ['remote', 'embedded'] })
    const remote = await rig.start({ task: 'wait', queue: 'remote' })
    const embedded = await rig.start({
      task: 'wait',
      queue: 'embedded',
      databaseUrl: rig.arena.databaseUrl,
    })
    const sleepers = [
      { queue: 'remote', sleeper: remote },
      { queue: 'embedded', sleeper: embedded },
    ]
    const runs = await Promise.all(
      sleepers.map(async ({ queue, sleeper }) => {
        const { id } = await rig.client.enqueue(taskJob({ queue }))
        await eventually(() => begun(sleeper).length === 1, 'the run begun', 30_000)
        sleeper.signal('SIGSTOP')
        return id
      }),
    )
    for (const { queue } of sleepers) await rig.start({ queue })
    for (const id of runs) {
      expect((await rig.client.waitForRun(id, { timeoutMs: 30_000 })).state).toBe('succeeded')
    }
    for (const { sleeper } of sleepers) {
      sleeper.signal('SIGCONT')
      await eventually(() => heard(sleeper, 'signal').length === 1, 'its signal fired', 30_000)
      expect(heard(sleeper, 'signal')[0]).toMatchObject({ reason: 'lease_lost' })
    }
    // its function returns after the signal: a success, which is refused
    await eventually(() => heard(remote, 'end_refused').length === 1, 'its end refused', 30_000)
    await eventually(() => heard(remote, 'session_opened').length === 2, 'a new session', 30_000)
    const refused = `SELECT FROM belfry.session WHERE expires_at > now()`
    await eventually(async () => (await rig.arena.rows(refused)).length >= 5, 'all serve again', 30_000)
    for (const id of runs) {
      const after = await rig.client.runs.get(id)
      expect(after.attemptList.map(({ outcome }) => outcome)).toEqual(['lost', 'succeeded'])
      expect(after.attemptList[1]?.result).toEqual({ attempt: 2 })
    }
    const ends = await rig.arena.rows(`SELECT FROM belfry.attempt WHERE run_state IS NOT NULL`)
    expect(ends, 'one terminal state each').toHaveLength(runs.length)
  })
})

describe('a server that is restarted under its workers', () => {
  test('finds them again: what ran goes on, and what comes is run', async () => {
    const port = String(await freePort())
    const { arena, client, start } = await openWorkerRig(harness, {
      env: { BELFRY_PORT: port, ...longLease },
    })
    const worker = await start({ task: 'block:1500' })
    const { id } = await client.enqueue(taskJob())
    await eventually(() => begun(worker).length === 1, 'it has begun', 30_000)
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
    const { arena, client, start } = await openWorkerRig(harness)
    const worker = await start({ task: 'wait', slots: 20 })
    await enqueueMany(client, taskJob(), 20)
    await eventually(() => begun(worker).length === 20, 'all have begun', 30_000)
    worker.signal('SIGTERM')
    expect(await worker.ended).toBe(0)
    const [left] = await arena.rows<{ held: number; sessions: number }>(
      `SELECT (SELECT count(*) FROM belfry.ready WHERE session_id IS NOT NULL)::int AS held,
              (SELECT count(*) FROM belfry.session WHERE tenant_id IS NOT NULL)::int AS sessions`,
    )
    expect(left).toEqual({ held: 0, sessions: 0 })
  })

  test('a second signal ends it at once', async () => {
    const { client, start } = await openWorkerRig(harness)
    const worker = await start({ task: 'wait' })
    await client.enqueue(taskJob())
    await eventually(() => begun(worker).length === 1, 'it has begun', 30_000)
    worker.signal('SIGTERM')
    await eventually(() => heard(worker, 'stopping').length === 1, 'it drains', 30_000)
    worker.signal('SIGTERM')
    expect(await worker.ended).toBe(143)
    expect(heard(worker, 'signal')).toEqual([])
  })
})

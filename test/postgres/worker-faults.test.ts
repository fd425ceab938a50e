// The worker when things break: lost leases and lost answers. Ends that cannot be written:
// worker-ends.test.ts.
import { BelfryError } from '@belfry/contract'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { createRescuer } from '../../packages/server/src/engine/rescuer.ts'
import type { Clock } from '../../packages/server/src/ports/clock.ts'
import type { RunQueue } from '../../packages/server/src/ports/run-queue.ts'
import type { RunStore } from '../../packages/server/src/ports/run-store.ts'
import { realClock } from '../support/real-clock.ts'
import {
  createRunningFixture,
  eventually,
  recordEvents,
  recordHints,
  type RunningFixture,
  success,
  type TestJob,
  testHandler,
  untilAborted,
} from '../support/running.ts'
import { workerRigs } from '../support/worker-rig.ts'

let fixture: RunningFixture
let job: TestJob
const rigs = workerRigs(() => fixture)

beforeAll(async () => {
  fixture = await createRunningFixture()
  job = await fixture.addJob()
})
afterAll(() => fixture.drop())
beforeEach(() =>
  fixture.database.sql('TRUNCATE belfry.ready, belfry.session, belfry.delayed, belfry.attempt'),
)
afterEach(rigs.stopAll)

const away = () => new BelfryError('database_unavailable', 'The database is away.')
const ended = (runId: string) =>
  eventually(
    async () => (await fixture.attempts(runId)).find((row) => row.run_state !== null),
    `the end of ${runId}`,
  )

describe('a lost lease', () => {
  test('incident 23: an ended session aborts its handlers, writes nothing; a new one goes on', async () => {
    const [runId = ''] = await fixture.addRuns(job, 1)
    const handler = testHandler(untilAborted)
    const { worker, events } = await rigs.start(handler, { settings: { heartbeatMs: 100 } })
    await eventually(() => handler.requests.length === 1, 'the start')
    const first = worker.stats().sessionId
    await fixture.database.sql('DELETE FROM belfry.session')
    await eventually(() => handler.requests[0]?.signal.aborted, 'the signal')
    expect(handler.requests[0]?.signal.reason).toBe('lease_lost')
    const second = await eventually(() => worker.stats().sessionId ?? undefined, 'a new session')
    expect(second).not.toBe(first)
    await eventually(() => worker.stats().busy === 0, 'the slot')
    expect(await fixture.attempts(runId)).toEqual([])
    expect(await fixture.place(runId)).toMatchObject({ place: 'running', lease_epoch: 1 })
    expect(events.of('lease_lost')).toEqual([{ runId, leaseEpoch: 1, at: 'heartbeat' }])
    expect(events.of('session_lost')).toEqual([{ sessionId: first, role: 'worker' }])
  })

  test('renewals that fail abort the handlers before the lease ends, and stop the claims', async () => {
    await fixture.addRuns(job, 1)
    let broken = false
    const store: RunStore = {
      ...fixture.store,
      renewSession: async (...args) => {
        if (broken) throw away()
        return fixture.store.renewSession(...args)
      },
      openSession: async (...args) => {
        if (broken) throw away()
        return fixture.store.openSession(...args)
      },
    }
    const handler = testHandler(untilAborted)
    const leaseMs = 1_500
    const { worker, events } = await rigs.start(handler, {
      store,
      settings: { leaseMs, leaseMarginMs: 500, heartbeatMs: 200 },
    })
    await eventually(() => handler.requests.length === 1, 'the start')
    broken = true
    await eventually(() => handler.requests[0]?.signal.aborted, 'the signal')
    const [row] = await fixture.database.sql<{ left: number }>(
      'SELECT extract(epoch FROM expires_at - clock_timestamp())::float8 * 1000 AS left FROM belfry.session',
    )
    expect(row?.left).toBeGreaterThan(0)
    expect(worker.stats().sessionId).toBeNull()
    const [second = ''] = await fixture.addRuns(job, 1)
    expect(events.of('role_failed').map((each) => each.role)).toContain('session')
    expect(await fixture.place(second)).toMatchObject({ place: 'ready', lease_epoch: 0 })
    broken = false
    await eventually(() => handler.requests.length === 2, 'the next run')
  })

  test('a process that slept past its lease notices before it claims anything more', async () => {
    const [runId = ''] = await fixture.addRuns(job, 1)
    let sleptMs = 0
    const clock: Clock = { ...realClock, monotonicMs: () => realClock.monotonicMs() + sleptMs }
    const handler = testHandler(untilAborted)
    const { worker } = await rigs.start(handler, {
      clock,
      settings: { leaseMs: 60_000, heartbeatMs: 50_000 },
    })
    await eventually(() => handler.requests.length === 1, 'the start')
    const first = worker.stats().sessionId
    sleptMs = 3_600_000
    await eventually(() => handler.requests[0]?.signal.aborted, 'the signal')
    expect(handler.requests[0]?.signal.reason).toBe('lease_lost')
    expect(await eventually(() => worker.stats().sessionId ?? undefined, 'a session')).not.toBe(first)
    expect(await fixture.attempts(runId)).toEqual([])
  })

  test('a success that comes after the lease was lost counts as long as nobody took the run', async () => {
    const [runId = ''] = await fixture.addRuns(job, 1)
    const handler = testHandler(async (request) => {
      await untilAborted(request)
      return success
    })
    await rigs.start(handler, { settings: { heartbeatMs: 100 } })
    await eventually(() => handler.requests.length === 1, 'the start')
    await fixture.database.sql('DELETE FROM belfry.session')
    expect(await ended(runId)).toMatchObject({ outcome: 'succeeded', lease_epoch: 1 })
  })

  test('and is refused when somebody did', async () => {
    const [runId = ''] = await fixture.addRuns(job, 1)
    const gate = Promise.withResolvers<typeof success>()
    const handler = testHandler(() => gate.promise)
    const { worker, events } = await rigs.start(handler, {
      settings: { heartbeatMs: 60_000, leaseMs: 300_000, drainMs: 100 },
    })
    await eventually(() => handler.requests.length === 1, 'the start')
    await fixture.database.sql('UPDATE belfry.ready SET lease_epoch = lease_epoch + 1 WHERE run_id = $1', [
      runId,
    ])
    gate.resolve(success)
    await eventually(() => worker.stats().busy === 0, 'the slot')
    expect(events.of('lease_lost')).toEqual([{ runId, leaseEpoch: 1, at: 'complete' }])
    expect(await fixture.attempts(runId)).toEqual([])
  })

  test('incident 21: a run that outlasts several leases is started once', async () => {
    const [runId = ''] = await fixture.addRuns(job, 1)
    const gate = Promise.withResolvers<typeof success>()
    const handler = testHandler(() => gate.promise)
    const { worker } = await rigs.start(handler, {
      settings: { leaseMs: 900, leaseMarginMs: 200, heartbeatMs: 100 },
    })
    await eventually(() => handler.requests.length === 1, 'the start')
    const events = recordEvents()
    const rescuer = createRescuer({
      store: fixture.store,
      overdueRuns: fixture.overdueRuns,
      hints: recordHints(),
      clock: realClock,
      random: { next: Math.random },
      events,
      intervalMs: 20,
      sweepMs: 20,
    })
    await rescuer.start()
    try {
      const startedMs = performance.now()
      await eventually(() => performance.now() - startedMs > 2_700, 'three leases')
      gate.resolve(success)
      expect(await ended(runId)).toMatchObject({ number: 1, outcome: 'succeeded' })
    } finally {
      await rescuer.stop()
    }
    expect(events.of('session_lost')).toEqual([])
    expect(handler.requests).toHaveLength(1)
    expect(worker.stats().sessionId).not.toBeNull()
  })
})

describe('a lost answer', () => {
  test('incident 33: runs that a claim took unheard are given back and run once', async () => {
    const runs = await fixture.addRuns(job, 5)
    let lost = 0
    const queue: RunQueue = {
      ...fixture.queue,
      async claim(options) {
        const claim = await fixture.queue.claim(options)
        if (claim.runs.length === 0 || lost++ > 0) return claim
        throw away()
      },
    }
    const handler = testHandler(() => success)
    await rigs.start(handler, { queue })
    for (const runId of runs)
      expect(await ended(runId)).toMatchObject({ number: 1, outcome: 'succeeded', lease_epoch: 2 })
    expect(handler.requests).toHaveLength(5)
  })

  test('a run that a claim took unheard and that is canceled meanwhile ends uncalled', async () => {
    const runs = await fixture.addRuns(job, 2)
    const [asked = '', other = ''] = runs
    let lost = 0
    const queue: RunQueue = {
      ...fixture.queue,
      async claim(options) {
        const claim = await fixture.queue.claim(options)
        if (claim.runs.length === 0 || lost++ > 0) return claim
        await fixture.database.sql(
          'UPDATE belfry.ready SET cancel_requested_at = belfry.now() WHERE run_id = $1',
          [asked],
        )
        throw away()
      },
    }
    const handler = testHandler(() => success)
    const { hints } = await rigs.start(handler, { queue })
    expect(await ended(asked)).toMatchObject({ number: 0, outcome: 'canceled', run_state: 'canceled' })
    expect(await ended(other)).toMatchObject({ outcome: 'succeeded' })
    expect(handler.requests.map((request) => request.runId)).toEqual([other])
    expect(hints.published).toEqual([{ topic: 'ready', key: 'default' }])
  })

  test('hints nobody when nothing came back', async () => {
    const [asked = ''] = await fixture.addRuns(job, 1)
    let lost = 0
    const queue: RunQueue = {
      ...fixture.queue,
      async claim(options) {
        const claim = await fixture.queue.claim(options)
        if (claim.runs.length === 0 || lost++ > 0) return claim
        await fixture.database.sql('UPDATE belfry.ready SET cancel_requested_at = belfry.now()')
        throw away()
      },
    }
    const { hints } = await rigs.start(
      testHandler(() => success),
      { queue },
    )
    expect(await ended(asked)).toMatchObject({ outcome: 'canceled' })
    expect(hints.published).toEqual([])
  })

  test('runs whose definitions cannot be loaded are given back', async () => {
    const fresh = await fixture.addJob()
    const [runId = ''] = await fixture.addRuns(fresh, 1)
    let failures = 0
    const store: RunStore = {
      ...fixture.store,
      definitions: async (versions) => {
        if (failures++ < 2) throw away()
        return fixture.store.definitions(versions)
      },
    }
    const handler = testHandler(() => success)
    await rigs.start(handler, { store })
    expect(await ended(runId)).toMatchObject({ number: 1, outcome: 'succeeded' })
  })

  test('of a completion that was committed: sent again, applied once, no lease is called lost', async () => {
    const [runId = ''] = await fixture.addRuns(job, 1)
    let lost = 0
    const store: RunStore = {
      ...fixture.store,
      async complete(sessionId, ends) {
        const answer = await fixture.store.complete(sessionId, ends)
        if (lost++ === 0) throw away()
        return answer
      },
    }
    const { worker, events } = await rigs.start(
      testHandler(() => success),
      { store },
    )
    await ended(runId)
    await eventually(() => worker.stats().busy === 0, 'the slot')
    expect(lost).toBe(2)
    expect(await fixture.attempts(runId)).toHaveLength(1)
    expect(events.of('lease_lost')).toEqual([])
    expect(events.of('attempt_ended')).toMatchObject([{ runId, state: 'succeeded' }])
  })
})

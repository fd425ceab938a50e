// Ends that cannot be written: the database takes none for a while, takes one never, or answers nothing at
// all while the worker stops.
import { BelfryError } from '@belfry/contract'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { Clock } from '../../packages/server/src/ports/clock.ts'
import type { RunQueue } from '../../packages/server/src/ports/run-queue.ts'
import type { RunStore } from '../../packages/server/src/ports/run-store.ts'
import { createPostgresRunQueue } from '../../packages/server/src/postgres/run-queue.ts'
import { createPostgresRunStore } from '../../packages/server/src/postgres/run-store.ts'
import { openHangingWire } from '../support/hanging-wire.ts'
import { realClock } from '../support/real-clock.ts'
import {
  createRunningFixture,
  eventually,
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

describe('while the database takes no ends', () => {
  test('they are kept, their slots stay taken, and all are written when it is back', async () => {
    const runs = await fixture.addRuns(job, 8)
    let broken = true
    const store: RunStore = {
      ...fixture.store,
      async complete(sessionId, ends) {
        if (broken) throw away()
        return fixture.store.complete(sessionId, ends)
      },
    }
    const handler = testHandler(() => success)
    const { worker, events } = await rigs.start(handler, { store, settings: { slots: 3 } })
    await eventually(() => events.of('role_failed').length >= 3, 'three failures')
    expect(worker.stats()).toMatchObject({ busy: 3, ending: 3 })
    expect(handler.requests).toHaveLength(3)
    expect(events.of('attempt_ended')).toEqual([])
    broken = false
    for (const runId of runs) expect(await ended(runId)).toMatchObject({ outcome: 'succeeded' })
    expect(handler.requests).toHaveLength(8)
  })

  test('an end that cannot be stored holds up no other, and is stored without its details', async () => {
    const runs = await fixture.addRuns(job, 10)
    const bad = runs[4]
    const store: RunStore = {
      ...fixture.store,
      async complete(sessionId, ends) {
        if (ends.some((end) => end.runId === bad && end.response !== null))
          throw new Error('invalid byte sequence')
        return fixture.store.complete(sessionId, ends)
      },
    }
    await rigs.start(
      testHandler(() => success),
      { store },
    )
    for (const runId of runs) {
      expect(await ended(runId)).toMatchObject({
        outcome: 'succeeded',
        response: runId === bad ? null : 'done',
      })
    }
  })

  test('an end that can never be stored is given up: its run is left to its deadline', async () => {
    const [bad = ''] = await fixture.addRuns(job, 1)
    const asked: number[] = []
    let claimsFail = 0
    const store: RunStore = {
      ...fixture.store,
      async complete(sessionId, ends) {
        if (ends.some((end) => end.runId === bad)) {
          asked.push(ends.length)
          throw Object.assign(new Error('value out of range'), { code: '22003' })
        }
        return fixture.store.complete(sessionId, ends)
      },
      async heldRuns(sessionId) {
        const held = await fixture.store.heldRuns(sessionId)
        claimsFail = 2
        return held
      },
    }
    const queue: RunQueue = {
      ...fixture.queue,
      async claim(options) {
        // then the worker looks for strays, and must not take the run for one
        if (claimsFail === 1) throw away()
        return fixture.queue.claim(options)
      },
    }
    const handler = testHandler(() => success)
    const { worker, events } = await rigs.start(handler, { store, queue, settings: { slots: 1 } })
    await eventually(() => asked.length >= 2, 'two refusals')
    const [next = ''] = await fixture.addRuns(job, 1)
    expect(await ended(next)).toMatchObject({ outcome: 'succeeded' })
    expect(worker.stats()).toMatchObject({ busy: 0, ending: 0 })
    claimsFail = 1
    await eventually(() => claimsFail === 2, 'a look for strays')
    const [last = ''] = await fixture.addRuns(job, 1)
    expect(await ended(last)).toMatchObject({ outcome: 'succeeded' })
    expect(asked).toEqual([1, 1])
    expect(handler.requests.filter((request) => request.runId === bad)).toHaveLength(1)
    expect(await fixture.place(bad)).toMatchObject({ place: 'running', attempt: 1, lease_epoch: 1 })
    const words = events
      .of('role_failed')
      .filter((each) => each.role === 'completer')
      .map((each) => String(each.error))
    expect(words).toEqual([
      expect.stringContaining('its details are left out: value out of range'),
      expect.stringContaining('the run is left to its deadline: value out of range'),
    ])
    await fixture.database.sql("UPDATE belfry.ready SET deadline = now() - interval '1 s'")
    await fixture.store.settleClaims(10_000)
    expect((await fixture.store.stuckRuns(null, 10)).runs.map((run) => run.runId)).toEqual([bad])
  })

  test('an error of the connection is no reason to give up an end', async () => {
    const [runId = ''] = await fixture.addRuns(job, 1)
    let failures = 0
    const store: RunStore = {
      ...fixture.store,
      async complete(sessionId, ends) {
        if (failures++ < 4) throw Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET' })
        return fixture.store.complete(sessionId, ends)
      },
    }
    await rigs.start(
      testHandler(() => success),
      { store },
    )
    expect(await ended(runId)).toMatchObject({ outcome: 'succeeded', response: 'done', http_status: 200 })
  })

  test('a stop gives up after its limit rather than never, and the rescuer finds the run', async () => {
    const [runId = ''] = await fixture.addRuns(job, 1)
    const store: RunStore = {
      ...fixture.store,
      complete: async () => {
        throw away()
      },
    }
    const handler = testHandler(() => success)
    // the limit for the last ends is 10 s; a clock that runs fast makes that short
    const clock: Clock = {
      ...realClock,
      setTimer: (delayMs, fn) => realClock.setTimer(Math.min(delayMs, 100), fn),
    }
    const { worker } = await rigs.start(handler, {
      store,
      clock,
      settings: { drainMs: 50, abortGraceMs: 50 },
    })
    await eventually(() => handler.requests.length === 1, 'the start')
    await worker.stop()
    expect(await fixture.attempts(runId)).toEqual([])
    expect((await fixture.store.endExpiredSessions()).sessionIds).toHaveLength(1)
    await fixture.store.settleClaims(10_000)
    expect((await fixture.store.stuckRuns(null, 10)).runs.map((run) => run.runId)).toEqual([runId])
  })
})

describe('a stop while the database answers nothing', () => {
  // the worker's limits, five times as fast
  const pace = 5
  const clock: Clock = {
    ...realClock,
    setTimer: (delayMs, fn) => realClock.setTimer(delayMs / pace, fn),
  }

  test.each([
    ['idle', 0],
    ['at work', 3],
  ])('of a worker that is %s ends all the same', async (_, count) => {
    await fixture.addRuns(job, count)
    const wire = await openHangingWire(fixture.database.connection)
    const db = fixture.database.open({ connection: wire.connection })
    const heartbeats = fixture.database.open({ connection: wire.connection, maxConnections: 1 })
    try {
      const handler = testHandler(untilAborted)
      const { worker } = await rigs.start(handler, {
        queue: createPostgresRunQueue(db),
        store: createPostgresRunStore({ db, heartbeats }),
        clock,
        settings: { leaseMs: 60_000, heartbeatMs: 50, drainMs: 100 },
      })
      await eventually(() => worker.stats().sessionId !== null, 'the session')
      await eventually(() => handler.requests.length === count, 'the starts')
      wire.hang()
      const startedMs = performance.now()
      await worker.stop()
      // idle: three steps of 2 s; at work: a second for the ends and 8 s to write them as well
      const limitMs = count === 0 ? 6_000 : 15_000
      expect(performance.now() - startedMs).toBeLessThan(limitMs / pace + 1_000)
      expect(handler.requests.every((request) => request.signal.aborted)).toBe(true)
    } finally {
      await wire.close()
    }
  })
})

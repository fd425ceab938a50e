// The loop of the rescuer on a real Postgres: how often it reads, what a failed page or a run that cannot be
// ended costs, and that it stops. What it ends, and how: rescue.test.ts.
import { BelfryError } from '@belfry/contract'
import pg from 'pg'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { createRescuer } from '../../packages/server/src/engine/rescuer.ts'
import type { RunStore } from '../../packages/server/src/ports/run-store.ts'
import { settleClaims } from '../../packages/server/src/postgres/statements/rescue.ts'
import { realClock } from '../support/real-clock.ts'
import { rescueRig } from '../support/rescue-rig.ts'
import { createVirtualClock } from '../support/virtual-clock.ts'
import {
  createRunningFixture,
  eventually,
  newId,
  recordEvents,
  recordHints,
  retriedEnd,
  type RunningFixture,
  type TestJob,
} from '../support/running.ts'

let fixture: RunningFixture
let job: TestJob
const { rescuer, claim, expire, lostRun } = rescueRig(() => fixture)

beforeAll(async () => {
  fixture = await createRunningFixture()
  job = await fixture.addJob({ queue: 'many' })
})
afterAll(() => fixture.drop())
beforeEach(async () => {
  await fixture.database.sql('TRUNCATE belfry.ready, belfry.session, belfry.claim')
})

describe('the service', () => {
  test('reads ready only when a session was ended, and once more, or when a sweep is due', async () => {
    let scans = 0
    let rounds = 0
    const store: RunStore = {
      ...fixture.store,
      endExpiredSessions: (olderThanMs) => {
        rounds++
        return fixture.store.endExpiredSessions(olderThanMs)
      },
      stuckRuns: (after, limit) => {
        scans++
        return fixture.store.stuckRuns(after, limit)
      },
    }
    const service = createRescuer({
      store,
      overdueRuns: fixture.overdueRuns,
      hints: recordHints(),
      clock: realClock,
      random: { next: Math.random },
      events: recordEvents(),
      intervalMs: 5,
      sweepMs: 3_600_000,
    })
    await service.start()
    try {
      await eventually(() => rounds >= 5, 'five rounds')
      expect(scans).toBe(1)
      const run = await lostRun(job)
      await eventually(async () => (await fixture.place(run.runId)).place === 'delayed', 'the rescue')
      const roundsThen = rounds
      await eventually(() => rounds >= roundsThen + 5, 'five rounds more')
      expect(scans).toBe(3)
    } finally {
      await service.stop()
    }
  })

  test('a page of the walk that heals is rested from for a hundred times as long as it took', async () => {
    const clock = createVirtualClock(0)
    const healedAtMs: number[] = []
    const store: RunStore = {
      ...fixture.store,
      endExpiredSessions: async () => ({ sessionIds: [], claims: false, parkedDue: false }),
      settleClaims: async () => 0,
      stuckRuns: async () => ({ runs: [], nowMs: 0 }),
      async healHeldRuns() {
        healedAtMs.push(clock.monotonicMs())
        await clock.sleep(3_000)
        throw new BelfryError('database_timeout', 'It took too long.')
      },
    }
    const overdueRuns = { ...fixture.overdueRuns, list: async () => [] }
    const parts = { store, overdueRuns, hints: recordHints(), clock, random: { next: () => 0.5 } }
    const service = createRescuer({ ...parts, events: recordEvents(), intervalMs: 5_000, sweepMs: 30_000 })
    await service.start()
    for (let second = 0; second < 700; second++) await clock.advance(1_000)
    const stopped = service.stop()
    await clock.advance(10_000)
    await stopped
    const rests = healedAtMs.slice(1).map((atMs, index) => atMs - (healedAtMs[index] ?? 0))
    expect(rests.length).toBeGreaterThan(0)
    expect(Math.min(...rests)).toBeGreaterThanOrEqual(300_000)
  })

  test('a round settles what is two seconds old, and no more often than so many times', async () => {
    const asked: unknown[] = []
    let swept = 0
    const store: RunStore = {
      ...fixture.store,
      endExpiredSessions: async () => ({ sessionIds: [], claims: true, parkedDue: false }),
      settleClaims: async (limit, which) => {
        asked.push(which)
        return limit
      },
      stuckRuns: (after, limit) => {
        swept++
        return fixture.store.stuckRuns(after, limit)
      },
    }
    const service = rescuer(store)
    await service.start()
    try {
      await eventually(() => swept > 0, 'the sweep')
    } finally {
      await service.stop()
    }
    const hundred = (olderThanMs: number) => Array.from({ length: 100 }, () => ({ olderThanMs }))
    expect(asked.slice(0, 100)).toEqual(hundred(2_000))
    asked.length = 0
    await rescuer(store).runOnce()
    expect(asked).toEqual(hundred(0))
  })

  test('claims of ended sessions come first; when settling fails the sweep comes all the same', async () => {
    const sessionId = newId()
    const asked: unknown[] = []
    let swept = 0
    const store: RunStore = {
      ...fixture.store,
      endExpiredSessions: async () => ({ sessionIds: [sessionId], claims: true, parkedDue: false }),
      settleClaims: async (_, which) => {
        asked.push(which)
        if (asked.length > 1) throw new BelfryError('database_unavailable', 'The connection broke.')
        return 0
      },
      stuckRuns: (after, limit) => {
        swept++
        return fixture.store.stuckRuns(after, limit)
      },
    }
    await expect(rescuer(store).runOnce()).rejects.toThrow('The connection broke.')
    expect(asked).toEqual([{ sessionIds: [sessionId] }, { olderThanMs: 0 }])
    expect(swept).toBe(1)
  })

  test('what another rescuer was settling while a session ended is found in the next round', async () => {
    const run = await lostRun(job)
    const client = new pg.Client(fixture.database.adminConnection)
    await client.connect()
    let sweeps = 0
    const store: RunStore = {
      ...fixture.store,
      async stuckRuns(after, limit) {
        const page = await fixture.store.stuckRuns(after, limit)
        if (++sweeps === 1) await client.query('COMMIT')
        return page
      },
    }
    const { overdueRuns } = fixture
    const random = { next: Math.random }
    const options = {
      store,
      overdueRuns,
      hints: recordHints(),
      clock: realClock,
      random,
      events: recordEvents(),
    }
    const service = createRescuer({ ...options, intervalMs: 5, sweepMs: 3_600_000 })
    try {
      await client.query('BEGIN')
      await client.query(settleClaims.text, [50, 0])
      await service.start()
      await eventually(async () => (await fixture.place(run.runId)).place === 'delayed', 'the rescue')
      expect(sweeps).toBe(2)
    } finally {
      await service.stop()
      await client.end()
    }
  })

  test('a page that fails is tried again; what was read before is not lost', async () => {
    const run = await lostRun(job)
    let failures = 0
    const store: RunStore = {
      ...fixture.store,
      rescue: async (ends) => {
        if (failures++ === 0) throw new BelfryError('database_unavailable', 'The connection broke.')
        return fixture.store.rescue(ends)
      },
    }
    const events = recordEvents()
    const { overdueRuns } = fixture
    const random = { next: Math.random }
    const options = { store, overdueRuns, hints: recordHints(), clock: realClock, random, events }
    const service = createRescuer({ ...options, intervalMs: 5, sweepMs: 3_600_000 })
    await service.start()
    try {
      await eventually(async () => (await fixture.place(run.runId)).place === 'delayed', 'the rescue')
    } finally {
      await service.stop()
    }
    expect(events.of('role_failed')).toMatchObject([{ role: 'rescuer' }])
  })

  test('a run whose end cannot be stored keeps no other from being ended, and is reported', async () => {
    await fixture.addRuns(job, 20)
    const sessionId = await fixture.openSession()
    const lost = await claim(sessionId, job, 20)
    await expire(sessionId)
    const bad = lost[7]?.runId
    const store: RunStore = {
      ...fixture.store,
      rescue: async (ends) => {
        if (ends.some((end) => end.runId === bad)) throw Object.assign(new Error('bad'), { code: '22P02' })
        return fixture.store.rescue(ends)
      },
    }
    const { runOnce, events } = rescuer(store)
    expect(await runOnce()).toBe(19)
    for (const { runId } of lost) {
      expect((await fixture.place(runId)).place).toBe(runId === bad ? 'running' : 'delayed')
    }
    expect(events.of('role_failed').map((each) => String(each.error))).toEqual([
      `Error: The lost attempt of run ${bad ?? ''} cannot be ended: bad`,
    ])
    const counts = events.of('runs_rescued').map((each) => each.count)
    expect(counts.reduce((sum, count) => sum + count, 0)).toBe(19)
  })

  test('a stop does not wait for a database that answers nothing', async () => {
    const store: RunStore = { ...fixture.store, endExpiredSessions: () => new Promise(() => {}) }
    const service = rescuer(store)
    await service.start()
    const startedMs = performance.now()
    await service.stop()
    expect(performance.now() - startedMs).toBeLessThan(4_000)
  })

  test('an unknown run is nobody', async () => {
    const end = { ...retriedEnd({ runId: newId(), leaseEpoch: 1 }), sessionId: newId() }
    expect((await fixture.store.rescue([end])).applied).toEqual([])
  })
})

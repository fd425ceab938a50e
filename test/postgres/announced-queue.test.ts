// A worker whose runs are announced, on the real database, with a carrier that does as the test says: what it
// says by mistake or in bad faith makes nothing run, what it does not say is a second late at most, and the
// order of the queue holds.
import { setTimeout as wait } from 'node:timers/promises'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { createAnnouncedQueue } from '../../packages/server/src/engine/announced-queue.ts'
import type { AnnouncementInbox, TakenAnnouncement } from '../../packages/server/src/ports/announcements.ts'
import { CarrierAway } from '../../packages/server/src/ports/announcements.ts'
import type { NamedRun } from '../../packages/server/src/ports/run-queue.ts'
import { createPostgresReadyWindows } from '../../packages/server/src/postgres/ready-windows.ts'
import { createPostgresAnnouncedRuns } from '../../packages/server/src/postgres/run-queue.ts'
import { realClock, realRandom } from '../support/real-clock.ts'
import {
  createRunningFixture,
  eventually,
  newId,
  recordEvents,
  type RunningFixture,
  success,
  type TestJob,
  testHandler,
} from '../support/running.ts'
import { workerRigs } from '../support/worker-rig.ts'

let fixture: RunningFixture
let job: TestJob
const rigs = workerRigs(() => fixture)
const closing: (() => Promise<void>)[] = []
beforeAll(async () => {
  fixture = await createRunningFixture()
  job = await fixture.addJob({ attemptTimeoutMs: 5_000 })
})
afterAll(() => fixture.drop())
beforeEach(() => fixture.database.sql('DELETE FROM belfry.ready'))
afterEach(async () => {
  await rigs.stopAll()
  for (const close of closing.splice(0)) await close()
})

/** What a carrier brings, as the test says. */
function openCarrier() {
  const state = { up: true, coming: [] as TakenAnnouncement[], settled: [] as TakenAnnouncement[] }
  const inbox: AnnouncementInbox = {
    get up() {
      return state.up
    },
    start: () => Promise.resolve(),
    async take(_, waitMs, signal) {
      if (!state.up) throw new CarrierAway('gone')
      const untilMs = performance.now() + waitMs
      while (state.coming.length === 0 && performance.now() < untilMs && !signal.aborted) await wait(2)
      return state.coming.splice(0)
    },
    settle: (taken) => Promise.resolve(void state.settled.push(...taken)),
    release: () => Promise.resolve(),
    close: () => Promise.resolve(),
  }
  const say = (queue: string, ...runs: (readonly [string, number])[]): void =>
    void state.coming.push({ queue, runs: runs.map(([runId, tag]) => ({ runId, tag })), receipt: null })
  return { inbox, state, say }
}

async function openQueue(slots = 10) {
  const carrier = openCarrier()
  const events = recordEvents()
  const queue = createAnnouncedQueue({
    queue: fixture.queue,
    runs: createPostgresAnnouncedRuns(fixture.database.open()),
    inbox: carrier.inbox,
    clock: realClock,
    random: realRandom,
    events,
    slots,
  })
  await queue.start()
  closing.push(() => queue.stop())
  return { ...carrier, queue, events }
}

const claimOf = (sessionId: string, limit = 10, queue = 'default') => ({
  sessionId,
  shares: [{ queue, minTag: -Infinity, limit }],
  routes: ['http'],
  deadlineMarginMs: 1_000,
})

describe('the claim of what was announced', () => {
  const claimNamed = async (runs: readonly NamedRun[], sessionId?: string) =>
    createPostgresAnnouncedRuns(fixture.database.open()).claimNamed({
      sessionId: sessionId ?? (await fixture.openSession()),
      runs,
      routes: ['http'],
      deadlineMarginMs: 1_000,
    })

  test('takes what stands where it was said to stand, in tag order, and nothing else', async () => {
    const [a = '', b = '', c = '', d = '', e = ''] = await fixture.addRuns(job, 5)
    await fixture.database.sql(`UPDATE belfry.ready SET gate = 'g' WHERE run_id = $1`, [c])
    await fixture.database.sql(`UPDATE belfry.ready SET handler = 'function:t:f' WHERE run_id = $1`, [d])
    const { runs, alive } = await claimNamed([
      { queue: 'default', runId: b, tag: 2 },
      { queue: 'default', runId: a, tag: 1 },
      { queue: 'default', runId: c, tag: 3 },
      { queue: 'default', runId: d, tag: 4 },
      { queue: 'default', runId: e, tag: 5.5 },
      { queue: 'other', runId: e, tag: 5 },
      { queue: 'default', runId: newId(), tag: 1 },
    ])
    expect(runs.map((run) => run.runId)).toEqual([a, b])
    expect(alive).toBe(true)
    for (const runId of [c, d, e]) expect((await fixture.place(runId)).place).toBe('ready')
  })

  test('takes nothing that is held, settled or not, or that has ended', async () => {
    const [a = '', b = ''] = await fixture.addRuns(job, 2)
    const sessionId = await fixture.openSession()
    const named = [
      { queue: 'default', runId: a, tag: 1 },
      { queue: 'default', runId: b, tag: 2 },
    ]
    expect((await claimNamed(named, sessionId)).runs).toHaveLength(2)
    await fixture.database.sql('UPDATE belfry.ready SET settled_by = session_id WHERE run_id = $1', [a])
    expect((await claimNamed(named)).runs).toEqual([])
    await fixture.database.sql('DELETE FROM belfry.ready')
    expect((await claimNamed(named)).runs).toEqual([])
  })

  test('is one claim among many: a run is claimed once', async () => {
    const ids = await fixture.addRuns(job, 200)
    const named = ids.map((runId, index) => ({ queue: 'default', runId, tag: index + 1 }))
    const sessionId = await fixture.openSession()
    const claims = await Promise.all([
      ...Array.from({ length: 4 }, () => claimNamed(named)),
      fixture.queue.claim(claimOf(sessionId, 150)),
    ])
    const taken = claims.flatMap((claim) => claim.runs.map((run) => run.runId))
    expect(taken.toSorted()).toEqual(ids.toSorted())
  })

  test('of a session that ran out takes nothing, and says so', async () => {
    const [runId = ''] = await fixture.addRuns(job, 1)
    expect(await claimNamed([{ queue: 'default', runId, tag: 1 }], newId())).toMatchObject({
      runs: [],
      alive: false,
    })
  })
})

describe('what the announcer reads', () => {
  test('the names of queues with something for servers, and what comes next in them', async () => {
    const windows = createPostgresReadyWindows(fixture.database.open())
    const ids = await fixture.addRuns(job, 3, { queue: 'b' })
    await fixture.addRuns(job, 1, { queue: 'a' })
    const held = await fixture.addRuns(job, 1, { queue: 'c' })
    const [lambda = ''] = await fixture.addRuns(job, 1, { queue: 'd' })
    await fixture.database.sql(`UPDATE belfry.ready SET handler = 'function:t:f' WHERE run_id = $1`, [lambda])
    await fixture.queue.claim(claimOf(await fixture.openSession(), 10, 'c'))
    expect(held).toHaveLength(1)
    expect(await windows.queues('')).toEqual({ queues: ['a', 'b'], next: undefined })
    expect((await windows.queues('a')).queues).toEqual(['b'])
    const next = await windows.next([
      { queue: 'b', minTag: 2, size: 10 },
      { queue: 'a', minTag: -Infinity, size: 0 },
      { queue: 'd', minTag: -Infinity, size: 10 },
    ])
    expect([...next.keys()]).toEqual(['b'])
    expect(next.get('b')?.map(({ runId, tag }) => [runId, tag])).toEqual([
      [ids[1], 2],
      [ids[2], 3],
    ])
  })

  test('the key of a run that holds a slot of one', async () => {
    const windows = createPostgresReadyWindows(fixture.database.open())
    const [runId = '', other = ''] = await fixture.addRuns(job, 2)
    await fixture.database.sql(
      `INSERT INTO belfry.slot (run_id, limit_key, tenant_id, weight)
       VALUES ($1, 'job:x', $2, 1), ($1, 'key:x:1', $2, 1), ($3, 'key:x:2', $2, 1)`,
      [runId, fixture.tenantId, other],
    )
    await fixture.database.sql('UPDATE belfry.ready SET slotted = true WHERE run_id = $1', [runId])
    const next = await windows.next([{ queue: 'default', minTag: -Infinity, size: 10 }])
    expect(next.get('default')?.map(({ orderKey }) => orderKey)).toEqual(['key:x:1', undefined])
    await fixture.database.sql('DELETE FROM belfry.slot')
  })

  test('the slots of live workers of servers, by their queues', async () => {
    const windows = createPostgresReadyWindows(fixture.database.open())
    await fixture.database.sql('DELETE FROM belfry.session')
    await fixture.openSession()
    await fixture.openSession()
    const gone = await fixture.openSession()
    await fixture.database.sql(
      `UPDATE belfry.session SET expires_at = now() - interval '1 s' WHERE id = $1`,
      [gone],
    )
    expect(await windows.slots()).toEqual([{ queues: ['default'], slots: 20 }])
  })
})

describe('the queue', () => {
  test('claims by what is announced, and settles it once the claim stands', async () => {
    const { queue, say, state, events } = await openQueue()
    const sessionId = await fixture.openSession()
    say('default', [newId(), 1])
    await eventually(() => queue.stats().waiting === 1, 'it heard of it')
    await queue.claim(claimOf(sessionId))
    const ids = await fixture.addRuns(job, 3)
    say('default', [ids[2] ?? '', 3], [ids[0] ?? '', 1])
    await eventually(() => queue.stats().waiting >= 2, 'it heard of them')
    const { runs } = await queue.claim(claimOf(sessionId))
    expect(runs.map((run) => run.runId)).toEqual([ids[0], ids[2]])
    await eventually(() => state.settled.length === 2, 'both messages are settled')
    expect(events.of('announced_claim').at(-1)).toMatchObject({ claimed: 2, direct: 0 })
    expect((await fixture.place(ids[1] ?? '')).place).toBe('ready')
  })

  test('a failed claim settles nothing, and what was announced is claimed by the next', async () => {
    const carrier = openCarrier()
    const claims = createPostgresAnnouncedRuns(fixture.database.open())
    let fails = true
    const queue = createAnnouncedQueue({
      queue: fixture.queue,
      runs: {
        claimNamed: (asked) => (fails ? Promise.reject(new Error('cut off')) : claims.claimNamed(asked)),
      },
      inbox: carrier.inbox,
      clock: realClock,
      random: realRandom,
      events: recordEvents(),
      slots: 10,
    })
    await queue.start()
    closing.push(() => queue.stop())
    const sessionId = await fixture.openSession()
    await queue.claim(claimOf(sessionId))
    const [runId = ''] = await fixture.addRuns(job, 1)
    carrier.say('default', [runId, 1])
    await eventually(() => queue.stats().waiting === 1, 'it heard of it')
    await expect(queue.claim(claimOf(sessionId))).rejects.toThrow('cut off')
    expect(carrier.state.settled).toEqual([])
    fails = false
    expect((await queue.claim(claimOf(sessionId))).runs).toHaveLength(1)
    await eventually(() => carrier.state.settled.length === 1, 'it is settled')
  })

  test('what was announced is overtaken by a lower tag within a second', async () => {
    const { queue, say } = await openQueue()
    const sessionId = await fixture.openSession()
    await queue.claim(claimOf(sessionId))
    const late = await fixture.addRuns(job, 40, { firstTag: 100 })
    say('default', ...late.slice(0, 20).map((runId, index) => [runId, 100 + index] as const))
    await eventually(() => queue.stats().waiting === 20, 'it heard of them')
    const [first = ''] = await fixture.addRuns(job, 1, { firstTag: 1 })
    const startedMs = performance.now()
    let claimed = 0
    await eventually(async () => {
      await wait(50)
      const { runs } = await queue.claim(claimOf(sessionId, 1))
      claimed += runs.length
      return runs[0]?.runId === first
    }, 'the lowest tag is claimed')
    expect(performance.now() - startedMs).toBeLessThan(1_500)
    expect(claimed).toBeLessThanOrEqual(25)
  })

  test('while the carrier is away it claims directly, each time', async () => {
    const { queue, say, state } = await openQueue()
    const sessionId = await fixture.openSession()
    say('default', [newId(), 1])
    await eventually(() => queue.stats().waiting === 1, 'it heard of it')
    await queue.claim(claimOf(sessionId))
    state.up = false
    for (let round = 0; round < 3; round++) {
      const ids = await fixture.addRuns(job, 2)
      expect((await queue.claim(claimOf(sessionId))).runs.map((run) => run.runId)).toEqual(ids)
    }
  })
})

describe('a worker', () => {
  async function startWorker() {
    const opened = await openQueue()
    const target = testHandler(() => success)
    const { hints } = await rigs.start(target, {
      queue: opened.queue,
      withHints: opened.queue.withHints,
      settings: { maxPollMs: 1_000 },
    })
    /** From here on the queue is one that is announced. */
    async function begin(): Promise<void> {
      opened.say('default', [newId(), 0])
      await eventually(() => opened.state.settled.length > 0, 'it goes by what is announced')
    }
    return { ...opened, target, hints, begin }
  }

  test('runs what is announced within milliseconds, without a hint', async () => {
    const { say, target, begin } = await startWorker()
    await begin()
    await wait(1_300)
    const [runId = ''] = await fixture.addRuns(job, 1)
    const saidMs = performance.now()
    say('default', [runId, 1])
    await eventually(() => target.requests.length === 1, 'it runs')
    expect(performance.now() - saidMs).toBeLessThan(300)
  })

  test('with nobody to announce, the first runs are a second late, and then none is', async () => {
    const { target, begin, hints } = await startWorker()
    await begin()
    const addedMs = performance.now()
    await fixture.addRuns(job, 1)
    await eventually(() => target.requests.length === 1, 'it runs, though nobody announced it')
    expect(performance.now() - addedMs).toBeLessThan(1_700)
    // hints wake it again once it knows that nobody announces
    await eventually(async () => {
      await wait(1_100)
      const before = target.requests.length
      await fixture.addRuns(job, 1)
      const hintedMs = performance.now()
      hints.publish({ topic: 'ready', key: 'default' })
      await eventually(() => target.requests.length > before, 'it runs')
      return performance.now() - hintedMs < 100
    }, 'hints wake it')
  })

  test('a lost announcement is a second late, while others come', async () => {
    const { say, target, begin } = await startWorker()
    await begin()
    const [lost = '', ...others] = await fixture.addRuns(job, 30)
    const addedMs = performance.now()
    for (const [index, runId] of others.entries()) {
      say('default', [runId, index + 2])
      await wait(20)
    }
    await eventually(() => target.requests.some(({ runId }) => runId === lost), 'it runs')
    expect(performance.now() - addedMs).toBeLessThan(2_200)
    await eventually(() => target.requests.length === 30, 'all of them run')
    expect(new Set(target.requests.map(({ runId }) => runId)).size).toBe(30)
  })

  test('a thousand forged ids make nothing run, and what is real runs', async () => {
    const { say, target, begin } = await startWorker()
    await begin()
    const [far = ''] = await fixture.addRuns(job, 1, { queue: 'elsewhere' })
    const [real = ''] = await fixture.addRuns(job, 1)
    for (let index = 0; index < 100; index++) {
      say('default', ...Array.from({ length: 10 }, (_, tag) => [newId(), tag - 100] as const))
    }
    say('default', [far, 1])
    say('elsewhere', [far, 1])
    say('default', [real, 999])
    await eventually(() => target.requests.length === 1, 'the real one runs', 5_000)
    await wait(1_300)
    expect(target.requests.map(({ runId }) => runId)).toEqual([real])
    expect((await fixture.place(far)).place).toBe('ready')
  })
})

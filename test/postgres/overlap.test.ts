// What becomes of runs that meet: every overlap policy on real Postgres in virtual time, with runs that end
// well, fail, wait for a retry, are canceled, or lose their worker.
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { systemRandom } from '../../packages/server/src/adapters/system/ids.ts'
import { createRescuer } from '../../packages/server/src/engine/rescuer.ts'
import { createPostgresOverdueRuns } from '../../packages/server/src/postgres/overdue-runs.ts'
import { mostWaiting } from '../../packages/server/src/postgres/statements/fire-policies.ts'
import { createOverlapRig, type OverlapRig, periodMs } from '../support/overlap-rig.ts'
import { playWorker } from '../support/played-worker.ts'
import { type TestNode, until } from '../support/scheduling.ts'

const t0 = Date.UTC(2026, 0, 1)
let rig: OverlapRig
let node: TestNode
beforeEach(async () => {
  rig = await createOverlapRig(t0)
})
afterEach(() => rig.drop())

/** A schedule that has fired once, and whose run runs. */
async function running(seed: Parameters<OverlapRig['addSchedule']>[0]) {
  const id = await rig.addSchedule(seed)
  node = await rig.startNode()
  await until('the first fire', async () => (await rig.story(id)).length === 1)
  const [first] = await rig.claim()
  if (first === undefined) throw new Error('nothing to claim')
  return { id, first }
}

const retried = {
  outcome: 'failed',
  runState: null,
  retryDelayMs: 25_000,
  countAs: 'failure',
  httpStatus: 500,
} as const
const canceled = { outcome: 'canceled', runState: 'canceled', reason: 'canceled_by_request' } as const
const pass = (seconds: number) => rig.time.pass(seconds * 1_000)
/** Within three seconds, which is sooner than the scheduler would look for itself. */
async function soon(id: string, line: string): Promise<void> {
  for (let tenths = 0; tenths < 30; tenths++) {
    if ((await rig.story(id)).includes(line)) return
    await pass(0.1)
  }
  expect(await rig.story(id)).toContain(line)
}

describe('buffer_one', () => {
  test('one waits, the others are skipped; it starts when the run before it ends', async () => {
    const { id, first } = await running({ overlap: 'buffer_one' })
    await pass(25)
    expect(await rig.story(id)).toEqual(['0 ran running', '10 ran waits', '20 skipped overlap'])
    await rig.end([first])
    await soon(id, '10 ran ready')
    const [second] = await rig.claim()
    expect(second?.runId).toBe(await rig.runAt(id, 10))
    await pass(10)
    expect((await rig.story(id)).slice(1)).toEqual(['10 ran running', '20 skipped overlap', '30 ran waits'])
  })

  test('catching up with several: the two newest run, one after the other', async () => {
    const scheduledForMs = t0 - 30_000
    const id = await rig.addSchedule({ overlap: 'buffer_one', catchUp: { policy: 'all' }, scheduledForMs })
    await rig.startNode()
    await until('the fire', async () => (await rig.story(id)).length === 4)
    expect(await rig.story(id)).toEqual([
      '-30 skipped overlap',
      '-20 skipped overlap',
      '-10 ran ready',
      '0 ran waits',
    ])
  })

  test('a run that waits for its next attempt is alive, and goes first', async () => {
    const { id, first } = await running({ overlap: 'buffer_one' })
    await pass(12)
    await rig.end([first], retried)
    await pass(10)
    expect(await rig.story(id)).toEqual(['0 ran later', '10 ran waits', '20 skipped overlap'])
    await pass(16)
    expect((await rig.story(id)).slice(0, 2)).toEqual(['0 ran ready', '10 ran waits'])
    await rig.end(await rig.claim())
    await soon(id, '10 ran ready')
  })

  test('a run that dies with its worker frees the place when it is given up, not before', async () => {
    const { id } = await running({ overlap: 'buffer_one' })
    await pass(12)
    const rescuer = createRescuer({
      store: rig.store,
      overdueRuns: createPostgresOverdueRuns(rig.fixture.database.open()),
      hints: node.hints,
      clock: rig.time.clock,
      random: systemRandom,
      events: { emit: () => {} },
    })
    const { sql } = rig.fixture.database
    await sql('UPDATE belfry.session SET expires_at = belfry.now()')
    expect(await rescuer.runOnce()).toBe(1)
    // at least once: it runs again
    expect((await rig.story(id)).slice(0, 2)).toEqual(['0 ran later', '10 ran waits'])
    await sql('UPDATE belfry.delayed SET crash_count = 2 WHERE after_run_id IS NULL')
    await until('the run to be ready again', async () => {
      await pass(0.2)
      return (await rig.story(id))[0] === '0 ran ready'
    })
    await playWorker(rig.fixture.database).claim(await rig.runAt(id, 0))
    expect(await rescuer.runOnce()).toBe(1)
    expect((await rig.story(id))[0]).toBe('0 ran failed/quarantined')
    await soon(id, '10 ran ready')
  })

  test('a canceled run frees the place when it ends', async () => {
    const { id, first } = await running({ overlap: 'buffer_one' })
    await pass(12)
    expect(await rig.asTenant((tx) => tx.cancels.requestCancels([first.runId]))).toEqual([
      { runId: first.runId, sessionId: rig.sessionId },
    ])
    expect(await rig.story(id)).toEqual(['0 ran running', '10 ran waits'])
    await rig.end([first], canceled)
    await soon(id, '10 ran ready')
    expect((await rig.story(id))[0]).toBe('0 ran canceled/canceled_by_request')
  })

  test('a run that is canceled while it waits leaves its place to the next', async () => {
    const { id } = await running({ overlap: 'buffer_one' })
    await pass(12)
    const waiting = await rig.runAt(id, 10)
    expect(await rig.asTenant((tx) => tx.cancels.cancelWaiting([waiting]))).toEqual({
      canceledIds: [waiting],
      timerShards: [],
    })
    await pass(20)
    expect(await rig.story(id)).toEqual([
      '0 ran running',
      '10 ran canceled/canceled_by_request',
      '20 ran waits',
      '30 skipped overlap',
    ])
  })
})

describe('buffer_all', () => {
  test('a chain: each end lets one go, in the order of the planned times', async () => {
    const { id, first } = await running({ overlap: 'buffer_all' })
    await pass(45)
    expect(await rig.story(id)).toEqual([
      '0 ran running',
      ...[10, 20, 30, 40].map((seconds) => `${seconds} ran waits`),
    ])
    let [run] = [first]
    for (const seconds of [10, 20, 30, 40]) {
      await rig.end([run])
      await soon(id, `${seconds} ran ready`)
      const claimed = await rig.claim()
      expect(claimed.map(({ runId }) => runId)).toEqual([await rig.runAt(id, seconds)])
      run = claimed[0] ?? run
    }
  })

  test('closes over one that is canceled in the middle, and over the last', async () => {
    const { id, first } = await running({ overlap: 'buffer_all' })
    await pass(35)
    for (const seconds of [20, 30]) {
      const runId = await rig.runAt(id, seconds)
      await rig.asTenant((tx) => tx.cancels.cancelWaiting([runId]))
    }
    const [timer] = await rig.fixture.database.sql('SELECT last_run_id FROM belfry.timer')
    expect(timer?.['last_run_id']).toBe(await rig.runAt(id, 10))
    await pass(10)
    const links = await rig.fixture.database.sql<{ run_id: string; after_run_id: string }>(
      'SELECT run_id, after_run_id FROM belfry.delayed ORDER BY run_id',
    )
    const [second, fourth] = [await rig.runAt(id, 10), await rig.runAt(id, 40)]
    expect(links).toEqual([
      { run_id: second, after_run_id: first.runId },
      { run_id: fourth, after_run_id: second },
    ])
  })

  test('when the one that may start is canceled, who waits for it starts', async () => {
    const { id, first } = await running({ overlap: 'buffer_all' })
    await pass(25)
    await rig.end([first])
    await soon(id, '10 ran ready')
    const second = await rig.runAt(id, 10)
    const gone = await rig.asTenant((tx) => tx.cancels.cancelWaiting([second]))
    expect(gone.timerShards).toHaveLength(1)
    for (const shard of gone.timerShards) node.hints.publish({ topic: 'timers', key: String(shard) })
    await soon(id, '20 ran ready')
  })

  test(`${mostWaiting} wait at most; what is beyond is skipped, and says why`, async () => {
    const scheduledForMs = t0 - 999_000
    const spec = { every: '1s', everyMs: 1_000, anchorMs: scheduledForMs }
    const catchUp = { policy: 'all', maxRuns: 1_000, windowMs: 86_400_000 } as const
    const id = await rig.addSchedule({ overlap: 'buffer_all', spec, catchUp, scheduledForMs })
    await rig.startNode()
    await until('the first thousand', async () => (await rig.fixture.count('occurrence')) === 1_000)
    await pass(2)
    expect(await rig.fixture.count('ready')).toBe(1)
    expect(await rig.fixture.count('delayed')).toBe(mostWaiting)
    expect((await rig.story(id)).slice(-3)).toEqual(['0 ran waits', '1 ran waits', '2 skipped buffer_full'])
    const chain = await rig.fixture.database.sql<{ lost: number; heads: number }>(
      `SELECT count(*) FILTER (WHERE b.run_id IS NULL)::int AS heads,
              count(*) FILTER (WHERE b.run_id >= d.run_id)::int AS lost
       FROM belfry.delayed d LEFT JOIN belfry.delayed b ON b.run_id = d.after_run_id`,
    )
    expect(chain).toEqual([{ heads: 1, lost: 0 }])
  })

  test('a change to allow lets all of them go', async () => {
    const { id } = await running({ overlap: 'buffer_all' })
    await pass(25)
    const { shards } = await rig.asTenant((tx) => tx.schedules.letWaitingGo(id))
    for (const shard of shards) node.hints.publish({ topic: 'timers', key: String(shard) })
    await until('both to start', async () => (await rig.fixture.count('ready')) === 3)
    expect(await rig.story(id)).toEqual(['0 ran running', '10 ran ready', '20 ran ready'])
  })
})

describe('a wake-up that was lost', () => {
  test('costs the time until the scheduler looks for itself, and no run', async () => {
    const { id, first } = await running({ overlap: 'buffer_one' })
    await pass(11)
    // it ends without anybody letting go of who waits for it
    await playWorker(rig.fixture.database).end(first.runId)
    await pass(18)
    expect((await rig.story(id))[1]).toBe('10 ran waits')
    await pass(2)
    expect((await rig.story(id))[1]).toBe('10 ran ready')
  })

  test('the look does not start a run whose turn it is not', async () => {
    const { id } = await running({ overlap: 'buffer_one' })
    await pass(125)
    expect((await rig.story(id)).slice(0, 2)).toEqual(['0 ran running', '10 ran waits'])
    const [row] = await rig.fixture.database.sql<{ due_at: Date }>('SELECT due_at FROM belfry.delayed')
    expect(row?.due_at.getTime()).toBeGreaterThan(t0 + 125_000)
  })
})

describe('cancel_other', () => {
  test('what runs is asked to cancel, and the new one starts when it has ended', async () => {
    const { id, first } = await running({ overlap: 'cancel_other' })
    const hinted: string[] = []
    node.hints.subscribe((hint) => void (hint.topic === 'cancel' && hinted.push(hint.key)))
    await pass(12)
    expect(await rig.story(id)).toEqual(['0 ran running', '10 ran waits'])
    expect(hinted).toEqual([rig.sessionId])
    const renewal = await rig.store.renewSession(rig.sessionId, 86_400_000)
    expect(renewal.cancelRunIds).toEqual([first.runId])
    await rig.end([first], canceled)
    expect((await rig.story(id))[0]).toBe('0 ran canceled/overlap')
    await soon(id, '10 ran ready')
  })

  test('one that succeeds all the same has succeeded', async () => {
    const { id, first } = await running({ overlap: 'cancel_other' })
    await pass(12)
    await rig.end([first])
    expect((await rig.story(id))[0]).toBe('0 ran succeeded')
    await soon(id, '10 ran ready')
  })

  test('what waits for the end of the canceled one makes room for what is newer', async () => {
    const { id, first } = await running({ overlap: 'cancel_other' })
    await pass(25)
    expect(await rig.story(id)).toEqual(['0 ran running', '10 ran canceled/overlap', '20 ran waits'])
    await rig.end([first], canceled)
    await soon(id, '20 ran ready')
  })

  test('what has not started, or waits for a retry, ends at once', async () => {
    const id = await rig.addSchedule({ overlap: 'cancel_other' })
    await rig.startNode()
    await pass(12)
    expect(await rig.story(id)).toEqual(['0 ran canceled/overlap', '10 ran ready'])
    const [second] = await rig.claim()
    if (second !== undefined) await rig.end([second], { ...retried, retryDelayMs: 600_000 })
    expect((await rig.story(id))[1]).toBe('10 ran later')
    await pass(10)
    expect((await rig.story(id)).slice(1)).toEqual(['10 ran canceled/overlap', '20 ran ready'])
  })

  test('a person who asked first stays the reason', async () => {
    const { id, first } = await running({ overlap: 'cancel_other' })
    await rig.asTenant((tx) => tx.cancels.requestCancels([first.runId]))
    await pass(12)
    await rig.end([first], canceled)
    expect((await rig.story(id))[0]).toBe('0 ran canceled/canceled_by_request')
  })
})

describe('terminate_other', () => {
  test('what runs ends at once, the new one starts at once, and the worker is told', async () => {
    const { id, first } = await running({ overlap: 'terminate_other' })
    const hinted: string[] = []
    node.hints.subscribe((hint) => void (hint.topic === 'cancel' && hinted.push(hint.key)))
    await pass(12)
    expect(await rig.story(id)).toEqual(['0 ran canceled/overlap', '10 ran ready'])
    expect(hinted).toEqual([rig.sessionId])
    const renewal = await rig.store.renewSession(rig.sessionId, 86_400_000)
    expect(renewal).toMatchObject({ alive: true, heldRunIds: [], cancelRunIds: [] })
    expect(await rig.end([first])).toBe(0)
    const [attempt] = await rig.fixture.database.sql('SELECT * FROM belfry.attempt')
    expect(attempt).toMatchObject({
      run_id: first.runId,
      number: 1,
      session_id: rig.sessionId,
      lease_epoch: '1',
      outcome: 'canceled',
    })
    const ended = node.events.filter(({ name }) => name === 'attempt_ended')
    expect(ended.map(({ payload }) => payload)).toMatchObject([
      { runId: first.runId, attempt: 1, state: 'canceled', queue: 'default', durationMs: 10_000 },
    ])
  })
})

describe('allow and skip', () => {
  test('allow lets them run side by side, skip waits for the end of the last', async () => {
    const [allow, skip] = [await rig.addSchedule(), await rig.addSchedule({ overlap: 'skip' })]
    await rig.startNode()
    await pass(2 * (periodMs / 1_000) + 1)
    expect(await rig.story(allow)).toEqual(['0 ran ready', '10 ran ready', '20 ran ready'])
    expect(await rig.story(skip)).toEqual(['0 ran ready', '10 skipped overlap', '20 skipped overlap'])
  })
})

// Runs that meet at the same instant: a fire and the end of the run before it, a cancel in between, nodes
// that die. Real transactions held open against each other; then many of them at random, with real time.
import pg from 'pg'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { shardOf } from '../../packages/server/src/domain/shard.ts'
import type { TimerFire } from '../../packages/server/src/ports/firing.ts'
import { toFireColumns } from '../../packages/server/src/postgres/fire-rows.ts'
import { createPostgresFiring } from '../../packages/server/src/postgres/firing.ts'
import { createPostgresLeadership } from '../../packages/server/src/postgres/leadership.ts'
import { completeAttempts } from '../../packages/server/src/postgres/statements/completion.ts'
import { fireTimersWithPolicies } from '../../packages/server/src/postgres/statements/fire.ts'
import { createOverlapRig, type OverlapRig, periodMs } from '../support/overlap-rig.ts'
import { drawer, seedOf } from '../support/random-draws.ts'
import { realClock } from '../support/real-clock.ts'
import { newId, until } from '../support/scheduling.ts'

const t0 = Date.UTC(2026, 0, 1)
let rig: OverlapRig
const clients: pg.Client[] = []
beforeEach(async () => {
  rig = await createOverlapRig(t0)
})
afterEach(async () => {
  await Promise.all(clients.splice(0).map((client) => client.end()))
  await rig.drop()
})

/** A transaction of the engine that the test ends. */
async function openEngine(): Promise<pg.Client> {
  const client = new pg.Client(rig.fixture.database.connection)
  await client.connect()
  clients.push(client)
  await client.query('BEGIN')
  await client.query('SET LOCAL ROLE belfry_engine')
  await client.query('SET LOCAL enable_seqscan = off')
  return client
}

const waitingForLock = (count: number): Promise<void> =>
  until(`${count} to wait for a lock`, async () => (await rig.fixture.database.waiting()) >= count)

/** A fire of the schedule's time `seconds` after the start. */
function fireOf(scheduleId: string, seconds: number): TimerFire & { readonly runId: string } {
  const scheduledForMs = t0 + seconds * 1_000
  const runId = newId()
  const ran = { outcome: 'ran', reason: null, detail: null, missedCount: 1 } as const
  return {
    scheduleId,
    shard: shardOf(scheduleId),
    gen: 1,
    version: 1,
    expectedDueAtMs: scheduledForMs,
    next: { scheduledForMs: scheduledForMs + periodMs, dueAtMs: scheduledForMs + periodMs },
    plain: false,
    occurrences: [{ scheduledForMs, dueAtMs: scheduledForMs, ...ran, runId, tag: 1 }],
    runId,
  }
}

/** Holds all shards, so that a test can fire. */
async function leader() {
  const db = rig.fixture.database.open()
  const nodeId = newId()
  const node = { id: nodeId, host: 'h', version: '0' }
  const { held } = await createPostgresLeadership(db).renew(node, 86_400_000)
  const firing = createPostgresFiring(db)
  return {
    fire: (...fires: TimerFire[]) =>
      firing.fire(nodeId, held, fires, { nowMs: t0 + 3_600_000, toleranceMs: 1_000 }),
    release: (runId: string) => firing.release([{ runId, tag: 1 }]),
    paramsOf: (...fires: TimerFire[]) => [
      ...toFireColumns(fires),
      nodeId,
      held.map(({ shard }) => shard),
      held.map(({ term }) => term),
      t0 + 3_600_000,
      1_000,
      null,
    ],
  }
}

/** A schedule whose first run runs, an hour after its planned time. */
async function underWay(overlap: 'buffer_one' | 'terminate_other' | 'cancel_other') {
  const { fire, ...more } = await leader()
  const id = await rig.addSchedule({ overlap })
  await rig.fixture.database.setNow(new Date(t0 + 3_600_000))
  await fire(fireOf(id, 0))
  const [first] = await rig.claim()
  if (first === undefined) throw new Error('nothing to claim')
  return { id, first, fire, ...more }
}

const endOf = (run: { runId: string; leaseEpoch: number }, runState: string | null) => [
  [run.runId],
  [run.leaseEpoch],
  [runState === null ? 'failed' : runState],
  [runState],
  [null],
  [runState === null ? 60_000 : null],
  ['nothing'],
  [t0],
  [t0],
  [null],
  [null],
  [null],
  [null],
  [false],
  [null],
  [null],
  rig.sessionId,
]

const delayedRow = async (runId: string) => {
  const rows = await rig.fixture.database.sql<{ after_run_id: string | null; due_ms: number }>(
    `SELECT after_run_id, (extract(epoch FROM due_at) * 1000)::float8 AS due_ms
     FROM belfry.delayed WHERE run_id = $1`,
    [runId],
  )
  return rows[0]
}

describe('a fire and the end of the run before it', () => {
  test('the fire is first: the end waits for it and then lets go of who lined up', async () => {
    const { id, first, paramsOf } = await underWay('buffer_one')
    const fire = fireOf(id, 10)
    const scheduler = await openEngine()
    await scheduler.query(fireTimersWithPolicies.text, paramsOf(fire))
    const ending = rig.end([first])
    await waitingForLock(1)
    await scheduler.query('COMMIT')
    expect(await ending).toBe(1)
    expect(await delayedRow(fire.runId)).toEqual({ after_run_id: null, due_ms: t0 + 3_600_000 })
  })

  test('the end is first: the fire waits for it, and who lined up is looked at again at once', async () => {
    const { id, first, fire, release } = await underWay('buffer_one')
    const second = fireOf(id, 10)
    const worker = await openEngine()
    await worker.query(completeAttempts.text, endOf(first, 'succeeded'))
    const firing = fire(second)
    await waitingForLock(1)
    await worker.query('COMMIT')
    expect((await firing).fired).toMatchObject([{ runId: second.runId, waits: true }])
    expect((await delayedRow(second.runId))?.due_ms).toBe(t0 + 3_600_000)
    expect((await release(second.runId)).releasedRunIds).toEqual([second.runId])
  })

  test.each(['cancel_other', 'terminate_other'] as const)(
    '%s: the run goes into its retry delay meanwhile: the next look ends it, and the new one starts',
    async (overlap) => {
      const { id, first, fire, release } = await underWay(overlap)
      const second = fireOf(id, 10)
      const worker = await openEngine()
      await worker.query(completeAttempts.text, endOf(first, null))
      const firing = fire(second)
      await waitingForLock(1)
      await worker.query('COMMIT')
      expect((await firing).fired).toMatchObject([{ runId: second.runId, waits: true }])
      expect((await delayedRow(second.runId))?.due_ms).toBe(t0 + 3_600_000)
      expect(await release(second.runId)).toMatchObject({ releasedRunIds: [second.runId], putOffRunIds: [] })
      expect(await delayedRow(first.runId)).toBeUndefined()
      const told = await rig.fixture.database.sql(
        `SELECT outcome, run_state, reason, error_code FROM belfry.attempt
         WHERE run_id = $1 AND run_state IS NOT NULL`,
        [first.runId],
      )
      expect(told).toEqual([
        { outcome: 'canceled', run_state: 'canceled', reason: 'overlap', error_code: 'canceled' },
      ])
      expect((await rig.claim()).map(({ runId }) => runId)).toEqual([second.runId])
    },
  )

  test('buffer_one: the run goes into its retry delay meanwhile: the new one waits for it', async () => {
    const { id, first, fire, release } = await underWay('buffer_one')
    const second = fireOf(id, 10)
    const worker = await openEngine()
    await worker.query(completeAttempts.text, endOf(first, null))
    const firing = fire(second)
    await waitingForLock(1)
    await worker.query('COMMIT')
    expect((await firing).fired).toMatchObject([{ runId: second.runId, waits: true }])
    const answer = await release(second.runId)
    expect(answer).toMatchObject({ releasedRunIds: [], putOffRunIds: [second.runId] })
    expect(await delayedRow(second.runId)).toEqual({
      after_run_id: first.runId,
      due_ms: answer.putOffToMs,
    })
    // which told that run: its end lets go at once
    expect((await release(first.runId)).releasedRunIds).toEqual([])
    await rig.fixture.database.setNow(new Date(t0 + 3_660_000))
    expect((await release(first.runId)).releasedRunIds).toEqual([first.runId])
    await rig.end(await rig.claim())
    expect((await delayedRow(second.runId))?.after_run_id).toBeNull()
  })

  test('a fire that dies before its commit leaves nothing, and the next one does it all', async () => {
    const { id, first, fire, paramsOf } = await underWay('buffer_one')
    const lost = fireOf(id, 10)
    const scheduler = await openEngine()
    scheduler.on('error', () => undefined)
    await scheduler.query(fireTimersWithPolicies.text, paramsOf(lost))
    const [killed] = await rig.fixture.database.sql<{ done: boolean }>(
      `SELECT pg_terminate_backend(pid) AS done FROM pg_stat_activity
       WHERE datname = current_database() AND state = 'idle in transaction'`,
    )
    expect(killed).toEqual({ done: true })
    const again = fireOf(id, 10)
    expect((await fire(again)).movedScheduleIds).toEqual([id])
    expect(await delayedRow(lost.runId)).toBeUndefined()
    expect((await delayedRow(again.runId))?.after_run_id).toBe(first.runId)
  })

  test('a node that dies between the fire and the end: another one starts who waited', async () => {
    const id = await rig.addSchedule({ overlap: 'buffer_one' })
    const node = await rig.startNode()
    await rig.time.pass(1_000)
    const claimed = await rig.claim()
    await rig.time.pass(10_000)
    await node.stop()
    await rig.end(claimed)
    expect((await rig.story(id))[1]).toBe('10 ran later')
    await rig.startNode()
    await until('the second to start', async () => (await rig.story(id))[1] === '10 ran ready')
  })
})

describe('a cancel of who waits, and a fire', () => {
  test('the cancel is first: the new run lines up behind the one that runs', async () => {
    const { id, first, fire } = await underWay('buffer_one')
    const [second, third] = [fireOf(id, 10), fireOf(id, 20)]
    await fire(second)
    let firing: ReturnType<typeof fire> | undefined
    await rig.asTenant(async (tx) => {
      await tx.cancels.cancelWaiting([second.runId])
      firing = fire(third)
      await waitingForLock(1)
    })
    await firing
    // decided by what was to be seen when it began, or by what is true now: never beside the one that runs
    const row = await delayedRow(third.runId)
    const told = await rig.story(id)
    expect(row?.after_run_id ?? told[2]).toBe(row === undefined ? '20 skipped overlap' : first.runId)
    expect(await rig.fixture.count('ready')).toBe(1)
  })
})

describe('many at once', () => {
  test('fires, ends and cancels at random: never two at a time, none lost, no circle of waits', async () => {
    const schedules = 12
    const now = Date.now()
    await rig.fixture.database.sql(
      `CREATE OR REPLACE FUNCTION belfry.now() RETURNS timestamptz LANGUAGE sql STABLE PARALLEL SAFE
         RETURN pg_catalog.now()`,
    )
    await rig.fixture.database.sql("UPDATE belfry.session SET expires_at = now() + interval '1 hour'")
    const spec = { every: '1s', everyMs: 1_000, anchorMs: now }
    for (let n = 0; n < schedules; n++) {
      await rig.fixture.addSchedule({
        overlap: n % 3 === 0 ? 'buffer_one' : 'buffer_all',
        spec,
        scheduledForMs: now,
      })
    }
    rig.nodes.push(rig.fixture.node(), rig.fixture.node())
    for (const node of rig.nodes) await node.start()
    const draw = drawer(seedOf('overlap races'))
    const together: unknown[] = []
    const endMs = performance.now() + 6_000
    let [ended, canceled] = [0, 0]
    const hint = (shard: number): void => {
      for (const { hints } of rig.nodes) hints.publish({ topic: 'timers', key: String(shard) })
    }
    const work = async (): Promise<void> => {
      while (performance.now() < endMs) {
        const claimed = await rig.claim()
        await realClock.sleep(draw(2_000))
        const endedNow = await rig.end(claimed)
        ended += endedNow
        const [waiting] = await rig.fixture.database.sql<{ run_id: string }>(
          'SELECT run_id FROM belfry.delayed WHERE after_run_id IS NOT NULL ORDER BY random() LIMIT 1',
        )
        if (waiting !== undefined && draw(10) < 3) {
          const gone = await rig.asTenant((tx) => tx.cancels.cancelWaiting([waiting.run_id]))
          canceled += gone.canceledIds.length
          for (const shard of gone.timerShards) hint(shard)
        }
      }
    }
    const watch = async (): Promise<void> => {
      while (performance.now() < endMs) {
        together.push(
          ...(await rig.fixture.database.sql(
            `SELECT r.schedule_id, count(*) FROM belfry.ready q JOIN belfry.run r ON r.id = q.run_id
             GROUP BY 1 HAVING count(*) > 1`,
          )),
        )
        await realClock.sleep(15)
      }
    }
    await Promise.all([work(), work(), work(), watch()])
    await rig.fixture.database.sql('DELETE FROM belfry.timer')
    await until('all to end', async () => {
      const endedNow = await rig.end(await rig.claim())
      ended += endedNow
      // in this order: runs go from the one to the other, and none may slip by between the two looks
      return (await rig.fixture.count('delayed')) + (await rig.fixture.count('ready')) === 0
    })
    expect(together).toEqual([])
    expect(ended + canceled).toBe(await rig.fixture.count('run'))
    expect(ended).toBeGreaterThan(schedules)
    expect(canceled).toBeGreaterThan(0)
    const [circles] = await rig.fixture.database.sql<{ deadlocks: string }>(
      'SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()',
    )
    expect(circles?.deadlocks).toBe('0')
  })
})

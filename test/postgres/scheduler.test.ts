// The scheduler on real Postgres, in real time with short periods. Where the hour matters: scheduler-virtual.
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { createPostgresFiring } from '../../packages/server/src/postgres/firing.ts'
import type { Firing } from '../../packages/server/src/ports/firing.ts'
import {
  createSchedulingFixture,
  idInShard,
  type SchedulingFixture,
  type TestNode,
  until,
} from '../support/scheduling.ts'

let fixture: SchedulingFixture
beforeEach(async () => {
  fixture = await createSchedulingFixture()
})
afterEach(() => fixture.drop())

const untilLeading = (node: TestNode): Promise<void> =>
  until('all shards held', () => node.elector.heldShards().length === 64)

const atSpec = (ms: number) => ({ at: new Date(ms).toISOString() })
const everySecond = (anchorMs: number) => ({ every: '1s', everyMs: 1_000, anchorMs })

/** Lateness of each occurrence that ran, by what was written. */
const latenesses = async (): Promise<number[]> => {
  const rows = await fixture.database.sql<{ late: number }>(
    `SELECT (extract(epoch FROM fired_at - due_at) * 1000)::float8 AS late
     FROM belfry.occurrence WHERE outcome = 'ran'`,
  )
  return rows.map(({ late }) => late)
}

function outcomesOf(node: TestNode) {
  return node.events.flatMap(({ name, payload }) =>
    name === 'occurrences_fired'
      ? (payload as { outcomes: { scheduleId: string; lateMs: number }[] }).outcomes
      : [],
  )
}

describe('in real time', () => {
  test('fires what is there at the start, what comes by a hint, and a rate again and again', async () => {
    const node = fixture.node()
    const nowMs = Date.now()
    const once = await fixture.addSchedule({ scheduledForMs: nowMs + 400, spec: atSpec(nowMs + 400) })
    const rate = await fixture.addSchedule({ scheduledForMs: nowMs - 200, spec: everySecond(nowMs - 200) })
    const delayed = await fixture.addDelayed({ dueAtMs: nowMs + 300 })
    await node.start()
    await until('the first to fire', async () => (await fixture.occurrences(once)).length === 1)
    const soon = Math.ceil(Date.now()) + 250
    const hinted = await fixture.addSchedule({ id: idInShard(33), scheduledForMs: soon, spec: atSpec(soon) })
    node.hints.publish({ topic: 'timers', key: '33' })
    await until('the hinted one to fire', async () => (await fixture.occurrences(hinted)).length === 1, 5_000)
    await until('the rate to fire three times', async () => (await fixture.occurrences(rate)).length >= 3)
    const ready = await fixture.database.sql<{ run_id: string }>('SELECT run_id FROM belfry.ready')
    expect(ready.map(({ run_id }) => run_id)).toContain(delayed)
    expect(node.events.some(({ name }) => name === 'runs_released')).toBe(true)
    const planned = (await fixture.occurrences(rate)).map(
      ({ scheduled_for }) => scheduled_for.getTime() - nowMs,
    )
    expect(planned.slice(0, 3)).toEqual([-200, 800, 1_800])
    expect(node.events.filter(({ name }) => name === 'role_failed')).toEqual([])
  })

  test('two schedulers on the same shards: each planned time once, whoever is first', async () => {
    // Both are told that they hold everything under the present term; only the transaction decides.
    const leader = fixture.node()
    await leader.elector.start()
    await untilLeading(leader)
    const held = leader.elector.heldShards()
    const { nodeId } = leader.elector
    const renewal = { held, share: 64, liveNodes: 1, nextExpiryMs: null }
    const firing = createPostgresFiring(fixture.database.open())
    const twins = [0, 1].map(() =>
      fixture.node({
        leadership: {
          renew: () => Promise.resolve({ ...renewal, nowMs: Date.now() }),
          resign: () => Promise.resolve(),
        },
        firing: { ...firing, fire: (_self, ...rest) => firing.fire(nodeId, ...rest) },
      }),
    )
    const startMs = Date.now() + 300
    const schedules = await Promise.all(
      Array.from({ length: 60 }, (_, i) =>
        fixture.addSchedule({ scheduledForMs: startMs + i, spec: everySecond(startMs + i) }),
      ),
    )
    for (const twin of twins) await twin.start()
    await until('three planned times each', async () => {
      const rows = await fixture.database.sql<{ least: number }>(
        `SELECT min(n)::int AS least
         FROM (SELECT count(*) AS n FROM belfry.occurrence GROUP BY schedule_id) AS each`,
      )
      return (rows[0]?.least ?? 0) >= 3 && (await fixture.count('occurrence')) >= schedules.length * 3
    })
    for (const twin of twins) await twin.scheduler.stop()
    expect(await fixture.count('run')).toBe(await fixture.count('occurrence'))
    for (const id of schedules) {
      const planned = (await fixture.occurrences(id)).map(({ scheduled_for }) => scheduled_for.getTime())
      for (const [index, ms] of planned.slice(1).entries()) expect(ms - (planned[index] ?? 0)).toBe(1_000)
    }
    const byTwin = twins.map((twin) => outcomesOf(twin).length)
    expect(byTwin.reduce((sum, count) => sum + count, 0)).toBe(await fixture.count('occurrence'))
  })

  test('incident 31, incident 37: a hand-over right before a slot is fired once, hardly late', async () => {
    const { hints } = fixture.node()
    const [first, second] = [fixture.node({ hints }), fixture.node({ hints })]
    await first.start()
    await untilLeading(first)
    await second.start()
    await until('an even share', () => second.elector.heldShards().length === 32)
    const slotMs = Date.now() + 500
    const ids = Array.from({ length: 64 }, (_, shard) => idInShard(shard))
    for (const id of ids) await fixture.addSchedule({ id, scheduledForMs: slotMs, spec: atSpec(slotMs) })
    for (let shard = 0; shard < 64; shard++) hints.publish({ topic: 'timers', key: String(shard) })
    await first.stop()
    await until('all to fire', async () => (await fixture.count('occurrence')) === 64)
    expect(await fixture.count('run')).toBe(64)
    expect(await fixture.count('timer')).toBe(0)
    expect(Math.max(...(await latenesses()))).toBeLessThan(2_000)
  })

  test('a holder that dies is succeeded within its term; nothing is lost or doubled (G8)', async () => {
    const real = fixture.leadership
    let dead = false
    const mortal = {
      renew: (...args: Parameters<typeof real.renew>) =>
        dead
          ? new Promise<never>((_, reject) => setImmediate(() => reject(new Error('dead'))))
          : real.renew(...args),
      resign: () => Promise.resolve(),
    }
    const dying = fixture.node({ termMs: 2_000, leadership: mortal })
    await dying.start()
    await untilLeading(dying)
    const heir = fixture.node({ termMs: 2_000 })
    const startMs = Date.now() + 200
    const id = await fixture.addSchedule({
      scheduledForMs: startMs,
      spec: everySecond(startMs),
      catchUp: { policy: 'all' },
    })
    dying.hints.publish({ topic: 'timers', key: String(Number.parseInt(id.slice(-2), 16) & 63) })
    await until('the first slots', async () => (await fixture.occurrences(id)).length >= 2)
    await heir.start()
    dead = true
    await until('the heir to lead', () => heir.elector.heldShards().length === 64)
    const before = (await fixture.occurrences(id)).length
    await until('the heir to go on', async () => (await fixture.occurrences(id)).length > before + 2)
    const planned = (await fixture.occurrences(id)).map(({ scheduled_for, outcome }) => [
      scheduled_for.getTime(),
      outcome,
    ])
    expect(planned).toEqual(planned.map((_, index) => [startMs + index * 1_000, 'ran']))
    expect(Math.max(...(await latenesses()))).toBeLessThan(3_500)
  })

  test('one poisonous timer is set aside with words; the others of its batch fire', async () => {
    const real = createPostgresFiring(fixture.database.open())
    let poison = ''
    const firing: Firing = {
      ...real,
      fire: (node, terms, fires, assumed) =>
        fires.some(({ scheduleId }) => scheduleId === poison)
          ? Promise.reject(Object.assign(new Error('invalid byte sequence'), { code: '22021' }))
          : real.fire(node, terms, fires, assumed),
    }
    const dueMs = Date.now()
    const ids = await Promise.all(
      Array.from({ length: 40 }, () => fixture.addSchedule({ scheduledForMs: dueMs, spec: atSpec(dueMs) })),
    )
    const broken = await fixture.addSchedule({
      scheduledForMs: dueMs,
      spec: { cron: 'not a cron', dialect: 'unix' },
    })
    poison = ids[17] ?? ''
    const node = fixture.node({ firing })
    await node.start()
    await until('the others to fire', async () => (await fixture.count('occurrence')) === 39)
    const failures = node.events
      .filter(({ name }) => name === 'role_failed')
      .map(({ payload }) => payload as { error: Error })
    expect(failures.map(({ error }) => error.message).join('\n')).toContain(poison)
    expect(failures.map(({ error }) => error.message).join('\n')).toContain(broken)
    poison = ''
    await until('the healed one to fire', async () => (await fixture.count('occurrence')) === 40)
  })

  test('a failure of the database ends a round, not the chain', async () => {
    const real = createPostgresFiring(fixture.database.open())
    let fails = 3
    const down = Object.assign(new Error('Connection terminated unexpectedly'), {})
    const { toDatabaseError } = await import('../../packages/server/src/postgres/database-error.ts')
    const firing: Firing = {
      ...real,
      fire: async (...args) => {
        if (fails-- > 0) throw toDatabaseError(down)
        return real.fire(...args)
      },
    }
    const dueMs = Date.now()
    const id = await fixture.addSchedule({ scheduledForMs: dueMs, spec: atSpec(dueMs) })
    const node = fixture.node({ firing })
    await node.start()
    await until('it to fire', async () => (await fixture.occurrences(id)).length === 1)
    expect(node.events.filter(({ name }) => name === 'role_failed')).toHaveLength(3)
  })

  test('a bounded heap: more timers at one instant than it may hold, and all fire', async () => {
    const dueMs = Date.now() + 300
    await fixture.database.sql(
      `WITH made AS (
         INSERT INTO belfry.schedule
           (id, tenant_id, name, job_id, spec, zone, zone_data_version, catch_up, overlap)
         SELECT (lpad(to_hex(n), 12, '0') || '70008000' || lpad(to_hex(n * 2654435761), 12, '0'))::uuid,
                $1, 'm' || n, $2, $3, 'UTC', '',
                '{"policy":"latest","windowMs":86400000,"maxRuns":100}', 'allow'
         FROM generate_series(1, 3000) AS n RETURNING id)
       INSERT INTO belfry.timer (schedule_id, tenant_id, due_at, scheduled_for, gen, shard)
       SELECT id, $1, $4, $4, 1, belfry.shard_of(id) FROM made`,
      [
        fixture.tenantId,
        fixture.jobId,
        { every: '1h', everyMs: 3_600_000, anchorMs: dueMs },
        new Date(dueMs),
      ],
    )
    const node = fixture.node({ maxTimers: 400, maxBatch: 50 })
    let most = 0
    await node.start()
    await until('all to fire', async () => {
      most = Math.max(most, node.scheduler.stats().timers)
      return (await fixture.count('occurrence')) === 3_000
    })
    expect(most).toBeLessThanOrEqual(400)
    expect(await fixture.count('ready')).toBe(3_000)
  })
})

// The timer index in Redis, held to the suite that every one must pass; and what is its own: what a crash
// between taking and committing leaves, an index that was lost, filled with garbage, full, or away.
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { createRedisLink, type RedisLink } from '../../packages/server/src/adapters/redis/redis-link.ts'
import { createRedisTimerIndex } from '../../packages/server/src/adapters/redis/redis-timer-index.ts'
import type { DueTimer, TimerIndex } from '../../packages/server/src/ports/timer-index.ts'
import { createPostgresTimerIndex } from '../../packages/server/src/postgres/timer-index.ts'
import { describeNeeding } from '../support/needs.ts'
import { realClock, realRandom } from '../support/real-clock.ts'
import { startRedisServer } from '../support/redis-server.ts'
import { eventually, recordEvents } from '../support/running.ts'
import { createSchedulingFixture, idInShard } from '../support/scheduling.ts'
import { describeTimerIndex } from './timer-index.ts'

const startMs = Date.UTC(2026, 0, 1)

async function createRig(program: string) {
  const server = await startRedisServer(program)
  const fixture = await createSchedulingFixture()
  await fixture.database.useVirtualNow(new Date(startMs))
  const time = { nowMs: startMs }
  const reads: number[] = []
  const failing = { reads: 0 }
  const postgres = createPostgresTimerIndex(fixture.database.open())
  const truth: TimerIndex = {
    ...postgres,
    async scan(options) {
      if (failing.reads-- > 0) throw new Error('Postgres failed')
      reads.push(...options.shards)
      return postgres.scan(options)
    },
  }
  const links: RedisLink[] = []
  /** An index as another process has it. */
  async function open() {
    const events = recordEvents()
    const redis = createRedisLink({ url: server.url, clock: realClock, random: realRandom, events })
    links.push(redis)
    await redis.start()
    const databaseClock = { nowMs: () => time.nowMs }
    return { redis, events, index: createRedisTimerIndex({ redis, truth, databaseClock, prefix: 'belfry' }) }
  }
  const first = await open()
  return {
    ...first,
    server,
    fixture,
    open,
    failReads: (count: number) => void (failing.reads = count),
    /** Shards that were read in Postgres. */
    reads,
    tenantId: fixture.tenantId,
    nowMs: startMs,
    setNow: async (nowMs: number) => {
      time.nowMs = nowMs
      await fixture.database.setNow(new Date(nowMs))
    },
    idInShard,
    addSchedule: (timer: { id: string; dueAtMs: number; scheduledForMs: number }) =>
      fixture.addSchedule(timer),
    addRun: (timer: { id: string; dueAtMs: number }) => fixture.addDelayed(timer),
    remove: (id: string) => fixture.database.sql('DELETE FROM belfry.timer WHERE schedule_id = $1', [id]),
    moveTo: (id: string, dueAtMs: number) =>
      fixture.database.sql('UPDATE belfry.timer SET due_at = $2, scheduled_for = $2 WHERE schedule_id = $1', [
        id,
        new Date(dueAtMs),
      ]),
    clear: async () => {
      await fixture.database.sql('TRUNCATE belfry.timer, belfry.delayed, belfry.schedule, belfry.run CASCADE')
      await server.say('FLUSHALL')
      time.nowMs = startMs
      await fixture.database.setNow(new Date(startMs))
    },
    drop: async () => {
      for (const link of links) await link.close()
      await server.kill()
      await fixture.drop()
    },
  }
}

describeNeeding('redis', 'timer index in Redis', (program) => {
  describeTimerIndex('Redis', () => createRig(program))

  describe('of its own', () => {
    let rig: Awaited<ReturnType<typeof createRig>>
    beforeAll(async () => {
      rig = await createRig(program)
    })
    afterAll(() => rig.drop())
    beforeEach(() => rig.clear())

    async function addAt(shard: number, dueAtMs: number): Promise<string> {
      const id = idInShard(shard)
      await rig.addSchedule({ id, dueAtMs, scheduledForMs: dueAtMs })
      return id
    }
    const scan = async (
      index: TimerIndex,
      shard: number,
      horizonMs = 60_000,
    ): Promise<readonly DueTimer[]> => {
      const page = await index.scan({ shards: [shard], horizonMs, limit: 100, cursor: null, fromMs: null })
      return page.timers
    }
    const idsOf = (timers: readonly DueTimer[]): string[] => timers.map(({ id }) => id)

    test('Postgres is read once for what falls due in the next minutes', async () => {
      const { index } = await rig.open()
      const id = await addAt(7, startMs + 200_000)
      expect(await scan(index, 7)).toEqual([])
      await scan(index, 7)
      rig.reads.length = 0
      await rig.setNow(startMs + 150_000)
      expect(idsOf(await scan(index, 7))).toEqual([id])
      expect(rig.reads.length).toBeLessThanOrEqual(1)
    })

    test('incident 33: what a process took that died before its commit comes back for the next', async () => {
      const dead = await rig.open()
      const id = await addAt(9, startMs)
      const taken = await scan(dead.index, 9)
      await dead.index.take(taken)
      await dead.redis.close()
      expect(await rig.server.say('ZCARD belfry:{9}:inflight')).toContain(':1')
      const heir = await rig.open()
      expect(idsOf(await scan(heir.index, 9))).toEqual([id])
      expect(await rig.server.say('ZCARD belfry:{9}:inflight')).toContain(':0')
    })

    test('what was taken before a term ended is there at once in the next term', async () => {
      const one = await rig.open()
      const other = await rig.open()
      const id = await addAt(8, startMs)
      expect(idsOf(await scan(other.index, 8)), 'known there from before').toEqual([id])
      await one.index.take(await scan(one.index, 8))
      expect(await scan(one.index, 8)).toEqual([])
      one.index.gained([8])
      expect(idsOf(await scan(one.index, 8))).toEqual([id])
      await one.index.take(await scan(one.index, 8))
      other.index.gained([8])
      expect(idsOf(await scan(other.index, 8))).toEqual([id])
    })

    test('incident 33: what was taken and never settled comes back after a while', async () => {
      const { index } = await rig.open()
      const id = await addAt(10, startMs)
      await index.take(await scan(index, 10))
      expect(await scan(index, 10)).toEqual([])
      await rig.setNow(startMs + 31_000)
      expect(idsOf(await scan(index, 10))).toEqual([id])
    })

    test('a take alone never loses: the timer is there for whoever reads Postgres', async () => {
      const { index } = await rig.open()
      const id = await addAt(9, startMs)
      await index.take(await scan(index, 9))
      await rig.server.say('FLUSHALL')
      expect(idsOf(await scan(index, 9))).toEqual([id])
    })

    test('an emptied Redis is noticed by the next read, and the index is built anew', async () => {
      const { index } = await rig.open()
      const id = await addAt(11, startMs + 10_000)
      expect(idsOf(await scan(index, 11))).toEqual([id])
      await rig.server.say('FLUSHALL')
      expect(idsOf(await scan(index, 11))).toEqual([id])
      expect(idsOf(await scan(index, 11))).toEqual([id])
      expect(await rig.server.say('ZCARD belfry:{11}:timers')).toContain(':1')
    })

    test('what changed while Postgres failed is read once it answers', async () => {
      const { index } = await rig.open()
      await scan(index, 17)
      const id = await addAt(17, startMs + 10_000)
      index.changed(17)
      rig.failReads(1)
      await expect(scan(index, 17)).rejects.toThrow('Postgres failed')
      expect(idsOf(await scan(index, 17))).toEqual([id])
    })

    test('a timer of long ago that is told to have changed is read as well', async () => {
      const { index } = await rig.open()
      await scan(index, 18)
      const id = await addAt(18, startMs - 3_600_000)
      index.changed(18)
      expect(await scan(index, 18)).toEqual([])
      index.changed(18, -Infinity)
      expect(idsOf(await scan(index, 18))).toEqual([id])
    })

    test('killed: Postgres is read; back and empty: the index is built anew', async () => {
      const { index, redis } = await rig.open()
      const first = await addAt(12, startMs + 10_000)
      await scan(index, 12)
      await rig.server.kill()
      await eventually(() => !redis.up, 'the link notices')
      const second = await addAt(12, startMs + 20_000)
      expect(idsOf(await scan(index, 12))).toEqual([first, second])
      await index.take(await scan(index, 12))
      await rig.server.start()
      await eventually(() => redis.up, 'the link comes back')
      expect(idsOf(await scan(index, 12))).toEqual([first, second])
      expect(await rig.server.say('ZCARD belfry:{12}:timers')).toContain(':2')
    })

    test('full, and not allowed to evict: Postgres is read', async () => {
      const { index } = await rig.open()
      await rig.server.say('CONFIG SET maxmemory-policy noeviction')
      await rig.server.say('CONFIG SET maxmemory 1')
      const id = await addAt(13, startMs + 10_000)
      expect(idsOf(await scan(index, 13))).toEqual([id])
      await rig.server.say('CONFIG SET maxmemory 0')
      expect(idsOf(await scan(index, 13))).toEqual([id])
    })

    test.each([
      ['text', 'garbage'],
      ['an id alone', '019b76da-a800-7000-8000-000000000000'],
      ['another form', '019b76da-a800-7000-8000-000000000000["x",1,{}]'],
      ['nested deep', `019b76da-a800-7000-8000-000000000000${'['.repeat(500)}`],
    ])('what is no timer makes nothing run, and goes: %s', async (_, member) => {
      const { index, redis } = await rig.open()
      const id = await addAt(14, startMs + 10_000)
      await scan(index, 14)
      await redis.run((client) => client.zadd('belfry:{14}:timers', startMs, member))
      await redis.run((client) => client.zadd('belfry:{14}:inflight', 0, member))
      expect(idsOf(await scan(index, 14))).toEqual([id])
      expect(idsOf(await scan(index, 14))).toEqual([id])
      expect(await rig.server.say('ZCARD belfry:{14}:timers')).toContain(':1')
    })

    describe.each(['timers', 'inflight', 'index'])('a key of another type: %s', (key) => {
      const spoil = async () => {
        await rig.server.say(`DEL belfry:{15}:${key}`)
        await rig.server.say(`SET belfry:{15}:${key} nonsense`)
      }
      const healed = async () => {
        expect(await rig.server.say('TYPE belfry:{15}:index')).toContain('+hash')
        expect(await rig.server.say('ZCARD belfry:{15}:timers')).toContain(':1')
      }

      test.each(['before it is opened', 'while it is in use'])(
        '%s: it is thrown away, and told once',
        async (when) => {
          const { index, events } = await rig.open()
          const id = await addAt(15, startMs + 10_000)
          if (when === 'while it is in use') await scan(index, 15)
          await spoil()
          for (let i = 0; i < 3; i++) expect(idsOf(await scan(index, 15))).toEqual([id])
          await healed()
          expect(events.of('redis_mended')).toEqual([{ at: 'belfry:{15}', count: 1 }])
        },
      )

      test('between a scan and the fire', async () => {
        const { index, events } = await rig.open()
        const id = await addAt(15, startMs)
        const taken = await scan(index, 15)
        await spoil()
        await index.take(taken)
        await index.settle([], taken)
        expect(idsOf(await scan(index, 15))).toEqual([id])
        await healed()
        expect(events.of('redis_mended')).toHaveLength(1)
      })
    })

    test.each(['nonsense', 'nan', 'inf', '99999999999999', ''])(
      'an index that says to reach up to %j is built anew',
      async (until) => {
        const before = await rig.open()
        await scan(before.index, 19)
        const id = await addAt(19, startMs + 10_000)
        await before.redis.run((client) => client.hset('belfry:{19}:index', 'until', until))
        const { index, events } = await rig.open()
        expect(idsOf(await scan(index, 19))).toEqual([id])
        expect(events.of('redis_mended')).toEqual([{ at: 'belfry:{19}', count: 1 }])
      },
    )

    test.each(['1.2.3', '1e999', '--1', 'e'])(
      'what was being fired and says to be due at %s goes',
      async (due) => {
        const { index, redis } = await rig.open()
        const id = await addAt(20, startMs + 10_000)
        await scan(index, 20)
        const member = `019b76da-a800-7000-8000-000000000000[${due},"x"]`
        await redis.run((client) => client.zadd('belfry:{20}:inflight', 0, member))
        for (let i = 0; i < 2; i++) expect(idsOf(await scan(index, 20))).toEqual([id])
        expect(await rig.server.say('ZCARD belfry:{20}:inflight')).toContain(':0')
      },
    )

    test('of two generations of a schedule the later one is answered', async () => {
      const { index } = await rig.open()
      const id = await addAt(16, startMs + 10_000)
      await scan(index, 16)
      await rig.fixture.database.sql(
        'UPDATE belfry.timer SET due_at = $2, scheduled_for = $2, gen = gen + 1 WHERE schedule_id = $1',
        [id, new Date(startMs + 20_000)],
      )
      index.changed(16)
      expect(await scan(index, 16)).toMatchObject([{ id, gen: 2, dueAtMs: startMs + 20_000 }])
    })
  })
})

// `belfry doctor` and a real Redis: what is wrong with it is named, with what to do, and never its
// password. And the rights that docs/how-to/redis.md gives: they are enough for all that Belfry does there,
// and for nothing else.
import { readFileSync } from 'node:fs'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { createRedisLeadership } from '../../packages/server/src/adapters/redis/redis-leadership.ts'
import { createRedisLink } from '../../packages/server/src/adapters/redis/redis-link.ts'
import { createRedisTimerIndex } from '../../packages/server/src/adapters/redis/redis-timer-index.ts'
import { examineRedis } from '../../packages/server/src/compose/doctor-redis.ts'
import { createPostgresLeadership, createTermLedger } from '../../packages/server/src/postgres/leadership.ts'
import { createPostgresTimerIndex } from '../../packages/server/src/postgres/timer-index.ts'
import { describeNeeding } from '../support/needs.ts'
import { realClock, realRandom } from '../support/real-clock.ts'
import { type RedisServer, startRedisServer } from '../support/redis-server.ts'
import { eventually, recordEvents } from '../support/running.ts'
import { createSchedulingFixture, idInShard, newId } from '../support/scheduling.ts'

describeNeeding('redis', 'a real Redis', (program) => {
  let server: RedisServer
  beforeAll(async () => {
    server = await startRedisServer(program)
  })
  afterAll(() => server.kill())

  it('that is as it should be', async () => {
    expect(await examineRedis(server.url)).toMatchObject([
      { name: 'redis', status: 'ok', fix: null },
      { name: 'redis_eviction', status: 'ok' },
    ])
  })

  it('that may throw timers away', async () => {
    await server.say('CONFIG SET maxmemory-policy allkeys-lru')
    const [, eviction] = await examineRedis(server.url)
    await server.say('CONFIG SET maxmemory-policy noeviction')
    expect(eviction?.status).toBe('warn')
    expect(eviction?.fix).toContain('noeviction')
  })

  it('that is not there, or does not know the password', async () => {
    const away = await examineRedis('redis://user:a-secret@127.0.0.1:1')
    expect(away.map(({ status }) => status)).toEqual(['fail'])
    expect(away[0]?.fix).toContain('REDIS_URL')
    const wrong = await examineRedis(`redis://user:a-secret@127.0.0.1:${server.port}`)
    expect(wrong).toMatchObject([{ status: 'fail' }])
    expect(JSON.stringify([away, wrong])).not.toContain('a-secret')
  })

  it('with the rights of the docs: enough for Belfry, and no key beside its own', async () => {
    const page = readFileSync(new URL('../../docs/how-to/redis.md', import.meta.url), 'utf8')
    const rights = /^ACL SETUSER belfry .*$/m.exec(page)?.[0].replace('PASSWORD', 'a-secret')
    expect(await server.say(rights ?? 'none')).toContain('+OK')
    const url = `redis://belfry:a-secret@127.0.0.1:${server.port}`
    expect(await examineRedis(url)).toMatchObject([{ status: 'ok' }, { status: 'ok' }])

    const events = recordEvents()
    const redis = createRedisLink({ url, clock: realClock, random: realRandom, events })
    const heard: string[] = []
    redis.listen('belfry:hints', (message) => heard.push(message))
    await redis.start()
    const fixture = await createSchedulingFixture()
    const db = fixture.database.open()
    const common = { redis, prefix: 'belfry' }
    const away = (): never => {
      throw new Error('Postgres was asked instead')
    }
    const leadership = createRedisLeadership({
      ...common,
      terms: createTermLedger(db),
      otherwise: { ...createPostgresLeadership(db), renew: away },
    })
    const node = { id: newId(), host: 'here', version: '0' }
    expect((await leadership.renew(node, 15_000)).held).toHaveLength(64)
    await leadership.resign(node.id)
    const dueAtMs = Date.now() + 10_000
    await fixture.addSchedule({ id: idInShard(3), dueAtMs, scheduledForMs: dueAtMs })
    const databaseClock = { nowMs: () => Date.now() }
    const index = createRedisTimerIndex({ ...common, truth: createPostgresTimerIndex(db), databaseClock })
    const asked = { shards: [3], horizonMs: 60_000, limit: 10, cursor: null, fromMs: null }
    const { timers, nowMs } = await index.scan(asked)
    expect(nowMs, 'Redis answered').toBeNull()
    await index.take(timers)
    expect(await index.mend(timers)).toEqual([])
    await index.settle(timers, [])
    await eventually(
      async () => (await server.say('PUBSUB NUMSUB belfry:hints')).includes(':1'),
      'it listens',
    )
    await redis.run((client) => client.publish('belfry:hints', 'x ready default'))
    await eventually(() => heard.length > 0, 'it hears')

    await expect(redis.run((client) => client.set('other', '1'))).rejects.toThrow(/permission/i)
    await expect(redis.run((client) => client.flushall())).rejects.toThrow(/permission/i)
    await redis.close()
    await fixture.drop()
  })
})

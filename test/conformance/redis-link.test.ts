// Whether Redis is there, as an operator sees it: said at the start too, with the cause, also where it only
// falls silent, and where nobody can be heard.
import { afterAll, beforeAll, expect, it } from 'vitest'
import { createRedisLink } from '../../packages/server/src/adapters/redis/redis-link.ts'
import { describeNeeding } from '../support/needs.ts'
import { realClock, realRandom } from '../support/real-clock.ts'
import { type RedisServer, startRedisServer } from '../support/redis-server.ts'
import { eventually, recordEvents } from '../support/running.ts'

describeNeeding('redis', 'the link to Redis', (program) => {
  let server: RedisServer
  beforeAll(async () => {
    server = await startRedisServer(program)
  })
  afterAll(() => server.kill())

  async function open(url: string, channel?: string) {
    const events = recordEvents()
    const redis = createRedisLink({ url, clock: realClock, random: realRandom, events })
    if (channel !== undefined) redis.listen(channel, () => undefined)
    await redis.start()
    return { redis, changes: () => events.of('part_changed') }
  }

  it.each([
    ['a wrong password', (port: number) => `redis://:wrong@127.0.0.1:${port}`, /password|AUTH/i],
    ['no such host', () => 'redis://no.such.host.invalid', /ENOTFOUND|EAI_AGAIN/],
    ['nobody there', () => 'redis://127.0.0.1:1', /ECONNREFUSED/],
  ])('says at the start that it is away, and why: %s', async (_, urlOf, why) => {
    await server.say('CONFIG SET requirepass sesame')
    const { redis, changes } = await open(urlOf(server.port))
    expect(changes().at(-1)).toMatchObject({ part: 'redis', state: 'away' })
    expect(redis.stats().fault).toMatch(why)
    await redis.close()
    await server.kill()
    await server.start()
  })

  it('notices that it is frozen, and that it goes on', async () => {
    const { redis, changes } = await open(server.url)
    await eventually(() => redis.up, 'it is there')
    server.pause()
    await expect(redis.run((client) => client.ping())).rejects.toThrow('timed out')
    expect(redis.stats()).toMatchObject({ up: false, fault: 'it does not answer within 1000 ms' })
    expect(changes().at(-1)).toMatchObject({ state: 'away' })
    server.goOn()
    await eventually(() => redis.up, 'it is back')
    expect(changes().at(-1)).toMatchObject({ state: 'up', fault: null })
    await redis.close()
  })

  it('counts as away while it may not be listened to', async () => {
    await server.say('ACL SETUSER mute on >p ~* +@all -subscribe')
    const { redis } = await open(`redis://mute:p@127.0.0.1:${server.port}`, 'belfry:hints')
    await eventually(() => redis.stats().fault?.includes('listened') === true, 'it says why')
    expect(redis.up).toBe(false)
    await redis.close()
  })
})

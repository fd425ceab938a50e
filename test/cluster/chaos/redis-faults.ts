// Redis emptied, killed, filled, or replaced by one that is empty.
import type { RedisServer } from '../../support/redis-server.ts'
import { type Fault, noticedAway } from './fault.ts'
import type { World } from './world.ts'

function redisOf(world: World): RedisServer {
  const { redis } = world.stores
  if (redis === undefined) throw new Error('there is no Redis')
  return redis
}

const leads = 'KEYS belfry:*:{leaders}:nodes'

async function missedReturn(redis: RedisServer): Promise<string | undefined> {
  return (await redis.say(leads)).includes('*1') ? undefined : 'Redis does not lead again'
}

export const flushRedis: Fault = {
  async wreak(world) {
    for (const second of [2, 5.5, 9]) {
      await world.until(second + world.draw(15) / 10)
      await redisOf(world).say('FLUSHALL')
      world.note('FLUSHALL')
    }
  },
  missed: (world) => missedReturn(redisOf(world)),
}

export const killRedis: Fault = {
  async wreak(world) {
    await world.until(2 + world.draw(10) / 10)
    await redisOf(world).kill()
    world.note('kill -9 Redis')
    await world.until(8)
    await redisOf(world).start()
    world.note('Redis is back, empty')
  },
  missed: async (world) => (await noticedAway('redis')(world)) ?? missedReturn(redisOf(world)),
}

/** With `noeviction`, as Belfry asks for: writes are refused. */
export const fillRedis: Fault = {
  async wreak(world) {
    await world.until(2 + world.draw(10) / 10)
    await redisOf(world).say('CONFIG SET maxmemory 1')
    world.note('Redis is full')
    await world.until(8)
    await redisOf(world).say('CONFIG SET maxmemory 0')
    world.note('Redis has room again')
  },
  missed: async (world) => {
    const refused = /errorstat_OOM:count=(\d+)/.exec(await whole(redisOf(world)))
    return Number(refused?.[1] ?? 0) > 0 ? missedReturn(redisOf(world)) : 'Redis refused nothing'
  },
}

const whole = (redis: RedisServer): Promise<string> => redis.say('INFO errorstats')

export const failOverRedis: Fault = {
  async wreak(world) {
    const { spareRedis } = world.ground
    if (spareRedis === undefined) throw new Error('there is no spare Redis')
    await world.until(3 + world.draw(20) / 10)
    await redisOf(world).kill()
    spareRedis.takeOver()
    world.note('another Redis, empty, answers at the address')
  },
  missed: async ({ ground }) =>
    ground.spareRedis === undefined ? 'there is no spare Redis' : missedReturn(ground.spareRedis.server),
}

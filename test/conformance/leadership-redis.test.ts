// Leadership by Redis with terms in Postgres, held to the suite that every one must pass; and what is its
// own: Redis away, emptied, cut off from one node only.
import { expect, test } from 'vitest'
import { createRedisLeadership } from '../../packages/server/src/adapters/redis/redis-leadership.ts'
import { createRedisLink } from '../../packages/server/src/adapters/redis/redis-link.ts'
import { createPostgresLeadership, createTermLedger } from '../../packages/server/src/postgres/leadership.ts'
import { describeNeeding } from '../support/needs.ts'
import { createTestDatabase } from '../support/postgres.ts'
import { realClock, realRandom } from '../support/real-clock.ts'
import { startRedisServer } from '../support/redis-server.ts'
import { eventually, recordEvents } from '../support/running.ts'
import { newId } from '../support/scheduling.ts'
import { describeLeadership } from './leadership.ts'

const termMs = 15_000

/** Ages all that Redis keeps of leads and nodes, as `ms` gone by would. */
const age = `
for _, key in ipairs(redis.call('KEYS', '*')) do
  if redis.call('TYPE', key).ok == 'zset' then
    for _, member in ipairs(redis.call('ZRANGE', key, 0, -1)) do
      redis.call('ZINCRBY', key, -tonumber(ARGV[1]), member)
    end
  else
    local left = redis.call('PTTL', key) - tonumber(ARGV[1])
    if left > 0 then redis.call('PEXPIRE', key, left) else redis.call('DEL', key) end
  end
end`

async function createRig(program: string) {
  const server = await startRedisServer(program)
  const database = await createTestDatabase()
  let nowMs = Date.UTC(2026, 0, 1)
  await database.useVirtualNow(new Date(nowMs))
  const events = recordEvents()
  const links: { close: () => Promise<void> }[] = []
  async function open(url = server.url) {
    const redis = createRedisLink({ url, clock: realClock, random: realRandom, events })
    links.push(redis)
    await redis.start()
    const db = database.open()
    const leadership = createRedisLeadership({
      redis,
      terms: createTermLedger(db),
      otherwise: createPostgresLeadership(db),
      prefix: 'belfry',
    })
    return { redis, leadership }
  }
  const { redis, leadership } = await open()
  return {
    server,
    open,
    database,
    redis,
    leadership,
    newId,
    // its times are those of the server's clock, which goes on while a test runs
    slackMs: 500,
    advance: async (ms: number) => {
      nowMs += ms
      await database.setNow(new Date(nowMs))
      await redis.run((client) => client.eval(age, 0, ms)).catch(() => undefined)
    },
    drop: async () => {
      for (const link of links) await link.close()
      await server.kill()
      await database.drop()
    },
  }
}

describeNeeding('redis', 'leadership by Redis', (program) => {
  describeLeadership('Redis', () => createRig(program))

  const node = () => ({ id: newId(), host: 'here', version: '0.0.0' })

  test('while Redis is away the nodes lead by Postgres, under the same terms, and share evenly', async () => {
    const rig = await createRig(program)
    const [a, b] = [node(), node()]
    await rig.leadership.renew(a, termMs)
    await rig.leadership.renew(b, termMs)
    const before = await rig.leadership.renew(a, termMs)
    expect((await rig.leadership.renew(b, termMs)).held).toHaveLength(32)
    await rig.server.kill()
    await eventually(() => !rig.redis.up, 'the link notices')
    const away = await rig.leadership.renew(a, termMs)
    expect(new Set(away.held)).toEqual(new Set(before.held))
    expect(away).toMatchObject({ share: 32, liveNodes: 2 })
    await rig.server.start()
    await eventually(() => rig.redis.up, 'the link comes back')
    await rig.leadership.renew(b, termMs)
    await rig.leadership.renew(a, termMs)
    await rig.leadership.renew(b, termMs)
    const back = [await rig.leadership.renew(a, termMs), await rig.leadership.renew(b, termMs)]
    expect(back.map(({ held }) => held.length)).toEqual([32, 32])
    await rig.drop()
  })

  test('a node that died while Redis was away is missed by Postgres after its term', async () => {
    const rig = await createRig(program)
    const [dead, heir] = [node(), node()]
    await rig.leadership.renew(dead, termMs)
    await rig.server.kill()
    await eventually(() => !rig.redis.up, 'the link notices')
    expect((await rig.leadership.renew(heir, termMs)).held).toEqual([])
    await rig.advance(termMs)
    expect((await rig.leadership.renew(heir, termMs)).held).toHaveLength(64)
    await rig.drop()
  })

  test('emptied: no shard is held twice, and all are held again within two renewals', async () => {
    const rig = await createRig(program)
    const [a, b] = [node(), node()]
    for (const each of [a, b, a, b]) await rig.leadership.renew(each, termMs)
    await rig.server.say('FLUSHALL')
    for (const each of [b, a, b, a]) await rig.leadership.renew(each, termMs)
    const [forA, forB] = [await rig.leadership.renew(a, termMs), await rig.leadership.renew(b, termMs)]
    const shards = [...forA.held, ...forB.held].map(({ shard }) => shard)
    expect([...shards].sort((x, y) => x - y)).toEqual(Array.from({ length: 64 }, (_, shard) => shard))
    await rig.drop()
  })

  test('a term that another began ends the one of a node that is cut off from Redis alone', async () => {
    const rig = await createRig(program)
    const cut = await rig.open('redis://127.0.0.1:1')
    const [a, b] = [node(), node()]
    const alone = await cut.leadership.renew(a, termMs)
    expect(alone.held).toHaveLength(64)
    expect((await rig.leadership.renew(b, termMs)).held).toHaveLength(64)
    expect((await cut.leadership.renew(a, termMs)).held).toEqual([])
    await rig.drop()
  })
})

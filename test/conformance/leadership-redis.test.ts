// Leadership by Redis with terms in Postgres, held to the suite that every one must pass; and what is its
// own: Redis away, emptied, cut off from one node only.
import { expect, test } from 'vitest'
import { createRedisLeadership } from '../../packages/server/src/adapters/redis/redis-leadership.ts'
import { createRedisLink } from '../../packages/server/src/adapters/redis/redis-link.ts'
import type { Renewal } from '../../packages/server/src/ports/leadership.ts'
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
    events,
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

  const allShards = Array.from({ length: 64 }, (_, shard) => shard)
  const ghost = newId()
  type Rig = Awaited<ReturnType<typeof createRig>>
  type Process = ReturnType<typeof node> & { readonly renew: () => Promise<Renewal> }

  async function processOf(rig: Rig): Promise<Process> {
    const [{ leadership }, self] = [await rig.open(), node()]
    return { ...self, renew: () => leadership.renew(self, termMs) }
  }

  /** Renews all nodes in turn, as they do by themselves, for so many thirds of a term. */
  async function goOn(rig: Rig, nodes: readonly Process[], thirds: number) {
    let held: number[] = []
    for (let third = 0; third < thirds; third++) {
      held = []
      for (const each of nodes) held.push(...(await each.renew()).held.map(({ shard }) => shard))
      if (third < thirds - 1) await rig.advance(termMs / 3)
    }
    return held.sort((x, y) => x - y)
  }

  test.each([
    [
      'a node that is alive for ever',
      (rig: Rig) => rig.server.say(`ZADD belfry:{leaders}:nodes 99999999999999 ${ghost}`),
    ],
    ['one without any end', (rig: Rig) => rig.server.say(`ZADD belfry:{leaders}:nodes +inf ${ghost}`)],
    ['nodes of another type', (rig: Rig) => rig.server.say('SET belfry:{leaders}:nodes nonsense')],
  ])('is not believed: %s', async (_, write) => {
    const rig = await createRig(program)
    const nodes = [await processOf(rig), await processOf(rig)]
    await goOn(rig, nodes, 2)
    await rig.server.say('DEL belfry:{leaders}:nodes')
    await write(rig)
    expect(await goOn(rig, nodes, 3)).toEqual(allShards)
    expect(rig.events.of('redis_mended')).toEqual([{ at: 'belfry:{leaders}', count: 1 }])
    await rig.drop()
  })

  test.each([
    ['without an end', (key: string) => `SET ${key} ${ghost}`],
    ['with an end far beyond the term', (key: string) => `SET ${key} ${ghost} PX ${termMs * 100}`],
    ['of another type', (key: string) => `LPUSH ${key} hello`],
    ['empty', (key: string) => `SET ${key} ""`],
  ])('leads are not believed: %s', async (_, command) => {
    const rig = await createRig(program)
    const nodes = [await processOf(rig), await processOf(rig)]
    await goOn(rig, nodes, 2)
    for (const shard of allShards) {
      await rig.server.say(`DEL belfry:{leaders}:${shard}`)
      await rig.server.say(command(`belfry:{leaders}:${shard}`))
    }
    expect(await goOn(rig, nodes, 3)).toEqual(allShards)
    expect(rig.events.of('redis_mended')).toEqual([{ at: 'belfry:{leaders}', count: 64 }])
    expect(rig.events.of('redis_overruled')).toEqual([])
    await rig.drop()
  })

  test('what Redis leaves to a node that never fires is led by Postgres, until Redis is right', async () => {
    const rig = await createRig(program)
    const nodes = [await processOf(rig), await processOf(rig)]
    await goOn(rig, nodes, 2)
    // as somebody would who knows how it works, and goes on
    const haunt = async () => {
      const [seconds = 0] = await rig.redis.run((client) => client.time())
      await rig.redis.run((client) => client.zadd('belfry:{leaders}:nodes', seconds * 1_000 + termMs, ghost))
      for (const shard of allShards)
        await rig.redis.run((client) => client.set(`belfry:{leaders}:${shard}`, ghost, 'PX', termMs))
    }
    let [early, held]: number[][] = []
    for (let third = 0; third < 10; third++) {
      await haunt()
      held = await goOn(rig, nodes, 1)
      if (third === 1) early = held
      await rig.advance(termMs / 3)
    }
    expect(early).toEqual([])
    expect(held).toEqual(allShards)
    expect(rig.events.of('redis_overruled').length).toBeGreaterThan(0)
    const counts = await Promise.all(nodes.map((each) => each.renew()))
    for (const each of counts) expect(each.held.length).toBeGreaterThan(8)

    await rig.server.say('FLUSHALL')
    expect(await goOn(rig, nodes, 4)).toEqual(allShards)
    const back = await Promise.all(nodes.map((each) => each.renew()))
    expect(back.map(({ held: each }) => each.length)).toEqual([32, 32])
    expect(rig.events.of('redis_overruled').slice(-2)).toEqual([{ shards: 0 }, { shards: 0 }])
    await rig.drop()
  })
})

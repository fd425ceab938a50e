// Hints over Redis: who hears what, that they go another way while Redis is away, and that nothing that is
// published there by hand does harm.
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest'
import { createRedisHints } from '../../packages/server/src/adapters/redis/redis-hints.ts'
import { createRedisLink } from '../../packages/server/src/adapters/redis/redis-link.ts'
import { createLocalHints } from '../../packages/server/src/engine/local-hints.ts'
import { hintsOfSilence } from '../../packages/server/src/engine/missed-hints.ts'
import type { Hint } from '../../packages/server/src/ports/hints.ts'
import { describeNeeding } from '../support/needs.ts'
import { realClock, realRandom } from '../support/real-clock.ts'
import { type RedisServer, startRedisServer } from '../support/redis-server.ts'
import { eventually, recordEvents } from '../support/running.ts'

const ready: Hint = { topic: 'ready', key: 'default' }
const timers: Hint = { topic: 'timers', key: '7' }

describeNeeding('redis', 'hints over Redis', (program) => {
  let server: RedisServer
  beforeAll(async () => {
    server = await startRedisServer(program)
  })
  afterAll(() => server.kill())

  const undo: (() => Promise<void>)[] = []
  afterEach(async () => {
    for (const step of undo.splice(0).reverse()) await step()
  })

  async function open(senderId: string) {
    const redis = createRedisLink({
      url: server.url,
      clock: realClock,
      random: realRandom,
      events: recordEvents(),
    })
    const local = createLocalHints()
    const otherwise: Hint[] = []
    const hints = createRedisHints({
      redis,
      otherwise: {
        publish(hint) {
          otherwise.push(hint)
          local.deliver(hint)
        },
        subscribe: (listener) => local.subscribe(listener),
        start: () => undefined,
        close: async () => undefined,
      },
      clock: realClock,
      senderId,
      prefix: 'belfry',
    })
    const heard: Hint[] = []
    const found: Hint[] = []
    // what it tells itself when it begins to listen is told apart
    hints.subscribe((hint) => (hintsOfSilence.includes(hint) ? found : heard).push(hint))
    hints.start()
    await redis.start()
    undo.push(
      () => redis.close(),
      () => hints.close(),
    )
    return { hints, heard, found, redis, otherwise, local }
  }
  const listening = (count: number) =>
    eventually(
      async () => (await server.say('PUBSUB NUMSUB belfry:hints')).includes(`:${count}\r\n`),
      `${count} processes listen`,
    )

  it('reach others, and their sender once', async () => {
    const [a, b] = [await open('a'), await open('b')]
    await listening(2)
    a.hints.publish(ready)
    await eventually(() => b.heard.length > 0, 'the other hears it')
    b.hints.publish(timers)
    await eventually(() => a.heard.length > 1, 'and the first one hears the other')
    expect(a.heard).toEqual([ready, timers])
    expect(b.heard).toEqual(a.heard)
    expect([...a.otherwise, ...b.otherwise]).toEqual([])
  })

  it('are few, however many are published', async () => {
    const [a, b] = [await open('a'), await open('b')]
    await listening(2)
    for (let i = 0; i < 1_000; i++) a.hints.publish(ready)
    a.hints.publish(timers)
    await eventually(() => b.heard.some(({ topic }) => topic === 'timers'), 'the last one comes')
    expect(b.heard.length).toBeLessThan(10)
  })

  it('go another way while Redis is away, are heard from there as well, and come back', async () => {
    const [a, b] = [await open('a'), await open('b')]
    await listening(2)
    await server.kill()
    await eventually(() => !a.redis.up && !b.redis.up, 'both notice')
    a.hints.publish(ready)
    expect(a.otherwise).toEqual([ready])
    expect(a.heard).toEqual([ready])
    b.local.deliver(timers)
    expect(b.heard).toEqual([timers])
    await server.start()
    await eventually(() => a.redis.up, 'it comes back')
    await listening(2)
    a.hints.publish(ready)
    await eventually(() => b.heard.length > 1, 'the other hears it again')
    const thrice = [1, 2, 3].flatMap(() => hintsOfSilence)
    expect(b.found, 'it looks everywhere as it begins to listen, hears no more, and listens again').toEqual(
      thrice,
    )
  })

  it('that say nothing are passed over', async () => {
    const a = await open('a')
    await listening(1)
    for (const text of [
      'nonsense',
      'x y',
      'x nowhere key',
      'x ready default more',
      `x ready ${'k'.repeat(9)} `,
    ])
      await a.redis.run((client) => client.publish('belfry:hints', text))
    await a.redis.run((client) => client.publish('belfry:hints', 'b ready default'))
    await eventually(() => a.heard.length > 0, 'the good one comes')
    expect(a.heard).toEqual([ready])
  })
})

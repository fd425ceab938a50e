// Lookups of names on a clock that the test moves, with a resolver whose black-holed names hold a thread for
// 15 s each: who has to wait for them, and who does not.
import { beforeEach, describe, expect, it } from 'vitest'
import type { Resolver } from '../../../packages/server/src/security/egress/lookups.ts'
import { createLookups, lookupThreads } from '../../../packages/server/src/security/egress/lookups.ts'
import { createVirtualClock, type VirtualClock } from '../../support/virtual-clock.ts'

const holeMs = 15_000
const connectTimeoutMs = 10_000

let clock: VirtualClock
let resolve: Resolver
let running: string[]
let started: string[]

beforeEach(() => {
  clock = createVirtualClock(0)
  running = []
  started = []
  resolve = createLookups({
    clock,
    atOnce: 2,
    lookup: async (host) => {
      running.push(host)
      started.push(host)
      await clock.sleep(host.startsWith('hole') ? holeMs : 20)
      running.splice(running.indexOf(host), 1)
      if (host.startsWith('hole')) throw new Error(`no answer for ${host}`)
      return [{ address: '192.0.2.1', family: 4 }]
    },
  })
})

/** As the connector asks: given up at the connect timeout. Tells how long it took, and how it ended. */
async function ask(host: string): Promise<{ ms: number; ok: boolean }> {
  const startedMs = clock.monotonicMs()
  const given = new AbortController()
  const timer = clock.setTimer(connectTimeoutMs, () => given.abort(new Error('given up')))
  const ok = await resolve(host, given.signal).then(
    () => true,
    () => false,
  )
  timer.cancel()
  return { ms: clock.monotonicMs() - startedMs, ok }
}

describe('lookups', () => {
  it('of one name are one, and all who asked have the answer', async () => {
    const asked = [ask('a'), ask('a'), ask('a')]
    await clock.advance(100)
    expect(await Promise.all(asked)).toEqual(Array.from({ length: 3 }, () => ({ ms: 20, ok: true })))
    expect(started).toEqual(['a'])
    const again = ask('a')
    await clock.advance(100)
    expect((await again).ok).toBe(true)
    expect(started).toEqual(['a', 'a'])
  })

  it('run as many at once as there are threads, in the order of asking', async () => {
    const asked = ['a', 'b', 'c', 'd'].map(ask)
    await clock.advance(1)
    expect(running).toEqual(['a', 'b'])
    await clock.advance(100)
    expect((await Promise.all(asked)).map(({ ms }) => ms)).toEqual([20, 20, 40, 40])
  })

  it('that nobody waits for any more are not started', async () => {
    const holes = ['hole-1', 'hole-2', 'hole-3', 'hole-4'].map(ask)
    await clock.advance(connectTimeoutMs)
    expect((await Promise.all(holes)).map(({ ok }) => ok)).toEqual([false, false, false, false])
    const good = ask('a')
    await clock.advance(holeMs)
    expect(await good).toEqual({ ms: holeMs - connectTimeoutMs + 20, ok: true })
    expect(started).toEqual(['hole-1', 'hole-2', 'a'])
  })

  it('of names that were slow lately wait for each other, and nobody else for them', async () => {
    const holes = ['hole-1', 'hole-2', 'hole-3', 'hole-4']
    // each of them is slow once
    for (const hole of holes) {
      void ask(hole)
      await clock.advance(holeMs + 1)
    }
    for (let round = 0; round < 20; round++) {
      const asked = holes.map(ask)
      const good = ask(`good-${round}`)
      await clock.advance(connectTimeoutMs)
      expect(await good).toEqual({ ms: 20, ok: true })
      expect(running.filter((host) => host.startsWith('hole')).length).toBeLessThanOrEqual(1)
      await Promise.all(asked)
    }
  })

  it('of a name that is quick again are as good as any', async () => {
    let slow = true
    const mended = createLookups({
      clock,
      atOnce: 1,
      lookup: async () => {
        await clock.sleep(slow ? holeMs : 20)
        return []
      },
    })
    const { signal } = new AbortController()
    void mended('a', signal)
    await clock.advance(holeMs)
    slow = false
    const [again] = [mended('a', signal), await clock.advance(20)]
    expect(await again).toEqual([])
  })

  it('pass on their error, also when nobody is left to hear it', async () => {
    const given = new AbortController()
    const asked = resolve('hole', given.signal)
    given.abort(new Error('given up'))
    await expect(asked).rejects.toThrow('given up')
    const waiting = resolve('hole', new AbortController().signal)
    const refused = expect(waiting).rejects.toThrow('no answer for hole')
    await clock.advance(holeMs)
    await refused
    await expect(resolve('a', given.signal)).rejects.toThrow('given up')
  })
})

it('threads for lookups are half of those that libuv has', () => {
  expect(
    ['4', '16', '1', 'x', '0'].map((UV_THREADPOOL_SIZE) => lookupThreads({ UV_THREADPOOL_SIZE })),
  ).toEqual([2, 8, 1, 2, 2])
  expect(lookupThreads({})).toBe(2)
})

// What every Leadership must do, whatever keeps it. The adapter's test file calls this with a way to make one
// whose clock the suite can move.
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { HeldShard, Leadership } from '../../packages/server/src/ports/leadership.ts'

export type LeadershipRig = {
  readonly leadership: Leadership
  /** Moves the time of the leadership on. */
  readonly advance: (ms: number) => Promise<void>
  readonly newId: () => string
  /** By how much its times may be off, because they go on while a test runs. Default 0. */
  readonly slackMs?: number
  readonly drop: () => Promise<void>
}

const termMs = 15_000

export function describeLeadership(name: string, create: () => Promise<LeadershipRig>): void {
  describe(`leadership: ${name}`, () => {
    let rig: LeadershipRig
    beforeEach(async () => {
      rig = await create()
    })
    afterEach(() => rig.drop())

    function expectAbout(actualMs: number | null, expectedMs: number): void {
      expect(actualMs).toBeLessThanOrEqual(expectedMs)
      expect(actualMs).toBeGreaterThanOrEqual(expectedMs - (rig.slackMs ?? 0))
    }
    const node = (host = 'same-host') => ({ id: rig.newId(), host, version: '0.0.0' })
    const shardsOf = (held: readonly HeldShard[]): number[] =>
      held.map(({ shard }) => shard).sort((a, b) => a - b)
    const all = Array.from({ length: 64 }, (_, shard) => shard)

    test('a node alone holds all 64 shards, and keeps its terms while it renews', async () => {
      const a = node()
      const first = await rig.leadership.renew(a, termMs)
      expect(shardsOf(first.held)).toEqual(all)
      expect(first).toMatchObject({ share: 64, liveNodes: 1, nextExpiryMs: null })
      await rig.advance(5_000)
      const second = await rig.leadership.renew(a, termMs)
      expect(new Map(second.held.map(({ shard, term }) => [shard, term]))).toEqual(
        new Map(first.held.map(({ shard, term }) => [shard, term])),
      )
      expect(second.nowMs - first.nowMs).toBe(5_000)
    })

    test('many nodes share evenly, without two on one shard, within two renewals of each', async () => {
      const nodes = Array.from({ length: 10 }, () => node())
      for (const each of nodes) await rig.leadership.renew(each, termMs)
      let held: (readonly HeldShard[])[] = []
      for (let round = 0; round < 2; round++) {
        held = []
        for (const each of nodes) held.push((await rig.leadership.renew(each, termMs)).held)
      }
      expect(shardsOf(held.flat())).toEqual(all)
      for (const each of held) expect([6, 7]).toContain(each.length)
    })

    test('incident 19: processes on one host are different nodes', async () => {
      const [a, b] = [node('host-1'), node('host-1')]
      await rig.leadership.renew(a, termMs)
      await rig.leadership.renew(b, termMs)
      const keptByA = await rig.leadership.renew(a, termMs)
      const takenByB = await rig.leadership.renew(b, termMs)
      expect(keptByA).toMatchObject({ share: 32, liveNodes: 2 })
      expect(shardsOf([...keptByA.held, ...takenByB.held])).toEqual(all)
    })

    test('a newcomer is told that it holds less than its share until others give up theirs', async () => {
      const [a, b] = [node(), node()]
      await rig.leadership.renew(a, termMs)
      const renewal = await rig.leadership.renew(b, termMs)
      expect(renewal).toMatchObject({ held: [], share: 32 })
      expectAbout(renewal.nextExpiryMs, termMs)
    })

    test('the shards of a dead node are free as its term ends, and not before', async () => {
      const [dead, heir] = [node(), node()]
      const before = await rig.leadership.renew(dead, termMs)
      const shortlyMs = (rig.slackMs ?? 0) + 1
      await rig.advance(termMs - shortlyMs)
      const early = await rig.leadership.renew(heir, termMs)
      expect(early.held).toEqual([])
      expectAbout(early.nextExpiryMs, shortlyMs)
      await rig.advance(shortlyMs)
      const after = await rig.leadership.renew(heir, termMs)
      expect(shardsOf(after.held)).toEqual(all)
      const termBefore = new Map(before.held.map(({ shard, term }) => [shard, term]))
      for (const { shard, term } of after.held)
        expect(term).toBeGreaterThan(termBefore.get(shard) ?? Infinity)
    })

    test('a node that wakes after its term was taken gets nothing of it back by renewing', async () => {
      const [slept, heir] = [node(), node()]
      await rig.leadership.renew(slept, termMs)
      await rig.advance(termMs)
      await rig.leadership.renew(heir, termMs)
      expect((await rig.leadership.renew(slept, termMs)).held).toEqual([])
    })

    test('a node that wakes late, with nobody there to take over, goes on under the same terms', async () => {
      const a = node()
      const before = await rig.leadership.renew(a, termMs)
      await rig.advance(10 * termMs)
      expect(new Set((await rig.leadership.renew(a, termMs)).held)).toEqual(new Set(before.held))
    })

    test('after a node resigned, another may take all at once', async () => {
      const [a, b] = [node(), node()]
      await rig.leadership.renew(a, termMs)
      await rig.leadership.resign(a.id)
      expect(shardsOf((await rig.leadership.renew(b, termMs)).held)).toEqual(all)
      await rig.leadership.resign(a.id)
      expect((await rig.leadership.renew(b, termMs)).held).toHaveLength(64)
    })

    test('nodes that renew at the same instant never get the same shard', async () => {
      const nodes = Array.from({ length: 5 }, () => node())
      for (let round = 0; round < 6; round++) {
        const renewals = await Promise.all(nodes.map((each) => rig.leadership.renew(each, termMs)))
        const terms = renewals.flatMap(({ held }) => held.map(({ shard, term }) => `${shard}/${term}`))
        expect(new Set(terms).size).toBe(terms.length)
        await rig.advance(1_000)
      }
      const last = await Promise.all(nodes.map((each) => rig.leadership.renew(each, termMs)))
      expect(shardsOf(last.flatMap(({ held }) => held))).toEqual(all)
    })
  })
}

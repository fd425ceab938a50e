// What every carrier of announcements must do: bring each to one worker, again where it was not settled, and
// never anything that is no announcement. An adapter's test calls this with a way to open the carrier, as
// several processes would, and to write to it by hand.
import { setTimeout as wait } from 'node:timers/promises'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { announcementText } from '../../packages/server/src/engine/announcement-text.ts'
import {
  type Announcement,
  type AnnouncementInbox,
  type Announcements,
  CarrierAway,
  type TakenAnnouncement,
} from '../../packages/server/src/ports/announcements.ts'
import { kafkaStartMs } from '../support/kafka-server.ts'
import { eventually, newId } from '../support/running.ts'

export interface AnnouncementsRig {
  /** Of another process, which is up. */
  readonly open: () => Promise<Announcements>
  /** Writes this where announcements of the queue come from, past Belfry. */
  readonly write: (queue: string, text: string) => Promise<void>
  /** The carrier goes away, and comes back. */
  readonly away: () => Promise<void>
  readonly back: () => Promise<void>
  readonly drop: () => Promise<void>
}

const limitMs = 40_000

export function describeAnnouncements(name: string, create: () => Promise<AnnouncementsRig>): void {
  describe(`announcements: ${name}`, () => {
    let rig: AnnouncementsRig
    let announcements: Announcements
    const inboxes: AnnouncementInbox[] = []
    beforeAll(async () => {
      rig = await create()
      announcements = await rig.open()
    }, kafkaStartMs)
    afterAll(() => rig.drop())
    afterEach(async () => {
      await Promise.all(inboxes.splice(0).map((inbox) => inbox.close()))
    })

    const about = (queue: string, ...tags: number[]): Announcement => ({
      queue,
      runs: tags.map((tag) => ({ runId: newId(), tag })),
    })
    const idsOf = (taken: readonly Announcement[]) =>
      taken.flatMap(({ runs }) => runs.map(({ runId }) => runId)).toSorted()
    const take = (inbox: AnnouncementInbox, waitMs = 200) =>
      inbox.take(100, waitMs, new AbortController().signal)

    /** A worker of this queue that hears what is announced from now on. */
    async function listen(queue: string, from = announcements): Promise<AnnouncementInbox> {
      // where queues have places of their own, they are made by the first who announces something
      await from.announce([about(queue, 0)])
      const inbox = from.open([queue])
      inboxes.push(inbox)
      await inbox.start()
      await eventually(() => inbox.up, 'it listens', limitMs)
      return inbox
    }

    async function takeUntil(
      inbox: AnnouncementInbox,
      enough: (taken: readonly TakenAnnouncement[]) => boolean,
    ): Promise<TakenAnnouncement[]> {
      const taken: TakenAnnouncement[] = []
      const untilMs = performance.now() + limitMs
      while (!enough(taken)) {
        if (performance.now() > untilMs) throw new Error(`Only ${taken.length} came within ${limitMs} ms.`)
        taken.push(...(await take(inbox)))
      }
      return taken
    }
    const holds = (said: readonly Announcement[]) => (taken: readonly Announcement[]) => {
      const there = new Set(idsOf(taken))
      return idsOf(said).every((id) => there.has(id))
    }

    test('brings what was announced, as it was', async () => {
      const inbox = await listen('mail')
      const said = [about('mail', 1.5, 2), about('mail', -3), { ...about('mail', 4), orderKey: 'key:x' }]
      expect(await announcements.announce(said)).toEqual({ refused: [] })
      const taken = await takeUntil(inbox, holds(said))
      for (const { runs } of said) {
        expect(taken.find((each) => each.runs[0]?.runId === runs[0]?.runId)).toMatchObject({
          queue: 'mail',
          runs,
        })
      }
      await inbox.settle(taken)
    })

    test('brings 500 of them in a while, and answers that there is no more', async () => {
      const inbox = await listen('many')
      const said = Array.from({ length: 100 }, (_, index) => about('many', index, index, index, index, index))
      await announcements.announce(said)
      const taken = await takeUntil(inbox, holds(said))
      expect(new Set(idsOf(taken)).size).toBeGreaterThanOrEqual(500)
      await inbox.settle(taken)
      expect(await take(inbox, 50)).toEqual([])
    })

    test('shares them out among workers, each to one', async () => {
      const workers = [await listen('shared'), await listen('shared', await rig.open())]
      const seen: string[][] = [[], []]
      const said: Announcement[] = []
      await eventually(
        async () => {
          const some = Array.from({ length: 40 }, (_, index) => about('shared', index))
          said.push(...some)
          await announcements.announce(some)
          for (const [index, worker] of workers.entries()) {
            const taken = await take(worker)
            seen[index]?.push(...idsOf(taken))
            await worker.settle(taken)
          }
          return seen.every((each) => each.length > 0)
        },
        'both got some',
        limitMs,
      )
      const missing = () => idsOf(said).filter((id) => !seen.flat().includes(id))
      await eventually(
        async () => {
          for (const worker of workers) {
            const taken = await take(worker)
            seen[0]?.push(...idsOf(taken))
            await worker.settle(taken)
          }
          return missing().length === 0
        },
        'all of them came',
        limitMs,
      )
      expect(missing()).toEqual([])
    })

    test('what was not settled comes to another, when its taker is gone', async () => {
      const first = await listen('left')
      const said = [about('left', 1), about('left', 2)]
      await announcements.announce(said)
      const taken = await takeUntil(first, holds(said))
      const kept = taken.filter(({ runs }) => runs[0]?.tag !== 2)
      await first.settle(kept)
      await first.release(taken.filter((each) => !kept.includes(each)))
      await first.close()
      const second = await listen('left', await rig.open())
      const again = await takeUntil(second, holds(said.slice(1)))
      expect(idsOf(again)).toEqual(expect.arrayContaining(idsOf(said.slice(1))))
      await second.settle(again)
    })

    test('what was settled comes no more', async () => {
      const first = await listen('settled')
      const said = [about('settled', 1), about('settled', 2)]
      await announcements.announce(said)
      const taken = await takeUntil(first, holds(said))
      await first.settle(taken)
      await first.close()
      const second = await listen('settled', await rig.open())
      const last = [about('settled', 3)]
      await announcements.announce(last)
      const after = await takeUntil(second, holds(last))
      expect(idsOf(after)).not.toEqual(expect.arrayContaining(idsOf(said)))
      await second.settle(after)
    })

    test('a queue that is not served here brings nothing', async () => {
      const inbox = await listen('mine')
      const said = [about('mine', 1)]
      await announcements.announce([about('theirs', 1), ...said])
      const taken = await takeUntil(inbox, holds(said))
      expect(taken.every(({ queue }) => queue === 'mine')).toBe(true)
      await inbox.settle(taken)
    })

    test('what is none of ours is got rid of, and holds up nothing', async () => {
      const inbox = await listen('garbage')
      const written = [
        'x',
        '{}',
        JSON.stringify({ queue: 'garbage', runs: 'all' }),
        announcementText(about('elsewhere', 1)),
        '\u0000\u0001',
      ]
      for (const text of written) await rig.write('garbage', text)
      const said = [about('garbage', 1)]
      await announcements.announce(said)
      const taken = await takeUntil(inbox, holds(said))
      expect(taken.every(({ queue }) => queue === 'garbage')).toBe(true)
      await inbox.settle(taken)
    })

    test('several queues at once, with names of every kind', async () => {
      const names = ['a.b', 'a_b', 'a-b', 'A.b', `x${'y'.repeat(127)}`]
      const said = names.map((queue) => about(queue, 1))
      expect(await announcements.announce(said)).toEqual({ refused: [] })
      const inbox = announcements.open(names)
      inboxes.push(inbox)
      await inbox.start()
      await eventually(() => inbox.up, 'it listens', limitMs)
      const more = names.map((queue) => about(queue, 2))
      await announcements.announce(more)
      const taken = await takeUntil(inbox, holds(more))
      for (const queue of names) {
        const its = idsOf(more.filter((each) => each.queue === queue))
        expect(idsOf(taken.filter((each) => each.queue === queue))).toEqual(expect.arrayContaining(its))
      }
      await inbox.settle(taken)
    })

    test('while it is away it says so, at once; then it goes on by itself', {
      timeout: 150_000,
    }, async () => {
      const inbox = await listen('outage')
      const { generation } = announcements
      await rig.away()
      await expect(
        (async () => {
          const untilMs = performance.now() + limitMs
          while (performance.now() < untilMs) {
            await announcements.announce([about('outage', 1)])
            await wait(20)
          }
        })(),
      ).rejects.toBeInstanceOf(CarrierAway)
      expect(announcements.up).toBe(false)
      const askedMs = performance.now()
      await expect(announcements.announce([about('outage', 1)])).rejects.toBeInstanceOf(CarrierAway)
      expect(performance.now() - askedMs).toBeLessThan(1_000)
      await rig.back()
      await eventually(() => announcements.up && inbox.up, 'it is back', limitMs)
      expect(announcements.generation).toBeGreaterThan(generation)
      const said = [about('outage', 2)]
      await announcements.announce(said)
      const taken = await takeUntil(inbox, holds(said))
      await inbox.settle(taken)
    })

    test('an inbox that is stopped while it waits answers at once, and may be closed twice', async () => {
      const inbox = await listen('stopped')
      await take(inbox)
      const stop = new AbortController()
      const taking = inbox.take(10, 20_000, stop.signal)
      const askedMs = performance.now()
      stop.abort()
      await taking.catch(() => [])
      expect(performance.now() - askedMs).toBeLessThan(2_000)
      await inbox.close()
      await inbox.close()
    })
  })
}

// Announcements by SQS on a second emulator, from another hand than the first: what we believe of SQS should
// not be what one of them made of it. It is slow, so it is asked little.
import { afterAll, beforeAll, expect, it } from 'vitest'
import type { Announcement } from '../../packages/server/src/ports/announcements.ts'
import { type MotoServer, startMotoServer } from '../support/moto-server.ts'
import { describeNeeding } from '../support/needs.ts'
import { eventually, newId } from '../support/running.ts'
import { openSqsCarrier } from '../support/sqs-carrier.ts'

const limitMs = 40_000
const never = new AbortController().signal
const idsOf = (some: readonly Announcement[]) => some.flatMap(({ runs }) => runs.map(({ runId }) => runId))

describeNeeding('moto', 'announcements by SQS, on moto', (python) => {
  let server: MotoServer
  beforeAll(async () => {
    server = await startMotoServer(python)
  }, 90_000)
  afterAll(() => server.close())

  it.each(['belfry', 'belfry.fifo'])(
    'come, come again when released, and no more when settled: %s',
    async (name) => {
      const url = await server.createQueue(name)
      await server.send(name, 'none of ours')
      const { link, announcements, events } = await openSqsCarrier(url)
      await eventually(() => link.up, 'it is up', limitMs)
      const said = Array.from({ length: 12 }, (_, tag): Announcement => {
        const runs = [{ runId: newId(), tag }]
        return tag < 6 ? { queue: 'mail', runs, orderKey: 'k' } : { queue: 'mail', runs }
      })
      expect(await announcements.announce(said)).toEqual({ refused: [] })
      const inbox = announcements.open('*')
      await inbox.start()
      const heard: string[] = []
      let released = 0
      await eventually(
        async () => {
          const taken = await inbox.take(4, 2_000, never)
          if (released === 0 && taken.length > 0) {
            released = taken.length
            await inbox.release(taken)
          } else {
            heard.push(...idsOf(taken))
            await inbox.settle(taken)
          }
          return idsOf(said).every((id) => heard.includes(id))
        },
        'all of them came',
        limitMs,
      )
      expect(heard, 'each once').toHaveLength(said.length)
      const ofKey = idsOf(said.slice(0, 6))
      const inTurn = heard.filter((id) => ofKey.includes(id))
      const keepsOrder = name.endsWith('.fifo')
      expect(keepsOrder ? inTurn : inTurn.toSorted()).toEqual(keepsOrder ? ofKey : ofKey.toSorted())
      expect(events.of('announcements_discarded').length).toBeGreaterThan(0)
      await inbox.close()
      await link.close()
    },
  )
})

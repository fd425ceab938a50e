// Announcements by SQS, standard and FIFO: what is sent, who hears it, what becomes of it, and of what others
// put there. What every carrier does is in announcements-sqs.test.ts; here is what only SQS has.
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { announcementText } from '../../packages/server/src/engine/announcement-text.ts'
import {
  type Announcement,
  type AnnouncementInbox,
  CarrierAway,
} from '../../packages/server/src/ports/announcements.ts'
import { eventually, newId } from '../support/running.ts'
import { openSqsCarrier } from '../support/sqs-carrier.ts'
import { type SqsServer, startSqsServer } from '../support/sqs-server.ts'

let server: SqsServer
const open: (() => Promise<void>)[] = []
beforeAll(async () => {
  server = await startSqsServer()
})
afterAll(() => server.close())
beforeEach(() => {
  server.fault('none')
  return async () => {
    for (const close of open.splice(0)) await close()
  }
})

async function connect(template: string) {
  const { link, announcements, events } = await openSqsCarrier(template)
  open.push(() => link.close())
  return Object.assign(announcements, { events })
}

async function hear(
  carrier: { open: (queues: readonly string[] | '*') => AnnouncementInbox },
  queues: readonly string[] | '*' = '*',
) {
  const inbox = carrier.open(queues)
  await inbox.start()
  open.unshift(() => inbox.close())
  return inbox
}

const some = (queue: string, more: Partial<Announcement> = {}): Announcement => ({
  queue,
  runs: [{ runId: newId(), tag: 1 }],
  ...more,
})
const never = new AbortController().signal
const take = (inbox: AnnouncementInbox, mostRuns = 100, waitMs = 5_000) => inbox.take(mostRuns, waitMs, never)
const ids = (announcements: readonly Announcement[]) =>
  announcements.flatMap(({ runs }) => runs.map(({ runId }) => runId))

let number = 0
const freshName = (suffix = ''): string => `announced-${++number}${suffix}`

describe.each([
  ['standard', ''],
  ['FIFO', '.fifo'],
])('a %s queue', (_, suffix) => {
  it('carries each once, ten messages a call, and forgets what is settled', async () => {
    const name = freshName(suffix)
    const carrier = await connect(server.createQueue(name))
    const sent = Array.from({ length: 25 }, () => some('mail'))
    const before = server.calls('SendMessageBatch')
    expect(await carrier.announce(sent)).toEqual({ refused: [] })
    expect(server.calls('SendMessageBatch') - before).toBe(3)
    const inbox = await hear(carrier)
    const heard: string[] = []
    while (heard.length < sent.length) {
      const taken = await take(inbox, 10)
      heard.push(...ids(taken))
      await inbox.settle(taken)
    }
    expect(heard.toSorted()).toEqual(ids(sent).toSorted())
    expect(server.look(name)).toMatchObject({ ready: [], inFlight: 0 })
  })

  it('gives what is released to somebody else at once', async () => {
    const carrier = await connect(server.createQueue(freshName(suffix)))
    const inbox = await hear(carrier)
    const announced = some('mail')
    await carrier.announce([announced])
    const taken = await take(inbox)
    await inbox.release(taken)
    expect(ids(await take(await hear(carrier)))).toEqual(ids([announced]))
  })

  it('holds what was taken for forty seconds at most, so that a taker that died keeps nothing', async () => {
    const name = freshName(suffix)
    const carrier = await connect(server.createQueue(name, { VisibilityTimeout: '40000' }))
    await carrier.announce([some('mail')])
    await take(await hear(carrier))
    expect(server.look(name).heldForMs).toBeGreaterThan(1_000)
    expect(server.look(name).heldForMs).toBeLessThanOrEqual(40_000)
  })

  it('gives back what it holds when it closes', async () => {
    const name = freshName(suffix)
    const carrier = await connect(server.createQueue(name))
    await carrier.announce([some('mail'), some('mail')])
    const inbox = await hear(carrier)
    await take(inbox)
    await inbox.close()
    await eventually(() => server.look(name).inFlight === 0, 'nothing is held')
    expect(server.look(name).ready).toHaveLength(2)
  })

  it('gives back what a worker without a free slot does not take', async () => {
    const name = freshName(suffix)
    const carrier = await connect(server.createQueue(name))
    const inbox = await hear(carrier)
    expect(await take(inbox, 1, 0), 'it asks, and does not wait').toEqual([])
    const asked = inbox.take(1, 50, never)
    expect(await asked).toEqual([])
    await carrier.announce([some('mail')])
    await eventually(() => server.look(name).inFlight === 1, 'the poll brought it')
    await eventually(() => server.look(name).ready.length === 1, 'it was given back')
  })

  it('announces the same runs again, within minutes too', async () => {
    const carrier = await connect(server.createQueue(freshName(suffix)))
    const inbox = await hear(carrier)
    const announced = some('mail')
    for (let time = 0; time < 2; time++) {
      await carrier.announce([announced])
      const taken = await take(inbox)
      expect(ids(taken)).toEqual(ids([announced]))
      await inbox.settle(taken)
    }
  })
})

it('in a FIFO queue keeps the order of a key, and lets nothing else wait for it', async () => {
  const name = freshName('.fifo')
  const carrier = await connect(server.createQueue(name))
  const ofKey = Array.from({ length: 12 }, (_, tag) =>
    some('mail', { orderKey: 'customer Müller', runs: [{ runId: newId(), tag }] }),
  )
  const free = some('mail')
  await carrier.announce([...ofKey, free])
  const groups = server.look(name).ready.map(({ groupId }) => groupId)
  expect(new Set(groups).size, 'one for the key, one for the other').toBe(2)
  expect(groups[0], 'a key is for nobody to read').not.toContain('Müller')
  const inbox = await hear(carrier)
  const heard: string[] = []
  while (heard.length < 13) {
    const taken = await take(inbox, 1)
    heard.push(...ids(taken))
    await inbox.settle(taken)
  }
  expect(heard.filter((id) => id !== ids([free])[0])).toEqual(ids(ofKey))
})

const garbage = [
  'x',
  '{"queue":"mail"}',
  '{"queue":"mail","runs":[["1; DROP TABLE run",1]]}',
  '{"queue":"../../etc","runs":[["00000000-0000-7000-8000-000000000000",1]]}',
  JSON.stringify({ queue: 'mail', runs: Array.from({ length: 5_000 }, () => [newId(), 1]) }),
  '[['.repeat(50_000),
  'é'.repeat(100_000),
]

it('deletes what is no announcement, where there is no dead-letter queue, and counts it', async () => {
  const name = freshName()
  const carrier = await connect(server.createQueue(name))
  for (const text of garbage) server.send(name, text)
  const good = some('mail')
  await carrier.announce([good])
  const inbox = await hear(carrier)
  const taken = await eventually(async () => {
    const some = await take(inbox, 500, 200)
    return some.length > 0 && some
  }, 'the good one is heard')
  expect(ids(taken)).toEqual(ids([good]))
  await inbox.settle(taken)
  await eventually(() => server.look(name).inFlight === 0 && server.look(name).ready.length === 0, 'all gone')
  const counted = carrier.events.of('announcements_discarded').reduce((sum, { count }) => sum + count, 0)
  expect(counted).toBe(garbage.length)
})

it('leaves what is no announcement to the dead-letter queue, where there is one', async () => {
  const dead = freshName()
  server.createQueue(dead)
  const name = freshName()
  const target = `arn:aws:sqs:us-east-1:000000000000:${dead}`
  const policy = JSON.stringify({ deadLetterTargetArn: target, maxReceiveCount: '2' })
  const carrier = await connect(server.createQueue(name, { RedrivePolicy: policy }))
  server.send(name, 'not ours')
  const inbox = await hear(carrier)
  await eventually(
    async () => {
      await take(inbox, 10, 100)
      return server.look(dead).ready.length === 1
    },
    'SQS moved it',
    15_000,
  )
  expect(server.look(dead).ready[0]?.body).toBe('not ours')
  expect(server.look(name)).toMatchObject({ ready: [], inFlight: 0 })
})

it('hands on what is for a queue that this worker does not serve', async () => {
  const name = freshName()
  const carrier = await connect(server.createQueue(name))
  const mail = await hear(carrier, ['mail'])
  const announced = some('video')
  await carrier.announce([announced])
  expect(await take(mail, 10, 500)).toEqual([])
  const video = await hear(carrier, ['video'])
  expect(ids(await take(video, 10, 8_000))).toEqual(ids([announced]))
  expect(server.look(name).inFlight).toBe(1)
})

describe('a queue for each queue', () => {
  it('carries each by its own, finds them all, and refuses only the one that is missing', async () => {
    const each = freshName()
    const carrier = await connect(server.urlOf(`${each}-{queue}`))
    server.createQueue(`${each}-mail`)
    const all = await hear(carrier)
    const [mail, video] = [some('mail'), some('video')]
    expect(await carrier.announce([mail, video])).toEqual({ refused: ['video'] })
    expect(carrier.up).toBe(true)
    const [refusal] = carrier.events.of('carrier_refused')
    expect(refusal?.fault).toContain(`aws sqs create-queue --queue-name ${each}-video`)
    expect(ids(await take(all)), 'whoever serves all finds it').toEqual(ids([mail]))
    expect(await carrier.announce([video]), 'it is left alone for a while').toEqual({ refused: ['video'] })
    expect(carrier.events.of('carrier_refused')).toHaveLength(1)
  })

  it('lets a worker hear only of its own queues, whatever letters are in their names', async () => {
    const each = freshName()
    const names = ['a.b', 'a-b', 'x'.repeat(120)]
    const template = server.urlOf(`${each}-{queue}.fifo`)
    const carrier = await connect(template)
    const sent = names.map((queue) => some(queue))
    const { refused } = await carrier.announce(sent)
    expect(refused).toEqual(names)
    const asked = carrier.events.of('carrier_refused').map(({ at }) => at.slice(at.lastIndexOf('/') + 1))
    expect(new Set(asked).size).toBe(3)
    for (const name of asked) {
      expect(name.length).toBeLessThanOrEqual(80)
      server.createQueue(name)
    }
    const again = await connect(template)
    await again.announce(sent)
    const inbox = await hear(again, ['a.b', 'x'.repeat(120)])
    const heard = [...(await take(inbox, 1)), ...(await take(inbox, 1))]
    expect(heard.map(({ queue }) => queue).toSorted()).toEqual(['a.b', 'x'.repeat(120)])
    expect(await take(inbox, 1, 200)).toEqual([])
  })
})

describe('in trouble', () => {
  it('sends again what was throttled, and gives up in the end', async () => {
    const name = freshName()
    const carrier = await connect(server.createQueue(name))
    server.fault('throttled', 'SendMessageBatch')
    await expect(carrier.announce([some('mail')])).rejects.toThrow(/throttles sqs:SendMessage/)
    expect(carrier.up, 'it is there').toBe(true)
    const sending = carrier.announce([some('mail')])
    server.fault('none')
    await sending
    expect(server.look(name).ready).toHaveLength(1)
  })

  it('goes on polling by itself after it was throttled', async () => {
    const carrier = await connect(server.createQueue(freshName()))
    const inbox = await hear(carrier)
    server.fault('throttled', 'ReceiveMessage')
    expect(await take(inbox, 10, 500)).toEqual([])
    expect(inbox.up).toBe(true)
    server.fault('none')
    const announced = some('mail')
    await carrier.announce([announced])
    expect(ids(await take(inbox))).toEqual(ids([announced]))
  })

  it('says that it is away while it is, tells that what was announced may be gone, and heals', async () => {
    const carrier = await connect(server.createQueue(freshName()))
    const inbox = await hear(carrier)
    const { generation } = carrier
    const waiting = take(inbox)
    await eventually(() => server.calls('ReceiveMessage') > 0, 'it polls')
    server.fault('cut')
    await expect(waiting).rejects.toThrow(/socket hang up|ECONNRESET/)
    expect([carrier.up, inbox.up]).toEqual([false, false])
    await expect(carrier.announce([some('mail')])).rejects.toBeInstanceOf(CarrierAway)
    await expect(take(inbox)).rejects.toBeInstanceOf(CarrierAway)
    server.fault('none')
    await eventually(() => carrier.up && inbox.up, 'it is back')
    expect(carrier.generation).toBe(generation + 1)
    const announced = some('mail')
    await carrier.announce([announced])
    expect(ids(await take(inbox))).toEqual(ids([announced]))
  })

  it('never rejects what ends a message, and lets it come again', async () => {
    const name = freshName()
    const carrier = await connect(server.createQueue(name))
    const inbox = await hear(carrier)
    await carrier.announce([some('mail')])
    const taken = await take(inbox)
    server.fault('broken')
    await inbox.settle(taken)
    await inbox.close()
    expect(server.look(name).inFlight).toBe(1)
  })

  it('takes what a message by hand says, and nothing beyond: the claim decides', async () => {
    const name = freshName()
    const carrier = await connect(server.createQueue(name))
    const forged = some('mail')
    server.send(name, announcementText(forged))
    const inbox = await hear(carrier)
    expect(ids(await take(inbox))).toEqual(ids([forged]))
  })
})

// What a real broker refuses, and what goes wrong on this side of it: only that send fails, the link stays
// up, and one event that is too large does not hold back the others. And how many topics there may be.
import { afterAll, beforeAll, expect, it } from 'vitest'
import { createKafkaAnnouncements } from '../../packages/server/src/adapters/kafka/kafka-announcements.ts'
import { KafkaTopicsFull, KafkaUnfit } from '../../packages/server/src/adapters/kafka/kafka-errors.ts'
import { createKafkaPublisher } from '../../packages/server/src/adapters/kafka/kafka-events.ts'
import { openKafkaInbox } from '../../packages/server/src/adapters/kafka/kafka-inbox.ts'
import {
  createKafkaLink,
  type KafkaLink,
  type KafkaMessage,
} from '../../packages/server/src/adapters/kafka/kafka-link.ts'
import { mostRunsTopics, runsTopic } from '../../packages/server/src/adapters/kafka/kafka-topics.ts'
import { sendEvents } from '../../packages/server/src/engine/event-sending.ts'
import { type KafkaServer, startKafkaServer } from '../support/kafka-server.ts'
import { describeNeeding } from '../support/needs.ts'
import { realClock, realRandom } from '../support/real-clock.ts'
import { eventually, newId, recordEvents } from '../support/running.ts'

describeNeeding('kafka', 'what Kafka refuses', (jars) => {
  let server: KafkaServer
  let link: KafkaLink
  const events = recordEvents()
  const parts = { clock: realClock, random: realRandom, events }
  beforeAll(async () => {
    server = await startKafkaServer(jars, { settings: ['message.max.bytes=10000'] })
    const settings = { brokers: [server.brokers], prefix: 'belfry', partitions: 1 }
    link = createKafkaLink({ ...parts, settings })
    await link.start()
  }, 90_000)
  afterAll(async () => {
    await link.close()
    await server.close()
  })

  it.each([
    ['a message that is too large', 'belfry.events', [{ value: 'x'.repeat(20_000) }], /max\.message\.bytes/],
    ['a name that no topic may have', 'belfry.a b!', [{ value: 'x' }], /belfry\.a b!/],
    ['a fault of this side', 'belfry.events', [broken], /belfry\.events/],
  ])('fails for one send, and stays up: %s', async (_, topic, messages, words) => {
    await link.ensureTopics(['belfry.events'])
    await expect(link.send(topic, messages)).rejects.toThrow(words)
    expect(link.up).toBe(true)
    await link.send('belfry.events', [{ value: 'y' }])
    expect(events.of('part_changed').filter(({ state }) => state === 'away')).toEqual([])
  })

  it('takes a page that is too large in parts, without the event that is too large itself', async () => {
    const publisher = createKafkaPublisher(link)
    const page = Array.from({ length: 60 }, (_, index) => eventOf(index === 33 ? 'x'.repeat(20_000) : null))
    await expect(publisher.publish(page)).rejects.toMatchObject({ name: 'EventsRefused', certain: true })
    const skipped = await sendEvents(publisher, page)
    expect(skipped.map(({ event }) => event.id)).toEqual([page[33]?.event.id])
    const inbox = openKafkaInbox({
      ...parts,
      link,
      name: 'listener',
      groupId: 'others',
      wants: (topic) => topic === 'belfry.events',
      from: 'earliest',
      capacity: 1_000,
    })
    await inbox.start()
    const wanted = page.filter((_, index) => index !== 33).map(({ event }) => event.id)
    const read: string[] = []
    await eventually(
      async () => {
        for (const { value } of await inbox.take(1_000, 100)) read.push(String(value))
        return wanted.every((id) => read.some((value) => value.includes(`"id":"${id}"`)))
      },
      'the others have come',
      30_000,
    )
    await inbox.close()
    expect(link.up).toBe(true)
  })

  it('leaves nothing behind of a member that cannot be made', async () => {
    let listening = 0
    const counted = Object.create(link, {
      onChange: {
        value: (listener: (up: boolean) => void) => {
          listening++
          const off = link.onChange(listener)
          return () => {
            listening--
            off()
          }
        },
      },
    }) as KafkaLink
    await link.ensureTopics(['belfry.events'])
    const inbox = openKafkaInbox({
      ...parts,
      link: counted,
      name: 'broken',
      groupId: '',
      wants: (topic) => topic === 'belfry.events',
      from: 'latest',
      capacity: 10,
    })
    await inbox.start()
    const failed = () => events.of('role_failed').filter(({ role }) => role === 'broken').length
    await eventually(() => failed() >= 2, 'it has failed', 20_000)
    expect(listening).toBe(1)
    await inbox.close()
    expect(listening).toBe(0)
  })

  it('makes no topic of a queue beyond 200; the queue is refused, and told once', async () => {
    const runsTopics = async () =>
      (await link.admin((admin) => admin.listTopics())).filter((topic) => topic.startsWith('belfry.runs.'))
    const names = Array.from({ length: mostRunsTopics - 1 }, (_, index) => runsTopic('belfry', `q-${index}`))
    // by another process, as it were
    for (let first = 0; first < names.length; first += 50) {
      const some = names.slice(first, first + 50)
      await link.admin((admin) => admin.createTopics({ topics: some, partitions: 1, replicas: 1 }))
    }
    const queues = Array.from({ length: 5 }, (_, index) => `late-${index}`)
    const announcements = createKafkaAnnouncements({ ...parts, link })
    const say = (...names: readonly string[]) =>
      announcements.announce(names.map((queue) => ({ queue, runs: [{ runId: newId(), tag: 1 }] })))
    const has = async (count: number) => (await runsTopics()).length === count
    await eventually(() => has(mostRunsTopics - 1), 'all are listed', 30_000)
    const { refused } = await say(...queues)
    expect(refused.length, JSON.stringify(events.of('carrier_refused'))).toBeGreaterThanOrEqual(4)
    await eventually(() => has(mostRunsTopics), 'one was made', 30_000)
    expect(await say('later')).toEqual({ refused: ['later'] })
    expect(await say('q-7')).toEqual({ refused: [] })
    expect(await runsTopics()).toHaveLength(mostRunsTopics)
    const told = events.of('carrier_refused')
    expect(told).toHaveLength(1)
    expect(told[0]?.at).toMatch(/^belfry\.runs\.late-\d$/)
    expect(told[0]?.fault).toContain('there are 200 topics of queues already')
    await expect(link.ensureTopics([runsTopic('belfry', 'last')])).rejects.toThrow(KafkaTopicsFull)
    await link.ensureTopics(['belfry.events'])
    expect(link.up).toBe(true)
  }, 90_000)

  it('tells what is at fault in itself from what is not', async () => {
    await expect(link.send('belfry.events', [{ value: 'x'.repeat(20_000) }])).rejects.toSatisfy(
      (error) => error instanceof KafkaUnfit && error.inItself,
    )
    await expect(link.send('belfry.events', [broken])).rejects.toSatisfy(
      (error) => error instanceof KafkaUnfit && !error.inItself,
    )
  })
})

/** As of a mistake in the code that makes messages. */
const broken: KafkaMessage = {
  get value(): string {
    throw new TypeError('it is undefined')
  },
}

function eventOf(reason: string | null) {
  const id = newId()
  const data = {
    runId: id,
    tenantId: id,
    jobId: id,
    queue: 'default',
    source: 'manual',
    scheduleId: null,
    scheduledFor: null,
    workflowRunId: null,
    attempt: 1,
    outcome: 'failed',
    state: 'failed',
    reason,
    errorCode: null,
    startedAt: '2026-01-01T00:00:00.000Z',
    endedAt: '2026-01-01T00:00:01.000Z',
    retryAt: null,
  } as const
  const event = {
    specversion: '1.0',
    source: `/belfry/belfry/tenants/${id}`,
    time: data.endedAt,
    datacontenttype: 'application/json',
    type: 'belfry.run.failed',
    id: `${id}.1`,
    subject: id,
    data,
  } as const
  return { key: id, event }
}

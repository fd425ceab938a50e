// Members of a group that share topics out among them, on a real broker: each message goes to one of them,
// what is committed comes no more, and no fault of the broker, of a topic or of what somebody wrote there by
// hand ends it.
import { gzipSync } from 'node:zlib'
import { Producer } from '@platformatic/kafka'
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest'
import { type KafkaInbox, openKafkaInbox } from '../../packages/server/src/adapters/kafka/kafka-inbox.ts'
import { createKafkaLink, type KafkaLink } from '../../packages/server/src/adapters/kafka/kafka-link.ts'
import { type KafkaServer, kafkaStartMs, startKafkaServer } from '../support/kafka-server.ts'
import { describeNeeding } from '../support/needs.ts'
import { realClock, realRandom } from '../support/real-clock.ts'
import { eventually, recordEvents } from '../support/running.ts'

describeNeeding('kafka', 'inboxes of Kafka', (jars) => {
  let server: KafkaServer
  const opened: { close(): Promise<void> }[] = []
  let groups = 0
  beforeAll(async () => {
    server = await startKafkaServer(jars, { users: { guest: 'sesame' }, authorize: true })
  }, kafkaStartMs)
  afterAll(() => server.close())
  afterEach(async () => {
    for (const each of opened.splice(0).toReversed()) await each.close()
  })

  async function openLink(given: object = {}): Promise<KafkaLink> {
    const settings = { brokers: [server.brokers], prefix: 'belfry', partitions: 4, ...given }
    const link = createKafkaLink({ settings, clock: realClock, random: realRandom, events: recordEvents() })
    await link.start()
    opened.push(link)
    return link
  }

  async function open(
    link: KafkaLink,
    topics: readonly string[],
    { groupId = `belfry.${++groups}`, events = recordEvents(), capacity = 100 } = {},
  ): Promise<KafkaInbox> {
    const wants = (topic: string): boolean => topics.includes(topic)
    const inbox = openKafkaInbox({
      link,
      clock: realClock,
      random: realRandom,
      events,
      name: 'inbox',
      groupId,
      wants,
      from: 'earliest',
      capacity,
    })
    await inbox.start()
    opened.push(inbox)
    return inbox
  }

  /** What comes, once each: after a rebalance some may come again. */
  async function texts(inbox: KafkaInbox, count: number, limitMs = 15_000): Promise<string[]> {
    const untilMs = performance.now() + limitMs
    const found = new Set<string>()
    while (found.size < count && performance.now() < untilMs) {
      const messages = await inbox.take(50, 200)
      for (const { value } of messages) found.add(String(value))
      await inbox.commit(messages)
    }
    return [...found].sort()
  }

  async function nobodyIn(link: KafkaLink, groupId: string): Promise<void> {
    await eventually(
      async () => {
        const described = await link.admin((admin) => admin.describeGroups({ groups: [groupId] }))
        return described.get(groupId)?.members.size === 0
      },
      'all have left',
      15_000,
    )
  }

  const numbered = (from: number, to: number) =>
    Array.from({ length: to - from }, (_, index) => ({ value: String(from + index).padStart(4, '0') }))
  const valuesOf = (messages: readonly { value: string }[]) => messages.map(({ value }) => value)

  it('gives each message to one member, and what is committed to nobody again', async () => {
    const link = await openLink()
    await link.ensureTopics(['belfry.runs.shared'])
    const group = { groupId: 'belfry.shared' }
    const one = await open(link, ['belfry.runs.shared'], group)
    const two = await open(link, ['belfry.runs.shared'], group)
    await eventually(() => one.up && two.up, 'both have their part')
    await link.send('belfry.runs.shared', numbered(0, 200))
    const got: string[] = []
    await eventually(
      async () => {
        for (const inbox of [one, two]) {
          const messages = await inbox.take(20, 50)
          got.push(...messages.map(({ value }) => String(value)))
          await inbox.commit(messages)
        }
        return got.length >= 200
      },
      'all came',
      15_000,
    )
    expect(got.sort()).toEqual(valuesOf(numbered(0, 200)))
    await one.close()
    await two.close()
    await nobodyIn(link, group.groupId)
    await link.send('belfry.runs.shared', numbered(200, 210))
    const three = await open(link, ['belfry.runs.shared'], group)
    expect(await texts(three, 10)).toEqual(valuesOf(numbered(200, 210)))
  })

  it('gives what was taken and not committed to the next member', async () => {
    const link = await openLink()
    await link.ensureTopics(['belfry.runs.lost'])
    await link.send('belfry.runs.lost', numbered(0, 10))
    const group = { groupId: 'belfry.lost' }
    const one = await open(link, ['belfry.runs.lost'], group)
    await eventually(async () => (await one.take(3, 100)).length > 0, 'some came')
    await one.close()
    const two = await open(link, ['belfry.runs.lost'], group)
    expect(await texts(two, 10)).toEqual(valuesOf(numbered(0, 10)))
  })

  it('serves members that want different topics, and topics that come later', async () => {
    const link = await openLink()
    await link.ensureTopics(['belfry.runs.a', 'belfry.runs.b'])
    const group = { groupId: 'belfry.mixed' }
    const one = await open(link, ['belfry.runs.a', 'belfry.runs.late'], group)
    const two = await open(link, ['belfry.runs.b'], group)
    await eventually(() => one.up && two.up, 'both have their part')
    await link.send('belfry.runs.a', numbered(0, 20))
    await link.send('belfry.runs.b', numbered(20, 40))
    expect(await texts(one, 20)).toEqual(valuesOf(numbered(0, 20)))
    expect(await texts(two, 20)).toEqual(valuesOf(numbered(20, 40)))
    await link.ensureTopics(['belfry.runs.late'])
    await link.send('belfry.runs.late', numbered(40, 50))
    expect(await texts(one, 10, 30_000)).toEqual(valuesOf(numbered(40, 50)))
  })

  it(
    'goes on after the broker was killed, and after its topic was deleted and made anew',
    async () => {
      const link = await openLink()
      await link.ensureTopics(['belfry.runs.hard'])
      const inbox = await open(link, ['belfry.runs.hard'])
      await link.send('belfry.runs.hard', numbered(0, 5))
      expect(await texts(inbox, 5)).toHaveLength(5)
      await server.kill()
      await eventually(() => !inbox.up, 'it is deaf', 15_000)
      await server.start()
      await eventually(() => link.up, 'Kafka is back', 15_000)
      await link.send('belfry.runs.hard', numbered(5, 10))
      expect(await texts(inbox, 5, 30_000)).toEqual(valuesOf(numbered(5, 10)))
      await link.admin((admin) => admin.deleteTopics({ topics: ['belfry.runs.hard'] }))
      await eventually(() => !inbox.up, 'it has no topic', 30_000)
      await eventually(
        () =>
          link.send('belfry.runs.hard', [{ value: 'x' }]).then(
            () => false,
            () => true,
          ),
        'the link knows',
      )
      await link.ensureTopics(['belfry.runs.hard'])
      await link.send('belfry.runs.hard', numbered(10, 15))
      expect(await texts(inbox, 5, 30_000)).toEqual(valuesOf(numbered(10, 15)))
    },
    kafkaStartMs,
  )

  it('holds no more than it is told to, and takes whatever was written by hand', async () => {
    const link = await openLink()
    await link.ensureTopics(['belfry.runs.odd'])
    const inbox = await open(link, ['belfry.runs.odd'], { capacity: 5 })
    const producer = new Producer({ clientId: 'hand', bootstrapBrokers: [server.brokers] })
    const topic = 'belfry.runs.odd'
    const big = Buffer.alloc(900_000, 0xff)
    for (const compression of ['none', 'gzip', 'snappy', 'lz4', 'zstd'] as const) {
      await producer.send({ compression, messages: [{ topic, value: Buffer.from(compression) }] })
    }
    await producer.send({
      messages: [
        { topic, key: Buffer.from([0xff, 0xfe]) },
        { topic, value: Buffer.alloc(0), headers: new Map([[Buffer.from('h'), Buffer.alloc(0)]]) },
        { topic, value: gzipSync('x') },
        { topic, value: big },
      ],
    })
    await producer.close()
    await link.send(topic, numbered(0, 50))
    const found = await texts(inbox, 59)
    expect(found).toEqual(expect.arrayContaining(['none', 'gzip', 'snappy', 'lz4', 'zstd', 'undefined', '']))
    expect(found.filter((text) => /^\d{4}$/.test(text))).toEqual(valuesOf(numbered(0, 50)))
  })

  it('says what right is missing, and is deaf', async () => {
    const plain = await openLink()
    await plain.ensureTopics(['belfry.runs.secret'])
    await plain.admin((admin) =>
      admin.createAcls({
        creations: [
          {
            resourceType: 2,
            resourceName: 'belfry.',
            resourcePatternType: 4,
            principal: 'User:guest',
            host: '*',
            operation: 3,
            permissionType: 3,
          },
        ],
      }),
    )
    const login = { username: 'guest', password: 'sesame', mechanism: 'plain' }
    const link = await openLink({ brokers: [server.saslBrokers], login })
    const events = recordEvents()
    const inbox = await open(link, ['belfry.runs.secret'], { events })
    await eventually(() => events.of('role_failed').length > 0, 'it says so', 20_000)
    expect(String(events.of('role_failed')[0]?.error)).toMatch(/member of the group/)
    expect(inbox.up).toBe(false)
  })
})

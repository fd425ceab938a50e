// Whether Kafka is there, as an operator sees it: said at the start too, with the cause and the setting that
// mends it, also where it only falls silent. And what it refuses, which does not make it away.
import { afterAll, beforeAll, expect, it } from 'vitest'
import type { KafkaSettings } from '../../packages/server/src/adapters/kafka/kafka-client.ts'
import { createKafkaLink } from '../../packages/server/src/adapters/kafka/kafka-link.ts'
import { runsTopic } from '../../packages/server/src/adapters/kafka/kafka-topics.ts'
import { type KafkaServer, kafkaStartMs, startKafkaServer } from '../support/kafka-server.ts'
import { describeNeeding } from '../support/needs.ts'
import { realClock, realRandom } from '../support/real-clock.ts'
import { eventually, recordEvents } from '../support/running.ts'
import { targetCertificate, targetKey } from '../support/target-certificate.ts'

const password = 'open-sesame'

describeNeeding('kafka', 'the link to Kafka', (jars) => {
  let server: KafkaServer
  beforeAll(async () => {
    server = await startKafkaServer(jars, {
      users: { belfry: password, guest: password },
      tls: { certificate: targetCertificate, key: targetKey },
      authorize: true,
    })
  }, kafkaStartMs)
  afterAll(() => server.close())

  async function open(given: Partial<KafkaSettings> = {}) {
    const events = recordEvents()
    const settings = { brokers: [server.brokers], prefix: 'belfry', partitions: 2, ...given }
    const link = createKafkaLink({ settings, clock: realClock, random: realRandom, events })
    await link.start()
    return { link, changes: () => events.of('part_changed') }
  }

  const login = (given: Partial<NonNullable<KafkaSettings['login']>>) => ({
    brokers: [server.saslBrokers],
    login: { username: 'belfry', password, mechanism: 'scram-sha-512' as const, ...given },
  })

  it.each([
    ['a wrong password', () => login({ password: 'wrong' }), /kafkaPassword/],
    [
      'a wrong password, sent as it is',
      () => login({ password: 'wrong', mechanism: 'plain' }),
      /kafkaPassword/,
    ],
    ['an unknown user', () => login({ username: 'nobody' }), /kafkaUsername/],
    ['no such host', () => ({ brokers: ['no.such.host.invalid:9092'] }), /ENOTFOUND|EAI_AGAIN/],
    ['nobody there', () => ({ brokers: ['127.0.0.1:1'] }), /ECONNREFUSED/],
    ['TLS, and not spoken', () => ({ brokers: [server.tlsBrokers] }), /kafkaTls/],
    ['no TLS, and spoken', () => ({ tls: {} }), /kafkaTls/],
    ['an unknown certificate', () => ({ brokers: [server.tlsBrokers], tls: {} }), /kafkaTlsCa/],
  ])('says at the start that it is away, and why: %s', async (_, settingsOf, why) => {
    const { link, changes } = await open(settingsOf())
    expect(changes().at(-1)).toMatchObject({ part: 'kafka', state: 'away' })
    expect(link.stats().fault).toMatch(why)
    expect(JSON.stringify(changes())).not.toContain(password)
    await expect(link.send('belfry.events', [{ value: 'x' }])).rejects.toThrow(why)
    await link.close()
  })

  it.each([
    ['by PLAIN', () => login({ mechanism: 'plain' })],
    ['by SCRAM-SHA-256', () => login({ mechanism: 'scram-sha-256' })],
    ['by SCRAM-SHA-512', () => login({ mechanism: 'scram-sha-512' })],
    ['by TLS', () => ({ brokers: [server.tlsBrokers], tls: { ca: targetCertificate } })],
  ])('comes in %s', async (_, settingsOf) => {
    const { link } = await open(settingsOf())
    expect(link.stats()).toMatchObject({ up: true, fault: null })
    await link.close()
  })

  it('makes topics and sends to them; what a user may not do is said, with the command', async () => {
    const { link } = await open()
    const topic = runsTopic('belfry', 'mail')
    await link.ensureTopics([topic])
    await link.ensureTopics([topic])
    await link.send(topic, [
      { key: 'a', value: '1' },
      { value: '2', headers: { h: 'x' } },
    ])
    expect(await link.admin((admin) => admin.listTopics())).toContain(topic)
    const { link: guest } = await open(login({ username: 'guest' }))
    await expect(guest.send(topic, [{ value: 'x' }])).rejects.toThrow(/rights .*belfry\.runs\.mail/)
    await expect(guest.ensureTopics(['belfry.events'])).rejects.toThrow(
      /kafka-topics\.sh --bootstrap-server \S+ .*--create .*--topic belfry\.events --partitions 2/,
    )
    expect(guest.up).toBe(true)
    await link.close()
    await guest.close()
  })

  it('tells a topic that is not there, or not any more, and makes it again', async () => {
    const { link } = await open()
    await expect(link.send('belfry.nowhere', [{ value: 'x' }])).rejects.toThrow(
      'belfry.nowhere does not exist',
    )
    expect(link.up).toBe(true)
    await link.ensureTopics(['belfry.runs.gone'])
    await link.send('belfry.runs.gone', [{ value: 'x' }])
    await link.admin((admin) => admin.deleteTopics({ topics: ['belfry.runs.gone'] }))
    await expect(eventuallyThrows(() => link.send('belfry.runs.gone', [{ value: 'x' }]))).resolves.toMatch(
      'not exist',
    )
    await link.ensureTopics(['belfry.runs.gone'])
    await link.send('belfry.runs.gone', [{ value: 'x' }])
    await link.close()
  })

  it('keeps apart the topics of queues whose names Kafka takes for one', () => {
    const names = ['a.b', 'a_b', 'a-b', 'a__b'].map((queue) =>
      runsTopic('belfry', queue).replaceAll('.', '_'),
    )
    expect(new Set(names).size).toBe(4)
    expect(runsTopic('x'.repeat(64), 'q_'.repeat(64)).length).toBeLessThanOrEqual(249)
  })

  it('notices that it is frozen, and that it goes on', async () => {
    const { link, changes } = await open()
    await link.ensureTopics(['belfry.events'])
    server.pause()
    const sentMs = performance.now()
    await expect(link.send('belfry.events', [{ value: 'x' }])).rejects.toThrow(/./)
    expect(performance.now() - sentMs).toBeLessThan(6_000)
    expect(link.up).toBe(false)
    expect(changes().at(-1)).toMatchObject({ state: 'away' })
    const failedMs = performance.now()
    await expect(link.send('belfry.events', [{ value: 'x' }])).rejects.toThrow(/./)
    expect(performance.now() - failedMs).toBeLessThan(100)
    server.goOn()
    await eventually(() => link.up, 'it is back', 15_000)
    expect(changes().at(-1)).toMatchObject({ state: 'up', fault: null })
    await link.close()
  })

  it(
    'notices by itself that it was killed, and that it is back',
    async () => {
      const { link } = await open()
      const before = link.generation
      await server.kill()
      await eventually(() => !link.up, 'it is away', 15_000)
      await server.start()
      await eventually(() => link.up, 'it is back', 15_000)
      expect(link.generation).toBe(before + 1)
      await link.ensureTopics(['belfry.events'])
      await link.send('belfry.events', [{ value: 'x' }])
      await link.close()
    },
    kafkaStartMs,
  )
})

async function eventuallyThrows(work: () => Promise<void>): Promise<string> {
  let words = ''
  await eventually(async () => {
    words = await work().then(
      () => '',
      (error: unknown) => String(error),
    )
    return words !== ''
  }, 'it fails')
  return words
}

// `belfry doctor` and a real Kafka: what is wrong with it is named, with what to do, and never its password.
// And the rights that docs/how-to/kafka.md gives to each role: enough for all that it does there, and nothing
// else.
import { readFileSync } from 'node:fs'
import { type Acl, AclOperations, AclPermissionTypes, ResourceTypes } from '@platformatic/kafka'
import type { CloudEvent } from '@belfry/contract'
import { afterAll, beforeAll, expect, it } from 'vitest'
import type { KafkaSettings } from '../../packages/server/src/adapters/kafka/kafka-client.ts'
import {
  createKafkaPublisher,
  resolversGroup,
} from '../../packages/server/src/adapters/kafka/kafka-events.ts'
import { openKafkaInbox } from '../../packages/server/src/adapters/kafka/kafka-inbox.ts'
import { createKafkaLink, type KafkaLink } from '../../packages/server/src/adapters/kafka/kafka-link.ts'
import { workersGroup } from '../../packages/server/src/adapters/kafka/kafka-announcements.ts'
import { examineKafka } from '../../packages/server/src/compose/doctor-kafka.ts'
import { type KafkaServer, kafkaStartMs, startKafkaServer } from '../support/kafka-server.ts'
import { describeNeeding } from '../support/needs.ts'
import { realClock, realRandom } from '../support/real-clock.ts'
import { eventually, recordEvents } from '../support/running.ts'

const password = 'open-sesame'
const page = readFileSync(new URL('../../docs/how-to/kafka.md', import.meta.url), 'utf8')
const prefixed = 4
const literal = 3

describeNeeding('kafka', 'a real Kafka', (jars) => {
  let server: KafkaServer
  let admin: KafkaLink
  const opened: { close(): Promise<void> }[] = []
  beforeAll(async () => {
    server = await startKafkaServer(jars, {
      users: { scheduler: password, resolver: password, worker: password },
      authorize: true,
    })
    admin = await open({ brokers: [server.brokers], login: undefined })
  }, kafkaStartMs)
  afterAll(async () => {
    for (const each of opened.toReversed()) await each.close()
    await server.close()
  })

  const settingsOf = (given: Partial<KafkaSettings>): KafkaSettings => ({
    brokers: [server.saslBrokers],
    prefix: 'belfry',
    partitions: 2,
    ...given,
  })
  const login = (
    username: string,
    word = password,
    mechanism: 'plain' | 'scram-sha-512' = 'scram-sha-512',
  ) => ({
    login: { username, password: word, mechanism },
  })

  async function open(given: Partial<KafkaSettings>): Promise<KafkaLink> {
    const settings = settingsOf(given)
    const link = createKafkaLink({ settings, clock: realClock, random: realRandom, events: recordEvents() })
    await link.start()
    opened.push(link)
    return link
  }

  async function listen(link: KafkaLink, groupId: string, topic: string) {
    const events = recordEvents()
    const wants = (each: string): boolean => each === topic
    const common = { link, clock: realClock, random: realRandom, events, groupId, wants }
    const inbox = openKafkaInbox({ ...common, name: 'listener', from: 'earliest', capacity: 10 })
    await inbox.start()
    opened.push(inbox)
    return { inbox, refusals: () => events.of('role_failed').map(({ error }) => String(error)) }
  }

  /** The commands of the page for a role, as its tool would carry them out. */
  function aclsOf(role: string): Acl[] {
    const lines = page
      .split('\n')
      .filter((line) => line.startsWith(`kafka-acls.sh --add --allow-principal User:${role} `))
    expect(lines.length).toBeGreaterThan(0)
    return lines.flatMap((line) => {
      const [, kind = '', resourceName = ''] = /--(topic|group) (\S+)$/.exec(line) ?? []
      return [...line.matchAll(/--operation (\w+)/g)].map(([, operation = '']) => ({
        resourceType: kind === 'topic' ? ResourceTypes.TOPIC : ResourceTypes.GROUP,
        resourceName,
        resourcePatternType: line.includes('--resource-pattern-type prefixed') ? prefixed : literal,
        principal: `User:${role}`,
        host: '*',
        operation: AclOperations[operation.toUpperCase() as keyof typeof AclOperations],
        permissionType: AclPermissionTypes.ALLOW,
      }))
    })
  }

  it('that is not there, or does not let this user in', async () => {
    const away = await examineKafka(settingsOf({ ...login('scheduler'), brokers: ['127.0.0.1:1'] }))
    expect(away.map(({ status }) => status)).toEqual(['fail'])
    expect(away[0]?.fix).toContain('KAFKA_BROKERS')
    const wrong = await examineKafka(settingsOf(login('scheduler', 'not-the-secret')))
    expect(wrong).toMatchObject([{ status: 'fail' }])
    expect(wrong[0]?.message).toContain('kafkaPassword')
    expect(JSON.stringify([away, wrong])).not.toMatch(/open-sesame|not-the-secret/)
  })

  it('that has no topic of events yet, and one that sends passwords as they are', async () => {
    const found = await examineKafka(settingsOf(login('scheduler', password, 'plain')))
    expect(found).toMatchObject([
      { name: 'kafka', status: 'ok' },
      { name: 'kafka_login', status: 'warn' },
      { name: 'kafka_topics', status: 'warn' },
    ])
    expect(found[2]?.fix).toContain('--create --if-not-exists --topic belfry.events')
  })

  it('that is as it should be, and one that keeps events for too short', async () => {
    await admin.ensureTopics(['belfry.events', 'belfry.runs.mail'])
    const settings = settingsOf({ brokers: [server.brokers] })
    const found = await examineKafka(settings)
    expect(found.map(({ name, status }) => [name, status])).toEqual([
      ['kafka', 'ok'],
      ['kafka_topics', 'ok'],
      ['kafka_copies', 'ok'],
      ['kafka_retention', 'ok'],
    ])
    expect(found.at(-1)?.message).toContain('168 hours')
    const configs = [{ name: 'retention.ms', value: '3600000', configOperation: 0 as const }]
    await admin.admin((each) =>
      each.incrementalAlterConfigs({
        resources: [{ resourceType: 2, resourceName: 'belfry.events', configs }],
      }),
    )
    const short = (await examineKafka(settings)).find(({ name }) => name === 'kafka_retention')
    expect(short).toMatchObject({ status: 'warn' })
    expect(short?.fix).toContain('retention.ms')
  })

  it('with the rights of the docs: enough for each role, and nothing beside', async () => {
    await admin.admin((each) =>
      each.createAcls({ creations: ['scheduler', 'resolver', 'worker'].flatMap(aclsOf) }),
    )
    const scheduler = await open(login('scheduler'))
    const resolver = await open(login('resolver'))
    const worker = await open(login('worker'))
    await scheduler.ensureTopics(['belfry.runs.new'])
    await scheduler.send('belfry.runs.new', [{ value: 'run' }])
    const hears = await listen(worker, workersGroup('belfry'), 'belfry.runs.new')
    const said = await eventually(
      async () => (await hears.inbox.take(1, 100)).at(0),
      'the worker hears it',
      20_000,
    )
    expect(String(said.value)).toBe('run')
    await hears.inbox.commit([said])

    const resolves = await listen(resolver, resolversGroup('belfry'), 'belfry.events')
    const wakes = await listen(scheduler, resolversGroup('belfry'), 'belfry.events')
    await eventually(() => resolves.inbox.up && wakes.inbox.up, 'both are in the group', 20_000)
    const publisher = createKafkaPublisher(scheduler)
    const event = { id: '1' } as unknown as CloudEvent
    await publisher.publish([{ key: 'a', event }])
    await eventually(
      async () => (await resolves.inbox.take(1, 50)).length + (await wakes.inbox.take(1, 50)).length > 0,
      'one of them is woken',
      20_000,
    )
    expect([...hears.refusals(), ...resolves.refusals(), ...wakes.refusals()]).toEqual([])

    await expect(worker.send('belfry.runs.new', [{ value: 'x' }])).rejects.toThrow('rights')
    await expect(worker.ensureTopics(['belfry.runs.mine'])).rejects.toThrow('kafka-topics.sh')
    await expect(resolver.send('belfry.events', [{ value: 'x' }])).rejects.toThrow('rights')
    await expect(scheduler.ensureTopics(['other'])).rejects.toThrow('kafka-topics.sh')
    expect(await worker.admin((each) => each.listTopics())).toEqual(['belfry.runs.mail', 'belfry.runs.new'])
    const curious = await listen(worker, 'belfry.resolvers', 'belfry.runs.new')
    await eventually(() => curious.refusals().length > 0, 'a worker is no resolver', 20_000)
  })
})

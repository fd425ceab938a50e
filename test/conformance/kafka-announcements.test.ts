// Announcements by Kafka, beyond what every carrier does: order by key, topics that may not be made or were
// deleted, workers that come and go, and a worker that really works on it.
import { afterAll, beforeAll, expect, it } from 'vitest'
import { createKafkaAnnouncements } from '../../packages/server/src/adapters/kafka/kafka-announcements.ts'
import type { KafkaSettings } from '../../packages/server/src/adapters/kafka/kafka-client.ts'
import { createKafkaLink, type KafkaLink } from '../../packages/server/src/adapters/kafka/kafka-link.ts'
import { runsTopic } from '../../packages/server/src/adapters/kafka/kafka-topics.ts'
import { createAnnouncedQueue } from '../../packages/server/src/engine/announced-queue.ts'
import { createAnnouncer } from '../../packages/server/src/engine/announcer.ts'
import { createLocalHints } from '../../packages/server/src/engine/local-hints.ts'
import type { AnnouncementInbox } from '../../packages/server/src/ports/announcements.ts'
import { createPostgresReadyWindows } from '../../packages/server/src/postgres/ready-windows.ts'
import { createPostgresAnnouncedRuns } from '../../packages/server/src/postgres/run-queue.ts'
import { everyShard } from '../support/announced-rig.ts'
import { type KafkaServer, kafkaStartMs, startKafkaServer } from '../support/kafka-server.ts'
import { describeNeeding } from '../support/needs.ts'
import { realClock, realRandom } from '../support/real-clock.ts'
import {
  createRunningFixture,
  eventually,
  newId,
  recordEvents,
  type RunningFixture,
  success,
  testHandler,
} from '../support/running.ts'
import { workerRigs } from '../support/worker-rig.ts'

const password = 'sesame-for-tests'

describeNeeding('kafka', 'announcements by Kafka, as an operator meets them', (jars) => {
  let server: KafkaServer
  let fixture: RunningFixture
  const rigs = workerRigs(() => fixture)
  const closing: (() => Promise<void>)[] = []
  beforeAll(async () => {
    server = await startKafkaServer(jars, { users: { guest: password }, authorize: true })
    fixture = await createRunningFixture()
  }, kafkaStartMs)
  afterAll(async () => {
    await rigs.stopAll()
    for (const close of closing.toReversed()) await close()
    await fixture.drop()
    await server.close()
  })

  async function open(given: Partial<KafkaSettings> = {}) {
    const events = recordEvents()
    const settings = { brokers: [server.brokers], prefix: 'belfry', partitions: 4, ...given }
    const link: KafkaLink = createKafkaLink({ settings, clock: realClock, random: realRandom, events })
    await link.start()
    closing.push(() => link.close())
    const parts = { clock: realClock, random: realRandom, events }
    return { link, announcements: createKafkaAnnouncements({ ...parts, link }), ...parts }
  }

  async function listen(inbox: AnnouncementInbox): Promise<AnnouncementInbox> {
    await inbox.start()
    closing.push(() => inbox.close())
    await eventually(() => inbox.up, 'it listens', 30_000)
    return inbox
  }
  const take = (inbox: AnnouncementInbox) => inbox.take(500, 200, new AbortController().signal)

  it('keeps the order of each key', async () => {
    const { announcements } = await open()
    const one = (key: number, tag: number) => ({
      queue: 'ordered',
      orderKey: `key:${key}`,
      runs: [{ runId: newId(), tag }],
    })
    await announcements.announce([one(0, 0)])
    const inbox = await listen(announcements.open(['ordered']))
    for (let tag = 1; tag <= 30; tag++)
      await announcements.announce([0, 1, 2, 3, 4].map((key) => one(key, tag)))
    const heard = new Map<string, number[]>()
    await eventually(
      async () => {
        for (const { receipt, runs } of await take(inbox)) {
          const { key } = receipt as { key: Buffer | undefined }
          const name = String(key)
          heard.set(name, [
            ...(heard.get(name) ?? []),
            ...runs.map(({ tag }) => tag).filter((tag) => tag > 0),
          ])
        }
        return [...heard.values()].flat().length >= 150
      },
      'all of it came',
      20_000,
    )
    const inOrder = Array.from({ length: 30 }, (_, index) => index + 1)
    for (const key of [0, 1, 2, 3, 4]) expect([...new Set(heard.get(`key:${key}`))]).toEqual(inOrder)
  })

  it('leaves alone a queue whose topic it may not make, and says how to make it', async () => {
    const login = { username: 'guest', password, mechanism: 'scram-sha-512' as const }
    const { announcements, events, link } = await open({ brokers: [server.saslBrokers], login })
    const said = [{ queue: 'forbidden', runs: [{ runId: newId(), tag: 1 }] }]
    expect(await announcements.announce(said)).toEqual({ refused: ['forbidden'] })
    expect(link.up).toBe(true)
    const [refusal] = events.of('carrier_refused')
    expect(refusal).toMatchObject({ part: 'kafka', at: 'belfry.runs.forbidden' })
    expect(refusal?.fault).toContain('kafka-topics.sh')
  })

  it('incident 35: a worker goes on when the topic is deleted, and when others join and leave', async () => {
    const queues = ['default']
    const { announcements, link, ...parts } = await open()
    const { events } = parts
    await announcements.announce([{ queue: 'default', runs: [{ runId: newId(), tag: 0 }] }])
    const hints = createLocalHints()
    const announcer = createAnnouncer({
      ...parts,
      announcements,
      hints,
      elector: everyShard,
      windows: createPostgresReadyWindows(fixture.database.open()),
    })
    const target = testHandler(() => success)
    async function startWorker(): Promise<() => Promise<void>> {
      const queue = createAnnouncedQueue({
        ...parts,
        queue: fixture.queue,
        runs: createPostgresAnnouncedRuns(fixture.database.open()),
        inbox: announcements.open(queues),
        slots: 10,
      })
      await queue.start()
      const { worker } = await rigs.start(target, {
        queue,
        withHints: queue.withHints,
        settings: { maxPollMs: 1_000 },
      })
      return async () => {
        await worker.stop()
        await queue.stop()
      }
    }
    const stopFirst = await startWorker()
    closing.push(stopFirst)
    await announcer.start()
    closing.push(() => announcer.stop())
    const job = await fixture.addJob({ attemptTimeoutMs: 5_000 })
    const done = () => new Set(target.requests.map(({ runId }) => runId))
    let tag = 1
    async function work(count: number, limitMs: number): Promise<void> {
      const ids = await fixture.addRuns(job, count, { firstTag: tag })
      tag += count
      hints.deliver({ topic: 'ready', key: 'default' })
      await eventually(() => ids.every((id) => done().has(id)), `${count} runs have run`, limitMs)
    }
    const announced = () => events.of('announced_claim').reduce((sum, { claimed }) => sum + claimed, 0)

    await eventually(
      async () => {
        await work(20, 5_000)
        return announced() > 0
      },
      'it goes by what is announced',
      30_000,
    )
    await work(200, 5_000)
    await link.admin((admin) => admin.deleteTopics({ topics: [runsTopic('belfry', 'default')] }))
    for (let round = 0; round < 5; round++) await work(20, 5_000)
    const stopSecond = await startWorker()
    for (let round = 0; round < 5; round++) await work(20, 5_000)
    await stopSecond()
    for (let round = 0; round < 5; round++) await work(20, 5_000)
    expect(target.requests.length, 'no run ran twice').toBe(done().size)
  }, 120_000)
})

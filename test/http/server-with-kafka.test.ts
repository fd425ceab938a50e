// A whole server with KAFKA_BROKERS, told nothing else: runs go by Kafka and their ends leave by it; while
// the broker is dead everything goes on without, the server stays ready and says so, and what ended meanwhile
// leaves when it is back.
import { createServer } from 'node:http'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { type CloudEvent, cloudEventSchema } from '@belfry/contract'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { openKafkaInbox } from '../../packages/server/src/adapters/kafka/kafka-inbox.ts'
import { createKafkaLink } from '../../packages/server/src/adapters/kafka/kafka-link.ts'
import { makeOwnerKey } from '../../packages/server/src/compose/first-key.ts'
import { type BelfryServer, startServer } from '../../packages/server/src/compose/server.ts'
import { loadConfig } from '../../packages/server/src/config/load.ts'
import { createLogger } from '../../packages/server/src/telemetry/logger.ts'
import { type KafkaServer, kafkaStartMs, startKafkaServer } from '../support/kafka-server.ts'
import { describeNeeding } from '../support/needs.ts'
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts'
import { realClock, realRandom } from '../support/real-clock.ts'
import { eventually, recordEvents } from '../support/running.ts'

describeNeeding('kafka', 'a server with Kafka', (jars) => {
  let kafka: KafkaServer
  let database: TestDatabase
  let server: BelfryServer
  let key: string
  const target = createServer((_, response) => response.end('ok'))
  beforeAll(async () => {
    kafka = await startKafkaServer(jars)
    database = await createTestDatabase()
    target.listen(0, '127.0.0.1')
    await once(target, 'listening')
    const { host, port } = database.connection
    const { config } = loadConfig({
      flags: { port: 0, opsPort: 0, drainMs: 500, egressAllow: '127.0.0.1/32' },
      env: {
        DATABASE_URL: `postgres://belfry@${encodeURIComponent(host)}:${port}/${database.name}`,
        KAFKA_BROKERS: kafka.brokers,
      },
    })
    server = await startServer({ config, logger: createLogger({ level: 'silent', version: '0' }) })
    key = (await makeOwnerKey(server.store.db, 'main', 'test')).key
  }, kafkaStartMs)
  afterAll(async () => {
    await server.stop()
    target.close()
    await database.drop()
    await kafka.close()
  })

  async function call(method: string, path: string, body?: object): Promise<Record<string, unknown>> {
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
    const init = body === undefined ? {} : { body: JSON.stringify(body) }
    const answer = await fetch(`${server.apiUrl}${path}`, { method, headers, ...init })
    expect(answer.ok, `${method} ${path}: ${answer.status}`).toBe(true)
    return (await answer.json()) as Record<string, unknown>
  }

  async function runToItsEnd(): Promise<string> {
    const { id } = await call('POST', '/v1/runs', { job: 'hello' })
    await eventually(
      async () => (await call('GET', `/v1/runs/${String(id)}`))['state'] === 'succeeded',
      'the run has ended',
      15_000,
    )
    return String(id)
  }

  async function kafkaFinding(): Promise<{ status: number; kafka: unknown }> {
    const answer = await fetch(`${server.opsUrl}/readyz?verbose`)
    const { checks } = (await answer.json()) as { checks: { name: string; status: string }[] }
    return { status: answer.status, kafka: checks.find(({ name }) => name === 'kafka')?.status }
  }

  it('runs by it, tells by it, and does without it', async () => {
    const { port } = target.address() as AddressInfo
    await call('POST', '/v1/jobs', {
      name: 'hello',
      handler: { kind: 'http', url: `http://127.0.0.1:${port}/` },
    })
    const ended = [await runToItsEnd()]
    expect(await kafkaFinding()).toEqual({ status: 200, kafka: 'ok' })

    await kafka.kill()
    await eventually(
      async () => (await kafkaFinding()).kafka === 'warn',
      'it says that Kafka is away',
      15_000,
    )
    expect((await kafkaFinding()).status).toBe(200)
    ended.push(await runToItsEnd())

    await kafka.start()
    await eventually(async () => (await kafkaFinding()).kafka === 'ok', 'Kafka is back', 20_000)
    ended.push(await runToItsEnd())
    expect((await readEvents(kafka.brokers, ended)).toSorted()).toEqual(ended.toSorted())
  }, 120_000)
})

/** The runs of which an end has left, read from the beginning until all of these are among them. */
async function readEvents(brokers: string, wanted: readonly string[]): Promise<string[]> {
  const parts = { clock: realClock, random: realRandom, events: recordEvents() }
  const link = createKafkaLink({
    ...parts,
    settings: { brokers: [brokers], prefix: 'belfry', partitions: 1 },
  })
  await link.start()
  const wants = (topic: string): boolean => topic === 'belfry.events'
  const common = { ...parts, link, wants, name: 'listener', groupId: 'others' }
  const inbox = openKafkaInbox({ ...common, from: 'earliest', capacity: 100 })
  await inbox.start()
  const seen = new Map<string, CloudEvent>()
  await eventually(
    async () => {
      for (const { value } of await inbox.take(100, 100)) {
        const event = cloudEventSchema.parse(JSON.parse(String(value)))
        if (event.type === 'belfry.run.succeeded') seen.set(event.subject, event)
      }
      return wanted.every((id) => seen.has(id))
    },
    'all ends have left',
    30_000,
  )
  await inbox.close()
  await link.close()
  return [...seen.keys()]
}

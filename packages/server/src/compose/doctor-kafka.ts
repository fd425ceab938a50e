/**
 * The Kafka of KAFKA_BROKERS as a server here would meet it: do brokers answer this user, is TLS spoken where
 * a password is sent, is the topic of events there or can it be made, does it lose what it has when one
 * broker is lost, how long does it keep it. Makes and writes nothing.
 */
import type { Admin } from '@platformatic/kafka'
import type { KafkaSettings } from '../adapters/kafka/kafka-client.ts'
import { createKafkaLink, type KafkaLink } from '../adapters/kafka/kafka-link.ts'
import { eventsTopic, runsPrefix, topicCommand } from '../adapters/kafka/kafka-topics.ts'
import { systemClock } from '../adapters/system/clock.ts'
import { systemRandom } from '../adapters/system/ids.ts'
import type { Diagnosis } from './diagnosis.ts'
import { wordsOf } from './diagnosis.ts'

const topicResource = 2
const hourMs = 3_600_000
/** What a listener who was away for a night should find. */
const fewHours = 12

/** Never throws. */
export async function examineKafka(settings: KafkaSettings): Promise<Diagnosis[]> {
  const events = { emit: () => undefined }
  const link = createKafkaLink({ settings, clock: systemClock, random: systemRandom, events })
  try {
    await link.start()
    const { up, fault } = link.stats()
    if (!up) return [refusal(settings, fault ?? 'no answer')]
    return [await serverDiagnosis(link), ...loginDiagnosis(settings), ...(await topicDiagnoses(link))]
  } catch (error) {
    return [refusal(settings, wordsOf(error))]
  } finally {
    await link.close()
  }
}

function refusal({ brokers }: KafkaSettings, fault: string): Diagnosis {
  const message =
    `Kafka at ${brokers.join(', ')} does not let Belfry in: ${fault}. Without it runs are claimed ` +
    'directly, and events wait.'
  const fix = 'Check KAFKA_BROKERS, login and TLS (docs/how-to/kafka.md), and that the brokers run.'
  return { name: 'kafka', status: 'fail', message, fix }
}

async function serverDiagnosis(link: KafkaLink): Promise<Diagnosis> {
  const sentMs = systemClock.monotonicMs()
  const { brokers } = await link.admin((admin) => admin.metadata({ topics: [], forceUpdate: true }))
  const took = Math.round(systemClock.monotonicMs() - sentMs)
  const count = brokers.size === 1 ? 'one broker' : `${brokers.size} brokers`
  const message = `Kafka at ${link.settings.brokers.join(', ')} answers (${count}, ${took} ms).`
  return { name: 'kafka', status: 'ok', message, fix: null }
}

function loginDiagnosis({ login, tls }: KafkaSettings): Diagnosis[] {
  const name = 'kafka_login'
  if (login?.mechanism !== 'plain' || tls !== undefined) return []
  const message = 'The password of Kafka is sent as it is, without TLS.'
  const fix = 'Set BELFRY_KAFKA_TLS=true, or BELFRY_KAFKA_MECHANISM to scram-sha-512.'
  return [{ name, status: 'warn', message, fix }]
}

async function topicDiagnoses(link: KafkaLink): Promise<Diagnosis[]> {
  const { settings } = link
  const topic = eventsTopic(settings.prefix)
  const all = await link.admin((admin) => admin.listTopics())
  const queues = all.filter((each) => each.startsWith(runsPrefix(settings.prefix))).length
  if (!all.includes(topic)) {
    const message = `The topic ${topic} is not there yet, or this user does not see it.`
    const fix = `A server makes it at its start if it may. If not: ${topicCommand(settings, topic)}`
    return [{ name: 'kafka_topics', status: 'warn', message, fix }]
  }
  const noun = queues === 1 ? 'one queue has a topic' : `${queues} queues have topics`
  const message = `The topic ${topic} is there, and ${noun}.`
  const found: Diagnosis = { name: 'kafka_topics', status: 'ok', message, fix: null }
  return [found, await copiesDiagnosis(link, topic), await retentionDiagnosis(link, topic)]
}

async function copiesDiagnosis(link: KafkaLink, topic: string): Promise<Diagnosis> {
  const name = 'kafka_copies'
  const { topics, brokers } = await link.admin((admin) =>
    admin.metadata({ topics: [topic], forceUpdate: true }),
  )
  const partitions = topics.get(topic)?.partitions ?? []
  const copies = Math.min(...partitions.map(({ replicas }) => replicas.length))
  const inSync = Math.min(...partitions.map(({ isr }) => isr.length))
  const least = Number((await readConfigs(link, topic)).get('min.insync.replicas') ?? 1)
  const message =
    `${topic} has ${partitions.length} partitions of ${copies} copies, ${inSync} in sync; ` +
    `a message counts as kept when ${least} have it.`
  if (inSync < least) {
    const fix = `Nothing is taken until min.insync.replicas (${least}) copies are in sync; see the brokers.`
    return { name, status: 'fail', message, fix }
  }
  if (brokers.size < 2 || (copies > 1 && least > 1)) return { name, status: 'ok', message, fix: null }
  const fix = 'Three copies and min.insync.replicas=2 keep events when a broker is lost.'
  return { name, status: 'warn', message, fix }
}

async function retentionDiagnosis(link: KafkaLink, topic: string): Promise<Diagnosis> {
  const name = 'kafka_retention'
  const configs = await readConfigs(link, topic)
  const ms = Number(configs.get('retention.ms') ?? Number.NaN)
  const policy = configs.get('cleanup.policy') ?? 'delete'
  if (policy !== 'delete') {
    const message = `${topic} has cleanup.policy=${policy}: of each run only the last event stays.`
    const fix = `Set cleanup.policy=delete for ${topic}.`
    return { name, status: 'warn', message, fix }
  }
  if (Number.isNaN(ms)) {
    const message = `How long ${topic} is kept cannot be seen by this user.`
    return { name, status: 'ok', message, fix: null }
  }
  const hours = Math.round(ms / hourMs)
  const message = ms < 0 ? `${topic} is kept for ever.` : `${topic} is kept for ${hours} hours.`
  if (ms < 0 || hours >= fewHours) return { name, status: 'ok', message, fix: null }
  const fix = `Whoever is away for longer misses events; raise retention.ms of ${topic}.`
  return { name, status: 'warn', message, fix }
}

/** Empty where this user may not see them. */
async function readConfigs(link: KafkaLink, topic: string): Promise<ReadonlyMap<string, string>> {
  const ask = (admin: Admin) =>
    admin.describeConfigs({ resources: [{ resourceType: topicResource, resourceName: topic }] })
  const described = await link.admin(ask, topic).catch(() => [])
  const configs = described.flatMap((each) => each.configs)
  return new Map(configs.map(({ name, value }) => [name, value ?? ''] as const))
}

/**
 * The topics of an installation: their names, how they are made, and the command that makes one by hand.
 *
 *   <prefix>.runs.<queue>   which runs of a queue may be claimed (kafka-announcements.ts)
 *   <prefix>.events         what happened, as CloudEvents (event-relay.ts)
 *   <prefix>.audit          who did what, with what attests it (audit-exporter.ts)
 */
import { createHash } from 'node:crypto'
import type { Admin } from '@platformatic/kafka'
import type { Clock } from '../../ports/clock.ts'
import { type KafkaSettings, requestTimeoutMs } from './kafka-client.ts'
import { isAnswer, kafkaFault, KafkaTopicMissing, KafkaTopicsFull } from './kafka-errors.ts'

/** What was announced and not taken for so long was announced again since. */
const announcementsKeptMs = 3_600_000
/** Nothing of a segment goes before the whole of it: one that is written to is kept, whatever its age. */
const segmentMs = 600_000
const ledPollMs = 50
/**
 * Topics of queues in the cluster. Names of queues come from tenants, topics are never deleted here, and each
 * new one has every member of the workers' group join anew.
 */
export const mostRunsTopics = 200
/** While there are that many, it is not asked again for so long. */
const fullMs = 10_000
/** A busy broker lists a new topic late; it counts meanwhile. */
const listedMs = 60_000

export const runsPrefix = (prefix: string): string => `${prefix}.runs.`

export const eventsTopic = (prefix: string): string => `${prefix}.events`

export const auditTopic = (prefix: string): string => `${prefix}.audit`

/**
 * Kafka takes the letters of queue names, but counts `a.b` and `a_b` as one. The name of the queue is in each
 * message; this one is never read back.
 */
export function runsTopic(prefix: string, queue: string): string {
  const name = runsPrefix(prefix) + queue
  if (!queue.includes('_')) return name
  const tail = createHash('sha256').update(queue).digest('hex').slice(0, 8)
  return `${name.replaceAll('_', '-')}-${tail}`
}

interface TopicPlan {
  readonly topic: string
  readonly partitions: number
  readonly replicas?: number
  readonly configs: readonly { readonly name: string; readonly value: string }[]
}

function planOf(settings: KafkaSettings, topic: string): TopicPlan {
  const passing = topic.startsWith(runsPrefix(settings.prefix))
  return {
    topic,
    partitions: settings.partitions,
    ...(settings.replication === undefined ? {} : { replicas: settings.replication }),
    configs: passing
      ? [
          { name: 'retention.ms', value: String(announcementsKeptMs) },
          { name: 'segment.ms', value: String(segmentMs) },
        ]
      : [],
  }
}

/** What to type where Belfry may not make topics. */
export function topicCommand(settings: KafkaSettings, topic: string): string {
  const { partitions, replicas, configs } = planOf(settings, topic)
  return [
    `kafka-topics.sh --bootstrap-server ${settings.brokers.join(',')}`,
    ...(settings.login === undefined && settings.tls === undefined
      ? []
      : ['--command-config admin.properties']),
    `--create --if-not-exists --topic ${topic} --partitions ${partitions}`,
    ...(replicas === undefined ? [] : [`--replication-factor ${replicas}`]),
    ...configs.map(({ name, value }) => `--config ${name}=${value}`),
  ].join(' ')
}

interface TopicMakerOptions {
  readonly settings: KafkaSettings
  readonly clock: Clock
  readonly admin: <Answer>(work: (admin: Admin) => Promise<Answer>, topic?: string) => Promise<Answer>
  readonly signal: AbortSignal
}

/**
 * Makes topics that do not exist, and remembers which do: no more than there are in the cluster. Several
 * processes that make some at the same time may go beyond the limit by one each.
 */
export function createTopicMaker({ settings, clock, admin, signal }: TopicMakerOptions) {
  const prefix = runsPrefix(settings.prefix)
  let known = new Set<string>()
  /** Not listed yet when they were made; until when they count all the same. */
  const unlisted = new Map<string, number>()
  let fullUntilMs = -Infinity
  let turn: Promise<unknown> = Promise.resolve()

  /** What is sent to a topic that no broker leads yet goes again, and comes twice for it. */
  async function untilLed(topics: readonly string[]): Promise<void> {
    const untilMs = clock.monotonicMs() + requestTimeoutMs
    while (clock.monotonicMs() < untilMs && !signal.aborted) {
      const asked = { topics: [...topics], forceUpdate: true, retries: 0 }
      const seen = await admin((each) => each.metadata(asked).catch(() => undefined))
      const partitions = topics.flatMap((topic) => seen?.topics.get(topic)?.partitions ?? [{ leader: -1 }])
      if (partitions.every(({ leader }) => leader >= 0)) return
      await clock.sleep(ledPollMs, signal)
    }
  }

  function refuseWhileFull(topics: readonly string[]): void {
    const beyond = topics.find((topic) => topic.startsWith(prefix) && !known.has(topic))
    if (beyond === undefined || clock.monotonicMs() >= fullUntilMs) return
    throw new KafkaTopicsFull(
      `there are ${mostRunsTopics} topics of queues already, and no more are made (${beyond}); ` +
        'delete those of queues that are not used any more',
    )
  }

  /** With those that are to be made. */
  function countRuns(there: ReadonlySet<string>, missing: readonly string[]): number {
    for (const [topic, untilMs] of unlisted) {
      if (there.has(topic) || clock.monotonicMs() > untilMs) unlisted.delete(topic)
    }
    const all = new Set([...there, ...unlisted.keys(), ...missing])
    return [...all].filter((topic) => topic.startsWith(prefix)).length
  }

  async function make(topics: readonly string[]): Promise<void> {
    refuseWhileFull(topics)
    const wanted = topics.filter((topic) => !known.has(topic))
    if (wanted.length === 0) return
    const there = new Set(await admin((each) => each.listTopics()))
    const missing = wanted.filter((topic) => !there.has(topic))
    known = new Set([...there].filter((topic) => topic.startsWith(`${settings.prefix}.`)))
    if (countRuns(there, missing) > mostRunsTopics) fullUntilMs = clock.monotonicMs() + fullMs
    refuseWhileFull(missing)
    for (const topic of missing) {
      unlisted.set(topic, clock.monotonicMs() + listedMs)
      await admin((each) => makeTopic(each, settings, topic), topic).catch((error: unknown) => {
        if (error instanceof KafkaTopicMissing) unlisted.delete(topic)
        throw error
      })
    }
    if (missing.length > 0) await untilLed(missing)
    for (const topic of missing) known.add(topic)
  }
  return {
    /** It turned out that it does not exist. */
    forget: (topic: string) => void known.delete(topic),
    async ensure(topics: readonly string[]): Promise<void> {
      if (topics.every((topic) => known.has(topic))) return
      // one after the other: each counts what those before it made
      const mine = turn.then(() => make(topics))
      turn = mine.catch(() => undefined)
      await mine
    },
  }
}

/** Throws `KafkaAway`; `KafkaTopicMissing`, with the command, where it does not exist and may not be made. */
async function makeTopic(admin: Admin, settings: KafkaSettings, topic: string): Promise<void> {
  const { configs, ...plan } = planOf(settings, topic)
  try {
    await admin.createTopics({ ...plan, topics: [topic], configs: [...configs] })
  } catch (error) {
    if (isThere(error)) return
    const fault = kafkaFault(error)
    if (!isAnswer(fault)) throw fault
    const words =
      `The topic ${topic} does not exist, and Belfry cannot make it: ${fault.message}. ` + 'Make it with: '
    throw new KafkaTopicMissing(topic, words + topicCommand(settings, topic), { cause: error })
  }
}

function isThere(error: unknown): boolean {
  if (error instanceof AggregateError) return error.errors.some(isThere)
  return error instanceof Error && 'apiId' in error && error.apiId === 'TOPIC_ALREADY_EXISTS'
}

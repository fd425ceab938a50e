/**
 * Messages of some topics, shared out among the members of a group: a bounded buffer that is filled ahead,
 * from which they are taken, and committed when they are done with.
 *
 *   session: which of the topics exist ─► join the group ─► fill the buffer ─► until a topic comes or goes, a
 *            broker does not answer, the group does not want this member any more ─► leave, and again
 *
 * A message may come twice, to two members, or not at all (topic deleted): whoever takes it must not care.
 * After a rebalance what was taken ahead of partitions that others have now is dropped; they get it.
 */
import type { Consumer, MessagesStream } from '@platformatic/kafka'
import { createLoop } from '../../engine/loop.ts'
import { settledWithin } from '../../engine/within.ts'
import type { Clock } from '../../ports/clock.ts'
import type { EventSink } from '../../ports/event-sink.ts'
import type { Random } from '../../ports/random.ts'
import { assignPartitions } from './kafka-assigner.ts'
import { createBuffer, createCommits, type InboxMessage, type MessageBuffer } from './kafka-buffer.ts'
import { clientOptions } from './kafka-client.ts'
import { isAnswer, type KafkaAway, kafkaFault, KafkaUnfit } from './kafka-errors.ts'
import type { KafkaLink } from './kafka-link.ts'

/** A member that died keeps its partitions for so long. */
const sessionTimeoutMs = 10_000
const heartbeatMs = 2_500
/** Joining waits for all members: a request may take as long. */
const joinTimeoutMs = sessionTimeoutMs + 5_000
const fetchWaitMs = 1_000
const firstLookMs = 500
const lookForTopicsMs = 10_000
const firstRetryMs = 250
const longestRetryMs = 5_000
const closeMs = 900
const commitMs = 3_000
const maxFetchBytes = 4 * 1024 * 1024

export interface KafkaInbox {
  /** False: this member has no part of the topics, or Kafka is away; nothing will come. */
  readonly up: boolean
  start(): Promise<void>
  /** Waits for the first up to `waitMs`, and answers what there is by then, oldest first. */
  take(limit: number, waitMs: number, signal?: AbortSignal): Promise<readonly InboxMessage[]>
  /** These, and all before them in their partitions, come no more if Kafka can help it. Never rejects. */
  commit(messages: readonly InboxMessage[]): Promise<void>
  /** Leaves the group; ends within two seconds, and never rejects. */
  close(): Promise<void>
}

export interface InboxOptions {
  readonly link: KafkaLink
  readonly clock: Clock
  readonly random: Random
  readonly events: EventSink
  /** In `role_failed`. */
  readonly name: string
  readonly groupId: string
  /** Which of the topics that exist. */
  readonly wants: (topic: string) => boolean
  /** Where a group begins that has never been here. */
  readonly from: 'earliest' | 'latest'
  /** Messages that are held ahead at most, about. */
  readonly capacity: number
}

type Stream = MessagesStream<Buffer, Buffer, Buffer, Buffer>

export function openKafkaInbox(options: InboxOptions): KafkaInbox {
  const { link, clock } = options
  const buffer = createBuffer(options.capacity)
  const membership = createMembership(options, buffer)
  const loop = createLoop({ ...options, longestRetryMs, round: (signal) => membership.round(signal) })
  let offlink = (): void => {}
  return {
    get up() {
      return link.up && membership.hasPartitions()
    },
    async start() {
      offlink = link.onChange(() => loop.wake())
      await loop.start()
    },
    async take(limit, waitMs, signal) {
      if (buffer.size === 0) await buffer.waitFor(clock, waitMs, signal)
      return buffer.take(limit)
    },
    commit: (messages) => settledWithin(clock, commitMs, membership.commits.upTo(messages)),
    async close() {
      offlink()
      await settledWithin(clock, 2 * closeMs, loop.stop())
    },
  }
}

function createMembership(options: InboxOptions, buffer: MessageBuffer) {
  const { link, clock, random } = options
  const commits = createCommits(async (positions) => {
    await member?.commit({ offsets: positions.map((position) => ({ ...position, leaderEpoch: -1 })) })
  })
  let member: Consumer | undefined
  let failures = 0
  let looks = 0

  /** From joining the group until something changes; answers what went wrong. */
  async function live(topics: readonly string[], stopping: AbortSignal): Promise<KafkaAway | undefined> {
    // before all else: where it throws there is nothing to take back
    const consumer = await openConsumer(options)
    const over = new AbortController()
    const unsubscribe = link.onChange(() => over.abort())
    if (!link.up) over.abort()
    const signal = AbortSignal.any([stopping, over.signal])
    let fault: unknown
    const failed = (error: unknown): void => {
      if (!signal.aborted) fault ??= error
      over.abort()
    }
    consumer.on('error', failed)
    try {
      consumer.on('consumer:group:join', () => {
        failures = 0
        buffer.keepOnly(consumer.assignments ?? [])
        commits.keepOnly(consumer.assignments ?? [])
      })
      const stream = await unlessAborted(signal, joined(consumer, topics, options))
      if (stream !== undefined) {
        member = consumer
        stream.on('error', failed)
        stream.on('close', () => over.abort())
        buffer.fillFrom(stream)
        await untilTopicsChange(options, topics, signal)
      }
    } catch (error) {
      failed(error)
    } finally {
      member = undefined
      unsubscribe()
      buffer.clear()
      commits.clear()
      await settledWithin(clock, closeMs, leave(consumer))
    }
    return fault === undefined ? undefined : kafkaFault(fault, topics.join())
  }

  return {
    commits,
    hasPartitions: (): boolean =>
      member?.assignments?.some(({ partitions }) => partitions.length > 0) ?? false,
    async round(signal: AbortSignal): Promise<number> {
      if (!link.up) return longestRetryMs
      const topics = await topicsOf(options)
      if (topics.length === 0) {
        return Math.min(lookMs(random), firstLookMs * 2 ** Math.min(looks++, 10))
      }
      looks = 0
      const fault = await live(topics, signal)
      if (fault === undefined) return 0
      // a broker that went away is told by the link; what stays wrong is told here
      link.doubt()
      const isTold = isAnswer(fault) && !(fault instanceof KafkaUnfit)
      if (isTold || failures++ > 1) throw fault
      return firstRetryMs * (0.5 + random.next())
    },
  }
}

const lookMs = (random: Random): number => lookForTopicsMs * (0.75 + random.next() / 2)

async function untilTopicsChange(
  options: InboxOptions,
  topics: readonly string[],
  signal: AbortSignal,
): Promise<void> {
  while (!signal.aborted) {
    await options.clock.sleep(lookMs(options.random), signal)
    if (signal.aborted) return
    const now = await topicsOf(options)
    if (now.join() !== topics.join()) return
  }
}

async function topicsOf({ link, wants }: InboxOptions): Promise<string[]> {
  const all = await link.admin((admin) => admin.listTopics())
  return all.filter(wants).sort()
}

async function openConsumer({ link, groupId, capacity }: InboxOptions) {
  const { Consumer: KafkaConsumer } = await import('@platformatic/kafka')
  return new KafkaConsumer({
    ...clientOptions(link.settings, link.settings.prefix),
    requestTimeout: joinTimeoutMs,
    groupId,
    sessionTimeout: sessionTimeoutMs,
    rebalanceTimeout: sessionTimeoutMs,
    heartbeatInterval: heartbeatMs,
    partitionAssigner: assignPartitions,
    autocommit: false,
    maxWaitTime: fetchWaitMs,
    minBytes: 1,
    maxBytes: maxFetchBytes,
    highWaterMark: capacity,
  })
}

const joined = (consumer: Consumer, topics: readonly string[], { from }: InboxOptions): Promise<Stream> =>
  consumer.consume({ topics: [...topics], mode: 'committed', fallbackMode: from, autocommit: false })

/** By force where it does not go: nothing of it may go on. */
async function leave(consumer: Consumer): Promise<void> {
  try {
    await consumer.close(true)
  } catch {
    for (const [, connection] of consumer.connections) connection.socket?.destroy()
  }
}

async function unlessAborted<Answer>(
  signal: AbortSignal,
  work: Promise<Answer>,
): Promise<Answer | undefined> {
  const aborted = Promise.withResolvers<undefined>()
  const abort = (): void => aborted.resolve(undefined)
  signal.addEventListener('abort', abort, { once: true })
  if (signal.aborted) abort()
  work.catch(() => undefined)
  try {
    return await Promise.race([work, aborted.promise])
  } finally {
    signal.removeEventListener('abort', abort)
  }
}

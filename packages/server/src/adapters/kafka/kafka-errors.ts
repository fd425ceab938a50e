/**
 * What goes wrong with Kafka, in words for an operator: what it is, and which setting or right mends it.
 * Whoever gets one of these goes on without Kafka.
 */
import { BelfryError } from '@belfry/contract'

/** Kafka did not do what it was asked to. */
export class KafkaAway extends Error {
  override readonly name: string = 'KafkaAway'
}

/** Kafka is there, and has no such topic; Belfry was not able to make it, or was not asked to. */
export class KafkaTopicMissing extends KafkaAway {
  override readonly name = 'KafkaTopicMissing'
  readonly topic: string

  constructor(topic: string, message: string, options?: ErrorOptions) {
    super(message, options)
    this.topic = topic
  }
}

/** Kafka is there, and does not let this user do that. */
export class KafkaRefused extends KafkaAway {
  override readonly name = 'KafkaRefused'
}

/** There are as many topics of queues as may be; it is claimed directly. */
export class KafkaTopicsFull extends KafkaRefused {}

/** Kafka is there; what it was given is at fault, or what was done with it here. Later is no better. */
export class KafkaUnfit extends KafkaRefused {
  /** That, and not where it went or how, is refused: its size, or its form. */
  readonly inItself: boolean

  constructor(message: string, inItself: boolean, options?: ErrorOptions) {
    super(message, options)
    this.inItself = inItself
  }
}

const unfit: Readonly<Record<string, string>> = {
  MESSAGE_TOO_LARGE: 'it is larger than the topic takes (max.message.bytes)',
  RECORD_LIST_TOO_LARGE: 'it is larger than a segment of the topic (segment.bytes)',
  INVALID_RECORD: 'the brokers do not take its form',
}

const refusals: Readonly<Record<string, string>> = {
  TOPIC_AUTHORIZATION_FAILED: 'its user has not the rights that it needs for the topic',
  GROUP_AUTHORIZATION_FAILED: 'its user may not read as a member of the group',
  CLUSTER_AUTHORIZATION_FAILED: 'its user may not do that in the cluster',
  INVALID_TOPIC_EXCEPTION: 'the brokers do not take a topic of that name',
  POLICY_VIOLATION: 'a policy of the brokers forbids it',
  INVALID_REPLICATION_FACTOR: 'there are fewer brokers than copies asked for (kafkaReplication)',
  NOT_ENOUGH_REPLICAS: 'fewer copies of the topic are in sync than its min.insync.replicas',
  NOT_ENOUGH_REPLICAS_AFTER_APPEND: 'fewer copies of the topic are in sync than its min.insync.replicas',
}

/** `topic`: that the call was about. */
export function kafkaFault(error: unknown, topic?: string): KafkaAway {
  if (error instanceof KafkaAway) return error
  const all = [...causesOf(error)]
  const ids = all.map((each) => wordOf(each, 'apiId'))
  const unknown = all.some((each) => messageOf(each).startsWith('Unknown topic '))
  if (topic !== undefined && (unknown || ids.includes('UNKNOWN_TOPIC_OR_PARTITION'))) {
    return new KafkaTopicMissing(topic, `The topic ${topic} does not exist`, { cause: error })
  }
  const refusal = ids.map((id) => refusals[id]).find((each) => each !== undefined)
  const about = topic === undefined ? '' : ` (${topic})`
  if (refusal !== undefined) return new KafkaRefused(`${refusal}${about}`, { cause: error })
  const inItself = ids.map((id) => unfit[id]).find((each) => each !== undefined)
  if (inItself !== undefined) return new KafkaUnfit(`${inItself}${about}`, true, { cause: error })
  const words = awayWords(all)
  if (all.some(isOfConnection)) return new KafkaAway(words, { cause: error })
  return new KafkaUnfit(`${words}${about}`, false, { cause: error })
}

const connectionCodes = new Set([
  'PLT_KFK_NETWORK',
  'PLT_KFK_TIMEOUT',
  'PLT_KFK_AUTHENTICATION',
  'PLT_KFK_UNEXPECTED_CORRELATION_ID',
])

/** No answer, or one that a broker gives while it, or the others, come and go. */
const isOfConnection = (error: unknown): boolean =>
  error instanceof KafkaAway ||
  connectionCodes.has(wordOf(error, 'code')) ||
  wordOf(error, 'syscall') !== '' ||
  /^ERR_(SSL|TLS|SOCKET|STREAM)/.test(wordOf(error, 'code')) ||
  (wordOf(error, 'apiId') !== '' && (error as { readonly canRetry?: unknown }).canRetry === true)

/** Whether the brokers answered: they are there, whatever they refused. */
export const isAnswer = (fault: KafkaAway): boolean =>
  fault instanceof KafkaTopicMissing || fault instanceof KafkaRefused

function awayWords(all: readonly unknown[]): string {
  const messages = all.map(messageOf)
  const has = (pattern: RegExp): boolean => messages.some((message) => pattern.test(message))
  if (has(/suitable SASL mechanism/))
    return 'the broker does not offer that way to log in; see kafkaMechanism'
  if (all.some((each) => wordOf(each, 'code') === 'PLT_KFK_AUTHENTICATION') || has(/^Invalid (user|cred)/)) {
    return 'the broker does not let that user in; see kafkaUsername, kafkaPassword and kafkaMechanism'
  }
  if (has(/Broker requires TLS/)) return 'the broker speaks TLS only; set kafkaTls'
  if (has(/TLS handshake failed|wrong version number|packet length too long/)) {
    return 'the broker does not speak TLS at that port; see kafkaTls and kafkaBrokers'
  }
  if (has(/self[- ]signed|unable to (verify|get)|certificate/i)) {
    const words = messages.find((message) => /self[- ]signed|unable to|certificate/i.test(message)) ?? ''
    return `the certificate of the broker is not trusted (${words}); see kafkaTlsCa`
  }
  // the innermost says most
  return messages.findLast((message) => message !== '') ?? 'it does not answer'
}

/** An error and all that it stands for, outermost first. */
function* causesOf(error: unknown, depth = 0): Generator {
  if (depth > 8 || error === undefined || error === null) return
  yield error
  if (error instanceof AggregateError) for (const each of error.errors) yield* causesOf(each, depth + 1)
  if (error instanceof Error && !(error instanceof BelfryError)) yield* causesOf(error.cause, depth + 1)
}

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error))

function wordOf(error: unknown, key: 'apiId' | 'code' | 'syscall'): string {
  const word =
    typeof error === 'object' && error !== null ? (error as Record<string, unknown>)[key] : undefined
  return typeof word === 'string' ? word : ''
}

/**
 * The links to what Belfry uses beside Postgres and can do without for a while. Which there are follows from
 * the settings. Whether one is away is told, and never makes a process not ready.
 */
import { createKafkaLink, type KafkaLink } from '../adapters/kafka/kafka-link.ts'
import { createRedisLink, type RedisLink, type RedisStats } from '../adapters/redis/redis-link.ts'
import { createSqsLink, type SqsLink } from '../adapters/sqs/sqs-link.ts'
import { systemClock } from '../adapters/system/clock.ts'
import { systemRandom } from '../adapters/system/ids.ts'
import type { Config } from '../config/schema.ts'
import type { EventSink } from '../ports/event-sink.ts'
import type { Finding, StatusReport } from '../telemetry/ops-server.ts'
import { kafkaSettings } from './kafka-settings.ts'
import { sqsSettings } from './sqs-settings.ts'

export interface Links {
  /** Undefined without `redisUrl`. */
  readonly redis: RedisLink | undefined
  /** Undefined without `kafkaBrokers`, and in processes that only answer requests. */
  readonly kafka: KafkaLink | undefined
  /** Undefined without `sqsQueueUrl`, and in processes that neither schedule nor work. */
  readonly sqs: SqsLink | undefined
  /** To be started before all that uses them. */
  start(): Promise<void>
  close(): Promise<void>
  readonly reports: readonly StatusReport[]
}

type LinkStats = Pick<RedisStats, 'up' | 'sinceMs' | 'fault'> & Partial<RedisStats>
type Link = Pick<RedisLink, 'start' | 'close'> & { stats(): LinkStats }

export function openLinks(config: Config, events: EventSink): Links {
  const parts = { clock: systemClock, random: systemRandom, events }
  const { redisUrl } = config
  const redis = redisUrl === undefined ? undefined : createRedisLink({ ...parts, url: redisUrl })
  // one with only the API announces nothing, claims nothing and is woken by nothing
  const forKafka = config.roles.some((role) => role !== 'api') ? kafkaSettings(config) : undefined
  const kafka = forKafka && createKafkaLink({ ...parts, settings: forKafka })
  // the others need no rights there
  const announces = config.roles.includes('scheduler') || config.roles.includes('worker')
  const forSqs = announces ? sqsSettings(config) : undefined
  const sqs = forSqs && createSqsLink({ ...parts, settings: forSqs })
  const all = [redis, kafka, sqs].filter((link) => link !== undefined)
  const report = (name: string, link: Link | undefined, words: Words): StatusReport[] =>
    link === undefined ? [] : [{ name, report: () => linkFinding(link, words) }]
  return {
    redis,
    kafka,
    sqs,
    start: async () => void (await Promise.all(all.map((link) => link.start()))),
    close: async () => void (await Promise.all(all.map((link) => link.close()))),
    reports: [
      ...report('redis', redis, {
        part: 'Redis',
        meanwhile: 'timers, leadership and hints go by Postgres',
        check: 'the server and "redisUrl"',
      }),
      ...report('kafka', kafka, {
        part: 'Kafka',
        meanwhile: 'runs are claimed directly, and events wait in Postgres,',
        check: 'the brokers and "kafkaBrokers"',
      }),
      ...report('sqs', sqs, {
        part: 'SQS',
        meanwhile: 'runs are claimed directly',
        check: '"sqsQueueUrl", credentials and rights',
      }),
    ],
  }
}

interface Words {
  readonly part: string
  readonly meanwhile: string
  readonly check: string
}

/** Degraded, and ready all the same. */
function linkFinding(link: Link, { part, meanwhile, check }: Words): Finding {
  const { up, sinceMs, fault, mended, overruled = 0 }: LinkStats = link.stats()
  const doubts = mended === undefined ? {} : { mended, overruledShards: overruled }
  const facts = { state: up ? 'up' : 'away', since: new Date(sinceMs).toISOString(), ...doubts }
  if (up && overruled > 0) {
    const message =
      `${part} is there, but gives ${overruled} shard(s) that are led here by Postgres ` +
      'to somebody who does not ' +
      'fire. See who else may write under "redisPrefix"; deleting those keys is safe.'
    return { status: 'warn', message, facts }
  }
  if (up) return { status: 'ok', message: null, facts }
  const message = `${part} is away (${fault}); ${meanwhile} until it is back. Check ${check}.`
  return { status: 'warn', message, facts }
}

// What a cell may be run with: which stores stand beside Postgres, what has to be on the machine for each,
// and how a Belfry process is told of them.
import { startKafkaServer, type KafkaServer } from '../../support/kafka-server.ts'
import { startRedisServer, type RedisServer } from '../../support/redis-server.ts'
import { type ServiceName, serviceNamed } from '../../support/services.ts'
import { startSqsServer, type SqsServer } from '../../support/sqs-server.ts'
import type { Defer } from '../support/arena.ts'

export const configurations = ['postgres', 'redis', 'redis+kafka', 'sqs'] as const
export type Configuration = (typeof configurations)[number]

export const configurationTitles: Readonly<Record<Configuration, string>> = {
  postgres: 'Postgres',
  redis: '+ Redis',
  'redis+kafka': '+ Redis + Kafka',
  sqs: '+ SQS',
}

export interface Stores {
  readonly redis?: RedisServer
  readonly kafka?: KafkaServer
  readonly sqs?: SqsServer
}

export const servicesOf: Readonly<Record<Configuration, readonly ServiceName[]>> = {
  postgres: [],
  redis: ['redis'],
  'redis+kafka': ['redis', 'kafka'],
  sqs: [],
}

const queueOfSqs = 'belfry'

function placeOf(name: ServiceName): string {
  const place = serviceNamed(name).find()
  if (place === undefined) throw new Error(`${name} is missing`)
  return place
}

/** Starts what the configuration has beside Postgres; it ends with the cell. */
export async function openStores(
  configuration: Configuration,
  defer: Defer,
  kafkaHost?: string,
): Promise<Stores> {
  const stores: { -readonly [Name in keyof Stores]: Stores[Name] } = {}
  if (servicesOf[configuration].includes('redis')) {
    const redis = await startRedisServer(placeOf('redis'))
    defer(() => redis.kill())
    stores.redis = redis
  }
  if (servicesOf[configuration].includes('kafka')) {
    const kafka = await startKafkaServer(placeOf('kafka'), kafkaHost === undefined ? {} : { host: kafkaHost })
    defer(() => kafka.close())
    stores.kafka = kafka
  }
  if (configuration === 'sqs') {
    const sqs = await startSqsServer()
    defer(() => sqs.close())
    sqs.createQueue(queueOfSqs)
    stores.sqs = sqs
  }
  return stores
}

/** Of every Belfry process. */
export function environmentOf(stores: Stores): Record<string, string> {
  const { redis, kafka, sqs } = stores
  return {
    ...(redis === undefined ? {} : { REDIS_URL: redis.url }),
    ...(kafka === undefined ? {} : { KAFKA_BROKERS: kafka.brokers }),
    ...(sqs === undefined ? {} : sqs.env(sqs.urlOf(queueOfSqs))),
  }
}

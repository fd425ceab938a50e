/**
 * What the configuration says of Kafka, as its adapters take it: one object for link, inboxes, topics and
 * doctor. Nothing where no brokers are given.
 */
import type { KafkaSettings } from '../adapters/kafka/kafka-client.ts'
import type { Config } from '../config/schema.ts'

/** Undefined without `kafkaBrokers`. */
export function kafkaSettings(config: Config): KafkaSettings | undefined {
  const { kafkaBrokers: brokers, kafkaUsername: username, kafkaPassword: password } = config
  if (brokers === undefined) return undefined
  return {
    brokers,
    prefix: config.kafkaPrefix,
    login:
      username === undefined || password === undefined
        ? undefined
        : { username, password, mechanism: config.kafkaMechanism },
    tls: config.kafkaTls
      ? { ca: config.kafkaTlsCa, certificate: config.kafkaTlsCertificate, key: config.kafkaTlsKey }
      : undefined,
    partitions: config.kafkaPartitions,
    replication: config.kafkaReplication,
  }
}

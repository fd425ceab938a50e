// The settings of Kafka: what goes together, what does not, and that no fault shows a secret.
import { expect, it } from 'vitest'
import { kafkaSettings } from '../../../packages/server/src/compose/kafka-settings.ts'
import { loadConfig } from '../../../packages/server/src/config/load.ts'

const brokers = { KAFKA_BROKERS: 'kafka-1.internal:9092, [fd00::1]:9092' }
const load = (env: Readonly<Record<string, string>>) => kafkaSettings(loadConfig({ env }).config)
const faultsOf = (env: Readonly<Record<string, string>>): string => {
  try {
    load(env)
  } catch (error) {
    return String(error)
  }
  return ''
}

it('is all there is to give, and nothing without brokers', () => {
  expect(load({})).toBeUndefined()
  expect(load(brokers)).toEqual({
    brokers: ['kafka-1.internal:9092', '[fd00::1]:9092'],
    prefix: 'belfry',
    login: undefined,
    tls: undefined,
    partitions: 8,
    replication: undefined,
  })
  const login = { BELFRY_KAFKA_USERNAME: 'belfry', BELFRY_KAFKA_PASSWORD: 's3cret', BELFRY_KAFKA_TLS: 'true' }
  const topics = { BELFRY_KAFKA_PREFIX: 'a-b.c', BELFRY_KAFKA_PARTITIONS: '3', BELFRY_KAFKA_REPLICATION: '2' }
  expect(load({ ...brokers, ...login, ...topics })).toMatchObject({
    login: { username: 'belfry', password: 's3cret', mechanism: 'scram-sha-512' },
    tls: { ca: undefined },
    prefix: 'a-b.c',
    partitions: 3,
    replication: 2,
  })
})

it.each([
  [{ KAFKA_BROKERS: 'kafka' }, 'kafka-1.internal:9092'],
  [{ KAFKA_BROKERS: '' }, 'is empty'],
  [{ ...brokers, BELFRY_KAFKA_USERNAME: 'a' }, 'set BELFRY_KAFKA_PASSWORD'],
  [{ ...brokers, BELFRY_KAFKA_PASSWORD: 's3cret' }, 'set BELFRY_KAFKA_USERNAME'],
  [{ ...brokers, BELFRY_KAFKA_MECHANISM: 'gssapi' }, 'plain, scram-sha-256, scram-sha-512'],
  [{ ...brokers, BELFRY_KAFKA_TLS: 'true', BELFRY_KAFKA_TLS_CA: '/etc/ca.pem' }, '_FILE'],
  [{ ...brokers, BELFRY_KAFKA_TLS_CA: '-----BEGIN CERTIFICATE-----' }, 'BELFRY_KAFKA_TLS=true'],
  [
    { ...brokers, BELFRY_KAFKA_TLS: 'true', BELFRY_KAFKA_TLS_KEY: '-----BEGIN PRIVATE KEY-----s3cret' },
    'both',
  ],
  [{ ...brokers, BELFRY_KAFKA_PREFIX: 'a_b' }, 'kafkaPrefix'],
  [
    {
      ...brokers,
      SQS_QUEUE_URL: 'https://sqs.eu-west-1.amazonaws.com/1/q',
      BELFRY_SQS_CREDENTIALS: 'chain',
    },
    'leave KAFKA_BROKERS or SQS_QUEUE_URL out',
  ],
])('refuses %j', (env, words) => {
  const faults = faultsOf(env)
  expect(faults).toContain(words)
  expect(faults).not.toContain('s3cret')
})

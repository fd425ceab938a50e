// Which links a process opens follows from its roles: one that only answers requests has none to Kafka or
// SQS.
import { expect, test } from 'vitest'
import { openLinks } from '../../packages/server/src/compose/links.ts'
import { loadConfig } from '../../packages/server/src/config/load.ts'
import { recordEvents } from '../support/running.ts'

const opened = (env: Record<string, string>) => {
  const { kafka, sqs, reports } = openLinks(loadConfig({ env }).config, recordEvents())
  return { kafka: kafka !== undefined, sqs: sqs !== undefined, reports: reports.map(({ name }) => name) }
}

test.each([
  ['api', false],
  ['api,resolver', true],
  ['resolver', true],
  ['scheduler', true],
  ['worker', true],
])('Kafka with the roles %s: %s', (roles, kafka) => {
  const given = opened({ BELFRY_ROLES: roles, KAFKA_BROKERS: '127.0.0.1:1' })
  expect(given).toEqual({ kafka, sqs: false, reports: kafka ? ['kafka'] : [] })
})

test.each([
  ['api', false],
  ['api,resolver', false],
  ['scheduler', true],
  ['worker', true],
])('SQS with the roles %s: %s', (roles, sqs) => {
  const given = opened({
    BELFRY_ROLES: roles,
    SQS_QUEUE_URL: 'https://sqs.eu-west-1.amazonaws.com/123456789012/belfry',
    BELFRY_SQS_CREDENTIALS: 'chain',
  })
  expect(given).toEqual({ kafka: false, sqs, reports: sqs ? ['sqs'] : [] })
})

// The settings of SQS: what they must be, what must go together, and that a refusal never shows a secret.
import { BelfryError } from '@belfry/contract'
import { describe, expect, it } from 'vitest'
import { loadConfig } from '../../../packages/server/src/config/load.ts'
import { regionOfQueueUrl } from '../../../packages/server/src/config/sqs-fields.ts'

const url = 'https://sqs.eu-west-1.amazonaws.com/123456789012/belfry'
const keys = { BELFRY_SQS_ACCESS_KEY_ID: 'AKIAEXAMPLE', BELFRY_SQS_SECRET_ACCESS_KEY: 'the/secret+key' }

function faults(env: Record<string, string>): readonly { pointer: string; message: string }[] {
  try {
    loadConfig({ env })
  } catch (error) {
    if (error instanceof BelfryError && error.code === 'invalid_config') return error.errors ?? []
    throw error
  }
  return []
}

describe('the settings of SQS', () => {
  it.each([
    ['a standard queue', { SQS_QUEUE_URL: url, ...keys }],
    ['a FIFO queue', { SQS_QUEUE_URL: `${url}.fifo`, ...keys }],
    ['a queue for each queue', { SQS_QUEUE_URL: `${url}-{queue}.fifo`, ...keys }],
    ['what the machine has', { SQS_QUEUE_URL: url, BELFRY_SQS_CREDENTIALS: 'chain' }],
    ['an emulator', { SQS_QUEUE_URL: 'http://127.0.0.1:4566/0/q', BELFRY_SQS_REGION: 'us-east-1', ...keys }],
  ])('are taken: %s', (_, env) => {
    expect(faults(env)).toEqual([])
  })

  it.each([
    ['no queue in it', { SQS_QUEUE_URL: 'https://sqs.eu-west-1.amazonaws.com/', ...keys }, 'sqsQueueUrl'],
    ['another scheme', { SQS_QUEUE_URL: url.replace('https', 'sqs'), ...keys }, 'sqsQueueUrl'],
    ['a password in it', { SQS_QUEUE_URL: url.replace('//', '//u:secret@'), ...keys }, 'sqsQueueUrl'],
    ['a query', { SQS_QUEUE_URL: `${url}?secret=1`, ...keys }, 'sqsQueueUrl'],
    ['another brace', { SQS_QUEUE_URL: `${url}-{tenant}`, ...keys }, 'sqsQueueUrl'],
    ['no region', { SQS_QUEUE_URL: 'http://127.0.0.1:4566/0/q', ...keys }, 'sqsRegion'],
    ['no credentials', { SQS_QUEUE_URL: url }, 'sqsCredentials'],
    ['half of the keys', { SQS_QUEUE_URL: url, BELFRY_SQS_ACCESS_KEY_ID: 'AKIA' }, 'sqsCredentials'],
    ['both kinds', { SQS_QUEUE_URL: url, BELFRY_SQS_CREDENTIALS: 'chain', ...keys }, 'sqsCredentials'],
    ['a broken key', { SQS_QUEUE_URL: url, ...keys, BELFRY_SQS_ACCESS_KEY_ID: 'a secret' }, 'sqsAccessKeyId'],
  ])('are refused by their name, and no secret is shown: %s', (_, env, key) => {
    const found = faults(env)
    expect(found.map(({ pointer }) => pointer)).toContain(`/${key}`)
    expect(JSON.stringify(found)).not.toMatch(/secret[@=]|the\/secret|a secret(?! access)/)
  })

  it.each([
    ['https://sqs.eu-west-1.amazonaws.com/1/q', 'eu-west-1'],
    ['https://sqs.cn-north-1.amazonaws.com.cn/1/q', 'cn-north-1'],
    ['https://sqs-fips.us-gov-west-1.amazonaws.com/1/q', 'us-gov-west-1'],
    ['https://eu-central-1.queue.amazonaws.com/1/q', 'eu-central-1'],
    ['https://sqs.us-east-2.api.aws/1/q', 'us-east-2'],
    ['https://vpce-0ab-1.sqs.ap-south-1.vpce.amazonaws.com/1/q', 'ap-south-1'],
    ['http://localhost:4566/1/q', undefined],
    ['https://sqs.eu-west-1.amazonaws.com.evil.example/1/q', undefined],
  ])('tell the region: %s', (address, region) => {
    expect(regionOfQueueUrl(address)).toBe(region)
  })
})

// `belfry doctor` and SQS: what is wrong with the queue is named, with what to do, and never a secret.
import { afterAll, beforeAll, expect, it } from 'vitest'
import { examineMachine } from '../../packages/server/src/compose/doctor.ts'
import { examineSqs } from '../../packages/server/src/compose/doctor-sqs.ts'
import { sqsSettings } from '../../packages/server/src/compose/sqs-settings.ts'
import { loadConfig } from '../../packages/server/src/config/load.ts'
import { type SqsServer, startSqsServer } from '../support/sqs-server.ts'

let server: SqsServer
beforeAll(async () => {
  server = await startSqsServer()
})
afterAll(() => server.close())

function examine(url: string, more: Record<string, string> = {}) {
  const settings = sqsSettings(loadConfig({ env: { ...server.env(url), ...more } }).config)
  if (settings === undefined) throw new Error('there is a queue in the settings')
  return examineSqs(settings)
}

it('a queue that is as it should be', async () => {
  const found = await examine(server.createQueue('good'))
  expect(found).toMatchObject([{ name: 'sqs' }, { name: 'sqs_dead_letters', status: 'ok', fix: null }])
  expect(found[0]?.message).toMatch(/^The standard queue .*\/good answers \(\d+ ms\)\.$/)
  expect(found[0]?.fix, 'the emulator speaks no TLS').toContain('without TLS')
})

it('a FIFO queue with a dead-letter queue that takes too much, and a delay', async () => {
  server.createQueue('dead.fifo')
  const target = 'arn:aws:sqs:us-east-1:000000000000:dead.fifo'
  const policy = JSON.stringify({ deadLetterTargetArn: target, maxReceiveCount: '1' })
  const found = await examine(server.createQueue('late.fifo', { RedrivePolicy: policy, DelaySeconds: '7' }))
  expect(found.map(({ name, status }) => [name, status])).toEqual([
    ['sqs', 'warn'],
    ['sqs_dead_letters', 'warn'],
    ['sqs_delay', 'warn'],
  ])
  expect(found[1]?.message).toContain(target)
  expect(found[2]?.message).toContain('7 s')
})

it('a queue that is not there, nobody there, no rights: named with the fix, without secrets', async () => {
  const missing = await examine(server.urlOf('missing'))
  expect(missing).toMatchObject([{ name: 'sqs', status: 'fail' }])
  expect(missing[0]?.message).toContain('aws sqs create-queue --queue-name missing')
  const away = await examine('http://127.0.0.1:1/0/q')
  expect(away).toMatchObject([{ name: 'sqs', status: 'fail' }])
  server.fault('denied')
  const denied = await examine(server.createQueue('denied'))
  server.fault('none')
  expect(denied[0]?.message).toContain('may not sqs:GetQueueAttributes')
  const secret = server.env('')['BELFRY_SQS_SECRET_ACCESS_KEY'] ?? ''
  expect(JSON.stringify([missing, away, denied])).not.toContain(secret)
})

it('a queue for each queue', async () => {
  expect(await examine(server.urlOf('belfry-{queue}'))).toMatchObject([{ name: 'sqs', status: 'ok' }])
})

it('is part of the look at the machine', async () => {
  const env = { ...server.env(server.createQueue('whole')), BELFRY_DATA_DIR: '/nonexistent/belfry' }
  const found = await examineMachine({ flags: {}, env })
  expect(found.map(({ name }) => name)).toContain('sqs')
})

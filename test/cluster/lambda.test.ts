// A Lambda job by a whole server, configured by environment alone: saved, called as the tenant's role, its
// answer kept as the result and its log as the log; what is refused, where nothing was set up, and by the
// command line.
import { expect, test } from 'vitest'
import { runAlone } from '../cli/support/cli.ts'
import { invoked, openAwsServer, refused } from '../support/aws-server.ts'
import { createFunction } from '../support/lambda-rig.ts'
import { startMotoServer } from '../support/moto-server.ts'
import { describeNeeding } from '../support/needs.ts'
import { type Arena, arenaHarness } from './support/arena.ts'
import type { NodeProcess } from './support/node-process.ts'

const harness = arenaHarness()
const functionArn = 'arn:aws:lambda:eu-west-1:123456789012:function:belfry-report'
const roleArn = 'arn:aws:iam::123456789012:role/belfry-invoke'

test('runs as the docs say, with an external id a tenant, and nothing of the machine', async () => {
  const aws = await openAwsServer()
  harness.defer(() => aws.close())
  const arena = await harness.open()
  const node = await arena.start('a', {
    BELFRY_LAMBDA_FUNCTIONS: 'arn:aws:lambda:eu-west-1:123456789012:function:belfry-*',
    BELFRY_LAMBDA_ACCESS_KEY_ID: 'AKIAOPERATOR',
    BELFRY_LAMBDA_SECRET_ACCESS_KEY: 'operator-secret-of-the-test',
    BELFRY_LAMBDA_PRINCIPAL: 'arn:aws:iam::111111111111:user/belfry',
    BELFRY_LAMBDA_ENDPOINT: aws.url,
    BELFRY_LAMBDA_STS_ENDPOINT: aws.url,
    BELFRY_EGRESS_ALLOW: '',
    AWS_ACCESS_KEY_ID: 'AKIAAMBIENT',
    AWS_SECRET_ACCESS_KEY: 'ambient',
    AWS_ENDPOINT_URL: 'http://127.0.0.1:9/',
  })
  const client = arena.client()
  const access = await client.lambda.access()
  expect(access).toMatchObject({ enabled: true, principal: 'arn:aws:iam::111111111111:user/belfry' })
  expect(access.externalId).toMatch(/^belfry-[0-9a-f-]{36}$/)

  const tail = Buffer.from('START\n::set-env name=PATH::/evil\nEND').toString('base64')
  aws.program(
    'lambda',
    refused(429, 'TooManyRequestsException'),
    invoked({ rows: 12 }, { 'x-amz-log-result': tail }),
  )
  await client.jobs.create({
    name: 'report',
    handler: { kind: 'lambda', functionArn, roleArn },
    retry: { maxAttempts: 3, backoff: 'fixed', baseMs: 10 },
  })
  const { id } = await client.runs.create({ job: 'report', input: { month: 'may' } })
  const run = await client.waitForRun(id, { timeoutMs: 30_000 })
  expect(run.attemptList).toMatchObject([
    { number: 1, outcome: 'failed', error: { code: 'lambda_throttled' } },
    { number: 2, outcome: 'succeeded', result: { rows: 12 }, httpStatus: 200 },
  ])
  const log = await arena.call(node, 'GET', `/v1/runs/${id}/log`)
  expect((log.body['lines'] as { message: string }[]).map(({ message }) => message)).toEqual([
    'START',
    '::set-env name=PATH::/evil',
    'END',
  ])
  const [first] = aws.callsOf('sts')
  expect([first?.accessKeyId, new URLSearchParams(first?.body).get('ExternalId')]).toEqual([
    'AKIAOPERATOR',
    access.externalId,
  ])
  const events = aws.callsOf('lambda').map(({ body }) => JSON.parse(body) as Record<string, unknown>)
  expect(events).toMatchObject([
    { belfry: { runId: id, attempt: 1, idempotencyKey: id }, input: { month: 'may' } },
    { belfry: { runId: id, attempt: 2, idempotencyKey: id } },
  ])
  expect(JSON.stringify(aws.calls)).not.toContain('AKIAAMBIENT')

  await lookAsOther(arena, node, access.externalId)
  for (const line of node.log) expect(line).not.toContain('operator-secret-of-the-test')
})

/** Another tenant has another external id; what is not listed is refused; the command line does the same. */
async function lookAsOther(arena: Arena, node: NodeProcess, externalId: string): Promise<void> {
  const other = await arena.keyOf('other')
  const theirs = await fetch(`${node.apiUrl}/v1/lambda`, { headers: { authorization: `Bearer ${other}` } })
  expect(((await theirs.json()) as { externalId: string }).externalId).not.toBe(externalId)

  const stranger = 'arn:aws:lambda:eu-west-1:123456789012:function:stranger'
  const outside = arena.client().jobs.create({
    name: 'x',
    handler: { kind: 'lambda', functionArn: stranger, roleArn },
  })
  await expect(outside).rejects.toMatchObject({ code: 'invalid_target' })

  const env = { BELFRY_URL: node.apiUrl, BELFRY_API_KEY: other, XDG_CONFIG_HOME: arena.dataDir }
  const policy = await runAlone(['lambda', 'trust-policy'], { env, now: () => Date.now() })
  expect(JSON.parse(policy.out)).toMatchObject({
    Statement: [{ Principal: { AWS: 'arn:aws:iam::111111111111:user/belfry' }, Action: 'sts:AssumeRole' }],
  })
  const flags = ['--lambda', functionArn, '--role', roleArn]
  const made = await runAlone(['job', 'create', 'mine', ...flags, '-o', 'json'], {
    env,
    now: () => Date.now(),
  })
  expect(JSON.parse(made.out)).toMatchObject({ handler: { kind: 'lambda', functionArn, roleArn } })
}

test('without the settings a job is refused when it is saved, and told what the operator sets', async () => {
  const arena = await harness.open()
  await arena.start('a')
  const client = arena.client()
  expect(await client.lambda.access()).toMatchObject({ enabled: false, functions: [] })
  const refusal = client.jobs.create({ name: 'x', handler: { kind: 'lambda', functionArn, roleArn } })
  await expect(refusal).rejects.toThrow('BELFRY_LAMBDA_FUNCTIONS')
})

describeNeeding('moto', 'a Lambda job of the docs, on moto', (python) => {
  test('as docs/how-to/lambda.md has it, without AWS', async () => {
    const moto = await startMotoServer(python)
    harness.defer(() => moto.close())
    const url = `http://127.0.0.1:${moto.port}`
    await fetch(`${url}/moto-api/config`, { method: 'POST', body: '{"lambda": {"use_docker": false}}' })
    const roleArn = await createFunction(url, 'belfry-report')
    const arena = await harness.open()
    const node = await arena.start('a', {
      BELFRY_LAMBDA_FUNCTIONS: 'arn:aws:lambda:eu-west-1:123456789012:function:belfry-*',
      BELFRY_LAMBDA_ACCESS_KEY_ID: 'a',
      BELFRY_LAMBDA_SECRET_ACCESS_KEY: 'a',
      BELFRY_LAMBDA_ENDPOINT: url,
      BELFRY_LAMBDA_STS_ENDPOINT: url,
    })
    const key = await arena.keyOf('newcomer')
    const env = { BELFRY_URL: node.apiUrl, BELFRY_API_KEY: key, XDG_CONFIG_HOME: arena.dataDir }
    const belfry = (...argv: string[]) => runAlone(argv, { env, now: () => Date.now() })
    const flags = ['--lambda', functionArn, '--role', roleArn]
    expect(await belfry('job', 'create', 'report', ...flags)).toMatchObject({ code: 0 })
    const done = await belfry(
      'run',
      'create',
      'report',
      '--input',
      '{"month": "may"}',
      '--wait',
      '-o',
      'json',
    )
    expect(done.code, done.err).toBe(0)
    expect(JSON.parse(done.out)).toMatchObject({
      state: 'succeeded',
      attemptList: [{ result: { input: { month: 'may' } } }],
    })
  })
})

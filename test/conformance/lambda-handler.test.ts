// The Lambda handler against an AWS of our own: as whom it calls, what it sends, and what follows from every
// kind of answer, those of a hostile one among them.
import { afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import {
  assumed,
  type AwsServer,
  invoked,
  openAwsServer,
  refused,
  refusedBySts,
} from '../support/aws-server.ts'
import { functionArn, type LambdaRig, openLambdaRig, roleArn } from '../support/lambda-rig.ts'
import { createVirtualClock } from '../support/virtual-clock.ts'

let aws: AwsServer
let rig: LambdaRig

/** What the SDK would use if it were left to look around on this machine. */
const ambient = {
  AWS_ACCESS_KEY_ID: 'AKIAAMBIENT',
  AWS_SECRET_ACCESS_KEY: 'ambient-secret',
  AWS_SESSION_TOKEN: 'ambient-session',
  AWS_REGION: 'us-east-2',
  AWS_ENDPOINT_URL: 'http://127.0.0.1:9/',
  AWS_ENDPOINT_URL_LAMBDA: 'http://127.0.0.1:9/',
  AWS_ENDPOINT_URL_STS: 'http://127.0.0.1:9/',
  AWS_ROLE_ARN: 'arn:aws:iam::999999999999:role/ambient',
  AWS_WEB_IDENTITY_TOKEN_FILE: '/etc/hostname',
  AWS_CONTAINER_CREDENTIALS_FULL_URI: 'http://127.0.0.1:9/creds',
}
beforeAll(() => {
  Object.assign(process.env, ambient)
  return () => {
    for (const name of Object.keys(ambient)) Reflect.deleteProperty(process.env, name)
  }
})
beforeEach(async () => {
  aws = await openAwsServer()
  rig = openLambdaRig({ endpoint: aws.url })
})
afterEach(async () => {
  await rig.close()
  await aws.close()
})

const execute = (definition: object = {}, changes: object = {}) =>
  rig.handler.execute(rig.request(definition, changes))

describe('as whom it calls', () => {
  test('lambda.role_no_external_id: assumes the role with the external id of the tenant', async () => {
    expect(await execute()).toMatchObject({ outcome: 'succeeded' })
    const [sts] = aws.callsOf('sts')
    const asked = new URLSearchParams(sts?.body)
    expect(sts?.accessKeyId).toBe('AKIAOPERATOR')
    expect(asked.get('Action')).toBe('AssumeRole')
    expect(asked.get('RoleArn')).toBe(roleArn)
    expect(asked.get('ExternalId')).toBe('external-019ad0c1-7f3e-7c63-9a52-00000000000a')
    const [call] = aws.callsOf('lambda')
    expect([call?.accessKeyId, call?.headers['x-amz-security-token']]).toEqual(['ROLE1', 'role-session'])
    expect(call?.headers['authorization']).toContain('/eu-west-1/lambda/')
  })

  test('lambda.ambient_creds: nothing that stands in the environment is ever used', async () => {
    await execute()
    const all = JSON.stringify(aws.calls)
    expect(aws.calls).toHaveLength(2)
    for (const value of ['AKIAAMBIENT', 'ambient-session', 'us-east-2', '999999999999'])
      expect(all).not.toContain(value)
  })

  test('one role serves many calls at once, each tenant has credentials of its own', async () => {
    await Promise.all(Array.from({ length: 5 }, () => execute()))
    expect(aws.callsOf('sts')).toHaveLength(1)
    await execute({}, { tenantId: '019ad0c1-7f3e-7c63-9a52-0000000000ff' })
    const [, second] = aws.callsOf('sts')
    expect(new URLSearchParams(second?.body).get('ExternalId')).toBe(
      'external-019ad0c1-7f3e-7c63-9a52-0000000000ff',
    )
    expect(aws.callsOf('lambda').at(-1)?.accessKeyId).toBe('ROLE2')
  })

  test('credentials are fetched anew some minutes before they end', async () => {
    const clock = createVirtualClock(Date.now())
    const own = openLambdaRig({ endpoint: aws.url, clock })
    try {
      await own.handler.execute(own.request())
      await clock.advance(50 * 60_000)
      await own.handler.execute(own.request())
      expect(aws.callsOf('sts')).toHaveLength(1)
      await clock.advance(6 * 60_000)
      await own.handler.execute(own.request())
      expect(aws.callsOf('lambda').map(({ accessKeyId }) => accessKeyId)).toEqual(['ROLE1', 'ROLE1', 'ROLE2'])
    } finally {
      await own.close()
    }
  })

  test('credentials that are not taken are fetched anew once; the call was not executed', async () => {
    aws.program('lambda', refused(403, 'ExpiredTokenException'), invoked('"ok"'))
    expect(await execute()).toMatchObject({ outcome: 'succeeded', result: 'ok' })
    expect(aws.callsOf('lambda').map(({ accessKeyId }) => accessKeyId)).toEqual(['ROLE1', 'ROLE2'])
    aws.program('lambda', refused(403, 'UnrecognizedClientException'))
    expect(await execute()).toMatchObject({
      outcome: 'failed',
      error: { code: 'lambda_denied' },
      retryable: true,
    })
    expect(aws.callsOf('lambda')).toHaveLength(4)
  })

  test.each([
    ['AccessDenied', 403, 'lambda_role_denied', 'external id of GET /v1/lambda'],
    ['InvalidClientTokenId', 403, 'lambda_role_denied', 'BELFRY_LAMBDA_ACCESS_KEY_ID'],
    ['Throttling', 400, 'lambda_role_unavailable', 'STS failed'],
    ['InternalFailure', 500, 'lambda_role_unavailable', 'STS failed'],
  ])(
    'a role that cannot be assumed (%s) says so, and is tried again',
    async (code, status, expected, words) => {
      aws.program('sts', refusedBySts(status, code), assumed())
      const failed = await execute()
      expect(failed).toMatchObject({ outcome: 'failed', retryable: true, error: { code: expected } })
      expect(failed).toHaveProperty('error.message', expect.stringContaining(words))
      expect(aws.callsOf('lambda')).toHaveLength(0)
      expect(await execute(), 'a failure is not remembered').toMatchObject({ outcome: 'succeeded' })
    },
  )
})

describe('what it sends', () => {
  test('input and facts of the run in an envelope, the same facts as client context', async () => {
    await execute()
    const [call] = aws.callsOf('lambda')
    const facts = {
      runId: '019ad0c1-7f3e-7c63-9a52-6e4d8c1b2a3f',
      attempt: 2,
      leaseEpoch: 3,
      idempotencyKey: '019ad0c1-7f3e-7c63-9a52-6e4d8c1b2a3f',
      scheduledFor: '2026-01-02T00:00:00.000Z',
    }
    expect(JSON.parse(call?.body ?? '')).toMatchObject({ belfry: facts, input: { month: 'may' } })
    const context = Buffer.from(call?.headers['x-amz-client-context'] ?? '', 'base64').toString()
    expect(JSON.parse(context)).toMatchObject({ custom: { belfry: facts } })
    expect(call?.headers).toMatchObject({
      'x-amz-invocation-type': 'RequestResponse',
      'x-amz-log-type': 'Tail',
    })
    expect(decodeURIComponent(call?.path ?? '')).toBe(`/2015-03-31/functions/${functionArn}/invocations`)
  })

  test('the input alone, where the job asks for that; null for none', async () => {
    await execute({ payload: 'input' })
    await execute({ payload: 'input' }, { input: null })
    expect(aws.callsOf('lambda').map(({ body }) => body)).toEqual(['{"month":"may"}', 'null'])
  })

  test('a version or an alias as qualifier', async () => {
    await execute({ functionArn: `${functionArn}:live` })
    await execute({ functionArn: `${functionArn}:$LATEST` })
    expect(aws.callsOf('lambda').map(({ path }) => path.split('?')[1])).toEqual([
      'Qualifier=live',
      'Qualifier=%24LATEST',
    ])
  })

  test('an event, whose 202 is the success', async () => {
    aws.program('lambda', (response) => void response.writeHead(202).end())
    expect(await execute({ invocation: 'event' })).toEqual({ outcome: 'succeeded', httpStatus: 202 })
    const [call] = aws.callsOf('lambda')
    expect(call?.headers['x-amz-invocation-type']).toBe('Event')
    expect(call?.headers).not.toHaveProperty('x-amz-client-context')
    expect(call?.headers).not.toHaveProperty('x-amz-log-type')
  })

  test.each([
    ['event', 1024 * 1024],
    ['request_response', 6 * 1024 * 1024],
  ])('nothing beyond what AWS takes of the kind %s: %i bytes', async (invocation, limit) => {
    const failed = await execute({ invocation, payload: 'input' }, { input: 'x'.repeat(limit) })
    expect(failed).toMatchObject({
      outcome: 'failed',
      retryable: false,
      error: { code: 'payload_too_large' },
    })
    expect(aws.calls).toHaveLength(0)
    aws.program('lambda', invoked('1'))
    expect(await execute({ invocation, payload: 'input' }, { input: 'x'.repeat(limit - 2) })).toMatchObject({
      outcome: 'succeeded',
    })
  })
})

describe('what may be called', () => {
  test.each([
    [{ functions: [] }, 'BELFRY_LAMBDA_FUNCTIONS'],
    [{ functions: ['arn:aws:lambda:eu-west-1:123456789012:function:other'] }, 'BELFRY_LAMBDA_FUNCTIONS'],
    [{ regions: ['us-east-1'] }, 'BELFRY_LAMBDA_REGIONS'],
  ])('what is not listed is refused without a call: %j', async (policy, words) => {
    const own = openLambdaRig({ endpoint: aws.url, policy })
    try {
      const failed = await own.handler.execute(own.request())
      expect(failed).toMatchObject({ outcome: 'failed', retryable: false, error: { code: 'target_denied' } })
      expect(failed).toHaveProperty('error.message', expect.stringContaining(words))
      expect(aws.calls).toHaveLength(0)
    } finally {
      await own.close()
    }
  })

  test('an endpoint that the operator did not name is under the rules of every outbound call', async () => {
    const own = openLambdaRig({ endpoint: aws.url, byOperator: false })
    try {
      expect(await own.handler.execute(own.request())).toMatchObject({
        outcome: 'failed',
        retryable: false,
        error: { code: 'target_denied' },
      })
      expect(aws.calls).toHaveLength(0)
    } finally {
      await own.close()
    }
  })
})

describe('what follows from an answer', () => {
  test('JSON is the result of the run', async () => {
    aws.program('lambda', invoked({ rows: 12 }, { 'x-amz-executed-version': '7' }))
    expect(await execute()).toEqual({
      outcome: 'succeeded',
      result: { rows: 12 },
      httpStatus: 200,
      response: '{"rows":12}',
      responseTruncated: false,
    })
  })

  test('what is no JSON, or more than a result may hold, is shown and no result', async () => {
    aws.program('lambda', invoked('not json \u0007'), invoked(`"${'x'.repeat(300_000)}"`))
    expect(await execute()).toEqual({
      outcome: 'succeeded',
      httpStatus: 200,
      response: 'not json \u2407',
      responseTruncated: false,
    })
    const large = await execute()
    expect(large).toMatchObject({ outcome: 'succeeded', responseTruncated: true })
    expect(large).not.toHaveProperty('result')
  })

  test.each([
    [
      'Handled',
      { errorType: 'ValueError', errorMessage: 'no rows' },
      'lambda_function_error',
      'ValueError: no rows',
    ],
    [
      'Unhandled',
      { errorMessage: '2026 r Task timed out after 3.00 seconds' },
      'lambda_function_timeout',
      'timeout',
    ],
    ['Unhandled', 'crash', 'lambda_function_error', 'crash'],
  ])('a function that failed (%s %j) is no failing service', async (kind, payload, code, words) => {
    aws.program('lambda', invoked(payload, { 'x-amz-function-error': kind }))
    const failed = await execute()
    expect(failed).toMatchObject({ outcome: 'failed', retryable: true, error: { code }, httpStatus: 200 })
    expect(failed).toHaveProperty('error.message', expect.stringContaining(words))
    expect(failed).not.toHaveProperty('result')
  })

  test.each([
    [429, 'TooManyRequestsException', 'lambda_throttled', true],
    [502, 'EC2ThrottledException', 'lambda_throttled', true],
    [500, 'ServiceException', 'lambda_service_error', true],
    [503, 'Something', 'lambda_service_error', true],
    [403, 'AccessDeniedException', 'lambda_denied', true],
    [409, 'ResourceConflictException', 'lambda_not_ready', true],
    [404, 'ResourceNotFoundException', 'lambda_not_found', false],
    [400, 'InvalidRequestContentException', 'lambda_refused', false],
    [413, 'RequestTooLargeException', 'lambda_refused', false],
  ])('%i %s is %s', async (status, type, code, retryable) => {
    aws.program('lambda', refused(status, type))
    const failed = await execute()
    expect(failed).toMatchObject({ outcome: 'failed', retryable, error: { code } })
    expect(failed).toHaveProperty('error.message', expect.stringContaining(type))
    expect(aws.callsOf('lambda'), 'the SDK repeats nothing by itself').toHaveLength(1)
  })

  test('a throttle says when to come back', async () => {
    aws.program('lambda', refused(429, 'TooManyRequestsException', 'slow down', { 'retry-after': '7' }))
    expect(await execute()).toMatchObject({ error: { code: 'lambda_throttled' }, retryAfterMs: 7_000 })
  })

  test('no answer, a cut one, one that is a redirect, and one without end', async () => {
    const big = 'x'.repeat(1024 * 1024)
    aws.program(
      'lambda',
      (response) => response.socket?.destroy(),
      (response) =>
        void response.writeHead(200, { 'content-length': '100' }).write('half', () => response.destroy()),
      (response) => void response.writeHead(307, { location: 'http://169.254.169.254/' }).end(),
      (response) => {
        response.writeHead(200)
        const pour = (): void => {
          while (response.write(big));
          response.once('drain', pour)
        }
        pour()
      },
    )
    expect(await execute()).toMatchObject({ outcome: 'failed', retryable: true })
    expect(await execute()).toMatchObject({ outcome: 'failed', retryable: true })
    expect(await execute()).toMatchObject({ outcome: 'failed', retryable: false })
    expect(await execute()).toMatchObject({ outcome: 'failed', error: { code: 'response_too_large' } })
    expect(aws.callsOf('lambda')).toHaveLength(4)
  })

  test('the signal ends a call that hangs, and one that waits for its role', async () => {
    aws.program('lambda', () => undefined)
    const hanging = rig.request()
    const running = rig.handler.execute(hanging)
    await expect.poll(() => aws.callsOf('lambda').length).toBe(1)
    hanging.abort('timeout')
    expect(await running).toMatchObject({ outcome: 'failed', error: { code: 'aborted' } })
    aws.program('sts', () => undefined)
    const waiting = rig.request({ roleArn: `${roleArn}2` })
    const opening = rig.handler.execute(waiting)
    await expect.poll(() => aws.callsOf('sts').length).toBe(2)
    waiting.abort('cancel')
    expect(await opening).toMatchObject({ outcome: 'failed', error: { code: 'aborted' } })
  })
})

describe('the log', () => {
  const tail = (text: string) => ({ 'x-amz-log-result': Buffer.from(text).toString('base64') })

  test('its end is kept as the log of the attempt, as text', async () => {
    aws.program(
      'lambda',
      invoked('1', tail('START r\n2026 ERROR boom\n::set-env name=PATH::/evil\u001b[2J\n\nEND r\n')),
    )
    await execute()
    expect(rig.logs).toMatchObject([
      { runId: '019ad0c1-7f3e-7c63-9a52-6e4d8c1b2a3f', leaseEpoch: 3, firstLine: 0 },
    ])
    expect(rig.logs[0]?.lines.map(({ level, message }) => [level, message])).toEqual([
      ['info', 'START r'],
      ['error', '2026 ERROR boom'],
      ['info', '::set-env name=PATH::/evil\u241b[2J'],
      ['info', 'END r'],
    ])
  })

  test('of a function that failed too; bytes that are no text do no harm', async () => {
    aws.program(
      'lambda',
      invoked('{}', { 'x-amz-function-error': 'Unhandled', 'x-amz-log-result': '/////w==' }),
    )
    expect(await execute()).toMatchObject({ outcome: 'failed' })
    expect(rig.logs[0]?.lines).toHaveLength(1)
  })

  test('one that cannot be kept is told, and the attempt ends all the same', async () => {
    const own = openLambdaRig({ endpoint: aws.url, keepLog: () => Promise.reject(new Error('away')) })
    aws.program('lambda', invoked('1', tail('line')))
    try {
      expect(await own.handler.execute(own.request())).toMatchObject({ outcome: 'succeeded' })
      expect(own.events.of('role_failed')).toMatchObject([{ role: 'lambda-log' }])
    } finally {
      await own.close()
    }
  })
})

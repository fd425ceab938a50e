// Clients of somebody else's over the egress module: the AWS SDK and a fetch, against real servers on
// loopback. The same rules and caps hold as for jobs; only what the operator configured may be private.
import { InvokeCommand, LambdaClient } from '@aws-sdk/client-lambda'
import { GetCallerIdentityCommand, STSClient } from '@aws-sdk/client-sts'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { EgressAgent } from '../../packages/server/src/ports/egress.ts'
import { createAwsHandler } from '../../packages/server/src/security/egress/aws-handler.ts'
import { EgressCallError } from '../../packages/server/src/security/egress/call-error.ts'
import { createEgress } from '../../packages/server/src/security/egress/egress.ts'
import { createEgressFetch } from '../../packages/server/src/security/egress/egress-fetch.ts'
import { realClock } from '../support/real-clock.ts'
import { answer, endlessBody, hang, ok, redirect, reset } from '../support/target-behaviours.ts'
import { createTargetServer, type TargetServer } from '../support/target-server.ts'

let egress: EgressAgent
let target: TargetServer
beforeAll(async () => {
  // nothing private is opened for jobs
  egress = createEgress({ allowCidrs: [], clock: realClock })
  target = await createTargetServer()
})
afterAll(async () => {
  await egress.close()
  await target.close()
})

const codeOf = async (call: Promise<unknown>): Promise<unknown> => {
  const error: unknown = await call.catch((thrown: unknown) => thrown)
  return error instanceof EgressCallError ? error.code : error
}

describe('the request handler of the AWS SDK', () => {
  const credentials = { accessKeyId: 'AKIDEXAMPLE', secretAccessKey: 'secret' }
  const client = (
    more: { operatorUrls?: string[]; callTimeoutMs?: number; maxResponseBytes?: number } = {},
  ) =>
    new LambdaClient({
      region: 'eu-central-1',
      endpoint: target.url(''),
      credentials,
      maxAttempts: 1,
      requestHandler: createAwsHandler({ egress, operatorUrls: [target.url('/')], ...more }),
    })
  const invoke = new InvokeCommand({
    FunctionName: 'arn:aws:lambda:eu-central-1:123456789012:function:report',
    Payload: Buffer.from('{"a":"ü"}'),
  })
  const path =
    '/2015-03-31/functions/arn%3Aaws%3Alambda%3Aeu-central-1%3A123456789012%3Afunction%3Areport/invocations'
  let before = 0
  beforeEach(() => {
    before = target.ledger.length
    target.program(path, ok('{"done":true}', { 'x-amz-executed-version': '7' }))
  })

  it('carries a call and its answer', async () => {
    const answered = await client().send(invoke)
    expect(answered).toMatchObject({ StatusCode: 200, ExecutedVersion: '7' })
    expect(Buffer.from(answered.Payload ?? []).toString()).toBe('{"done":true}')
    const call = target.ledger.at(-1)
    expect(call).toMatchObject({ method: 'POST', path, body: '{"a":"ü"}' })
    expect(call?.headers['authorization']).toMatch(/^AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/)
    expect(call?.headers['host']).toBe(`127.0.0.1:${target.port}`)
    expect(call?.headers['content-length']).toBe('10')
  })

  it('carries query parameters as they were signed', async () => {
    await client()
      .send(new InvokeCommand({ FunctionName: 'f', Qualifier: "a-b_c*(')" }))
      .catch(() => undefined)
    expect(target.ledger.at(-1)?.url).toMatch(/\?Qualifier=a-b_c%2A%28%27%29$/)
  })

  it('reads errors of the service', async () => {
    target.program(
      path,
      answer(429, '{"message":"slow"}', { 'x-amzn-errortype': 'TooManyRequestsException' }),
    )
    await expect(client().send(invoke)).rejects.toMatchObject({ name: 'TooManyRequestsException' })
  })

  it('speaks the query protocol of STS', async () => {
    const body =
      '<GetCallerIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><GetCallerIdentityResult>' +
      '<Account>123456789012</Account></GetCallerIdentityResult></GetCallerIdentityResponse>'
    target.program('/', ok(body, { 'content-type': 'text/xml' }))
    const requestHandler = createAwsHandler({ egress, operatorUrls: [target.url('/')] })
    const sts = new STSClient({
      region: 'eu-central-1',
      endpoint: target.url(''),
      credentials,
      maxAttempts: 1,
      requestHandler,
    })
    expect(await sts.send(new GetCallerIdentityCommand({}))).toMatchObject({ Account: '123456789012' })
  })

  it('does not reach a private address that the operator did not configure', async () => {
    for (const operatorUrls of [[], ['http://127.0.0.1:1/'], [`https://127.0.0.1:${target.port}/`]])
      expect(await codeOf(client({ operatorUrls }).send(invoke))).toBe('target_denied')
    expect(target.ledger).toHaveLength(before)
  })

  it('ends at its time limit and at the signal of the call', async () => {
    target.program(path, hang)
    expect(await codeOf(client({ callTimeoutMs: 100 }).send(invoke))).toBe('aborted')
    const controller = new AbortController()
    const sent = client().send(invoke, { abortSignal: controller.signal })
    await target.called(before + 2)
    controller.abort(new Error('given up'))
    await expect(sent).rejects.toThrow('given up')
  })

  it('is called once, whatever happens', async () => {
    target.program(path, reset)
    expect(await codeOf(client().send(invoke))).toBe('connection_reset')
    expect(target.ledger).toHaveLength(before + 1)
  })

  it('refuses an answer that is too long', async () => {
    expect(await codeOf(client({ maxResponseBytes: 5 }).send(invoke))).toBe('response_too_large')
    target.program(path, endlessBody)
    expect(await codeOf(client().send(invoke))).toBe('response_too_large')
  })
})

describe('the fetch', () => {
  const opened = (more = {}) => createEgressFetch({ egress, operatorUrls: [target.url('/')], ...more })

  it('carries method, headers and body', async () => {
    target.program('/token', answer(201, '{"a":1}', { 'content-type': 'application/json', 'x-one': 'two' }))
    const body = new URLSearchParams({ grant_type: 'x y' })
    const response = await opened()(target.url('/token?a=1'), {
      method: 'POST',
      headers: { 'x-mine': 'yes' },
      body,
    })
    expect(response.status).toBe(201)
    expect(response.headers.get('x-one')).toBe('two')
    expect(await response.json()).toEqual({ a: 1 })
    const call = target.ledger.at(-1)
    expect(call).toMatchObject({ method: 'POST', url: '/token?a=1', body: 'grant_type=x+y' })
    expect(call?.headers).toMatchObject({
      'x-mine': 'yes',
      'content-type': 'application/x-www-form-urlencoded;charset=UTF-8',
      'accept-encoding': 'identity',
    })
  })

  it('takes a Request, and answers without a body', async () => {
    target.program('/none', answer(204))
    const response = await opened()(new Request(target.url('/none')))
    expect([response.status, response.body]).toEqual([204, null])
  })

  it('never follows a redirect, whatever is asked', async () => {
    target.program('/moved', redirect(302, target.url('/next')))
    const response = await opened()(target.url('/moved'), { redirect: 'follow' })
    expect(response.status).toBe(302)
    expect(target.callsTo('/next')).toEqual([])
  })

  it('does not reach what the operator did not configure', async () => {
    for (const url of [
      target.url('/'),
      'http://169.254.169.254/',
      'http://localhost:1/',
      'file:///etc/passwd',
    ])
      expect(await codeOf(opened({ operatorUrls: [] })(url))).toBe('target_denied')
    // not even where the operator's own endpoint names it
    expect(await codeOf(opened()('http://169.254.169.254/'))).toBe('target_denied')
  })

  it('ends at its time limit and at the signal of the caller', async () => {
    target.program('/hang', hang)
    expect(await codeOf(opened({ callTimeoutMs: 100 })(target.url('/hang')))).toBe('aborted')
    const aborted = AbortSignal.abort(new Error('given up'))
    await expect(opened()(target.url('/hang'), { signal: aborted })).rejects.toThrow('given up')
  })

  it('refuses an answer that is too long, and a method that is not called', async () => {
    target.program('/long', ok('x'.repeat(2_000)))
    expect(await codeOf(opened({ maxResponseBytes: 1_999 })(target.url('/long')))).toBe('response_too_large')
    expect(await codeOf(opened()(target.url('/long'), { method: 'OPTIONS' }))).toBe('invalid_request')
  })
})

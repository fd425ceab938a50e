// Master keys in KMS, on moto: held to the suite of wrappers; and what it says when KMS refuses or is away.
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createKmsWrapper } from '../../packages/server/src/adapters/kms/kms-wrapper.ts'
import type { KeyWrapper } from '../../packages/server/src/ports/secrets.ts'
import { createAwsHandler } from '../../packages/server/src/security/egress/aws-handler.ts'
import { createEgress } from '../../packages/server/src/security/egress/egress.ts'
import { type MotoServer, startMotoServer } from '../support/moto-server.ts'
import { describeNeeding } from '../support/needs.ts'
import { realClock } from '../support/real-clock.ts'
import { describeKeyWrapper, faultOf, signal } from './key-wrapper.ts'

const credentials = { accessKeyId: 'AKIAEXAMPLE', secretAccessKey: 'kms-secret-of-the-tests' }
const region = 'eu-west-1'
const endpointOf = (port: number) => `http://127.0.0.1:${port}`
const plain = randomBytes(32)

describeNeeding('moto', 'master keys in KMS, on moto', (python) => {
  let server: MotoServer
  let older: string
  let newest: string
  const egress = createEgress({ allowCidrs: [], clock: realClock })

  beforeAll(async () => {
    server = await startMotoServer(python)
    older = await createKey()
    newest = await createKey()
  }, 90_000)
  afterAll(async () => {
    await egress.close()
    await server.close()
  })

  async function createKey(): Promise<string> {
    const scope = `AKIAEXAMPLE/20260101/${region}/kms/aws4_request`
    const answer = await fetch(endpointOf(server.port), {
      method: 'POST',
      headers: {
        'content-type': 'application/x-amz-json-1.1',
        'x-amz-target': 'TrentService.CreateKey',
        // looked at by nobody
        authorization: `AWS4-HMAC-SHA256 Credential=${scope}, SignedHeaders=host, Signature=0`,
      },
      body: '{}',
    })
    return ((await answer.json()) as { KeyMetadata: { Arn: string } }).KeyMetadata.Arn
  }

  function open(keys: readonly [string, ...string[]], port = server.port): KeyWrapper {
    const endpoint = endpointOf(port)
    const requestHandler = createAwsHandler({ egress, operatorUrls: [endpoint], callTimeoutMs: 2_000 })
    return createKmsWrapper({ settings: { keys, region, endpoint, credentials }, requestHandler })
  }

  describe('the wrapper', () => {
    describeKeyWrapper((which) => (which === undefined ? open([newest, older]) : open([older])))
  })

  it('opens nothing of a key that is not in the configuration', async () => {
    const wrapped = await open([await createKey()]).wrap(plain, 't', signal)
    expect(open([newest, older]).opens(wrapped.wrapperId)).toBe(false)
  })

  it.each([
    ['not there', 'there is no such key', () => open(['arn:aws:kms:eu-west-1:123456789012:key/none'])],
    ['away', 'refused', () => open([newest], 1)],
  ])('says what to do where it is %s', async (_, words, wrapper) => {
    const fault = await faultOf(wrapper().wrap(plain, 't', signal))
    expect([fault.code, fault.retryable]).toEqual(['secrets_unavailable', true])
    expect(fault.message).toMatch(new RegExp(words))
    expect(fault.message).not.toContain(credentials.secretAccessKey)
  })
})

describe('a KMS that refuses', () => {
  let answer: (response: ServerResponse) => void
  let endpoint: string
  const egress = createEgress({ allowCidrs: [], clock: realClock })
  const server = createServer((_, response) => answer(response))
  beforeAll(async () => {
    await once(server.listen(0, '127.0.0.1'), 'listening')
    endpoint = endpointOf((server.address() as AddressInfo).port)
  })
  afterAll(async () => {
    await egress.close()
    server.closeAllConnections()
    server.close()
  })
  const says = (name: string) => (response: ServerResponse) =>
    void response
      .writeHead(400, { 'content-type': 'application/x-amz-json-1.1' })
      .end(JSON.stringify({ __type: name }))
  const never = (): void => undefined

  it.each([
    ['DisabledException', 'enable it', says('DisabledException')],
    ['KMSInvalidStateException', 'enable it', says('KMSInvalidStateException')],
    ['AccessDeniedException', 'allow kms:Encrypt and kms:Decrypt', says('AccessDeniedException')],
    ['UnrecognizedClientException', 'check secretKmsAccessKeyId', says('UnrecognizedClientException')],
    ['IncorrectKeyException', 'sealed by another key', says('IncorrectKeyException')],
    ['nothing at all', 'did not answer in time', never],
    [
      'what is no JSON',
      'KMS does not open',
      (response: ServerResponse) => void response.writeHead(200).end('<html>'),
    ],
    [
      'an empty answer',
      'it answered nothing',
      (response: ServerResponse) => void response.writeHead(200).end('{}'),
    ],
  ])('by %s is told in words', async (_, words, how) => {
    answer = how
    const requestHandler = createAwsHandler({ egress, operatorUrls: [endpoint], callTimeoutMs: 2_000 })
    const settings = { keys: ['alias/belfry'], region, endpoint, credentials } as const
    const wrapper = createKmsWrapper({ settings, requestHandler })
    const wrapped = { wrapperId: 'kms:alias/belfry', bytes: randomBytes(60) }
    const fault = await faultOf(wrapper.unwrap(wrapped, 't', AbortSignal.timeout(500)))
    expect(fault.code).toBe('secrets_unavailable')
    expect(fault.message).toContain(words)
  })
})

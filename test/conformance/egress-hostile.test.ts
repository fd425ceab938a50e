// Targets that do what no HTTP server should, each against the real handler and the real egress agent: what
// the attempt ends with, that it ends soon, and that no connection is left.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { HandlerResult } from '../../packages/server/src/ports/handler.ts'
import { createHttpHandlerRig, type HttpHandlerRig } from '../support/http-handler-rig.ts'
import { targetCertificate, targetKey } from '../support/target-certificate.ts'
import {
  type Behaviour,
  endlessBody,
  endlessCrumbs,
  endlessExtension,
  endlessHeaders,
  endlessTrailers,
  interimStorm,
  ok,
  pouring,
  raw,
  redirect,
} from '../support/target-behaviours.ts'

const head = 'HTTP/1.1 200 OK\r\n'
const megabyte = 1024 * 1024

let rig: HttpHandlerRig
beforeAll(async () => {
  rig = await createHttpHandlerRig({ maxResponseBytes: megabyte })
})
afterAll(() => rig.dispose())

const endsSoonMs = 5_000

/** Code and words of a failure; the outcome of anything else. */
const endOf = (result: HandlerResult): string =>
  result.outcome === 'failed' ? `${result.error.code}: ${result.error.message}` : result.outcome

async function executed(behaviour: Behaviour, timeoutMs = 20_000) {
  rig.target.program('/', behaviour)
  const startedMs = performance.now()
  const result = await rig.handler.execute(rig.request({}, { timeoutMs }))
  expect(performance.now() - startedMs).toBeLessThan(endsSoonMs)
  return result
}

describe('without end', () => {
  it.each<[string, Behaviour, string]>([
    ['interim responses', interimStorm, 'invalid_response'],
    ['100 Continue that nobody asked for', raw('HTTP/1.1 100 Continue\r\n\r\n', false), 'invalid_response'],
    ['headers', endlessHeaders, 'headers_too_large'],
    ['one header', pouring(`${head}x-a: `, 'a'.repeat(65_536)), 'headers_too_large'],
    ['a status line', pouring('HTTP/1.1 200 ', 'a'.repeat(65_536)), 'response_too_large'],
    ['a body', endlessBody, 'response_too_large'],
    ['a body in crumbs', endlessCrumbs, 'response_too_large'],
    ['an extension of a chunk', endlessExtension, 'response_too_large'],
    ['trailers', endlessTrailers, 'headers_too_large'],
    [
      'ten gigabytes, announced',
      pouring(`${head}content-length: 10000000000\r\n\r\n`, 'b'.repeat(65_536)),
      'response_too_large',
    ],
    ['empty lines before the response', pouring('', '\r\n'.repeat(10_000)), 'response_too_large'],
  ])('%s', async (_name, behaviour, code) => {
    expect(await executed(behaviour)).toMatchObject({ outcome: 'failed', error: { code } })
    await rig.target.drained()
  })

  it('bytes that drip, in the head or in the body, end at the timeout of the attempt', async () => {
    for (const begin of ['HTTP/1.1 200 OK\r\nx-a: ', `${head}content-length: 1000\r\n\r\n`]) {
      const dripping: Behaviour = (response) => {
        const { socket } = response
        socket?.write(begin)
        const timer = setInterval(() => socket?.write('a'), 20)
        socket?.once('close', () => clearInterval(timer))
      }
      expect(await executed(dripping, 300)).toMatchObject({ error: { code: 'timed_out' } })
      await rig.target.drained()
    }
  })
})

describe('the limit of all bytes is that of one call', () => {
  it.each([
    ['http', {}],
    ['https', { tls: { key: targetKey, cert: targetCertificate } }],
  ] as const)('%s', async (_name, targetOptions) => {
    const limits = { maxResponseBytes: 100_000, extraAuthorities: [targetCertificate] }
    const own = await createHttpHandlerRig(limits, targetOptions)
    try {
      own.target.program('/', ok('x'.repeat(90_000)))
      for (let count = 0; count < 20; count += 1)
        expect(await own.handler.execute(own.request())).toMatchObject({ outcome: 'succeeded' })
      expect(own.target.connections).toBeLessThanOrEqual(3)
      own.target.program('/', endlessCrumbs)
      expect(await own.handler.execute(own.request())).toMatchObject({
        error: { code: 'response_too_large' },
      })
    } finally {
      await own.dispose()
    }
  })
})

describe('not quite HTTP', () => {
  it.each<[string, string]>([
    ['two lengths', `${head}content-length: 1\r\ncontent-length: 2\r\n\r\nab`],
    ['a length and chunks', `${head}content-length: 3\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n`],
    ['a negative length', `${head}content-length: -1\r\n\r\n`],
    ['a length that is no number', `${head}content-length: 0x10\r\n\r\n`],
    ['a chunk size that is none', `${head}transfer-encoding: chunked\r\n\r\nzz\r\n`],
    ['a chunk size beyond 64 bits', `${head}transfer-encoding: chunked\r\n\r\n${'f'.repeat(17)}\r\na`],
    ['a header without a colon', `${head}nonsense\r\n\r\n`],
    ['NUL in a header', `${head}x-a: a\u0000b\r\ncontent-length: 0\r\n\r\n`],
    ['a status of four digits', 'HTTP/1.1 2000 OK\r\n\r\n'],
    ['a status below 100', 'HTTP/1.1 42 OK\r\n\r\n'],
    ['another protocol', 'SSH-2.0-OpenSSH_9.2\r\n'],
    ['HTTP/2', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'],
    ['HTTP/0.9', '<html>hello</html>'],
  ])('%s', async (_name, bytes) => {
    const result = await executed(raw(bytes))
    expect(endOf(result)).toMatch(/^(?:invalid_response|connection_reset): /)
    await rig.target.drained()
  })

  it('a second response that nobody asked for is not taken for the answer of the next call', async () => {
    const answer = (text: string) => `${head}content-length: ${text.length}\r\n\r\n${text}`
    rig.target.program('/', raw(answer('first') + answer('poison'), false), ok('second'))
    const results = []
    for (let count = 0; count < 2; count += 1) results.push(await rig.handler.execute(rig.request()))
    expect(results.map(({ response }) => response)).toEqual(['first', 'second'])
  })
})

describe('redirects to places that are denied', () => {
  it.each([
    'http://169.254.169.254/latest/meta-data/',
    'http://[fd00:ec2::254]/',
    'http://127.0.0.1:22/',
    '//metadata.google.internal/computeMetadata/v1/',
    'file:///etc/passwd',
    'gopher://127.0.0.1:6379/_PING',
    'javascript:alert(1)',
    `http://169.254.169.254/${'a'.repeat(10_000)}`,
  ])('%s', async (location) => {
    for (const status of [301, 302, 303, 307, 308]) {
      const result = await executed(redirect(status, location))
      expect(result).toMatchObject({ outcome: 'failed', retryable: false, error: { code: 'http_redirect' } })
      expect(endOf(result).length).toBeLessThan(1_000)
    }
  })
})

describe('DNS that changes its mind', () => {
  const local = { address: '127.0.0.1', family: 4 }
  const metadata = { address: '169.254.169.254', family: 4 }

  it.each([
    ['between two attempts', [[local], [metadata]], ['succeeded', 'target_denied']],
    ['to an answer that holds both', [[local, metadata], [local]], ['target_denied', 'succeeded']],
  ])('%s', async (_name, answers, expected) => {
    const rest = [...answers]
    const own = await createHttpHandlerRig({
      resolver: async () => rest.shift() ?? [],
      idleTimeoutMs: 1,
    })
    try {
      const ends = []
      for (let attempt = 1; attempt <= 2; attempt += 1) {
        const request = own.request({ url: `http://rebind.test:${own.target.port}/` }, { attempt })
        const result = await own.handler.execute(request)
        ends.push(result.outcome === 'failed' ? result.error.code : result.outcome)
        await own.target.drained()
      }
      expect(ends).toEqual(expected)
      expect(own.target.ledger).toHaveLength(1)
    } finally {
      await own.dispose()
    }
  })
})

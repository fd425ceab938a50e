// The HTTP handler: the handler suite, and what is its own: the request on the wire, statuses, hostile
// targets, TLS.
import { createServer } from 'node:net'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { maxCapturedBytes } from '@belfry/contract'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import {
  type Behaviour,
  answer,
  cutBody,
  endlessBody,
  endlessHeaders,
  failThenOk,
  gzipBomb,
  hang,
  ok,
  raw,
  redirect,
  reset,
  retryAfter,
  slowDrip,
} from '../support/target-behaviours.ts'
import { createHttpHandlerRig, type HttpHandlerRig } from '../support/http-handler-rig.ts'
import { targetCertificate, targetKey } from '../support/target-certificate.ts'
import { type HandlerScenario, handlerSuite } from './handler.ts'

const scenarios: Readonly<Record<HandlerScenario, Behaviour>> = {
  succeeds: ok('done'),
  fails: answer(503, 'busy'),
  fails_for_good: answer(422, 'no'),
  never_ends: hang,
  talks_much: ok('é'.repeat(100_000)),
  says_nul: ok(Buffer.from('a\u0000b\u001b[31mc\ud83d\ude00')),
}

handlerSuite('http', async () => {
  const rig = await createHttpHandlerRig()
  for (const [name, behaviour] of Object.entries(scenarios)) rig.target.program(`/${name}`, behaviour)
  return {
    handler: rig.handler,
    request: (scenario, changes) => rig.request({ url: rig.target.url(`/${scenario}`) }, changes),
    invocations: () =>
      rig.target.ledger.map(({ headers }) => ({
        runId: headers['belfry-run-id'] ?? '',
        attempt: Number(headers['belfry-attempt']),
        idempotencyKey: headers['idempotency-key'] ?? '',
      })),
    invoked: (count) => rig.target.called(count),
    dispose: () => rig.dispose(),
  }
})

describe('HTTP handler', () => {
  let rig: HttpHandlerRig
  beforeEach(async () => {
    rig = await createHttpHandlerRig({ maxResponseBytes: 1024 * 1024 })
  })
  afterEach(() => rig.dispose())

  const executed = async (...behaviours: readonly Behaviour[]) => {
    rig.target.program('/', ...behaviours)
    return await rig.handler.execute(rig.request())
  }

  describe('the request', () => {
    it('carries the headers of the run', async () => {
      const scheduledForMs = Date.UTC(2026, 10, 29, 2, 30)
      await rig.handler.execute(
        rig.request(
          { headers: { 'X-Team': 'é', 'user-agent': 'Mine/1' } },
          { attempt: 3, leaseEpoch: 12, scheduledForMs, idempotencyKey: 'key-1' },
        ),
      )
      const [call] = rig.target.ledger
      expect(call?.headers).toMatchObject({
        'idempotency-key': 'key-1',
        'belfry-run-id': '019ad0c1-7f3e-7c63-9a52-6e4d8c1b2a3f',
        'belfry-attempt': '3',
        'belfry-lease-epoch': '12',
        'belfry-scheduled-for': '2026-11-29T02:30:00.000Z',
        traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
        'accept-encoding': 'identity',
        'user-agent': 'Mine/1',
        'x-team': 'é',
        host: `127.0.0.1:${rig.target.port}`,
      })
    })

    it('names Belfry, and no scheduled time on a run on demand', async () => {
      await rig.handler.execute(rig.request())
      const headers = rig.target.ledger[0]?.headers ?? {}
      expect(headers['user-agent']).toBe('Belfry/0.0.0')
      expect(headers).not.toHaveProperty('belfry-scheduled-for')
    })

    it.each([
      ['the input as JSON', {}, { a: 'ü' }, '{"a":"ü"}', 'application/json'],
      ['a body of JSON', { body: ' [1]' }, { a: 1 }, ' [1]', 'application/json'],
      ['a body of text', { body: '{no json' }, { a: 1 }, '{no json', 'text/plain; charset=utf-8'],
      ['the type that the job says', { body: 'a=1', headers: { 'content-type': 'x/y' } }, null, 'a=1', 'x/y'],
      ['input false', {}, false, 'false', 'application/json'],
      ['nothing without body and input', {}, null, '', undefined],
      ['nothing with GET', { method: 'GET' as const }, { a: 1 }, '', undefined],
      ['nothing with HEAD', { method: 'HEAD' as const }, { a: 1 }, '', undefined],
      ['the input with DELETE', { method: 'DELETE' as const }, { a: 1 }, '{"a":1}', 'application/json'],
    ])('sends %s', async (_name, definition, input, body, contentType) => {
      expect(await rig.handler.execute(rig.request(definition, { input }))).toMatchObject({
        outcome: 'succeeded',
      })
      const [call] = rig.target.ledger
      expect(call?.body).toBe(body)
      expect(call?.headers['content-type']).toBe(contentType)
      expect(call?.method).toBe('method' in definition ? definition.method : 'POST')
    })

    it('keeps path and query as they are', async () => {
      await rig.handler.execute(rig.request({ url: rig.target.url('/a/../b%20c?x=1&y=%2F') }))
      expect(rig.target.ledger[0]?.url).toBe('/b%20c?x=1&y=%2F')
    })

    it('is not sent with a header that a job may not choose', async () => {
      const request = rig.request({ headers: { 'Metadata-Flavor': 'Google' } })
      expect(await rig.handler.execute(request)).toMatchObject({
        outcome: 'failed',
        retryable: false,
        error: { code: 'target_denied' },
      })
      expect(rig.target.connections).toBe(0)
    })
  })

  describe('statuses', () => {
    it.each([200, 201, 202, 204])('%i succeeds', async (status) => {
      expect(await executed(answer(status))).toMatchObject({ outcome: 'succeeded', httpStatus: status })
    })

    it.each([401, 403, 404, 408, 409, 425, 429, 500, 502, 503, 504])('%i is tried again', async (status) => {
      expect(await executed(answer(status, 'why'))).toMatchObject({
        outcome: 'failed',
        retryable: true,
        error: { code: 'http_status' },
        httpStatus: status,
        response: 'why',
      })
    })

    it.each([400, 405, 410, 413, 415, 422, 501])(
      '%i fails for good, whatever Retry-After says',
      async (status) => {
        const result = await executed(retryAfter(status, '5'))
        expect(result).toMatchObject({ outcome: 'failed', retryable: false, error: { code: 'http_status' } })
        expect(result).not.toHaveProperty('retryAfterMs')
      },
    )

    it.each([301, 302, 303, 307, 308])(
      '%i is not followed; the message says where it pointed',
      async (status) => {
        const result = await executed(redirect(status, `${rig.target.url('/next')}?token=secret`))
        expect(result).toMatchObject({
          outcome: 'failed',
          retryable: false,
          error: { code: 'http_redirect' },
        })
        if (result.outcome !== 'failed') throw new Error('must fail')
        expect(result.error.message).toContain(rig.target.url('/next'))
        expect(result.error.message).not.toContain('secret')
        expect(rig.target.ledger).toHaveLength(1)
      },
    )

    it('programs a target that fails twice and then succeeds', async () => {
      rig.target.program('/', ...failThenOk(2))
      const outcomes = []
      for (const attempt of [1, 2, 3]) outcomes.push(await rig.handler.execute(rig.request({}, { attempt })))
      expect(outcomes.map(({ outcome }) => outcome)).toEqual(['failed', 'failed', 'succeeded'])
    })
  })

  describe('Retry-After', () => {
    const served = { date: 'Sun, 29 Nov 2026 02:30:00 GMT' }
    it.each([
      [503, '7', {}, 7_000],
      [429, '0', {}, 0],
      [500, 'Sun, 29 Nov 2026 02:31:00 GMT', served, 60_000],
      [503, 'Sunday, 29-Nov-26 02:30:09 GMT', served, 9_000],
      [503, 'Sun Nov 29 02:30:05 2026', served, 5_000],
      [503, 'Sun, 29 Nov 2020 02:30:00 GMT', served, 0],
      [503, '999999999', {}, 999_999_999_000],
      [503, '-1', {}, undefined],
      [503, '1.5', {}, undefined],
      [503, 'soon', {}, undefined],
      [503, 'Sun, 99 Foo 2026 02:31:00 GMT', served, undefined],
    ])('%i with %j', async (status, value, headers, expected) => {
      const result = await executed(retryAfter(status, value, headers))
      expect('retryAfterMs' in result ? result.retryAfterMs : undefined).toBe(expected)
    })
  })

  describe('what comes back', () => {
    it('is cut at a character, with the cap and the cut shown', async () => {
      const result = await executed(ok(`x${'é'.repeat(maxCapturedBytes)}`))
      expect(result.response).toBe(`x${'é'.repeat(maxCapturedBytes / 2 - 1)}`)
      expect(result.responseTruncated).toBe(true)
    })

    it('is whole at exactly the cap', async () => {
      const result = await executed(ok('x'.repeat(maxCapturedBytes)))
      expect(result).toMatchObject({ response: 'x'.repeat(maxCapturedBytes), responseTruncated: false })
    })

    it('shows control characters instead of holding them', async () => {
      const result = await executed(ok(Buffer.from('a\u0000\u001b[1m\u007f\tb\r\n')))
      expect(result.response).toBe('a\u2400\u241b[1m\u2421\tb\r\n')
    })

    it('replaces bytes that are not UTF-8', async () => {
      expect((await executed(ok(Buffer.from('fffe00c328', 'hex')))).response).toBe(
        '\ufffd\ufffd\u2400\ufffd(',
      )
    })

    it('stays within the cap when pictures are longer than what they show', async () => {
      const result = await executed(ok(Buffer.alloc(maxCapturedBytes)))
      expect(Buffer.byteLength(result.response ?? '')).toBeLessThanOrEqual(maxCapturedBytes)
      expect(result.responseTruncated).toBe(true)
    })

    it('is never inflated', async () => {
      const result = await executed(gzipBomb())
      expect(result).toMatchObject({ outcome: 'succeeded', responseTruncated: true })
      expect(result.response).toMatch(
        /^\[48\d{3} bytes of Content-Encoding gzip, left as they came, in base64\]\nH4sI/,
      )
      expect(Buffer.byteLength(result.response ?? '')).toBeLessThanOrEqual(maxCapturedBytes)
    })
  })

  describe('hostile targets', () => {
    it.each<[string, Behaviour, string, boolean]>([
      ['a reset', reset, 'connection_reset', true],
      ['a body that ends early', cutBody, 'connection_reset', true],
      ['silence, then the end', raw(''), 'connection_reset', true],
      ['no HTTP', raw('220 smtp ready\r\n'), 'invalid_response', true],
      [
        'an upgrade nobody asked for',
        raw('HTTP/1.1 101 X\r\nupgrade: h2c\r\nconnection: upgrade\r\n\r\n'),
        'invalid_response',
        true,
      ],
      ['headers without end', endlessHeaders, 'headers_too_large', false],
      ['a body without end', endlessBody, 'response_too_large', false],
    ])('%s', async (_name, behaviour, code, retryable) => {
      expect(await executed(behaviour)).toMatchObject({ outcome: 'failed', retryable, error: { code } })
      await rig.target.drained()
    })

    it('a body that drips for ever ends at the timeout of the attempt', async () => {
      rig.target.program('/', slowDrip(10))
      const startedMs = performance.now()
      const result = await rig.handler.execute(rig.request({}, { timeoutMs: 300 }))
      expect(performance.now() - startedMs).toBeLessThan(2_000)
      expect(result).toMatchObject({ outcome: 'failed', error: { code: 'timed_out' }, httpStatus: 200 })
      expect(result.response).toMatch(/^\.+$/)
      await rig.target.drained()
    })

    it('a body that breaks off still shows what had come', async () => {
      expect(await executed(cutBody)).toMatchObject({ httpStatus: 200, response: 'only this' })
    })

    it('the signal of the worker decides the code', async () => {
      rig.target.program('/', hang)
      for (const [reason, code] of [
        ['cancel', 'aborted'],
        ['timeout', 'timed_out'],
      ] as const) {
        const controller = new AbortController()
        const running = rig.handler.execute(rig.request({}, { signal: controller.signal }))
        await rig.target.called(code === 'aborted' ? 1 : 2)
        controller.abort(reason)
        expect(await running).toMatchObject({ error: { code } })
      }
    })

    it('no secret of a header or a query appears in any error', async () => {
      const secret = 'hunter2hunter2'
      const behaviours = [
        reset,
        cutBody,
        raw('nonsense'),
        endlessHeaders,
        endlessBody,
        answer(500),
        redirect(302, '/x'),
      ]
      rig.target.program('/', ...behaviours)
      for (let count = 0; count < behaviours.length; count += 1) {
        const headers = { Authorization: `Bearer ${secret}` }
        const result = await rig.handler.execute(
          rig.request({ url: rig.target.url(`/?key=${secret}`), headers }),
        )
        expect(JSON.stringify(result)).not.toContain(secret)
      }
    })
  })

  describe('connections', () => {
    it('are used again, and closed soon after', async () => {
      for (let count = 0; count < 5; count += 1) await rig.handler.execute(rig.request())
      // A call may begin before the client has marked the connection of the one before as free.
      expect(rig.target.connections).toBeLessThanOrEqual(2)
      // Sooner than Node's server closes them by itself, which is after 5 s.
      await rig.target.drained(4_000)
    })

    it('go to a name by the system resolver, to whichever of its addresses answers', async () => {
      const named = await createHttpHandlerRig({ allowCidrs: ['127.0.0.0/8', '::1'] })
      try {
        const request = named.request({ url: `http://localhost:${named.target.port}/` })
        expect(await named.handler.execute(request)).toMatchObject({ outcome: 'succeeded' })
        expect(named.target.ledger[0]?.headers['host']).toBe(`localhost:${named.target.port}`)
      } finally {
        await named.dispose()
      }
    })

    it('a port where nobody listens', async () => {
      const server = createServer().listen(0, '127.0.0.1')
      await once(server, 'listening')
      const { port } = server.address() as AddressInfo
      server.close()
      await once(server, 'close')
      const result = await rig.handler.execute(rig.request({ url: `http://127.0.0.1:${port}/` }))
      expect(result).toMatchObject({ outcome: 'failed', retryable: true, error: { code: 'connect_refused' } })
    })

    it('are bounded: what finds no free one waits', async () => {
      const narrow = await createHttpHandlerRig({ connectionsPerOrigin: 3 })
      try {
        const results = await Promise.all(
          Array.from({ length: 12 }, () => narrow.handler.execute(narrow.request())),
        )
        expect(results.every(({ outcome }) => outcome === 'succeeded')).toBe(true)
        expect(narrow.target.connections).toBeLessThanOrEqual(3)
      } finally {
        await narrow.dispose()
      }
    })
  })
})

describe('HTTP handler over TLS', () => {
  const tls = { key: targetKey, cert: targetCertificate }
  const resolver = () => Promise.resolve([{ address: '127.0.0.1', family: 4 }])

  it.each([
    [
      'a trusted certificate for this name',
      { extraAuthorities: [targetCertificate], resolver },
      'target.test',
      undefined,
    ],
    [
      'a trusted certificate for this address',
      { extraAuthorities: [targetCertificate] },
      '127.0.0.1',
      undefined,
    ],
    [
      'a trusted certificate for another name',
      { extraAuthorities: [targetCertificate], resolver },
      'other.test',
      'tls_failed',
    ],
    ['a certificate that nobody vouches for', { resolver }, 'target.test', 'tls_failed'],
  ])('%s', async (_name, options, host, code) => {
    const rig = await createHttpHandlerRig(options, { tls })
    try {
      const url = `https://${host}:${rig.target.port}/`
      const result = await rig.handler.execute(rig.request({ url }))
      expect(result.outcome === 'failed' ? result.error.code : undefined).toBe(code)
      expect(rig.target.ledger).toHaveLength(code === undefined ? 1 : 0)
    } finally {
      await rig.dispose()
    }
  })

  it('a target that does not speak TLS', async () => {
    const rig = await createHttpHandlerRig()
    try {
      const result = await rig.handler.execute(rig.request({ url: `https://127.0.0.1:${rig.target.port}/` }))
      expect(result).toMatchObject({ outcome: 'failed', retryable: true, error: { code: 'tls_failed' } })
    } finally {
      await rig.dispose()
    }
  })
})

// What an HTTP job may say beyond URL, headers and body, each against a real target: placeholders,
// signatures (signature.retry_same_id, signature.id_no_dot), client certificates, what counts as success,
// what is kept.
import { verifySignature } from '@belfry/contract/signature'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import type { HandlerResult } from '../../packages/server/src/ports/handler.ts'
import { clientCertificate, clientKey } from '../support/client-certificate.ts'
import {
  createHttpHandlerRig,
  type HttpDefinition,
  type HttpHandlerRig,
} from '../support/http-handler-rig.ts'
import { targetCertificate, targetKey } from '../support/target-certificate.ts'
import { answer, type Behaviour, ok } from '../support/target-behaviours.ts'

const json = (value: unknown) => ok(JSON.stringify(value), { 'content-type': 'application/json' })

let rig: HttpHandlerRig
beforeAll(async () => {
  rig = await createHttpHandlerRig()
})
afterAll(() => rig.dispose())
afterEach(() => rig.secrets.clear())

/** Code and words of a failure; the outcome of anything else. */
const endOf = (result: HandlerResult): string =>
  result.outcome === 'failed' ? `${result.error.code}: ${result.error.message}` : result.outcome

const lastCall = () => rig.target.ledger.at(-1)

/** Calls `/` of the target, which does as it is told. */
async function executed(
  definition: Partial<HttpDefinition>,
  behaviour = ok(),
  changes: Parameters<HttpHandlerRig['request']>[1] = {},
) {
  rig.target.program('/', behaviour)
  return await rig.handler.execute(rig.request(definition, changes))
}

describe('placeholders in headers', () => {
  it('are filled with secrets and with what the run is', async () => {
    rig.secrets.set('billing', 'tok-123456').set('user', 'ünder')
    const headers = {
      Authorization: 'Bearer {{secrets.billing}}',
      'X-Both': '{{secrets.user}}:{{secrets.billing}}',
      'X-Run': '{{run.id}}/{{run.attempt}}/{{run.idempotencyKey}}/{{run.scheduledFor}}',
    }
    const scheduledForMs = Date.UTC(2026, 10, 30, 2)
    const changes = { attempt: 2, scheduledForMs, idempotencyKey: 'key-1' }
    expect(await executed({ headers }, ok(), changes)).toMatchObject({ outcome: 'succeeded' })
    expect(lastCall()?.headers).toMatchObject({
      authorization: 'Bearer tok-123456',
      'x-both': 'ünder:tok-123456',
      'x-run': '019ad0c1-7f3e-7c63-9a52-6e4d8c1b2a3f/2/key-1/2026-11-30T02:00:00.000Z',
    })
  })

  it('are filled once: what a secret holds is not read again', async () => {
    rig.secrets.set('billing', '{{secrets.other}} {{run.id}}').set('other', 'tok-123456')
    await executed({ headers: { 'x-a': '{{secrets.billing}}' } })
    expect(lastCall()?.headers['x-a']).toBe('{{secrets.other}} {{run.id}}')
  })

  it('stand for nothing in body, input and URL', async () => {
    rig.secrets.set('billing', 'tok-123456')
    await executed({ headers: { 'x-a': '{{secrets.billing}}' }, body: '{{secrets.billing}}' })
    expect(lastCall()?.body).toBe('{{secrets.billing}}')
    await executed({ headers: { 'x-a': '{{secrets.billing}}' } }, ok(), { input: '{{run.id}}' })
    expect(lastCall()?.body).toBe('"{{run.id}}"')
  })

  it('of a secret without a value end the attempt before the call', async () => {
    const before = rig.target.ledger.length
    expect(await executed({ headers: { 'x-a': '{{secrets.missing}}' } })).toMatchObject({
      outcome: 'failed',
      retryable: false,
      error: { code: 'secret_missing', message: expect.stringContaining('"missing"') as string },
    })
    expect(rig.target.ledger).toHaveLength(before)
  })

  it.each(['one\r\nX-Injected: 1', 'a\u0000b', 'snow ☃', 'a\u001b[2J'])(
    'filled with %j end the attempt before the call',
    async (value) => {
      const before = rig.target.ledger.length
      rig.secrets.set('odd', value)
      const result = await executed({ headers: { 'x-a': 'v {{secrets.odd}} v' } })
      expect(result).toMatchObject({
        outcome: 'failed',
        retryable: false,
        error: { code: 'invalid_request' },
      })
      expect(JSON.stringify(result)).toContain('check odd')
      expect(JSON.stringify(result)).not.toContain('Injected')
      expect(rig.target.ledger).toHaveLength(before)
    },
  )

  it('lose the line break with which files end', async () => {
    rig.secrets.set('file', 'tok-123456\n')
    await executed({ headers: { Authorization: 'Bearer {{secrets.file}}' } })
    expect(lastCall()?.headers['authorization']).toBe('Bearer tok-123456')
  })

  it('are masked in whatever the target says, in every form', async () => {
    const secret = 'correct horse/battery+staple'
    rig.secrets.set('phrase', secret)
    const base64 = Buffer.from(`user:${secret}`).toString('base64')
    const body = [secret, encodeURIComponent(secret), JSON.stringify(secret), base64].join('\n')
    const told = answer(400, body, { 'x-echo': secret })
    const definition = { headers: { 'X-Plain': '{{secrets.phrase}}' }, capture: { headers: ['x-echo'] } }
    const result = await executed(definition, told)
    for (const form of [secret, encodeURIComponent(secret), base64.slice(8, -4)])
      expect(JSON.stringify(result)).not.toContain(form)
    expect(result).toMatchObject({ responseHeaders: { 'x-echo': '***' } })
  })
})

describe('signatures', () => {
  const hmac = `whsec_${Buffer.alloc(32, 1).toString('base64')}`
  const next = `whsec_${Buffer.alloc(32, 2).toString('base64')}`
  const signing = { keys: [{ secret: 'first' }, { secret: 'second' }] }

  it('cover the body as it is sent, with the id of the run and the time of the attempt', async () => {
    rig.secrets.set('first', hmac).set('second', next)
    for (const [definition, input] of [
      [{ signing }, { a: 'ü' }],
      [{ signing, body: ' {"x": 1}\n' }, null],
      [{ signing, method: 'GET' as const }, null],
    ] as const) {
      await executed(definition, ok(), { input })
      const call = lastCall()
      for (const key of [hmac, next]) {
        const verdict = verifySignature({ headers: call?.headers ?? {}, body: call?.body ?? '', keys: [key] })
        expect(verdict).toEqual({ ok: true, id: '019ad0c1-7f3e-7c63-9a52-6e4d8c1b2a3f' })
      }
    }
  })

  it('have the same id on every attempt', async () => {
    rig.secrets.set('first', hmac).set('second', next)
    const ids = []
    for (const attempt of [1, 2, 3]) {
      await executed({ signing }, answer(503), { attempt })
      ids.push(lastCall()?.headers['webhook-id'])
    }
    expect(new Set(ids).size).toBe(1)
    expect(ids[0]).not.toContain('.')
  })

  it('by what is not a key are not made, and the key is not shown', async () => {
    rig.secrets.set('first', 'whsec_dG9vIHNob3J0').set('second', next)
    const before = rig.target.ledger.length
    const result = await executed({ signing })
    expect(result).toMatchObject({
      outcome: 'failed',
      retryable: false,
      error: { code: 'signing_key_invalid' },
    })
    expect(JSON.stringify(result)).toContain('\\"first\\"')
    expect(JSON.stringify(result)).not.toContain('dG9v')
    expect(rig.target.ledger).toHaveLength(before)
  })
})

describe('client certificates', () => {
  const tls = { key: targetKey, cert: targetCertificate, clientAuthority: clientCertificate }
  const shown = {
    certificate: clientCertificate,
    privateKey: { secret: 'key' },
    authority: targetCertificate,
  }

  async function withTarget<T>(act: (own: HttpHandlerRig) => Promise<T>): Promise<T> {
    const own = await createHttpHandlerRig({}, { tls })
    try {
      return await act(own)
    } finally {
      await own.dispose()
    }
  }

  it('open a target that asks for one, judged by the authority of the job', () =>
    withTarget(async (own) => {
      own.secrets.set('key', clientKey)
      const result = await own.handler.execute(own.request({ tls: shown }))
      expect(result).toMatchObject({ outcome: 'succeeded' })
      expect(own.target.ledger).toHaveLength(1)
    }))

  it('are not lent to a job without one by a connection that is open', () =>
    withTarget(async (own) => {
      own.secrets.set('key', clientKey)
      await own.handler.execute(own.request({ tls: shown }))
      const without = await own.handler.execute(own.request({ tls: { authority: targetCertificate } }))
      expect(without).toMatchObject({
        outcome: 'failed',
        retryable: true,
        error: {
          code: 'connection_reset',
          message: expect.stringContaining('client certificates') as string,
        },
      })
      expect(own.target.ledger).toHaveLength(1)
    }))

  it('that the target does not know, and a target that the authority does not know', () =>
    withTarget(async (own) => {
      own.secrets.set('key', targetKey)
      const wrong = { certificate: targetCertificate, privateKey: { secret: 'key' } }
      for (const [definition, code] of [
        [{ ...wrong, authority: targetCertificate }, 'connection_reset'],
        [{ ...wrong, authority: clientCertificate }, 'tls_failed'],
        [wrong, 'tls_failed'],
      ] as const) {
        const result = await own.handler.execute(own.request({ tls: definition }))
        expect(result).toMatchObject({ outcome: 'failed', error: { code } })
      }
      expect(own.target.ledger).toEqual([])
    }))

  it(
    'of ever new jobs do not pile up, and calls under way are not cut off',
    () =>
      withTarget(async (own) => {
        own.secrets.set('key', clientKey)
        const answered = Promise.withResolvers<void>()
        const late: Behaviour = (response) => void answered.promise.then(() => response.end('late'))
        own.target.program('/', late, ok())
        const slow = own.handler.execute(own.request({ tls: shown }))
        await own.target.called(1)
        for (let blanks = 1; blanks <= 300; blanks += 1) {
          const authority = targetCertificate + '\n'.repeat(blanks)
          const result = await own.handler.execute(own.request({ tls: { ...shown, authority } }))
          expect(result).toMatchObject({ outcome: 'succeeded' })
        }
        answered.resolve()
        expect(await slow).toMatchObject({ outcome: 'succeeded', response: 'late' })
      }),
    30_000,
  )

  it.each([
    ['another key', targetKey],
    ['no key', 'hunter2-hunter2'],
    ['half a key', clientKey.slice(0, 120)],
  ])('with %s end the attempt before the call, without a word of it', (_name, key) =>
    withTarget(async (own) => {
      own.secrets.set('key', key)
      const result = await own.handler.execute(own.request({ tls: shown }))
      expect(result).toMatchObject({
        outcome: 'failed',
        retryable: false,
        error: { code: 'client_certificate_invalid' },
      })
      expect(JSON.stringify(result)).not.toContain(key.trim().slice(30, 60) || key)
      expect(own.target.connections).toBe(0)
    }),
  )
})

describe('success', () => {
  it.each([
    [[200, 404], 404, 'succeeded'],
    [['2xx'], 299, 'succeeded'],
    [['200-204', '3xx'], 204, 'succeeded'],
    [['200-204', '3xx'], 304, 'succeeded'],
    [['200-204'], 205, 'http_status'],
    [[201], 200, 'http_status'],
    [[404], 302, 'http_redirect'],
    [[200], 503, 'http_status'],
  ])('by the statuses %j: %i %s', async (statuses, status, expected) => {
    const result = await executed({ success: { statuses } }, answer(status, '', { location: '/x' }))
    const words = `http_status: the target answered ${status} instead of ${statuses.join(', ')}`
    expect(endOf(result)).toMatch(expected === 'http_status' ? words : expected)
  })

  it.each([
    ['/status', { equals: 'ok' }, { status: 'ok' }, 'succeeded'],
    ['/status', { in: ['ok', 'done'] }, { status: 'done' }, 'succeeded'],
    ['/a/1/b~1c~0d', { equals: 7 }, { a: [0, { 'b/c~d': 7 }] }, 'succeeded'],
    ['', { equals: true }, true, 'succeeded'],
    ['/error', { equals: null }, { error: null }, 'succeeded'],
    ['/status', { equals: 'ok' }, { status: 'failed' }, '"failed" instead of "ok"'],
    ['/status', { equals: 1 }, { status: '1' }, '"1" instead of 1'],
    ['/error', { equals: null }, {}, 'missing instead of null'],
    ['/__proto__', { equals: null }, {}, 'missing'],
    ['/constructor/name', { equals: 'Object' }, {}, 'missing'],
    ['/0', { equals: 'a' }, 'abc', 'missing'],
    ['/length', { equals: 1 }, ['a'], 'missing'],
    ['/01', { equals: 'b' }, ['a', 'b'], 'missing'],
  ])('by the field %j %j of %j: %s', async (pointer, wanted, value, expected) => {
    const result = await executed({ success: { json: { pointer, ...wanted } } }, json(value))
    const missed = { outcome: 'failed', retryable: true, error: { code: 'response_mismatch' } }
    expect(result).toMatchObject(expected === 'succeeded' ? { outcome: 'succeeded' } : missed)
    expect(endOf(result)).toContain(expected)
  })

  it.each([
    ['is no JSON', ok('<html>'), 'not JSON'],
    ['is no UTF-8', ok(Buffer.from('22ff22', 'hex')), 'not JSON'],
    ['is compressed', ok('x', { 'content-encoding': 'gzip' }), 'compressed'],
    ['is longer than is read', ok(`"${'x'.repeat(1024 * 1024)}"`), 'more than 1048576 bytes'],
    ['is empty', answer(204), 'not JSON'],
  ])('cannot be told where the body %s', async (_name, behaviour, words) => {
    const result = await executed({ success: { json: { pointer: '', equals: 1 } } }, behaviour)
    expect(result).toMatchObject({ outcome: 'failed', error: { code: 'response_mismatch' } })
    expect(endOf(result)).toContain(words)
  })

  it('is told by a field far behind what is kept', async () => {
    const value = { filler: 'x'.repeat(100_000), status: 'ok' }
    const definition = { success: { json: { pointer: '/status', equals: 'ok' } } }
    const result = await executed(definition, json(value))
    expect(result).toMatchObject({ outcome: 'succeeded', responseTruncated: true })
    expect(Buffer.byteLength(result.response ?? '')).toBeLessThanOrEqual(16 * 1024)
  })

  it('shows no secret of the field, wherever it would be cut', async () => {
    rig.secrets.set('phrase', 'correct-horse-battery')
    const value = { status: `${'x'.repeat(115)}correct-horse-battery` }
    const headers = { 'x-a': '{{secrets.phrase}}' }
    const success = { json: { pointer: '/status', equals: 'ok' } }
    const result = await executed({ headers, success, capture: { bodyBytes: 128 } }, json(value))
    expect(endOf(result)).toContain('xxx')
    expect(JSON.stringify(result)).not.toContain('correct')
  })

  it.each([
    [0, 'is another value instead of "ok"'],
    [5, 'is "priv instead of "ok"'],
  ])('quotes no more of the field than may be kept of the body: %i bytes', async (bodyBytes, words) => {
    const success = { json: { pointer: '/status', equals: 'ok' } }
    const result = await executed({ success, capture: { bodyBytes } }, json({ status: 'private' }))
    expect(endOf(result)).toContain(words)
    expect(JSON.stringify(result)).not.toContain('private')
  })
})

describe('capture', () => {
  it('keeps as much of the body as the job says', async () => {
    expect(await executed({ capture: { bodyBytes: 5 } }, ok('0123456789'))).toMatchObject({
      response: '01234',
      responseTruncated: true,
    })
    expect(await executed({ capture: { bodyBytes: 10 } }, ok('0123456789'))).toMatchObject({
      response: '0123456789',
      responseTruncated: false,
    })
  })

  it('keeps nothing of it', async () => {
    const result = await executed({ capture: { bodyBytes: 0 } }, answer(500, 'private'))
    expect(result).toMatchObject({ outcome: 'failed', httpStatus: 500 })
    expect(result).not.toHaveProperty('response')
  })

  it('keeps headers that are named, printable and short', async () => {
    const headers = { 'X-Request-Id': 'r-1', 'x-long': 'y'.repeat(3_000), 'x-other': 'no' }
    const result = await executed(
      { capture: { headers: ['x-request-id', 'X-Long', 'x-none'] } },
      ok('', headers),
    )
    expect(result.responseHeaders).toEqual({ 'x-request-id': 'r-1', 'x-long': 'y'.repeat(1_024) })
  })
})

// The egress module against the hostile inputs of test/cases/security.json. Nothing is sent to any address
// there: names are resolved by a stub, and sockets are opened by a stub that counts them or leads to a target
// on loopback.
import { connect, Socket } from 'node:net'
import { BelfryError, httpHandlerSchema, targetUrlSchema } from '@belfry/contract'
import { afterEach, describe, expect, it } from 'vitest'
import type { EgressAgent } from '../../packages/server/src/ports/egress.ts'
import type { DialTarget, ResolvedAddress } from '../../packages/server/src/security/egress/dial.ts'
import { createEgress, type EgressOptions } from '../../packages/server/src/security/egress/egress.ts'
import cases from '../cases/security.json' with { type: 'json' }
import { createHttpHandlerRig } from '../support/http-handler-rig.ts'
import { realClock } from '../support/real-clock.ts'
import { answer, type Behaviour, gzipBomb, ok, raw, slowDrip } from '../support/target-behaviours.ts'
import { createTargetServer } from '../support/target-server.ts'

interface Case {
  readonly id: string
  readonly area: string
  readonly expect: string
  readonly input: Readonly<Record<string, unknown>>
}

const casesOf = (area: string): Case[] =>
  (cases.cases as readonly Case[]).filter((item) => item.area === area)

const text = (value: unknown): string => (typeof value === 'string' ? value : '')

interface Probe {
  readonly egress: EgressAgent
  /** Every socket that was asked for. */
  readonly dialed: DialTarget[]
  readonly resolved: string[]
}

const open = new Set<EgressAgent>()
afterEach(async () => {
  await Promise.all([...open].map((egress) => egress.close()))
  open.clear()
})

/** An agent that reaches nothing, or, with a port, a listener on loopback in place of every address. */
function probe(
  options: Partial<EgressOptions> & { readonly port?: number; readonly answers?: string[][] } = {},
): Probe {
  const dialed: DialTarget[] = []
  const resolved: string[] = []
  const answers = [...(options.answers ?? [['93.184.216.34']])]
  const egress = createEgress({
    allowCidrs: [],
    clock: realClock,
    resolver: (host) => {
      resolved.push(host)
      const next = (answers.length > 1 ? answers.shift() : answers[0]) ?? []
      return Promise.resolve(
        next.map((address): ResolvedAddress => ({ address, family: address.includes(':') ? 6 : 4 })),
      )
    },
    dial: (target, done) => {
      dialed.push(target)
      if (options.port === undefined) {
        queueMicrotask(() => done(new Error('stub: nothing is reached'), null))
        return new Socket()
      }
      const socket = connect(options.port, '127.0.0.1')
      socket.once('connect', () => done(null, socket)).once('error', (error) => done(error, null))
      return socket
    },
    ...options,
  })
  open.add(egress)
  return { egress, dialed, resolved }
}

const get = (egress: EgressAgent, url: string) =>
  egress.request({ method: 'GET', url, headers: {}, signal: new AbortController().signal, keepBytes: 1000 })

/** What the API does with a target when it is stored. */
const refusedWhenStored = (egress: EgressAgent, url: string): boolean =>
  !targetUrlSchema.safeParse(url).success || egress.checkTargetUrl(url) !== undefined

describe('ssrf cases', () => {
  const rows = (expected: string) =>
    casesOf('ssrf').flatMap((item): [string, string][] =>
      item.expect === expected ? [[item.id, text(item.input['url'])]] : [],
    )

  it.each(rows('allow'))('%s %j: allow', async (_id, url) => {
    const { egress, dialed } = probe()
    expect(refusedWhenStored(egress, url)).toBe(false)
    await get(egress, url)
    expect(dialed).toHaveLength(1)
  })

  it.each(rows('refuse_url'))('%s %j: refuse_url', async (_id, url) => {
    const { egress, dialed } = probe()
    expect(refusedWhenStored(egress, url)).toBe(true)
    const outcome = await get(egress, url)
    expect(outcome).toMatchObject({ ok: false, error: { code: 'target_denied', retryable: false } })
    expect(dialed).toEqual([])
  })

  it('have no other outcome', () => {
    expect(rows('allow').length + rows('refuse_url').length).toBe(casesOf('ssrf').length)
  })
})

describe('header cases', () => {
  function refused(input: Case['input']): boolean {
    const tooMany = Object.fromEntries(Array.from({ length: 200 }, (_, index) => [`x-${index}`, '1']))
    const named = input['name'] === undefined ? {} : { [text(input['name'])]: text(input['value']) }
    const headers = input['name'] === '(200 headers)' ? tooMany : named
    const method = input['method'] ?? 'POST'
    const parsed = httpHandlerSchema.safeParse({ kind: 'http', url: 'https://example.com/', method, headers })
    return !parsed.success || probe().egress.checkTargetHeaders(parsed.data.headers).length > 0
  }

  it.each(casesOf('header').map((item) => [item.id, item.expect, item.input] as const))(
    '%s: %s',
    (_id, expected, input) => {
      expect(['allow', 'refuse_400']).toContain(expected)
      expect(refused(input)).toBe(expected === 'refuse_400')
    },
  )
})

describe('dns cases', () => {
  const withAnswers = casesOf('dns').filter((item) => Array.isArray(item.input['answers']))
  const refusedAtOnce = withAnswers.filter((item) => (item.input['answers'] as string[][]).length === 1)

  it.each(refusedAtOnce.map((item) => [item.id, item.input['answers'] as string[][], item.expect] as const))(
    '%s %j: %s',
    async (_id, answers, expected) => {
      expect(expected).toBe('refuse_connect')
      const { egress, dialed } = probe({ answers })
      expect(await get(egress, 'https://a.test/')).toMatchObject({
        ok: false,
        error: { code: 'target_denied', retryable: false },
      })
      expect(dialed).toEqual([])
    },
  )

  it('dns.rebind: the address that was checked is the one that is connected to', async () => {
    const { egress, dialed, resolved } = probe({ answers: [['93.184.216.34'], ['127.0.0.1']] })
    await get(egress, 'https://a.test/')
    expect(resolved).toEqual(['a.test'])
    expect(dialed.map(({ addresses }) => addresses.map(({ address }) => address))).toEqual([
      ['93.184.216.34'],
    ])
  })

  it('dns.rebind_on_retry: every connection is checked afresh', async () => {
    const { egress, dialed } = probe({ answers: [['93.184.216.34'], ['169.254.169.254']] })
    await get(egress, 'https://a.test/')
    expect(await get(egress, 'https://a.test/')).toMatchObject({
      ok: false,
      error: { code: 'target_denied' },
    })
    expect(dialed).toHaveLength(1)
  })

  it('dns.literal_skips_lookup: a literal is checked without any lookup', async () => {
    const { egress, dialed, resolved } = probe()
    expect(await get(egress, 'http://127.0.0.1:1/')).toMatchObject({
      ok: false,
      error: { code: 'target_denied' },
    })
    expect([dialed, resolved]).toEqual([[], []])
  })

  it('dns.proxy_env: proxies of the environment are not used', async () => {
    const [target, proxy] = [await createTargetServer(), await createTargetServer()]
    const names = ['HTTP_PROXY', 'http_proxy', 'ALL_PROXY'] as const
    const before = names.map((name) => process.env[name])
    for (const name of names) process.env[name] = proxy.url()
    try {
      const { egress } = probe({ port: target.port })
      expect(await get(egress, 'http://a.test/')).toMatchObject({ ok: true })
      expect([target.ledger.length, proxy.connections]).toEqual([1, 0])
      await egress.close()
    } finally {
      for (const [index, name] of names.entries()) {
        if (before[index] === undefined) delete process.env[name]
        else process.env[name] = before[index]
      }
      await Promise.all([target.close(), proxy.close()])
    }
  })

  it('a name that does not resolve, or to nothing', async () => {
    const failing = () => Promise.reject(Object.assign(new Error('no'), { code: 'ENOTFOUND' }))
    for (const options of [{ resolver: failing }, { answers: [[]] }]) {
      const outcome = await get(probe(options).egress, 'https://a.test/')
      expect(outcome).toMatchObject({ ok: false, error: { code: 'dns_failed', retryable: true } })
    }
  })

  it('each case of the file has a test here', () => {
    const own = ['dns.rebind', 'dns.rebind_on_retry', 'dns.literal_skips_lookup', 'dns.proxy_env']
    const tested = [...refusedAtOnce.map(({ id }) => id), ...own]
    expect(tested.sort()).toEqual(
      casesOf('dns')
        .map(({ id }) => id)
        .sort(),
    )
  })
})

describe('the time to connect', () => {
  it.each([
    ['a resolver that never answers', { resolver: () => new Promise<never>(() => undefined) }],
    ['a socket that never opens', { dial: () => new Socket() }],
  ])('is bounded: %s', async (_name, options) => {
    const { egress } = probe({ connectTimeoutMs: 100, ...options })
    const outcome = await get(egress, 'https://a.test/')
    expect(outcome).toMatchObject({ ok: false, error: { code: 'connect_timeout', retryable: true } })
  })

  it('ends when the agent is closed, and when the caller gives up', async () => {
    const never = { resolver: () => new Promise<never>(() => undefined) }
    const closing = probe(never).egress
    const first = get(closing, 'https://a.test/')
    await closing.close()
    expect(await first).toMatchObject({ ok: false, error: { code: 'aborted' } })
    expect(await get(closing, 'https://a.test/')).toMatchObject({ ok: false, error: { code: 'aborted' } })
    const request = { method: 'GET', url: 'https://a.test/', headers: {}, keepBytes: 0 } as const
    const controller = new AbortController()
    const second = probe(never).egress.request({ ...request, signal: controller.signal })
    controller.abort('cancel')
    expect(await second).toMatchObject({ ok: false, error: { code: 'aborted' } })
  })
})

describe('response cases', () => {
  function behaviourOf(item: Case): Behaviour {
    if (item.id === 'response.gzip_bomb') return gzipBomb()
    if (item.id === 'response.slow_drip') return slowDrip(20)
    // As raw bytes, because Node's own server refuses to send this value.
    if (item.id === 'response.retry_after_garbage') {
      return raw('HTTP/1.1 503 X\r\nretry-after: -1\u0000x\r\ncontent-length: 0\r\n\r\n')
    }
    const hex = item.input['body_hex']
    const body = typeof hex === 'string' ? Buffer.from(hex, 'hex') : text(item.input['body'])
    const status = Number(item.input['status'] ?? 200)
    if (status === 101) return raw('HTTP/1.1 101 X\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n')
    return answer(status, body, (item.input['headers'] ?? {}) as Record<string, string>)
  }

  const expectations: Readonly<Record<string, object>> = {
    attempt_failed: { outcome: 'failed', error: { code: 'invalid_response' } },
    attempt_failed_not_followed: { outcome: 'failed', error: { code: 'http_redirect' }, retryable: false },
    body_cap_applies_to_wire_and_to_decoded_bytes: { outcome: 'succeeded', responseTruncated: true },
    disable_target_or_stop_retrying: { outcome: 'failed', retryable: false },
    body_shown_only_to_the_owner_and_capped: { outcome: 'failed', response: 'internal page text' },
    ignored: { outcome: 'failed', retryable: true },
    stop_at_total_deadline: { outcome: 'failed', error: { code: 'timed_out' } },
    stored_escaped_no_500: { outcome: 'succeeded', response: 'a\u2400b' },
    stored_lossless_or_replaced_no_500: { outcome: 'succeeded', response: '\ufffd\ufffd\u2400\ufffd(' },
  }

  it.each(casesOf('response').map((item) => [item.id, item.expect, item] as const))(
    '%s: %s',
    async (_id, expected, item) => {
      const rig = await createHttpHandlerRig()
      try {
        rig.target.program('/', behaviourOf(item), ok())
        const result = await rig.handler.execute(
          rig.request({}, { timeoutMs: item.id === 'response.slow_drip' ? 500 : 20_000 }),
        )
        expect(expectations).toHaveProperty([expected])
        expect(result).toMatchObject(expectations[expected] ?? {})
        expect(result).not.toHaveProperty('retryAfterMs')
        expect(rig.target.ledger).toHaveLength(1)
      } finally {
        await rig.dispose()
      }
    },
  )
})

describe('settings', () => {
  it('that cannot be read are refused by name', () => {
    const make = () => createEgress({ allowCidrs: ['10.0.0.1/8'], clock: realClock })
    expect(make).toThrow(BelfryError)
    expect(make).toThrow(/beyond its prefix/)
  })
})

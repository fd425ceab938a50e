// Signatures by Standard Webhooks: the cases of test/cases/security.json, the reference library as an oracle
// in both directions, and Ed25519 against Node's own verification.
import { createPublicKey, generateKeyPairSync, verify } from 'node:crypto'
import {
  publicKeyText,
  readSigningKey,
  signatureHeaders,
  type SigningKey,
  verifySignature,
} from '@belfry/contract/signature'
import fc from 'fast-check'
import { Webhook } from 'standardwebhooks'
import { describe, expect, it } from 'vitest'
import cases from '../../cases/security.json' with { type: 'json' }

interface Signed {
  readonly secret: string
  readonly id: string
  readonly timestamp: number
  readonly body: string
  readonly signature: string
  readonly receiver_clock: number
}

const rows = cases.cases.flatMap(({ id, area, expect: expected, input }): [string, string, Signed][] =>
  area === 'signature' && 'signature' in input ? [[id, expected, input as unknown as Signed]] : [],
)

const vector = {
  secret: 'whsec_BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcH',
  message: { id: 'msg_1', timestamp: 1_700_000_000, body: '{"a":1}' },
  signature: 'v1,GnWfOMPpcrOIuA+hTPKUlJoozIUx5fe5vMJRq4kNJyc=',
}

function keyOf(text: string): SigningKey {
  const key = readSigningKey(text)
  if (key === undefined) throw new Error('not a key')
  return key
}

function newEd25519(): { readonly text: string; readonly whole: string } {
  const { privateKey, publicKey } = generateKeyPairSync('ed25519')
  const seed = privateKey.export({ type: 'pkcs8', format: 'der' }).subarray(-32)
  const open = publicKey.export({ type: 'spki', format: 'der' }).subarray(-32)
  return {
    text: `whsk_${seed.toString('base64')}`,
    whole: `whsk_${Buffer.concat([seed, open]).toString('base64')}`,
  }
}

describe('cases', () => {
  it.each(rows)(
    '%s: %s',
    (_id, expected, { secret, id, timestamp, body, signature, receiver_clock: clock }) => {
      const headers = {
        'webhook-id': id,
        'webhook-timestamp': String(timestamp),
        'webhook-signature': signature,
      }
      const verdict = verifySignature({ headers, body, keys: [secret], nowMs: clock * 1_000 })
      expect(verdict.ok).toBe(expected === 'accept')
    },
  )

  it('are there', () => expect(rows.length).toBeGreaterThan(4))
})

describe('signing', () => {
  it('gives the known signature of the known message', () => {
    expect(signatureHeaders(vector.message, [keyOf(vector.secret)])).toEqual({
      'webhook-id': 'msg_1',
      'webhook-timestamp': '1700000000',
      'webhook-signature': vector.signature,
    })
  })

  it('agrees with the reference library, in both directions', () => {
    const secret = fc.uint8Array({ minLength: 24, maxLength: 64 })
    const body = fc.string({ unit: 'binary' }).filter((text) => text.isWellFormed())
    fc.assert(
      fc.property(secret, body, (bytes, text) => {
        const key = `whsec_${Buffer.from(bytes).toString('base64')}`
        const nowMs = Date.now()
        const timestamp = Math.floor(nowMs / 1_000)
        const theirs = new Webhook(key)
        const headers = signatureHeaders({ id: 'run-1', timestamp, body: text }, [keyOf(key)])
        theirs.verify(text, headers, { jsonParse: false })
        const signed = theirs.sign('run-1', new Date(timestamp * 1_000), text)
        expect(headers['webhook-signature']).toBe(signed)
        const sent = { ...headers, 'webhook-signature': signed }
        expect(verifySignature({ headers: sent, body: text, keys: [key], nowMs }).ok).toBe(true)
      }),
    )
  })

  it('with Ed25519 is what Node verifies, by seed or by seed and public key', () => {
    const { text, whole } = newEd25519()
    const { body, id, timestamp } = vector.message
    const [one, two] = [text, whole].map((key) => signatureHeaders(vector.message, [keyOf(key)]))
    expect(one).toEqual(two)
    const [version, encoded = ''] = one?.['webhook-signature'].split(',') ?? []
    expect(version).toBe('v1a')
    const open = publicKeyText(keyOf(text)) ?? ''
    const der = Buffer.concat([
      Buffer.from('302a300506032b6570032100', 'hex'),
      Buffer.from(open.slice('whpk_'.length), 'base64'),
    ])
    const publicKey = createPublicKey({ key: der, format: 'der', type: 'spki' })
    const bytes = Buffer.from(`${id}.${timestamp}.${body}`)
    expect(verify(null, bytes, publicKey, Buffer.from(encoded, 'base64'))).toBe(true)
    const received = { headers: one ?? {}, body, nowMs: timestamp * 1_000 }
    expect(verifySignature({ ...received, keys: [open] })).toEqual({ ok: true, id })
    expect(verifySignature({ ...received, keys: [vector.secret] })).toEqual({ ok: false, reason: 'no_match' })
    expect(publicKeyText(keyOf(vector.secret))).toBeUndefined()
  })

  it('with several keys is good for whoever has one of them', () => {
    const old = vector.secret
    const next = `whsec_${Buffer.alloc(32, 9).toString('base64')}`
    const { text } = newEd25519()
    const headers = signatureHeaders(vector.message, [old, next, text].map(keyOf))
    const open = publicKeyText(keyOf(text)) ?? ''
    for (const key of [old, next, open]) {
      const received = { headers, body: vector.message.body, keys: [key], nowMs: 1_700_000_000_000 }
      expect(verifySignature(received).ok).toBe(true)
    }
  })
})

describe('verification', () => {
  const headers = signatureHeaders(vector.message, [keyOf(vector.secret)])
  const received = { headers, body: vector.message.body, keys: [vector.secret], nowMs: 1_700_000_000_000 }

  it('takes headers in any case, and bytes', () => {
    const shouted = Object.fromEntries(
      Object.entries(headers).map(([name, value]) => [name.toUpperCase(), value]),
    )
    expect(verifySignature({ ...received, headers: shouted, body: Buffer.from('{"a":1}') }).ok).toBe(true)
    expect(
      verifySignature({ ...received, headers: { ...headers, 'webhook-signature': [vector.signature] } }).ok,
    ).toBe(true)
  })

  it.each([
    ['another body', { body: '{"a":2}' }, 'no_match'],
    ['another id', { headers: { ...headers, 'webhook-id': 'msg_2' } }, 'no_match'],
    ['an id with a dot', { headers: { ...headers, 'webhook-id': 'msg.1' } }, 'unsigned'],
    ['another time', { headers: { ...headers, 'webhook-timestamp': '1700000001' } }, 'no_match'],
    ['a time that is no number', { headers: { ...headers, 'webhook-timestamp': '17e8' } }, 'unsigned'],
    ['no signature', { headers: { ...headers, 'webhook-signature': '' } }, 'unsigned'],
    ['no headers', { headers: {} }, 'unsigned'],
    ['five minutes and a second later', { nowMs: 1_700_000_301_000 }, 'expired'],
    ['five minutes and a second before', { nowMs: 1_699_999_699_000 }, 'expired'],
    [
      'an HMAC under the name of Ed25519',
      {
        headers: { ...headers, 'webhook-signature': vector.signature.replace('v1,', 'v1a,') },
      },
      'no_match',
    ],
  ])('refuses %s', (_name, change, reason) => {
    expect(verifySignature({ ...received, ...change })).toEqual({ ok: false, reason })
  })

  it('takes what is within five minutes', () => {
    for (const nowMs of [1_700_000_300_000, 1_699_999_700_000])
      expect(verifySignature({ ...received, nowMs }).ok).toBe(true)
  })

  it.each([
    '',
    'whsec_',
    'whsec_c2hvcnQ=',
    'whpk_c2hvcnQ=',
    'secret',
    'whsec_not*base64*at*all*whatever*it*is*',
  ])('does not check with %j, which is no key', (key) => {
    expect(() => verifySignature({ ...received, keys: [key] })).toThrow(TypeError)
    expect(readSigningKey(key)).toBeUndefined()
  })

  it('an Ed25519 key whose halves do not belong together is none', () => {
    const seed = Buffer.from(newEd25519().whole.slice('whsk_'.length), 'base64').subarray(0, 32)
    expect(readSigningKey(`whsk_${Buffer.concat([seed, seed]).toString('base64')}`)).toBeUndefined()
  })
})

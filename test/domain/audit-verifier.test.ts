// Chains that are made here and judged: whole ones pass, and no single change of any of them does, wherever
// it is. What stands in no signature is said.
import { generateKeyPairSync } from 'node:crypto'
import { createPublicKey } from 'node:crypto'
import fc from 'fast-check'
import type { AuditLink, AuditRecord } from '@belfry/contract'
import { canonicalJson, hashOfLink, keyIdOf, noHash, readPublicKey } from '@belfry/contract/audit-chain'
import { createAuditVerifier } from '@belfry/contract/audit-verifier'
import { describe, expect, it } from 'vitest'
import {
  checkpointOf,
  cutOf,
  linksBehind,
  type UnsealedEntry,
} from '../../packages/server/src/domain/audit-links.ts'
import { readAuditSigner } from '../../packages/server/src/security/audit-signer.ts'

const { privateKey } = generateKeyPairSync('ed25519')
const signer = readAuditSigner(privateKey.export({ type: 'pkcs8', format: 'pem' }).toString())
const tenantId = '019ad0c1-7f3e-7c63-9a52-6e4d8c1b2a3f'
const at = '2026-11-30T12:00:00.000Z'

const entry = (index: number): UnsealedEntry => ({
  tenantId,
  id: `019ad0c1-7f3e-7c63-9a52-${String(index).padStart(12, '0')}`,
  at,
  action: 'job.update',
  outcome: 'done',
  code: null,
  actor: { kind: 'key', id: null, name: 'ci "ü" \u2028' },
  keyId: null,
  address: '127.0.0.1',
  requestId: `r-${index}`,
  claimedAt: null,
  subject: { kind: 'job', id: null, name: `job-${index}` },
  details: { version: index, fields: ['b', 'a'] },
})

const chainOf = (count: number): readonly AuditLink[] =>
  linksBehind(
    { tenantId, size: 0, hash: noHash },
    Array.from({ length: count }, (_, n) => entry(n)),
    at,
  )

const endOf = (links: readonly AuditLink[]) => {
  const last = links.at(-1)
  return { tenantId, size: last?.seq ?? 0, hash: last?.hash ?? noHash }
}

interface Given {
  readonly claim?: { size?: number; signedSize?: number; head?: string; tenantMs?: number }
  readonly laterMs?: number
}
function judge(records: readonly AuditRecord[], { claim, laterMs = 0 }: Given = {}) {
  const verifier = createAuditVerifier([createPublicKey(privateKey)], Date.parse(at) + laterMs)
  if (claim !== undefined)
    verifier.claim({ tenantId, size: 0, head: null, signedSize: 0, tenantMs: Date.parse(at), ...claim })
  for (const record of records) verifier.add(record)
  return verifier.finish()
}

describe('a chain', () => {
  it('has one form, whatever the order of its keys', () => {
    expect(canonicalJson({ b: [1, 'x', null, true], a: { d: 2, c: '"\n' } })).toBe(
      '{"a":{"c":"\\"\\n","d":2},"b":[1,"x",null,true]}',
    )
    expect(() => canonicalJson({ a: 0.5 })).toThrow(RangeError)
    const [link] = chainOf(1)
    const turned = Object.fromEntries(Object.entries(link ?? {}).toReversed()) as AuditLink
    expect(hashOfLink(turned)).toBe(link?.hash)
    // the form is for ever: whoever kept a chain must be able to verify it
    expect(link?.hash).toBe('2a2b06aec150da87e402ca89497a9e947ee8e9ccbd34080365ec17ae70c26062')
  })

  it('passes in any order, also said twice', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 20 }), fc.infiniteStream(fc.nat()), (count, draws) => {
        const links = chainOf(count)
        const records = [...links, checkpointOf(signer, endOf(links), at), ...links]
        const mixed = records.map((record) => [draws.next().value, record] as const).sort(([a], [b]) => a - b)
        expect(judge(mixed.map(([, record]) => record))).toMatchObject({ ok: true })
      }),
      { numRuns: 50 },
    )
  })

  it('does not pass with any one change', () => {
    const changes: ((links: AuditLink[], index: number) => unknown)[] = [
      (links, index) => links.splice(index, 1),
      (links, index) => links.splice(index, 1, { ...(links[index] as AuditLink), action: 'job.delete' }),
      (links, index) => links.splice(index, 1, { ...(links[index] as AuditLink), address: null }),
      (links, index) => links.splice(index, 1, { ...(links[index] as AuditLink), details: {} }),
      (links, index) => {
        const link = { ...(links[index] as AuditLink), action: 'job.delete' }
        links.splice(index, 1, { ...link, hash: hashOfLink(link) })
      },
      (links, index) => {
        const other = (index + 1) % links.length
        const [a, b] = [links[index] as AuditLink, links[other] as AuditLink]
        links[index] = { ...b, seq: a.seq }
        links[other] = { ...a, seq: b.seq }
      },
      (links, index) => {
        // from there on made anew
        const remade = linksBehind(
          { tenantId, size: index, hash: links[index - 1]?.hash ?? noHash },
          links.slice(index).map((_, n) => entry(1_000 + n)),
          at,
        )
        links.splice(index, links.length, ...remade)
      },
    ]
    fc.assert(
      fc.property(
        fc.integer({ min: 2, max: 20 }),
        fc.nat(),
        fc.constantFrom(...changes),
        (count, draw, change) => {
          const links = [...chainOf(count)]
          const checkpoint = checkpointOf(signer, endOf(links), at)
          change(links, draw % count)
          const { ok, faults } = judge([...links, checkpoint])
          expect(ok).toBe(false)
          expect(Math.min(...faults.map(({ seq }) => seq))).toBeLessThanOrEqual((draw % count) + 2)
        },
      ),
      { numRuns: 300 },
    )
  })

  it('says how much of it no signature attests', () => {
    const links = chainOf(9)
    const records = [...links, checkpointOf(signer, endOf(links.slice(0, 4)), at)]
    expect(judge(records)).toMatchObject({
      ok: true,
      tenants: [{ first: 1, last: 9, signedSize: 4, checkpoints: 1 }],
    })
  })

  it('that retention has taken away whole is attested by its cut', () => {
    const links = chainOf(5)
    const checkpoint = checkpointOf(signer, endOf(links), at)
    const cut = cutOf(signer, { tenantId, lastSeq: 5, hash: endOf(links).hash }, at)
    expect(judge([cut, checkpoint])).toMatchObject({ ok: true })
    expect(judge([checkpoint]).faults).toMatchObject([{ kind: 'missing', seq: 1 }])
    expect(judge([{ ...cut, firstSeq: 9 }, checkpoint]).faults.map(({ kind }) => kind)).toContain('signature')
  })
})

describe('what the server says of itself', () => {
  const links = chainOf(9)
  const all = [...links, checkpointOf(signer, endOf(links), at)]
  const early = [...links.slice(0, 5), checkpointOf(signer, endOf(links.slice(0, 3)), at)]
  const head = endOf(links).hash
  const placesOf = (records: readonly AuditRecord[], given: Given) =>
    judge(records, given).faults.map(({ kind, seq }) => `${kind} ${seq}`)

  it('must be there', () => {
    expect(placesOf(all, { claim: { size: 9, signedSize: 9, head } })).toEqual([])
    // it grew since
    expect(placesOf(all, { claim: { size: 4, signedSize: 4, head: endOf(links.slice(0, 4)).hash } })).toEqual(
      [],
    )
    expect(placesOf(early, { claim: { size: 9, signedSize: 9, head } })).toEqual(['missing 6', 'signature 9'])
    expect(placesOf([], { claim: { size: 9, signedSize: 9, head } })).toEqual(['missing 1', 'signature 9'])
    expect(placesOf(all, { claim: { size: 9, signedSize: 9, head: noHash } })).toEqual(['rewritten 9'])
    const cut = cutOf(signer, { tenantId, lastSeq: 9, hash: head }, at)
    expect(placesOf([cut], { claim: { size: 9, signedSize: 9, head } })).toEqual([])
  })

  it('does not hide that all signatures are gone', () => {
    expect(placesOf(links, { laterMs: 30_000 })).toEqual([])
    expect(placesOf(links, { laterMs: 90_000 })).toEqual(['signature 1'])
  })
})

describe('a doubt', () => {
  const doubtsOf = (records: readonly AuditRecord[], given: Given = {}) => {
    const { ok, doubts } = judge(records, given)
    return [ok, ...doubts.map(({ kind, seq, count }) => `${kind} ${seq} ${count}`)]
  }
  const sealed = (laterMs: number) => {
    const sealedAt = new Date(Date.parse(at) + laterMs).toISOString()
    const entries = Array.from({ length: 4 }, (_, n) => entry(n))
    const links = linksBehind({ tenantId, size: 0, hash: noHash }, entries, sealedAt)
    return [...links, checkpointOf(signer, endOf(links), sealedAt)]
  }

  it('is a chain that was made long after its entries were written', () => {
    expect(doubtsOf(sealed(9 * 60_000))).toEqual([true])
    expect(doubtsOf(sealed(11 * 60_000))).toEqual([true, 'late 1 4'])
  })

  it('is a chain that begins long after its tenant, and a tail that nobody signs', () => {
    const tenantMs = Date.parse(at) - 25 * 3_600_000
    expect(doubtsOf(sealed(0), { claim: { tenantMs } })).toEqual([true, 'begins 1 1'])
    const tail = chainOf(9)
    const signed = [...tail, checkpointOf(signer, endOf(tail.slice(0, 4)), at)]
    expect(doubtsOf(signed, { laterMs: 3_600_000 })).toEqual([true])
    expect(doubtsOf(signed, { laterMs: 3 * 3_600_000 })).toEqual([true, 'unsigned 5 5'])
  })
})

describe('keys', () => {
  it('are read from base64 and PEM, and nothing else', () => {
    const raw = Buffer.from(signer.publicKey)
    expect(readPublicKey(raw.toString('base64'))).toBeDefined()
    expect(
      readPublicKey(createPublicKey(privateKey).export({ type: 'spki', format: 'pem' }).toString()),
    ).toBeDefined()
    expect(keyIdOf(raw)).toMatch(/^[0-9a-f]{16}$/)
    for (const text of [
      '',
      'x',
      raw.subarray(1).toString('base64'),
      '-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----',
    ])
      expect(readPublicKey(text)).toBeUndefined()
    const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 }).publicKey
    expect(readPublicKey(rsa.export({ type: 'spki', format: 'pem' }).toString())).toBeUndefined()
    expect(() => readAuditSigner('nonsense')).toThrow(/auditKey is not an Ed25519 key/)
  })
})

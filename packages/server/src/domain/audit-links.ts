/**
 * The links of the audit chain: entries that get the next numbers behind an end, each with the hash of the
 * one before, and what is signed of it. The form of both stands in the contract (audit-chain.ts).
 */
import type { AuditCheckpoint, AuditCut, AuditLink } from '@belfry/contract'
import { hashOfLink, signedBytes, type Unsigned } from '@belfry/contract/audit-chain'

/** Ed25519. */
export interface AuditSigner {
  readonly keyId: string
  /** 32 bytes. */
  readonly publicKey: Uint8Array
  sign(bytes: Uint8Array): Uint8Array
}

/** Where a chain ends. */
export interface ChainEnd {
  readonly tenantId: string
  readonly size: number
  readonly hash: string
}

/** What retention takes away: all up to this entry. */
export interface GoneEntries {
  readonly tenantId: string
  readonly lastSeq: number
  readonly hash: string
}

/** An entry that has no place yet. */
export type UnsealedEntry = Omit<AuditLink, 'type' | 'seq' | 'sealedAt' | 'previousHash' | 'hash'>

export function linksBehind(
  end: ChainEnd,
  entries: readonly UnsealedEntry[],
  sealedAt: string,
): readonly AuditLink[] {
  let { size, hash: previousHash } = end
  return entries.map((entry) => {
    const fields = { type: 'entry' as const, seq: ++size, sealedAt, ...entry, previousHash }
    const link = { ...fields, hash: hashOfLink(fields) }
    previousHash = link.hash
    return link
  })
}

type Sign = Pick<AuditSigner, 'keyId' | 'sign'>

export function checkpointOf(signer: Sign, { tenantId, size, hash }: ChainEnd, at: string): AuditCheckpoint {
  return signed(signer, { type: 'checkpoint', tenantId, size, head: hash, at, keyId: signer.keyId })
}

export function cutOf(signer: Sign, { tenantId, lastSeq, hash }: GoneEntries, at: string): AuditCut {
  return signed(signer, {
    type: 'cut',
    tenantId,
    firstSeq: lastSeq + 1,
    previousHash: hash,
    at,
    keyId: signer.keyId,
  })
}

function signed<Record extends Unsigned<AuditCheckpoint> | Unsigned<AuditCut>>(signer: Sign, record: Record) {
  return { ...record, signature: Buffer.from(signer.sign(signedBytes(record))).toString('base64') }
}

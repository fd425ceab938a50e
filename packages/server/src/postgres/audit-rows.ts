/**
 * Rows of the audit as the records that the contract
 * names, and entries as rows for the inbox.
 */
import type { AuditCheckpoint, AuditCut, AuditEntryView, AuditLink } from '@belfry/contract'
import type { UnsealedEntry } from '../domain/audit-links.ts'
import type { AuditDetails } from '../ports/audit.ts'
import type { PutEntry } from '../ports/audit-log.ts'
import type { AuditCheckpointRow, AuditCutRow, AuditEntryRow, AuditLinkRow } from './statements/audit.ts'

const iso = (instant: Date): string => instant.toISOString()

export function entryOf(row: AuditEntryRow): Omit<AuditEntryView, 'seq'> {
  const { id, action, outcome, code, address, details } = row
  return {
    id,
    at: iso(row.at),
    action,
    outcome,
    code,
    actor: { kind: row.actor_kind, id: row.actor_id, name: row.actor_name },
    keyId: row.key_id,
    address,
    requestId: row.request_id,
    claimedAt: row.claimed_at === null ? null : iso(row.claimed_at),
    subject: { kind: row.subject_kind, id: row.subject_id, name: row.subject_name },
    details: details as AuditEntryView['details'],
  }
}

export const unsealedOf = (row: AuditEntryRow & { readonly tenant_id: string }): UnsealedEntry => ({
  tenantId: row.tenant_id,
  ...entryOf(row),
})

export const linkOf = (row: AuditLinkRow): AuditLink => ({
  type: 'entry',
  tenantId: row.tenant_id,
  seq: Number(row.seq),
  sealedAt: iso(row.sealed_at),
  ...entryOf(row),
  previousHash: row.previous_hash.toString('hex'),
  hash: row.hash.toString('hex'),
})

export const checkpointRecord = (row: AuditCheckpointRow): AuditCheckpoint => ({
  type: 'checkpoint',
  tenantId: row.tenant_id,
  size: Number(row.size),
  head: row.head.toString('hex'),
  at: iso(row.at),
  keyId: row.key_id,
  signature: row.signature.toString('base64'),
})

export const cutRecord = (row: AuditCutRow): AuditCut => ({
  type: 'cut',
  tenantId: row.tenant_id,
  firstSeq: Number(row.first_seq),
  previousHash: row.previous_hash.toString('hex'),
  at: iso(row.at),
  keyId: row.key_id,
  signature: row.signature.toString('base64'),
})

/** The columns of a link, by their names. */
export const columnsOfLink = (link: AuditLink) => ({
  tenant_id: link.tenantId,
  seq: link.seq,
  sealed_at: link.sealedAt,
  previous_hash: link.previousHash,
  hash: link.hash,
  id: link.id,
  at: link.at,
  action: link.action,
  outcome: link.outcome,
  code: link.code,
  actor_kind: link.actor.kind,
  actor_id: link.actor.id,
  actor_name: link.actor.name,
  key_id: link.keyId,
  address: link.address,
  request_id: link.requestId,
  claimed_at: link.claimedAt,
  subject_kind: link.subject.kind,
  subject_id: link.subject.id,
  subject_name: link.subject.name,
  details: link.details,
})

/**
 * The columns of an entry for the inbox: those that its maker may say. Whatever comes is made fit to be kept
 * and hashed, since no entry may hold up those behind it.
 */
export const columnsOfEntry = ({ caller, subject, ...entry }: PutEntry) => ({
  tenant_id: entry.tenantId,
  action: entry.action,
  outcome: entry.outcome,
  code: entry.code,
  actor_kind: caller.actor.kind,
  actor_id: uuidOrNull(caller.actor.id),
  actor_name: fit(caller.actor.name),
  key_id: uuidOrNull(caller.keyId),
  address: fitOrNull(caller.address),
  request_id: fitOrNull(caller.requestId),
  claimed_at: caller.claimedAtMs === null ? null : new Date(caller.claimedAtMs).toISOString(),
  subject_kind: subject.kind,
  subject_id: fitOrNull(subject.id),
  subject_name: fitOrNull(subject.name),
  details: Object.fromEntries(
    Object.entries(entry.details ?? {}).map(([key, value]) => [fit(key), detailOf(value)]),
  ),
})

const longestDetail = 1_000
const mostListed = 100

function detailOf(value: AuditDetails[string]) {
  if (typeof value === 'string') return fit(value)
  if (typeof value === 'number') return Number.isSafeInteger(value) ? value : String(value)
  return typeof value === 'boolean' ? value : value.slice(0, mostListed).map(fit)
}

/** What Postgres can keep. */
const fit = (text: string): string =>
  text.replaceAll('\0', '').toWellFormed().slice(0, longestDetail).toWellFormed()
const fitOrNull = (text: string | null): string | null => (text === null ? null : fit(text))

const uuid = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i
const uuidOrNull = (text: string | null): string | null => (text !== null && uuid.test(text) ? text : null)

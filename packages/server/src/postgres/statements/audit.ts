/**
 * The audit (migrations/0038_audit.sql): entries put into the inbox, read from inbox and log as one list, and
 * the chain as it is exported. What the sealer does stands in audit-sealing.ts.
 */
import { statement } from '../statement.ts'

/** Columns of an entry that are the same in the inbox and the log. */
export const auditColumns =
  'id, at, action, outcome, code, actor_kind, actor_id, actor_name, key_id, address, request_id, ' +
  'claimed_at, subject_kind, subject_id, subject_name, details'

export type AuditEntryRow = {
  id: string
  at: Date
  action: string
  outcome: 'done' | 'refused'
  code: string | null
  actor_kind: 'key' | 'person' | 'service_account' | 'system'
  actor_id: string | null
  actor_name: string
  key_id: string | null
  address: string | null
  request_id: string | null
  claimed_at: Date | null
  subject_kind: string
  subject_id: string | null
  subject_name: string | null
  details: Readonly<Record<string, string | number | boolean | readonly string[]>>
}

/** Entries as JSON, with the names of columns. When they were, the database says. */
export const putAudit = statement<unknown, [entries: string]>(
  'audit_put',
  `
INSERT INTO belfry.audit_inbox (tenant_id, action, outcome, code, actor_kind, actor_id, actor_name, key_id,
  address, request_id, claimed_at, subject_kind, subject_id, subject_name, details)
SELECT tenant_id, action, outcome, code, actor_kind, actor_id, left(actor_name, 256), key_id,
       left(address, 64), left(request_id, 128), claimed_at, subject_kind, left(subject_id, 256),
       left(subject_name, 256), details
FROM jsonb_to_recordset($1::jsonb) AS entry (
  tenant_id uuid, action text, outcome text, code text, actor_kind text, actor_id uuid, actor_name text,
  key_id uuid, address text, request_id text, claimed_at timestamptz, subject_kind text, subject_id text,
  subject_name text,
  details jsonb)`,
)

/** What passes a list; null: whatever it is. */
export type AuditFilterColumns = [
  actor: string | null,
  action: string | null,
  subject: string | null,
  outcome: string | null,
]

/** A row without an id is the mark of the look. */
export type AuditListRow = AuditEntryRow & {
  seq: string | null
  /** Of the stretch: where the look ended; null: at the end of the list. */
  looked_to: string | null
}

/**
 * Newest first: of the newest `look` entries with an id below one and not below another, those that pass. One
 * row more than those says where the look ended; it has no action.
 */
export const listAudit = statement<
  AuditListRow,
  [
    beforeId: string,
    lowId: string,
    after: string,
    before: string,
    look: number,
    limit: number,
    ...AuditFilterColumns,
  ]
>(
  'audit_list',
  `
WITH looked AS MATERIALIZED (
  SELECT * FROM (
    (SELECT NULL::bigint AS seq, ${auditColumns} FROM belfry.audit_inbox
     WHERE tenant_id = belfry.tenant_id() AND id < $1::uuid AND id >= $2::uuid
     ORDER BY id DESC LIMIT $5)
    UNION ALL
    (SELECT seq, ${auditColumns} FROM belfry.audit_log
     WHERE tenant_id = belfry.tenant_id() AND id < $1::uuid AND id >= $2::uuid
     ORDER BY id DESC LIMIT $5)
  ) AS both_places ORDER BY id DESC LIMIT $5
), passing AS (
  SELECT * FROM looked
  WHERE at >= $3::timestamptz AND at < $4::timestamptz
    AND ($7::text IS NULL OR actor_id::text = $7 OR actor_name = $7)
    AND ($8::text IS NULL OR action = $8 OR starts_with(action, $8 || '.'))
    AND ($9::text IS NULL OR subject_id = $9 OR subject_name = $9)
    AND ($10::text IS NULL OR outcome = $10)
  ORDER BY id DESC LIMIT $6
)
SELECT seq, ${auditColumns}, NULL::uuid AS looked_to FROM passing
UNION ALL
SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
       CASE WHEN count(*) = $5 THEN min(id::text)::uuid END FROM looked
ORDER BY id DESC NULLS LAST`,
)

export type AuditLinkRow = AuditEntryRow & {
  tenant_id: string
  seq: string
  sealed_at: Date
  previous_hash: Buffer
  hash: Buffer
}

/** The chain of a tenant from behind a number on, oldest first. */
export const readAuditChain = statement<AuditLinkRow, [tenantId: string, afterSeq: number, limit: number]>(
  'audit_chain_read',
  `
SELECT tenant_id, seq, sealed_at, previous_hash, hash, ${auditColumns} FROM belfry.audit_log
WHERE tenant_id = $1 AND seq > $2::bigint ORDER BY seq LIMIT $3`,
)

export type AuditCheckpointRow = {
  tenant_id: string
  size: string
  head: Buffer
  at: Date
  key_id: string
  signature: Buffer
}

/** Checkpoints of a tenant of sizes between two, the upper one included. */
export const readAuditCheckpoints = statement<
  AuditCheckpointRow,
  [tenantId: string, afterSize: number, toSize: number]
>(
  'audit_checkpoints_read',
  `
SELECT tenant_id, size, head, at, key_id, signature FROM belfry.audit_checkpoint
WHERE tenant_id = $1 AND size > $2::bigint AND size <= $3::bigint ORDER BY size`,
)

export type AuditCutRow = {
  tenant_id: string
  first_seq: string
  previous_hash: Buffer
  at: Date
  key_id: string
  signature: Buffer
}

/** What retention took away from a tenant's chain. */
export const readAuditCuts = statement<AuditCutRow, [tenantId: string]>(
  'audit_cuts_read',
  `
SELECT tenant_id, first_seq, previous_hash, at, key_id, signature FROM belfry.audit_cut
WHERE tenant_id = $1 ORDER BY first_seq`,
)

export type AuditStatusRow = {
  size: string
  hash: Buffer | null
  signed_size: string
  signed_at: Date | null
  waiting: string
  waiting_since: Date | null
}

/** How long the chain of this tenant is, what is signed, what waits for its place. */
export const readAuditStatus = statement<AuditStatusRow>(
  'audit_status',
  `
SELECT coalesce(head.size, 0) AS size, head.hash, coalesce(head.signed_size, 0) AS signed_size,
       CASE WHEN head.signed_size > 0 THEN head.signed_at END AS signed_at, inbox.waiting, inbox.waiting_since
FROM (SELECT count(*) AS waiting, min(at) AS waiting_since FROM belfry.audit_inbox
      WHERE tenant_id = belfry.tenant_id()) AS inbox
LEFT JOIN belfry.audit_head AS head ON head.tenant_id = belfry.tenant_id()`,
)

/** The keys that were used here, the latest first. */
export const listAuditKeys = statement<{ key_id: string; public_key: Buffer }>(
  'audit_keys',
  'SELECT key_id, public_key FROM belfry.audit_key ORDER BY first_used_at DESC, key_id',
)

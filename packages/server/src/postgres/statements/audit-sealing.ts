/**
 * What the sealer and the exporter of the audit do (engine/audit-sealer.ts, engine/audit-exporter.ts), as
 * belfry_engine. Entries leave the inbox, come into the log and move the head in one transaction, which holds
 * the heads of their tenants.
 */
import { statement } from '../statement.ts'
import { auditColumns, type AuditEntryRow } from './audit.ts'

export type TakenEntryRow = AuditEntryRow & { tenant_id: string }

/** Whether there is anything to do. */
export const lookAtAudit = statement<{ waiting: boolean; unsigned: boolean }>(
  'audit_look',
  `
SELECT EXISTS (SELECT FROM belfry.audit_inbox) AS waiting,
       EXISTS (SELECT FROM belfry.audit_head WHERE size > signed_size) AS unsigned`,
)

/** One sealer at a time, until the end of the transaction: they would meet at rows in different orders. */
export const lockSealing = statement(
  'audit_seal_lock',
  "SELECT pg_advisory_xact_lock(hashtextextended('belfry.audit_seal', 0))",
)

/** Takes the oldest entries out of the inbox. */
export const takeAudit = statement<TakenEntryRow, [limit: number]>(
  'audit_take',
  `
DELETE FROM belfry.audit_inbox WHERE (tenant_id, id) IN (
  SELECT tenant_id, id FROM belfry.audit_inbox ORDER BY id LIMIT $1)
RETURNING tenant_id, ${auditColumns}`,
)

export type AuditHeadRow = {
  tenant_id: string
  size: string
  hash: Buffer
  sealed_ms: number | null
  signed_size: string
  signed_ms: number | null
}

/** Heads for tenants that have none yet. */
export const makeAuditHeads = statement<unknown, [tenantIds: readonly string[]]>(
  'audit_heads_make',
  `
INSERT INTO belfry.audit_head (tenant_id) SELECT id FROM unnest($1::uuid[]) AS wanted (id) ORDER BY id
ON CONFLICT (tenant_id) DO NOTHING`,
)

const headColumns = `tenant_id, size, hash, signed_size,
       CASE WHEN isfinite(sealed_at) THEN (extract(epoch FROM sealed_at) * 1000)::float8 END AS sealed_ms,
       CASE WHEN isfinite(signed_at) THEN (extract(epoch FROM signed_at) * 1000)::float8 END AS signed_ms`

/** Locked until the end of the transaction: a chain has one sealer at a time. */
export const lockAuditHeads = statement<AuditHeadRow, [tenantIds: readonly string[]]>(
  'audit_heads_lock',
  `
SELECT ${headColumns} FROM belfry.audit_head
  WHERE tenant_id = ANY ($1::uuid[]) ORDER BY tenant_id FOR UPDATE`,
)

/**
 * Chains whose end is not signed, and whose last signature is older than so many ms or than so many entries.
 */
export const lockUnsignedHeads = statement<AuditHeadRow, [waitMs: number, entries: number, limit: number]>(
  'audit_heads_unsigned',
  `
SELECT ${headColumns} FROM belfry.audit_head
WHERE size > signed_size
  AND (signed_at <= belfry.now() - make_interval(secs => $1::float8 / 1000)
    OR size - signed_size >= $2::bigint)
ORDER BY tenant_id LIMIT $3 FOR UPDATE SKIP LOCKED`,
)

/** Links as JSON, with the names of columns; hashes are hexadecimal. */
export const appendAudit = statement<unknown, [links: string]>(
  'audit_append',
  `
INSERT INTO belfry.audit_log (tenant_id, seq, sealed_at, previous_hash, hash, ${auditColumns})
SELECT tenant_id, seq, sealed_at, decode(previous_hash, 'hex'), decode(hash, 'hex'), ${auditColumns}
FROM jsonb_to_recordset($1::jsonb) AS link (
  tenant_id uuid, seq bigint, sealed_at timestamptz, previous_hash text, hash text, id uuid,
  at timestamptz, action text, outcome text, code text, actor_kind text, actor_id uuid, actor_name text,
  key_id uuid, address text, request_id text, claimed_at timestamptz, subject_kind text, subject_id text,
  subject_name text, details jsonb)`,
)

/** Where chains end now. */
export const moveAuditHeads = statement<
  unknown,
  [
    tenantIds: readonly string[],
    sizes: readonly number[],
    hashes: readonly string[],
    sealedAt: readonly string[],
  ]
>(
  'audit_heads_move',
  `
UPDATE belfry.audit_head AS head
SET size = moved.size, hash = decode(moved.hash, 'hex'), sealed_at = moved.sealed_at
FROM unnest($1::uuid[], $2::bigint[], $3::text[], $4::timestamptz[])
  AS moved (tenant_id, size, hash, sealed_at)
WHERE head.tenant_id = moved.tenant_id`,
)

/** Puts checkpoints on record, and notes them at the heads. */
export const putAuditCheckpoints = statement<
  unknown,
  [
    tenantIds: readonly string[],
    sizes: readonly number[],
    heads: readonly string[],
    signatures: readonly string[],
    at: string,
    keyId: string,
  ]
>(
  'audit_checkpoints_put',
  `
WITH signed AS (
  SELECT * FROM unnest($1::uuid[], $2::bigint[], $3::text[], $4::text[])
    AS one (tenant_id, size, head, signature)
), noted AS (
  UPDATE belfry.audit_head AS head SET signed_size = signed.size, signed_at = $5::timestamptz
  FROM signed WHERE head.tenant_id = signed.tenant_id
)
INSERT INTO belfry.audit_checkpoint (tenant_id, size, head, at, key_id, signature)
SELECT tenant_id, size, decode(head, 'hex'), $5::timestamptz, $6, decode(signature, 'base64') FROM signed
ON CONFLICT (tenant_id, size) DO NOTHING`,
)

/** What waits for its place, over all tenants, and since when; and chains whose ends are not signed. */
export const readAuditBacklog = statement<{ waiting: string; waiting_ms: number | null; unsigned: string }>(
  'audit_backlog',
  `
SELECT inbox.waiting, (extract(epoch FROM belfry.now() - inbox.since) * 1000)::float8 AS waiting_ms,
  heads.unsigned
FROM (SELECT count(*) AS waiting, min(at) AS since FROM belfry.audit_inbox) AS inbox,
     (SELECT count(*) AS unsigned FROM belfry.audit_head WHERE size > signed_size) AS heads`,
)

/** The key that is signed with here. */
export const noteAuditKey = statement<unknown, [keyId: string, publicKey: Uint8Array]>(
  'audit_key_note',
  'INSERT INTO belfry.audit_key (key_id, public_key) VALUES ($1, $2) ON CONFLICT (key_id) DO NOTHING',
)

/** Makes the partition of the month of an instant. */
export const makeAuditPartition = statement<unknown, [instant: string]>(
  'audit_partition_make',
  `SELECT belfry.make_audit_partition(date_trunc('month', $1::timestamptz AT TIME ZONE 'UTC')::date)`,
)

/** Months of which all is older than so many days, oldest first. */
export const oldAuditMonths = statement<{ month: string }, [days: number]>(
  'audit_old_months',
  `
SELECT to_char(month, 'YYYY-MM-DD') AS month
FROM belfry.old_audit_months(belfry.now() - make_interval(days => $1)) AS month`,
)

/** The last entry of each chain in a month: what will be gone with all before it. */
export const endsOfAuditMonth = statement<{ tenant_id: string; seq: string; hash: Buffer }, [month: string]>(
  'audit_month_ends',
  `
SELECT DISTINCT ON (tenant_id) tenant_id, seq, hash FROM belfry.audit_log
WHERE sealed_at >= ($1::date)::timestamp AT TIME ZONE 'UTC'
  AND sealed_at < ($1::date + interval '1 month') AT TIME ZONE 'UTC'
ORDER BY tenant_id, seq DESC`,
)

/** Puts cuts on record, and takes the checkpoints away that attest nothing any more. */
export const putAuditCuts = statement<
  unknown,
  [
    tenantIds: readonly string[],
    firstSeqs: readonly number[],
    hashes: readonly string[],
    signatures: readonly string[],
    at: string,
    keyId: string,
  ]
>(
  'audit_cuts_put',
  `
WITH cut AS (
  SELECT * FROM unnest($1::uuid[], $2::bigint[], $3::text[], $4::text[])
    AS one (tenant_id, first_seq, hash, signature)
), gone AS (
  DELETE FROM belfry.audit_checkpoint AS point USING cut
  WHERE point.tenant_id = cut.tenant_id AND point.size < cut.first_seq - 1
)
INSERT INTO belfry.audit_cut (tenant_id, first_seq, previous_hash, at, key_id, signature)
SELECT tenant_id, first_seq, decode(hash, 'hex'), $5::timestamptz, $6, decode(signature, 'base64') FROM cut
ON CONFLICT (tenant_id, first_seq) DO NOTHING`,
)

/** Drops a month of which the cuts are on record. */
export const dropAuditMonth = statement<unknown, [month: string]>(
  'audit_partition_drop',
  'SELECT belfry.drop_audit_partition($1::date)',
)

/** Chains of which entries have not left for a place yet, by tenant: how far they have, and may. */
export const findUnexported = statement<
  { tenant_id: string; seq: string; up_to: string },
  [sink: string, signedOnly: boolean, after: string | null, limit: number]
>(
  'audit_unexported',
  `
SELECT head.tenant_id, coalesce(gone.seq, 0) AS seq, head.up_to
FROM (SELECT tenant_id, CASE WHEN $2 THEN signed_size ELSE size END AS up_to FROM belfry.audit_head) AS head
LEFT JOIN belfry.audit_export AS gone ON gone.sink = $1 AND gone.tenant_id = head.tenant_id
WHERE head.up_to > coalesce(gone.seq, 0) AND ($3::uuid IS NULL OR head.tenant_id > $3::uuid)
ORDER BY head.tenant_id LIMIT $4`,
)

/** Notes how far the chain of a tenant has left. */
export const noteExported = statement<unknown, [sink: string, tenantId: string, seq: number]>(
  'audit_exported',
  `
INSERT INTO belfry.audit_export AS gone (sink, tenant_id, seq) VALUES ($1, $2, $3)
ON CONFLICT (sink, tenant_id) DO UPDATE SET seq = greatest(gone.seq, excluded.seq)`,
)

// A row of a tenant in each table of accounts, people, secrets, quotas and containers, for tests that look at
// what row-level security shows.
import { newId } from './running.ts'

export type Insert = [text: string, params: unknown[]]

export const guardedRows = (tenantId: string): Insert[] => [
  [
    `INSERT INTO belfry.service_account (tenant_id, id, name, role) VALUES ($1, $2, 'a', 'viewer')`,
    [tenantId, newId()],
  ],
  ...peopleRows(tenantId),
  ...secretRows(tenantId),
  [`INSERT INTO belfry.tenant_quota (tenant_id, quota, most) VALUES ($1, 'jobs', 7)`, [tenantId]],
  [
    `INSERT INTO belfry.quota_bucket (tenant_id, quota, tokens, taken, counted_at)
     VALUES ($1, 'runRate', 1, 1, now())`,
    [tenantId],
  ],
  ['INSERT INTO belfry.container_policy (tenant_id, max_pids) VALUES ($1, 16)', [tenantId]],
]

const peopleRows = (tenantId: string): Insert[] => [
  [
    `WITH made AS (
       INSERT INTO belfry.member (tenant_id, id, email, name, role, state)
       VALUES ($1, $2, 'a@example.com', 'A', 'viewer', 'active') RETURNING tenant_id, id)
     INSERT INTO belfry.person_session
       (tenant_id, id, member_id, prefix, secret_hash, method, address, user_agent, idle, ends_at)
     SELECT tenant_id, $3::uuid, id, substr(replace($3::uuid::text, '-', ''), 21),
            decode(repeat('00', 32), 'hex'), 'password', '127.0.0.1', '', interval '1 hour',
            now() + interval '1 day'
     FROM made`,
    [tenantId, newId(), newId()],
  ],
]

const secretRows = (tenantId: string): Insert[] => [
  [`INSERT INTO belfry.tenant_key (tenant_id, wrapper_id, wrapped) VALUES ($1, '1', '\\x00')`, [tenantId]],
  [
    `WITH made AS (
       INSERT INTO belfry.secret (tenant_id, id, name) VALUES ($1, $2, 's') RETURNING tenant_id, id
     ), version AS (
       INSERT INTO belfry.secret_version (tenant_id, secret_id, version, sealed, created_by)
       SELECT tenant_id, id, 1, decode(repeat('00', 40), 'hex'), 'a' FROM made
     )
     INSERT INTO belfry.secret_grant (tenant_id, secret_id, grantee_kind, grantee_id, created_by)
     SELECT tenant_id, id, 'job', id, 'a' FROM made`,
    [tenantId, newId()],
  ],
]

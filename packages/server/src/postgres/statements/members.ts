/**
 * Members of a tenant and their sessions, as people of the tenant see and change them. No hash of a password,
 * link or session is read here: belfry_app may not.
 */
import { statement } from '../statement.ts'

export type MemberRow = {
  id: string
  email: string
  name: string
  role: string
  role_from: string
  state: string
  subject: string | null
  invite_ends_at: Date | null
  created_at: Date
  last_sign_in_at: Date | null
}

export const memberColumns =
  'id, email, name, role, role_from, state, subject, invite_ends_at, created_at, last_sign_in_at'

/** Somebody who is invited. */
export const insertMember = statement<
  MemberRow,
  [
    tenantId: string,
    id: string,
    email: string,
    name: string,
    role: string,
    invitePrefix: string,
    inviteHash: Uint8Array,
    inviteEndsAt: string,
  ]
>(
  'member_insert',
  `
INSERT INTO belfry.member
  (tenant_id, id, email, name, role, state, invite_prefix, invite_hash, invite_ends_at)
VALUES ($1, $2, $3, $4, $5, 'invited', $6, $7, $8)
RETURNING ${memberColumns}`,
)

/** One member. */
export const findMember = statement<MemberRow, [id: string]>(
  'member_find',
  `SELECT ${memberColumns} FROM belfry.member WHERE tenant_id = belfry.tenant_id() AND id = $1`,
)

/** One member, locked. */
export const lockMember = statement<MemberRow, [id: string]>(
  'member_lock',
  `SELECT ${memberColumns} FROM belfry.member WHERE tenant_id = belfry.tenant_id() AND id = $1 FOR UPDATE`,
)

/** Newest first, a page at a time. */
export const listMembers = statement<MemberRow, [beforeId: string, limit: number]>(
  'member_list',
  `
SELECT ${memberColumns} FROM belfry.member
WHERE tenant_id = belfry.tenant_id() AND id < $1 ORDER BY id DESC LIMIT $2`,
)

/** A role that people set is no longer that of the issuer. */
export const updateMember = statement<MemberRow, [id: string, name: string, role: string, state: string]>(
  'member_update',
  `
UPDATE belfry.member
SET name = $2, role = $3, role_from = CASE WHEN role = $3 THEN role_from ELSE 'members' END, state = $4
WHERE tenant_id = belfry.tenant_id() AND id = $1
RETURNING ${memberColumns}`,
)

/** A new link; the one before is void. */
export const inviteMember = statement<
  MemberRow,
  [id: string, prefix: string, secretHash: Uint8Array, endsAt: string]
>(
  'member_invite',
  `
UPDATE belfry.member SET invite_prefix = $2, invite_hash = $3, invite_ends_at = $4
WHERE tenant_id = belfry.tenant_id() AND id = $1
RETURNING ${memberColumns}`,
)

/** With its sessions. */
export const deleteMember = statement<unknown, [id: string]>(
  'member_delete',
  'DELETE FROM belfry.member WHERE tenant_id = belfry.tenant_id() AND id = $1',
)

/** In the order of their ids, so that two who ask wait for each other and not in a circle. */
export const lockOwners = statement<{ id: string }>(
  'member_lock_owners',
  `
SELECT id FROM belfry.member
WHERE tenant_id = belfry.tenant_id() AND role = 'owner' AND state = 'active' ORDER BY id FOR UPDATE`,
)

export type SessionRow = {
  id: string
  member_id: string
  method: string
  address: string
  user_agent: string
  created_at: Date
  last_seen_at: Date
  usable_until: Date
  ended_at: Date | null
}

export const sessionColumns =
  'id, member_id, method, address, user_agent, created_at, last_seen_at, ' +
  'least(ends_at, last_seen_at + idle) AS usable_until, ended_at'

/** One session. */
export const findSession = statement<SessionRow, [id: string]>(
  'person_session_find',
  `SELECT ${sessionColumns} FROM belfry.person_session WHERE tenant_id = belfry.tenant_id() AND id = $1`,
)

/** Those of a member that may be used now, newest first. */
export const listSessions = statement<SessionRow, [memberId: string, beforeId: string, limit: number]>(
  'person_session_list',
  `
SELECT ${sessionColumns} FROM belfry.person_session
WHERE tenant_id = belfry.tenant_id() AND member_id = $1 AND id < $2 AND ended_at IS NULL
  AND least(ends_at, last_seen_at + idle) > belfry.now()
ORDER BY id DESC LIMIT $3`,
)

/** One that had ended keeps its time. */
export const endSession = statement<SessionRow, [id: string]>(
  'person_session_end',
  `
UPDATE belfry.person_session SET ended_at = coalesce(ended_at, belfry.now())
WHERE tenant_id = belfry.tenant_id() AND id = $1
RETURNING ${sessionColumns}`,
)

/** All sessions of a member but one. */
export const endSessionsOf = statement<{ id: string }, [memberId: string, keepId: string | null]>(
  'person_session_end_of',
  `
UPDATE belfry.person_session SET ended_at = belfry.now()
WHERE tenant_id = belfry.tenant_id() AND member_id = $1 AND ended_at IS NULL
  AND ($2::uuid IS NULL OR id <> $2::uuid)
RETURNING id`,
)

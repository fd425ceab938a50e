/**
 * Members and sessions as belfry_platform: what signing in looks up before the tenant is known, and what it
 * then changes for the tenant of the transaction.
 */
import { statement } from '../statement.ts'
import { type MemberRow, memberColumns, type SessionRow, sessionColumns } from './members.ts'

export type StoredSessionRow = {
  id: string
  tenant_id: string
  tenant_name: string
  tenant_created_at: Date
  secret_hash: Buffer
  member_id: string
  member_name: string
  role: string
  expires_in_ms: number
}

/** A session that may be used now, of a member who may use it. */
export const findSessionByPrefix = statement<StoredSessionRow, [prefix: string]>(
  'person_session_find_by_prefix',
  `
SELECT s.id, s.tenant_id, t.name AS tenant_name, t.created_at AS tenant_created_at, s.secret_hash,
       m.id AS member_id, m.name AS member_name, m.role,
       (extract(epoch FROM least(s.ends_at, s.last_seen_at + s.idle) - belfry.now()) * 1000)::float8
         AS expires_in_ms
FROM belfry.person_session s
JOIN belfry.member m ON m.tenant_id = s.tenant_id AND m.id = s.member_id AND m.state = 'active'
JOIN belfry.tenant t ON t.id = s.tenant_id
WHERE s.prefix = $1 AND s.ended_at IS NULL AND least(s.ends_at, s.last_seen_at + s.idle) > belfry.now()`,
)

/** When a session was last seen, which is what its idle time counts from; written once a minute at most. */
export const touchSession = statement<unknown, [id: string]>(
  'person_session_touch',
  'UPDATE belfry.person_session SET last_seen_at = belfry.now() WHERE id = $1 AND ended_at IS NULL',
)

export type SignInRow = {
  tenant_id: string
  tenant_name: string
  id: string
  email: string
  state: string
  password_hash: string | null
}
const signInColumns = 'm.tenant_id, t.name AS tenant_name, m.id, m.email, m.state, m.password_hash'
const ofMembers = 'FROM belfry.member m JOIN belfry.tenant t ON t.id = m.tenant_id'

/** Members with this address, in one tenant or in all; two say that there are several. */
export const findMembersByEmail = statement<SignInRow, [email: string, tenant: string | null]>(
  'member_find_by_email',
  `
SELECT ${signInColumns} ${ofMembers}
WHERE m.email = $1 AND ($2::text IS NULL OR t.name = $2::text) ORDER BY m.id LIMIT 2`,
)

/** A member by id, with the hash of its password. */
export const findSignIn = statement<SignInRow, [tenantId: string, id: string]>(
  'member_find_sign_in',
  `SELECT ${signInColumns} ${ofMembers} WHERE m.tenant_id = $1 AND m.id = $2`,
)

/** Whose invitation it is. */
export const findMemberByInvite = statement<SignInRow & { invite_hash: Buffer }, [prefix: string]>(
  'member_find_by_invite',
  `SELECT ${signInColumns}, m.invite_hash ${ofMembers} WHERE m.invite_prefix = $1`,
)

/** Notes the sign-in of an active member, whose password is still the one that was checked. */
export const noteSignIn = statement<MemberRow, [id: string, passwordHash: string | null]>(
  'member_note_sign_in',
  `
UPDATE belfry.member SET last_sign_in_at = belfry.now()
WHERE tenant_id = belfry.tenant_id() AND id = $1 AND state = 'active'
  AND ($2::text IS NULL OR password_hash = $2::text)
RETURNING ${memberColumns}`,
)

/** A new session of a member. */
export const insertSession = statement<
  SessionRow,
  [
    id: string,
    memberId: string,
    prefix: string,
    secretHash: Uint8Array,
    method: string,
    address: string,
    userAgent: string,
    idleMs: number,
    lifeMs: number,
  ]
>(
  'person_session_insert',
  `
INSERT INTO belfry.person_session
  (tenant_id, id, member_id, prefix, secret_hash, method, address, user_agent, idle, ends_at)
VALUES (belfry.tenant_id(), $1, $2, $3, $4, $5, $6, $7, $8::float8 * interval '1 millisecond',
        belfry.now() + $9::float8 * interval '1 millisecond')
RETURNING ${sessionColumns}`,
)

/** Sessions of a member that were over long ago. */
export const dropOldSessions = statement<unknown, [memberId: string]>(
  'person_session_drop_old',
  `
DELETE FROM belfry.person_session
WHERE tenant_id = belfry.tenant_id() AND member_id = $1
  AND least(ends_at, last_seen_at + idle, ended_at) < belfry.now() - interval '30 days'`,
)

/** The link is used up by it. */
export const acceptInvite = statement<
  MemberRow,
  [id: string, prefix: string, passwordHash: string, name: string | null]
>(
  'member_accept_invite',
  `
UPDATE belfry.member
SET password_hash = $3, name = coalesce($4, name), state = 'active',
    invite_prefix = NULL, invite_hash = NULL, invite_ends_at = NULL
WHERE tenant_id = belfry.tenant_id() AND id = $1 AND invite_prefix = $2 AND invite_ends_at > belfry.now()
  AND state <> 'disabled'
RETURNING ${memberColumns}`,
)

/**
 * In place of the one that was checked. Links that wait are void by it: whoever has one must not undo the
 * change.
 */
export const setPassword = statement<{ id: string }, [id: string, passwordHash: string, was: string]>(
  'member_set_password',
  `
UPDATE belfry.member
SET password_hash = $2, invite_prefix = NULL, invite_hash = NULL, invite_ends_at = NULL
WHERE tenant_id = belfry.tenant_id() AND id = $1 AND state = 'active' AND password_hash = $3
RETURNING id`,
)

/** A session that has not been ended, and is not before the end of the transaction. */
export const lockSession = statement<{ id: string }, [id: string, memberId: string]>(
  'person_session_lock',
  `
SELECT id FROM belfry.person_session
WHERE tenant_id = belfry.tenant_id() AND id = $1 AND member_id = $2 AND ended_at IS NULL FOR UPDATE`,
)

/** A member as the issuer knows it, else as its address does. */
export const lockIssued = statement<MemberRow, [issuer: string, subject: string, email: string]>(
  'member_lock_issued',
  `
SELECT ${memberColumns} FROM belfry.member
WHERE tenant_id = belfry.tenant_id()
  AND ((issuer = $1 AND subject = $2) OR (issuer IS NULL AND email = $3))
ORDER BY (issuer IS NULL) LIMIT 1 FOR UPDATE`,
)

/** A member whom the issuer vouches for. */
export const insertIssued = statement<
  MemberRow,
  [id: string, email: string, name: string, role: string, issuer: string, subject: string]
>(
  'member_insert_issued',
  `
INSERT INTO belfry.member (tenant_id, id, email, name, role, role_from, state, issuer, subject)
VALUES (belfry.tenant_id(), $1, $2, $3, $4, 'issuer', 'active', $5, $6)
RETURNING ${memberColumns}`,
)

/** Bound to the subject from now on; the role is that of the issuer where one is given. */
export const bindIssued = statement<
  MemberRow,
  [id: string, issuer: string, subject: string, role: string | null]
>(
  'member_bind_issued',
  `
UPDATE belfry.member
SET issuer = $2, subject = $3, state = 'active', role = coalesce($4, role),
    invite_prefix = NULL, invite_hash = NULL, invite_ends_at = NULL
WHERE tenant_id = belfry.tenant_id() AND id = $1
RETURNING ${memberColumns}`,
)

/**
 * What signing in looks up before the tenant is known, and what it changes, as belfry_platform: hashes of
 * passwords, links and sessions pass here and nowhere else.
 */
import type { MemberState, Role } from '@belfry/contract'
import type { KeyDirectory } from '../../ports/credentials.ts'
import type { PeopleDirectory, PeopleStore, SignInRecord } from '../../ports/people.ts'
import type { Database, Transaction } from '../database.ts'
import { findTenantByName } from '../statements/access.ts'
import { endSessionsOf, lockOwners } from '../statements/members.ts'
import type { SignInRow } from '../statements/people.ts'
import * as sql from '../statements/people.ts'
import { insertMemberOf, memberRecord, sessionRecord } from './member-store.ts'
import { msOf, only, refusingTaken } from './values.ts'

/** Sessions in the place of keys: found by prefix, each with the role of its member. */
export function createSessionDirectory(options: { db: Database; timeoutMs?: number }): KeyDirectory {
  const scope = { role: 'belfry_platform', timeoutMs: options.timeoutMs ?? 5_000 } as const
  return {
    async findByPrefix(prefix) {
      const [row] = await options.db.run({ ...scope, readOnly: true }, sql.findSessionByPrefix, [prefix])
      if (row === undefined) return undefined
      return {
        keyId: row.id,
        principal: { kind: 'person', id: row.member_id, name: row.member_name },
        role: row.role as Role,
        tenantId: row.tenant_id,
        tenantName: row.tenant_name,
        tenantCreatedAtMs: msOf(row.tenant_created_at),
        scopes: [],
        queues: null,
        secretHash: row.secret_hash,
        expiresInMs: row.expires_in_ms,
      }
    },
    async touch(id) {
      await options.db.run(scope, sql.touchSession, [id])
    },
  }
}

/** Throws `database_*`. */
export function createPeopleDirectory(options: { db: Database; timeoutMs?: number }): PeopleDirectory {
  const { db, timeoutMs = 5_000 } = options
  const scope = { role: 'belfry_platform', timeoutMs, readOnly: true } as const
  return {
    async findByEmail(email, tenant) {
      return (await db.run(scope, sql.findMembersByEmail, [email, tenant])).map(signInRecord)
    },
    async findByInvite(prefix) {
      const [row] = await db.run(scope, sql.findMemberByInvite, [prefix])
      return row === undefined ? undefined : { ...signInRecord(row), secretHash: row.invite_hash }
    },
    async findMember(tenantId, memberId) {
      const [row] = await db.run(scope, sql.findSignIn, [tenantId, memberId])
      return row === undefined ? undefined : signInRecord(row)
    },
    async findTenant(name) {
      const [row] = await db.run(scope, findTenantByName, [name])
      return row === undefined ? undefined : { id: row.id, name: row.name }
    },
  }
}

function signInRecord(row: SignInRow): SignInRecord {
  return {
    tenantId: row.tenant_id,
    tenantName: row.tenant_name,
    memberId: row.id,
    email: row.email,
    state: row.state as MemberState,
    passwordHash: row.password_hash,
  }
}

export function createPeopleStore(tx: Transaction): PeopleStore {
  return {
    async openSession(session) {
      const { id, memberId, prefix, secretHash, method, address, userAgent, idleMs, lifeMs } = session
      const [member] = await tx.query(sql.noteSignIn, [memberId, session.passwordHash])
      if (member === undefined) return undefined
      await tx.query(sql.dropOldSessions, [memberId])
      const [made] = await tx.query(sql.insertSession, [
        id,
        memberId,
        prefix,
        secretHash,
        method,
        address,
        userAgent,
        idleMs,
        lifeMs,
      ])
      if (made === undefined) return undefined
      return { member: memberRecord(member), session: sessionRecord(made) }
    },
    async acceptInvite(memberId, invitePrefix, { passwordHash, name }) {
      const [row] = await tx.query(sql.acceptInvite, [memberId, invitePrefix, passwordHash, name])
      if (row === undefined) return undefined
      // whoever had the old password may not go on with it
      await tx.query(endSessionsOf, [memberId, null])
      return memberRecord(row)
    },
    async changePassword(memberId, { was, passwordHash, keepSessionId }) {
      // the member before its session, as whoever accepts an invitation
      const set = await tx.query(sql.setPassword, [memberId, passwordHash, was])
      const kept = await tx.query(sql.lockSession, [keepSessionId, memberId])
      if (set.length === 0 || kept.length === 0) return undefined
      return (await tx.query(endSessionsOf, [memberId, keepSessionId])).map(({ id }) => id)
    },
    async findIssued({ issuer, subject, email }) {
      const [row] = await tx.query(sql.lockIssued, [issuer, subject, email])
      return row === undefined ? undefined : memberRecord(row)
    },
    async insertIssued(id, { issuer, subject, email, name, role }) {
      const write = tx.query(sql.insertIssued, [id, email, name, role, issuer, subject])
      const taken = `Another member has the e-mail address ${email}.`
      return memberRecord(only(await refusingTaken('member_email', taken, write)))
    },
    async bindIssued(memberId, { issuer, subject, role }) {
      return memberRecord(only(await tx.query(sql.bindIssued, [memberId, issuer, subject, role])))
    },
    async endSessions(memberId) {
      return (await tx.query(endSessionsOf, [memberId, null])).map(({ id }) => id)
    },
    insert: (tenantId, member) => insertMemberOf(tx, tenantId, member),
    async lockOwners() {
      return (await tx.query(lockOwners, [])).map(({ id }) => id)
    },
  }
}

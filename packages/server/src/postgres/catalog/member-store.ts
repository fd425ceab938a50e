/**
 * Members of the tenant and their sessions, as the members see them. Hashes do not pass here, except that of
 * a new invitation on its way in: the role of these transactions may not read any.
 */
import type { MemberRole, MemberState, PersonSession } from '@belfry/contract'
import type {
  MemberRecord,
  MemberStore,
  NewMember,
  PersonSessionStore,
  SessionRecord,
} from '../../ports/people.ts'
import type { Transaction } from '../database.ts'
import type { MemberRow, SessionRow } from '../statements/members.ts'
import * as sql from '../statements/members.ts'
import { isoOf, lastId, msOf, msOrNull, only, refusingTaken } from './values.ts'

export function createMemberStore(tx: Transaction, tenantId: string): MemberStore {
  const one = async (rows: Promise<MemberRow[]>) => {
    const [row] = await rows
    return row === undefined ? undefined : memberRecord(row)
  }
  return {
    insert: (member) => insertMemberOf(tx, tenantId, member),
    find: (id) => one(tx.query(sql.findMember, [id])),
    lock: (id) => one(tx.query(sql.lockMember, [id])),
    async list({ beforeId, limit }) {
      return (await tx.query(sql.listMembers, [beforeId ?? lastId, limit])).map(memberRecord)
    },
    async update(id, { name, role, state }) {
      return memberRecord(only(await tx.query(sql.updateMember, [id, name, role, state])))
    },
    async invite(id, { prefix, secretHash, endsAtMs }) {
      const params = [id, prefix, secretHash, isoOf(endsAtMs)] as const
      return memberRecord(only(await tx.query(sql.inviteMember, params)))
    },
    async remove(id) {
      await tx.query(sql.deleteMember, [id])
    },
    async lockOwners() {
      return (await tx.query(sql.lockOwners, [])).map(({ id }) => id)
    },
  }
}

export async function insertMemberOf(
  tx: Transaction,
  tenantId: string,
  { id, email, name, role, invite }: NewMember,
): Promise<MemberRecord> {
  const link = [invite.prefix, invite.secretHash, isoOf(invite.endsAtMs)] as const
  const write = tx.query(sql.insertMember, [tenantId, id, email, name, role, ...link])
  const taken = `There is a member with the e-mail address ${email}; change that one.`
  return memberRecord(only(await refusingTaken('member_email', taken, write)))
}

export function createPersonSessionStore(tx: Transaction): PersonSessionStore {
  const one = async (rows: Promise<SessionRow[]>) => {
    const [row] = await rows
    return row === undefined ? undefined : sessionRecord(row)
  }
  return {
    find: (id) => one(tx.query(sql.findSession, [id])),
    async list({ beforeId, limit }, memberId) {
      return (await tx.query(sql.listSessions, [memberId, beforeId ?? lastId, limit])).map(sessionRecord)
    },
    end: (id) => one(tx.query(sql.endSession, [id])),
    async endAllOf(memberId) {
      return (await tx.query(sql.endSessionsOf, [memberId, null])).map(({ id }) => id)
    },
  }
}

export function memberRecord(row: MemberRow): MemberRecord {
  return {
    id: row.id,
    email: row.email,
    name: row.name,
    role: row.role as MemberRole,
    roleFrom: row.role_from as MemberRecord['roleFrom'],
    state: row.state as MemberState,
    subject: row.subject,
    inviteEndsAtMs: msOrNull(row.invite_ends_at),
    createdAtMs: msOf(row.created_at),
    lastSignInAtMs: msOrNull(row.last_sign_in_at),
  }
}

export function sessionRecord(row: SessionRow): SessionRecord {
  return {
    id: row.id,
    memberId: row.member_id,
    method: row.method as PersonSession['method'],
    address: row.address,
    userAgent: row.user_agent,
    createdAtMs: msOf(row.created_at),
    lastSeenAtMs: msOf(row.last_seen_at),
    endsAtMs: msOf(row.usable_until),
    endedAtMs: msOrNull(row.ended_at),
  }
}

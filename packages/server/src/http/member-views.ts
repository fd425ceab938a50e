/**
 * From records of members and their sessions to the bodies that the contract describes. Who somebody is at
 * the OpenID provider is not shown, only that he is known there.
 */
import type { Member, MemberInvited, PersonSession } from '@belfry/contract'
import type { MemberRecord, SessionRecord } from '../ports/people.ts'

const iso = (instantMs: number): string => new Date(instantMs).toISOString()
const isoOrNull = (instantMs: number | null): string | null => (instantMs === null ? null : iso(instantMs))

export function memberView(member: MemberRecord): Member {
  return {
    id: member.id,
    email: member.email,
    name: member.name,
    role: member.role,
    roleFrom: member.roleFrom,
    state: member.state,
    signsInWith: member.subject === null ? 'password' : 'oidc',
    inviteEndsAt: isoOrNull(member.inviteEndsAtMs),
    createdAt: iso(member.createdAtMs),
    lastSignInAt: isoOrNull(member.lastSignInAtMs),
  }
}

export const invitedView = (member: MemberRecord, inviteToken: string | null): MemberInvited => ({
  ...memberView(member),
  inviteToken,
})

/** `currentId` is that of the session that asks. */
export function personSessionView(session: SessionRecord, currentId: string | null): PersonSession {
  return {
    id: session.id,
    memberId: session.memberId,
    method: session.method,
    address: session.address,
    userAgent: session.userAgent,
    current: session.id === currentId,
    createdAt: iso(session.createdAtMs),
    lastSeenAt: iso(session.lastSeenAtMs),
    endsAt: iso(session.endsAtMs),
    endedAt: isoOrNull(session.endedAtMs),
  }
}

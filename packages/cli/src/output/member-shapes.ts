/**
 * How members and their sessions look to people: a member by e-mail address, a session by where and when it
 * was used, and which of them is the one that asks.
 */
import type { Member, MemberInvited, PersonSession } from '@belfry/contract'
import type { Shape } from './printer.ts'
import { timeWithDistance } from './times.ts'

type Clock = Parameters<typeof timeWithDistance>[1]

const maybeTime = (instant: string | null, clock: Clock): string =>
  instant === null ? '' : timeWithDistance(instant, clock)

export const memberShape: Shape<Member> = {
  name: (member) => member.email,
  columns: [
    { title: 'EMAIL', cell: (member) => member.email, flexible: true },
    { title: 'NAME', cell: (member) => member.name, flexible: true },
    { title: 'ROLE', cell: (member) => member.role },
    { title: 'STATE', cell: (member) => member.state },
    { title: 'SIGNED IN', cell: (member, clock) => maybeTime(member.lastSignInAt, clock) },
  ],
  fields: (member, clock) => [
    ['E-mail', member.email],
    ['Name', member.name],
    ['Id', member.id],
    ['Role', member.roleFrom === 'issuer' ? `${member.role} (by groups at the provider)` : member.role],
    ['State', member.state],
    ['Signs in with', member.signsInWith],
    ...(member.inviteEndsAt === null
      ? []
      : [['Invited until', timeWithDistance(member.inviteEndsAt, clock)] as const]),
    ['Signed in', maybeTime(member.lastSignInAt, clock)],
  ],
}

/** With the token of the invitation, which is data: it is shown this once. */
export const invitedShape: Shape<MemberInvited> = {
  name: (member) => member.email,
  columns: [],
  fields: (member, clock) => [
    ...memberShape.fields(member, clock),
    ['Invitation', member.inviteToken ?? 'not made'],
  ],
}

export const personSessionShape: Shape<PersonSession> = {
  name: (session) => session.id,
  columns: [
    { title: 'ID', cell: (session) => session.id },
    { title: 'BY', cell: (session) => session.method },
    { title: 'FROM', cell: (session) => session.address },
    { title: 'SEEN', cell: (session, clock) => timeWithDistance(session.lastSeenAt, clock) },
    { title: 'ENDS', cell: (session, clock) => timeWithDistance(session.endedAt ?? session.endsAt, clock) },
    { title: 'THIS ONE', cell: (session) => (session.current ? 'yes' : '') },
    { title: 'PROGRAM', cell: (session) => session.userAgent, flexible: true },
  ],
  fields: (session, clock) => [
    ['Id', session.id],
    ['Member', session.memberId],
    ['By', session.method],
    ['From', session.address],
    ['Seen', timeWithDistance(session.lastSeenAt, clock)],
    ['Ends', timeWithDistance(session.endedAt ?? session.endsAt, clock)],
  ],
}

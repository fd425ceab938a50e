/**
 * Endpoints of the sessions of people: signing in by password and by invitation, looking at sessions, ending
 * them, and the own password. A session goes into a cookie or into the answer, and is stored nowhere.
 */
import { BelfryError } from '@belfry/contract'
import { checkMayChange } from '../../engine/people/member-rights.ts'
import type { Credential } from '../../ports/credentials.ts'
import type { SignedInRecord } from '../../ports/people.ts'
import type { Endpoints, PublicCall, PublicServices } from '../endpoint.ts'
import { memberView, personSessionView } from '../member-views.ts'
import { noSuch } from '../missing.ts'
import { pageById } from '../page.ts'
import { cookiesOf, handOver, type PeopleDoor } from '../people-door.ts'
import { mustHave } from '../plugins/access.ts'
import { invalidRequest } from '../validation.ts'

type SessionEndpoints = Pick<
  Endpoints,
  | 'signInWays'
  | 'signIn'
  | 'inviteAccept'
  | 'personSessionList'
  | 'signOut'
  | 'personSessionRevoke'
  | 'passwordChange'
>

export const personSessionEndpoints: SessionEndpoints = {
  signInWays: {
    as: 'public',
    async answer({ services: { people } }) {
      const issuer = people?.signIns.oidc?.issuer
      const oidc = issuer === undefined ? null : { issuer, start: '/v1/oidc/start' }
      return {
        body: { cookies: people?.cookies !== undefined, password: people !== undefined, oidc },
      }
    },
  },
  signIn: {
    as: 'public',
    async answer(call) {
      const { email, password, tenant = null, answer } = call.body
      const door = doorFor(call, answer)
      const account = `${tenant ?? ''} ${email}`
      const signedIn = await door.attempt(account, call.visitor, () =>
        door.signIns.byPassword({ email, password, tenant }, call.visitor),
      )
      return signedInAnswer(door, signedIn, answer)
    },
  },
  inviteAccept: {
    as: 'public',
    async answer(call) {
      const { token, password, name = null, answer } = call.body
      const door = doorFor(call, answer)
      const signedIn = await door.attempt(`invite ${token.slice(0, 16)}`, call.visitor, () =>
        door.signIns.byInvite({ token, password, name }, call.visitor),
      )
      return signedInAnswer(door, signedIn, answer)
    },
  },
  personSessionList: {
    as: 'tenant',
    async answer({ tx, query, credential }) {
      const own = isSession(credential) ? credential.principal.id : undefined
      const memberId = query.memberId ?? own
      if (memberId === undefined) throw unnamedMember()
      if (memberId !== own) {
        mustHave(credential, 'member.read')
        if ((await tx.members.find(memberId)) === undefined) throw noSuch('member', memberId)
      }
      const scope = { list: 'person_sessions', tenantId: credential.tenantId, filter: { memberId } }
      const current = own === undefined ? null : credential.keyId
      const read = (page: { beforeId: string | null; limit: number }) =>
        tx.personSessions.list(page, memberId)
      return { body: await pageById(scope, query, read, (each) => personSessionView(each, current)) }
    },
  },
  signOut: {
    as: 'tenant',
    async answer({ tx, credential, after, tools }) {
      const session = isSession(credential) ? await tx.personSessions.end(credential.keyId) : undefined
      if (session === undefined)
        throw nobodySignedIn(
          'To end an API key, revoke it (belfry key revoke); only a session can be signed out.',
        )
      after({ kind: 'key_revoked', keyId: session.id })
      const { cookies } = tools
      return {
        body: personSessionView(session, session.id),
        ...(cookies === undefined ? {} : { headers: { 'set-cookie': cookies.noSession() } }),
      }
    },
  },
  personSessionRevoke: {
    as: 'tenant',
    async answer({ tx, params, credential, after }) {
      const found = await tx.personSessions.find(params.id)
      // a key of the same person may do no more than its scopes say
      const isOwn = isSession(credential) && found?.memberId === credential.principal.id
      // the same words for what is not there and what is not for this caller to see
      if (found === undefined || (!isOwn && !credential.permissions.has('member.write')))
        throw noSuch('session', params.id)
      const member = isOwn ? undefined : await tx.members.find(found.memberId)
      if (member !== undefined) checkMayChange(credential, member)
      const session = (await tx.personSessions.end(params.id)) ?? found
      after({ kind: 'key_revoked', keyId: session.id })
      return { body: personSessionView(session, isSession(credential) ? credential.keyId : null) }
    },
  },
  passwordChange: {
    as: 'person',
    async answer({ credential, body, visitor, services }) {
      if (!isSession(credential)) throw nobodySignedIn('Sign in first: a password is changed in a session.')
      const door = peopleOf(services)
      const who = {
        tenantId: credential.tenantId,
        memberId: credential.principal.id,
        sessionId: credential.keyId,
      }
      await door.attempt(`password ${who.memberId}`, visitor, () =>
        door.signIns.changePassword(who, body, visitor),
      )
      return { body: undefined }
    },
  },
}

/** A key may belong to a person too; a session is what a person signed in with, and has no scopes. */
const isSession = ({ principal, scopes }: Credential): boolean =>
  principal.kind === 'person' && scopes.length === 0

function unnamedMember(): BelfryError {
  const message = 'is missing: a key has no sessions of its own; name the member whose sessions to list'
  return invalidRequest([{ pointer: '/query/memberId', message }])
}

const nobodySignedIn = (message: string): BelfryError => new BelfryError('invalid_state', message)

/** Throws `sign_in_off`. */
export function peopleOf({ people }: PublicServices): PeopleDoor {
  if (people !== undefined) return people
  throw new BelfryError('sign_in_off', 'People cannot sign in to a Belfry inside a program.')
}

/**
 * Whatever ends with a cookie begins at Belfry's own pages: nobody is signed in as somebody else by a
 * trick.
 */
function doorFor(
  { services, request }: Pick<PublicCall<'signIn'>, 'services' | 'request'>,
  answer: 'cookie' | 'token',
): PeopleDoor {
  const door = peopleOf(services)
  if (answer === 'cookie') cookiesOf(door).checkOrigin(request)
  return door
}

function signedInAnswer(door: PeopleDoor, signedIn: SignedInRecord, as: 'cookie' | 'token') {
  const { token, headers } = handOver(door, signedIn, as)
  const { session, member, tenant } = signedIn
  return {
    body: { session: personSessionView(session, session.id), member: memberView(member), tenant, token },
    headers,
  }
}

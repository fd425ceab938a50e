/**
 * People in the client: members of the tenant, their sessions, and signing in. A session that is answered
 * as a token is used as an API key is.
 */
import type { shapes } from './client-verbs.ts'
import { argumentsOf } from './client-verbs.ts'
import type { Listing } from './listing.ts'
import type { Requester } from './requester.ts'
import type { AnswerOf, BodyOf, CallOptions, ChangeOptions, ItemOf, QueryOf } from './route-types.ts'

export interface Members {
  /** Invites a person: `inviteToken` is answered this once. */
  invite(body: BodyOf<'memberCreate'>, options?: ChangeOptions): Promise<AnswerOf<'memberCreate'>>
  list(query?: QueryOf<'memberList'>, options?: CallOptions): Listing<ItemOf<'memberList'>>
  get(id: string, options?: CallOptions): Promise<AnswerOf<'memberGet'>>
  update(id: string, body: BodyOf<'memberUpdate'>, options?: ChangeOptions): Promise<AnswerOf<'memberUpdate'>>
  /** A new link, with which the member sets a password; the one before is void. */
  inviteAgain(id: string, options?: ChangeOptions): Promise<AnswerOf<'memberInvite'>>
  delete(id: string, options?: ChangeOptions): Promise<void>
}

export interface PersonSessions {
  /** Of the person who asks, or of another member. */
  list(query?: QueryOf<'personSessionList'>, options?: CallOptions): Listing<ItemOf<'personSessionList'>>
  revoke(id: string, options?: ChangeOptions): Promise<AnswerOf<'personSessionRevoke'>>
  /** Signs out: ends the session that this client uses. */
  end(options?: ChangeOptions): Promise<AnswerOf<'signOut'>>
}

export interface People {
  readonly members: Members
  readonly sessions: PersonSessions
  /** How people may sign in at this server; needs no key. */
  signInWays(options?: CallOptions): Promise<AnswerOf<'signInWays'>>
  /** With `answer: 'token'` the session is answered, to be used as `apiKey`; needs no key. */
  signIn(body: BodyOf<'signIn'>, options?: CallOptions): Promise<AnswerOf<'signIn'>>
  /** Sets a password with the token of an invitation, and signs in; needs no key. */
  acceptInvite(body: BodyOf<'inviteAccept'>, options?: CallOptions): Promise<AnswerOf<'inviteAccept'>>
  changePassword(body: BodyOf<'passwordChange'>, options?: CallOptions): Promise<void>
}

export function peopleOf(
  requester: Pick<Requester, 'request'>,
  { list }: Pick<ReturnType<typeof shapes>, 'list'>,
): People {
  const { request } = requester
  const of = (id: string) => ({ params: { id } })
  return {
    members: {
      invite: (body, options) => request('memberCreate', { body, ...argumentsOf(options) }),
      list: (query, options = {}) => list('memberList', query, options),
      get: (id, options = {}) => request('memberGet', { ...options, ...of(id) }),
      update: (id, body, options) => request('memberUpdate', { ...of(id), body, ...argumentsOf(options) }),
      inviteAgain: (id, options) => request('memberInvite', { ...of(id), ...argumentsOf(options) }),
      delete: (id, options) => request('memberDelete', { ...of(id), ...argumentsOf(options) }),
    },
    sessions: {
      list: (query, options = {}) => list('personSessionList', query, options),
      revoke: (id, options) => request('personSessionRevoke', { ...of(id), ...argumentsOf(options) }),
      end: (options) => request('signOut', argumentsOf(options)),
    },
    signInWays: (options = {}) => request('signInWays', options),
    signIn: (body, options = {}) => request('signIn', { ...options, body }),
    acceptInvite: (body, options = {}) => request('inviteAccept', { ...options, body }),
    changePassword: (body, options = {}) => request('passwordChange', { ...options, body }),
  }
}

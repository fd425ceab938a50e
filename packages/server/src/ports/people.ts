/**
 * People: members of a tenant, how they sign in, and the sessions that they then have. What a member of the
 * tenant does (invite, change, list) goes through `CatalogTx`; what happens before the tenant is known, or
 * touches hashes, goes through `PeopleDirectory` (looks) and `PlatformTx.people` (changes).
 */
import type { MemberRole, MemberState, PersonSession } from '@belfry/contract'
import type { IdentityClaims } from '../domain/people/issued-role.ts'
import type { PageRequest } from './paging.ts'

export interface Passwords {
  /** Throws `too_many_requests` where too many wait already; so does `verify`. */
  hash(password: string): Promise<string>
  /** Null, of somebody unknown or without a password, takes as long as any other. */
  verify(password: string, stored: string | null): Promise<boolean>
}

/** Makes tokens of one kind and takes them apart again. */
export interface TokenMint {
  mint(): { readonly token: string; readonly prefix: string; readonly secretHash: Uint8Array }
  /** Undefined: not a token of this kind. */
  read(token: string): ReadToken | undefined
}

export interface ReadToken {
  readonly prefix: string
  /** Whether its secret has this hash; takes as long for a wrong one. */
  proves(secretHash: Uint8Array): boolean
}

export interface MemberRecord {
  readonly id: string
  readonly email: string
  readonly name: string
  readonly role: MemberRole
  readonly roleFrom: 'members' | 'issuer'
  readonly state: MemberState
  /** At the OpenID provider; null: not known there. */
  readonly subject: string | null
  readonly inviteEndsAtMs: number | null
  readonly createdAtMs: number
  readonly lastSignInAtMs: number | null
}

export interface Invite {
  readonly prefix: string
  readonly secretHash: Uint8Array
  readonly endsAtMs: number
}

export interface NewMember {
  readonly id: string
  readonly email: string
  readonly name: string
  readonly role: MemberRole
  readonly invite: Invite
}

export interface MemberStore {
  /** Throws `name_taken`. */
  insert(member: NewMember): Promise<MemberRecord>
  find(id: string): Promise<MemberRecord | undefined>
  /** Locked until the end of the transaction. */
  lock(id: string): Promise<MemberRecord | undefined>
  list(page: PageRequest): Promise<readonly MemberRecord[]>
  update(id: string, change: { name: string; role: MemberRole; state: MemberState }): Promise<MemberRecord>
  /** The one before is void. */
  invite(id: string, invite: Invite): Promise<MemberRecord>
  remove(id: string): Promise<void>
  /** Active owners, all locked until the end of the transaction: so two cannot go at once. */
  lockOwners(): Promise<readonly string[]>
}

export interface SessionRecord {
  readonly id: string
  readonly memberId: string
  readonly method: PersonSession['method']
  readonly address: string
  readonly userAgent: string
  readonly createdAtMs: number
  readonly lastSeenAtMs: number
  readonly endsAtMs: number
  readonly endedAtMs: number | null
}

export interface PersonSessionStore {
  find(id: string): Promise<SessionRecord | undefined>
  /** Those that may be used now, newest first. */
  list(page: PageRequest, memberId: string): Promise<readonly SessionRecord[]>
  /** From now on; one that had ended keeps its time. */
  end(id: string): Promise<SessionRecord | undefined>
  /** Ids of those that end by it. */
  endAllOf(memberId: string): Promise<readonly string[]>
}

/** What signing in needs to know of a member, found before the tenant is known. */
export interface SignInRecord {
  readonly tenantId: string
  readonly tenantName: string
  readonly memberId: string
  readonly email: string
  readonly state: MemberState
  readonly passwordHash: string | null
}

export interface PeopleDirectory {
  /** With this address, in this tenant or in any; two at most. */
  findByEmail(email: string, tenant: string | null): Promise<readonly SignInRecord[]>
  /** Whose link it is; it may be over. */
  findByInvite(prefix: string): Promise<(SignInRecord & Pick<Invite, 'secretHash'>) | undefined>
  findMember(tenantId: string, memberId: string): Promise<SignInRecord | undefined>
  findTenant(name: string): Promise<{ readonly id: string; readonly name: string } | undefined>
}

export interface NewSession {
  readonly id: string
  readonly memberId: string
  readonly prefix: string
  readonly secretHash: Uint8Array
  readonly method: PersonSession['method']
  readonly address: string
  readonly userAgent: string
  readonly idleMs: number
  readonly lifeMs: number
  /** What the password was checked against, which it must still be; null: it came in another way. */
  readonly passwordHash: string | null
}

/** A person as the OpenID provider knows it. */
export interface IssuedPerson {
  readonly issuer: string
  readonly subject: string
  readonly email: string
  readonly name: string
  /** What its groups say; null: nothing. */
  readonly role: MemberRole | null
}

export interface PeopleStore {
  /**
   * Active members only, with the same password still; undefined for others. Its sessions of long ago are
   * removed.
   */
  openSession(session: NewSession): Promise<{ member: MemberRecord; session: SessionRecord } | undefined>
  /** Once: undefined where the link was used, is over, or the member is disabled. */
  acceptInvite(
    memberId: string,
    invitePrefix: string,
    change: { readonly passwordHash: string; readonly name: string | null },
  ): Promise<MemberRecord | undefined>
  /**
   * Ends all sessions but one. Answers the ids of those that ended; undefined where the password is not the
   * one that it was, or the session to keep has ended: then the transaction must be given up.
   */
  changePassword(
    memberId: string,
    change: { readonly was: string; readonly passwordHash: string; readonly keepSessionId: string },
  ): Promise<readonly string[] | undefined>
  /** By the subject at the issuer, else by the address; locked. */
  findIssued(person: Pick<IssuedPerson, 'issuer' | 'subject' | 'email'>): Promise<MemberRecord | undefined>
  /** A new member, active at once. Throws `name_taken`. */
  insertIssued(id: string, person: IssuedPerson & { readonly role: MemberRole }): Promise<MemberRecord>
  /** Active, and known by its subject from now on; a role is set where one is given. */
  bindIssued(memberId: string, person: IssuedPerson): Promise<MemberRecord>
  /** Answers the ids of those that end by it. */
  endSessions(memberId: string): Promise<readonly string[]>
  /** As `MemberStore.insert`, for any tenant. */
  insert(tenantId: string, member: NewMember): Promise<MemberRecord>
  /** As `MemberStore.lockOwners`: before any other member is locked, or two wait for each other. */
  lockOwners(): Promise<readonly string[]>
}

/** What a caller was told in its session, as it is stored. */
export interface SignedInRecord {
  readonly tenant: { readonly id: string; readonly name: string }
  readonly member: MemberRecord
  readonly session: SessionRecord
  readonly token: string
}

/** Who signs in, as far as the request tells. */
export interface Visitor {
  readonly address: string
  readonly userAgent: string
  readonly requestId: string
}

/** What the browser keeps between going to the provider and coming back. */
export interface OidcAttempt {
  readonly state: string
  readonly nonce: string
  readonly verifier: string
  readonly next: string
}

export interface OidcClient {
  readonly issuer: string
  begin(next: string): Promise<{ readonly url: string; readonly attempt: OidcAttempt }>
  /** Of the query with which the browser came back. Throws `sign_in_failed`, `sign_in_unavailable`. */
  finish(query: URLSearchParams, attempt: OidcAttempt): Promise<IdentityClaims>
}

/** All ways in. Each throws `sign_in_failed`, `sign_in_off`, `too_many_requests`, `database_*`. */
export interface SignIns {
  readonly oidc: OidcClient | undefined
  byPassword(
    given: { readonly email: string; readonly password: string; readonly tenant: string | null },
    visitor: Visitor,
  ): Promise<SignedInRecord>
  byInvite(
    given: { readonly token: string; readonly password: string; readonly name: string | null },
    visitor: Visitor,
  ): Promise<SignedInRecord>
  /** `changed`: called with the id of a member whose role or sessions the claims have changed. */
  byIdentity(
    claims: IdentityClaims,
    visitor: Visitor,
    changed: (memberId: string) => void,
  ): Promise<SignedInRecord>
  /** Answers the ids of the sessions that ended. */
  changePassword(
    who: { readonly tenantId: string; readonly memberId: string; readonly sessionId: string },
    given: { readonly currentPassword: string; readonly newPassword: string },
    visitor: Visitor,
  ): Promise<readonly string[]>
}

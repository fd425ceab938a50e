/**
 * The ways in for people.
 *
 *   password   look the account up ─► scrypt (for nobody too) ─► session
 *   invite     look the link up ─► scrypt ─► link used up, password set, old sessions ended, session
 *   provider   proved claims ─► member by subject, else by verified address, else a new one ─► session
 *
 * Whatever fails of a password or a link is told in the same words, so that nobody learns who has an account.
 * A session is opened in the transaction that did the rest and puts it on record in the audit; so are
 * refusals.
 */
import { BelfryError } from '@belfry/contract'
import type { IdentityClaims, IssuerRules } from '../../domain/people/issued-role.ts'
import { issuedRole, vouchedEmail } from '../../domain/people/issued-role.ts'
import { secretFault } from '../../domain/secret-strength.ts'
import type { AuditCaller, AuditDetails, AuditNotes } from '../../ports/audit.ts'
import { ownCaller } from '../../ports/audit.ts'
import type { Access, Catalog, PlatformTx } from '../../ports/catalog.ts'
import type { Ids } from '../../ports/ids.ts'
import type {
  MemberRecord,
  OidcClient,
  Passwords,
  PeopleDirectory,
  SignedInRecord,
  SignInRecord,
  SignIns,
  TokenMint,
  Visitor,
} from '../../ports/people.ts'

export interface SignInOptions {
  readonly catalog: Pick<Catalog, 'withinPlatform'>
  readonly directory: PeopleDirectory
  readonly passwords: Passwords
  readonly sessions: TokenMint
  readonly invites: TokenMint
  readonly ids: Ids
  readonly notes: AuditNotes
  readonly idleMs: number
  readonly lifeMs: number
  readonly provider?: { readonly client: OidcClient; readonly tenant: string; readonly rules: IssuerRules }
}

type Method = SignedInRecord['session']['method']
type Tenant = SignedInRecord['tenant']

const minPasswordLength = 12

export function createSignIns(options: SignInOptions): SignIns {
  const { directory, passwords, provider } = options
  return {
    oidc: provider?.client,
    async byPassword({ email, password, tenant }, visitor) {
      const found = await directory.findByEmail(email, tenant)
      const [only] = found.length === 1 ? found : []
      const hash = only?.state === 'active' ? only.passwordHash : null
      const isRight = await passwords.verify(password, hash)
      const signedIn =
        isRight && only !== undefined
          ? await enter(options, only, { method: 'password', passwordHash: hash }, visitor)
          : undefined
      if (signedIn !== undefined) return signedIn
      if (only !== undefined) noteRefusal(options, only, 'password', visitor)
      throw refused(
        'The e-mail address or the password is wrong. If the address is in several tenants, name the tenant.',
      )
    },
    async byInvite({ token, password, name }, visitor) {
      const read = options.invites.read(token)
      const found = read === undefined ? undefined : await directory.findByInvite(read.prefix)
      const wrongLink = 'The invitation is unknown, used or over; ask who invited you for a new one.'
      if (read === undefined || found === undefined || !read.proves(found.secretHash))
        throw refused(wrongLink)
      checkPassword('/password', password, [found.email, found.tenantName, name ?? ''])
      const passwordHash = await passwords.hash(password)
      const accept = (tx: PlatformTx) =>
        tx.people.acceptInvite(found.memberId, read.prefix, { passwordHash, name })
      const signedIn = await enter(options, found, { method: 'invite' }, visitor, accept)
      if (signedIn !== undefined) return signedIn
      noteRefusal(options, found, 'invite', visitor)
      throw refused(wrongLink)
    },
    byIdentity: (claims, visitor, changed) => enterByIdentity(options, { claims, visitor, changed }),
    async changePassword({ tenantId, memberId, sessionId }, given, visitor) {
      const found = await directory.findMember(tenantId, memberId)
      if (found === undefined) throw refused('The member is gone.')
      if (!(await passwords.verify(given.currentPassword, found.passwordHash))) {
        noteRefusal(options, found, 'password', visitor)
        throw refused('The current password is wrong.')
      }
      checkPassword('/newPassword', given.newPassword, [found.email, found.tenantName])
      const passwordHash = await passwords.hash(given.newPassword)
      return options.catalog.withinPlatform(changing(found, visitor), async (tx) => {
        // hashing takes long: whoever reset the password or ended the session meanwhile must not be overruled
        const change = { was: found.passwordHash ?? '', passwordHash, keepSessionId: sessionId }
        const ended = await tx.people.changePassword(memberId, change)
        if (ended === undefined) {
          noteRefusal(options, found, 'password', visitor)
          throw refused('Your password was changed or your session ended meanwhile; sign in again.')
        }
        tx.audit.record({ action: 'member.password', subject: memberSubject(memberId, found.email) })
        return ended
      })
    },
  }
}

/** Opens a session, after `before` in the same transaction; undefined where either finds nobody. */
async function enter(
  { catalog, sessions, ids, idleMs, lifeMs }: SignInOptions,
  who: Pick<SignInRecord, 'tenantId' | 'tenantName' | 'memberId' | 'email'>,
  { method, passwordHash = null }: { readonly method: Method; readonly passwordHash?: string | null },
  visitor: Visitor,
  before: (tx: PlatformTx) => Promise<MemberRecord | undefined | true> = async () => true,
): Promise<SignedInRecord | undefined> {
  const { token, prefix, secretHash } = sessions.mint()
  const { address, userAgent } = visitor
  const { tenantId, tenantName, memberId } = who
  const made = await catalog.withinPlatform(changing(who, visitor), async (tx) => {
    const isReady = await before(tx)
    if (isReady === undefined) return undefined
    const id = ids.uuidv7(await tx.nowMs())
    const rest = { prefix, secretHash, method, address, userAgent, idleMs, lifeMs, passwordHash }
    const opened = await tx.people.openSession({ id, memberId, ...rest })
    if (opened !== undefined) tx.audit.record({ ...sessionCreate(opened.session.id), details: { method } })
    return opened
  })
  return made && { ...made, tenant: { id: tenantId, name: tenantName }, token }
}

interface Identity {
  readonly claims: IdentityClaims
  readonly visitor: Visitor
  readonly changed: (memberId: string) => void
}

async function enterByIdentity(options: SignInOptions, identity: Identity): Promise<SignedInRecord> {
  const { provider, directory } = options
  if (provider === undefined) throw isOff('No OpenID provider is set (oidcIssuer).')
  const tenant = await directory.findTenant(provider.tenant)
  if (tenant === undefined)
    throw isOff(`There is no tenant "${provider.tenant}" (oidcTenant); make it first.`)
  const member = await admit(options, tenant, identity, provider.rules)
  const who = { tenantId: tenant.id, tenantName: tenant.name, memberId: member.id, email: member.email }
  const signedIn = await enter(options, who, { method: 'oidc' }, identity.visitor)
  if (signedIn === undefined) throw refused('Your account is disabled here; ask an owner of the tenant.')
  return signedIn
}

/** The member whom the claims stand for, made or brought up to date, which is put on record. */
async function admit(
  { catalog, ids }: SignInOptions,
  tenant: Tenant,
  { claims, visitor, changed }: Identity,
  rules: IssuerRules,
): Promise<MemberRecord> {
  const email = vouchedEmail(claims, rules)
  if (email === undefined)
    throw refused('Your provider names no verified e-mail address of a domain that may come in here.')
  const role = issuedRole(claims.groups, rules)
  const person = { ...claims, email, name: (claims.name ?? email).slice(0, 128), role }
  const access = { tenantId: tenant.id, dryRun: false, readOnly: false, caller: providerCaller(visitor) }
  const { before, member } = await catalog.withinPlatform(access, async (tx) => {
    // owners before the member, as everybody who may need both
    const owners = role === null || role === 'owner' ? [] : await tx.people.lockOwners()
    const known = await tx.people.findIssued(person)
    if (known === undefined) {
      if (role === null) throw refused('Nobody has invited you here, and your groups give you no role.')
      const id = ids.uuidv7(await tx.nowMs())
      const made = await tx.people.insertIssued(id, { ...person, role }).catch(asRefusal)
      tx.audit.record({ action: 'member.create', subject: memberSubject(id, email), details: { role } })
      return { before: undefined, member: made }
    }
    if (known.state === 'disabled')
      throw refused('Your account is disabled here; ask an owner of the tenant.')
    if (known.roleFrom === 'issuer' && role === null) {
      // not thrown from in here: what he is signed in with elsewhere must end
      const ended = await tx.people.endSessions(known.id)
      if (ended.length > 0) recordUpdate(tx, known, { sessionsEnded: ended.length })
      return { before: known, member: undefined }
    }
    const given = known.roleFrom === 'members' ? null : keepingAnOwner(owners, known, role)
    const bound = await tx.people.bindIssued(known.id, { ...person, role: given })
    const fields = followedFields.filter((field) => known[field] !== bound[field])
    if (fields.length > 0) recordUpdate(tx, known, { fields, role: bound.role })
    return { before: known, member: bound }
  })
  if (before !== undefined && before.role !== member?.role) changed(before.id)
  if (member === undefined) throw refused('Your groups no longer give you a role here.')
  return member
}

/** What a sign-in may change of a member. */
const followedFields = ['role', 'state', 'subject'] as const

const recordUpdate = (tx: PlatformTx, { id, email }: MemberRecord, details: AuditDetails): void =>
  tx.audit.record({ action: 'member.update', subject: memberSubject(id, email), details })

/** What the provider says never takes the last owner away. */
const keepingAnOwner = (owners: readonly string[], known: MemberRecord, role: MemberRecord['role'] | null) =>
  known.role !== 'owner' || owners.some((id) => id !== known.id) ? role : 'owner'

/** Throws `invalid_request` for one that is too easily guessed. */
function checkPassword(pointer: string, password: string, related: readonly string[]): void {
  const fault = secretFault(password, { minLength: minPasswordLength, related })
  if (fault === undefined) return
  const message = `${fault}; take a longer one, or let a password manager make one`
  throw new BelfryError('invalid_request', `The password ${message}.`, { errors: [{ pointer, message }] })
}

const refused = (message: string): BelfryError => new BelfryError('sign_in_failed', message)
const isOff = (message: string): BelfryError => new BelfryError('sign_in_off', message)

function asRefusal(error: unknown): never {
  if (!(error instanceof BelfryError) || error.code !== 'name_taken') throw error
  throw refused('Your e-mail address belongs to another member here; ask an owner of the tenant.')
}

function noteRefusal({ notes }: SignInOptions, who: SignInRecord, method: Method, visitor: Visitor): void {
  notes.note({
    ...sessionCreate(null),
    tenantId: who.tenantId,
    details: { method },
    outcome: 'refused',
    code: 'sign_in_failed',
    caller: callerOf(who, visitor),
  })
}

const sessionCreate = (id: string | null) =>
  ({ action: 'session.create', subject: { kind: 'session', id, name: null } }) as const

type Who = Pick<SignInRecord, 'tenantId' | 'memberId' | 'email'>

const memberSubject = (id: string, name: string) => ({ kind: 'member', id, name }) as const

/** What the groups of somebody change is not his doing, nor that of a member: the provider said so. */
const providerCaller = ({ address, requestId }: Visitor): AuditCaller => ({
  ...ownCaller('oidc'),
  address,
  requestId,
})

const callerOf = ({ memberId, email }: Who, { address, requestId }: Visitor): AuditCaller => ({
  actor: { kind: 'person', id: memberId, name: email },
  keyId: null,
  address,
  requestId,
  claimedAtMs: null,
})

const changing = (who: Who, visitor: Visitor): Access => ({
  tenantId: who.tenantId,
  dryRun: false,
  readOnly: false,
  caller: callerOf(who, visitor),
})

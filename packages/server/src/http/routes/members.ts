/**
 * Endpoints of members. Who may give which role is decided in engine/people/member-rights.ts; the token of an
 * invitation leaves in one answer and is stored nowhere.
 */
import type { MemberRole } from '@belfry/contract'
import { BelfryError } from '@belfry/contract'
import { checkNobodyRuns } from '../../engine/catalog/key-grants.ts'
import { checkMayChange, checkMayGive } from '../../engine/people/member-rights.ts'
import type { CatalogTx, CommonTx } from '../../ports/catalog.ts'
import type { Credential } from '../../ports/credentials.ts'
import type { MemberRecord, NewMember } from '../../ports/people.ts'
import type { Call, Endpoints } from '../endpoint.ts'
import { invitedView, memberView } from '../member-views.ts'
import { noSuch } from '../missing.ts'
import { pageById } from '../page.ts'
import { mustHave } from '../plugins/access.ts'

type MemberEndpoints = Pick<
  Endpoints,
  'memberCreate' | 'memberList' | 'memberGet' | 'memberUpdate' | 'memberInvite' | 'memberDelete'
>

const inviteMs = 7 * 86_400_000

export const memberEndpoints: MemberEndpoints = {
  memberCreate: {
    as: 'chosen',
    choose({ credential, body }) {
      const otherTenant = body.tenant !== undefined && body.tenant !== credential.tenantName
      mustHave(credential, otherTenant ? 'tenant.manage' : memberWrite(credential, body.role))
      checkMayGive(credential, body.role, { otherTenant })
      if (!otherTenant)
        return { as: 'tenant', answer: (call) => inviteNew(call, (made) => call.tx.members.insert(made)) }
      return {
        as: 'platform',
        async answer(call) {
          const tenant = await call.tx.tenants.findByName(body.tenant ?? '')
          if (tenant === undefined) throw noSuchTenant(body.tenant ?? '')
          const makes = body.role === 'owner' ? 'owner' : 'other'
          checkNobodyRuns(tenant.name, await call.tx.tenants.handsOf(tenant.id), makes)
          const invited = await inviteNew(call, (made) => call.tx.people.insert(tenant.id, made))
          return { ...invited, audited: { alsoIn: tenant.id } }
        },
      }
    },
  },
  memberList: {
    as: 'tenant',
    async answer({ tx, query, credential }) {
      const scope = { list: 'members', tenantId: credential.tenantId, filter: {} }
      return { body: await pageById(scope, query, (page) => tx.members.list(page), memberView) }
    },
  },
  memberGet: {
    as: 'tenant',
    async answer({ tx, params }) {
      const member = await tx.members.find(params.id)
      if (member === undefined) throw noSuch('member', params.id)
      return { body: memberView(member) }
    },
  },
  memberUpdate: {
    as: 'tenant',
    async answer({ tx, params, body, credential, after }) {
      const owners = await tx.members.lockOwners()
      const member = await lockedMember(tx, params.id)
      checkMayChange(credential, member)
      const { name = member.name, role = member.role, state = member.state } = body
      if (role !== member.role) checkMayGive(credential, role)
      if (member.state === 'invited' && state === 'active') throw notYetActive(member)
      if (role !== 'owner' || state !== 'active') keepAnOwner(owners, member)
      // who never came in goes on being invited, and is no owner who could let others in
      const isBack = state === 'active' && member.lastSignInAtMs === null
      const change = { name, role, state: isBack ? ('invited' as const) : state }
      const changed = await tx.members.update(member.id, change)
      // for good: who is let in again makes new ones
      if (state === 'disabled') {
        await tx.personSessions.endAllOf(member.id)
        await tx.keys.revokeAllOf(member.id)
      }
      after({ kind: 'principal_changed', principalId: member.id })
      return { body: memberView(changed) }
    },
  },
  memberInvite: {
    as: 'tenant',
    async answer({ tx, tools, params, query, credential }) {
      const member = await lockedMember(tx, params.id)
      // whoever has the link can become this member
      checkMayChange(credential, member)
      if (member.state === 'disabled') {
        const message = `${member.name} is disabled; let the member in again first (state "active").`
        throw new BelfryError('invalid_state', message)
      }
      const { token, prefix, secretHash } = tools.invites.mint()
      const endsAtMs = (await tx.nowMs()) + inviteMs
      const invited = await tx.members.invite(member.id, { prefix, secretHash, endsAtMs })
      return { body: invitedView(invited, query.dryRun ? null : token) }
    },
  },
  memberDelete: {
    as: 'tenant',
    async answer({ tx, params, credential, after }) {
      const owners = await tx.members.lockOwners()
      const member = await lockedMember(tx, params.id)
      checkMayChange(credential, member)
      keepAnOwner(owners, member)
      await tx.keys.revokeAllOf(member.id)
      await tx.members.remove(member.id)
      after({ kind: 'principal_changed', principalId: member.id })
      return { body: undefined, audited: { subjectName: member.name } }
    },
  },
}

/** Owners may be invited by whoever may make owners, though he may do nothing else inside the tenant. */
const memberWrite = ({ permissions }: Credential, role: MemberRole): 'owner.write' | 'member.write' =>
  role === 'owner' && !permissions.has('member.write') ? 'owner.write' : 'member.write'

async function inviteNew(
  { tx, tools, body, query }: Call<'memberCreate', CommonTx>,
  insert: (member: NewMember) => Promise<MemberRecord>,
) {
  const nowMs = await tx.nowMs()
  const { token, prefix, secretHash } = tools.invites.mint()
  const { email, role, name = email.slice(0, 128) } = body
  const invite = { prefix, secretHash, endsAtMs: nowMs + inviteMs }
  const member = await insert({ id: tools.ids.uuidv7(nowMs), email, name, role, invite })
  return {
    body: invitedView(member, query.dryRun ? null : token),
    keptBody: invitedView(member, null),
    location: `/v1/members/${member.id}`,
  }
}

async function lockedMember(tx: CatalogTx, id: string): Promise<MemberRecord> {
  const member = await tx.members.lock(id)
  if (member === undefined) throw noSuch('member', id)
  return member
}

/** `owners` are the active ones, locked. Throws `last_owner`. */
function keepAnOwner(owners: readonly string[], member: MemberRecord): void {
  if (!owners.includes(member.id) || owners.length > 1) return
  const message = `${member.name} is the last active owner of this tenant; make somebody else an owner first.`
  throw new BelfryError('last_owner', message)
}

function notYetActive({ name }: MemberRecord): BelfryError {
  const message = `${name} is invited and has not come in yet; make a new link instead (POST …/invite).`
  return new BelfryError('invalid_state', message, { errors: [{ pointer: '/state', message }] })
}

function noSuchTenant(name: string): BelfryError {
  const message = `There is no tenant named "${name}". Create it first (POST /v1/tenants).`
  return new BelfryError('not_found', message, { errors: [{ pointer: '/tenant', message }] })
}

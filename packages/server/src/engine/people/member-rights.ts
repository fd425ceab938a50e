/**
 * Who may give or take which role: nobody gives a role that may do more than he may, nobody changes a member
 * who may do more, and owners are made and removed with `owner.write`.
 */
import type { MemberRole, Permission } from '@belfry/contract'
import { BelfryError, rolePermissions } from '@belfry/contract'
import type { Credential } from '../../ports/credentials.ts'

/** What of a role the caller lacks; the first of it. */
function lackedFor(
  role: MemberRole,
  held: ReadonlySet<Permission>,
  otherTenant: boolean,
): Permission | undefined {
  if (role === 'owner') return held.has('owner.write') ? undefined : 'owner.write'
  if (otherTenant && held.has('owner.write')) return undefined
  return rolePermissions[role].find((permission) => !held.has(permission))
}

/** Throws `forbidden`, with a pointer to the role. */
export function checkMayGive(
  { permissions }: Pick<Credential, 'permissions'>,
  role: MemberRole,
  { otherTenant = false } = {},
): void {
  const lacked = lackedFor(role, permissions, otherTenant)
  if (lacked === undefined) return
  const message = `may do more than you (${lacked}); let somebody who may do it`
  throw new BelfryError('forbidden', `The role "${role}" ${message}.`, {
    errors: [{ pointer: '/role', message }],
  })
}

/** Throws `forbidden` where the member may do more than the caller. */
export function checkMayChange(
  { permissions }: Pick<Credential, 'permissions'>,
  member: { readonly name: string; readonly role: MemberRole },
): void {
  const lacked = lackedFor(member.role, permissions, false)
  if (lacked === undefined) return
  const message =
    `${member.name} has the role "${member.role}", which may do more than you (${lacked}); ` +
    'let somebody change it who may do as much.'
  throw new BelfryError('forbidden', message)
}

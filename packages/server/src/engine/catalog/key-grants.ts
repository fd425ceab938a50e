/**
 * Who may make and revoke which key. In one's own tenant it takes `key.write`, and nobody gives or takes what
 * he does not have. For another tenant it takes `tenant.manage`, which may give anything there but `platform`
 * itself unless the creator has it, and only while nobody runs that tenant: then its people make their own.
 */
import type { ErrorDetail, Scope } from '@belfry/contract'
import { BelfryError, scopePermissions } from '@belfry/contract'
import type { Credential } from '../../ports/credentials.ts'
import type { KeyRecord, TenantHands } from '../../ports/tenants.ts'

/** Throws `forbidden`, with a pointer to the scope or tenant that is too much. */
export function checkGrant(creator: Credential, wanted: readonly Scope[], otherTenant: boolean): void {
  if (!creator.permissions.has(otherTenant ? 'tenant.manage' : 'key.write')) {
    const message = otherTenant
      ? 'A key for another tenant needs the scope "platform"; leave out "tenant" or use such a key.'
      : 'Making keys needs the scope "admin"; use a key that has it.'
    throw new BelfryError('forbidden', message, {
      errors: otherTenant ? [{ pointer: '/tenant', message }] : [],
    })
  }
  const mayGive = (scope: Scope) => hasAll(creator, scope) || (otherTenant && scope !== 'platform')
  const errors = wanted.flatMap((scope, index): ErrorDetail[] =>
    mayGive(scope)
      ? []
      : [{ pointer: `/scopes/${index}`, message: `you do not have all of "${scope}" yourself` }],
  )
  if (errors.length > 0) {
    throw new BelfryError(
      'forbidden',
      'A key can be given only what its creator may do himself; leave out the rest.',
      { errors },
    )
  }
}

const hasAll = ({ permissions }: Credential, scope: Scope): boolean =>
  scopePermissions[scope].every((each) => permissions.has(each))

/** Throws `forbidden` where the key may do more than the caller; his own he may always revoke. */
export function checkMayRevoke(
  caller: Credential,
  { id, name, owner, scopes }: Pick<KeyRecord, 'id' | 'name' | 'owner' | 'scopes'>,
): void {
  const { keyId, principal } = caller
  if (id === keyId || (owner?.kind === principal.kind && owner.id === principal.id)) return
  const beyond = scopes.find((scope) => !hasAll(caller, scope))
  if (beyond === undefined) return
  const message =
    `The key "${name}" has the scope "${beyond}", and you do not have all of that yourself; ` +
    'let somebody revoke it who has.'
  throw new BelfryError('forbidden', message)
}

/**
 * Throws `forbidden` where somebody runs the tenant: the platform lets its first people in, and nobody after
 * them. A key of the scope `admin` makes no owners, so the first owner may come after it.
 */
export function checkNobodyRuns(tenant: string, hands: TenantHands, makes: 'owner' | 'other'): void {
  if (!hands.hasOwner && (makes === 'owner' || !hands.hasAdminKey)) return
  const who = hands.hasOwner ? 'an owner' : 'a key with the scope "admin"'
  const message = `is "${tenant}", which has ${who} already; who runs it lets others in`
  throw new BelfryError('forbidden', `The tenant ${message}.`, { errors: [{ pointer: '/tenant', message }] })
}

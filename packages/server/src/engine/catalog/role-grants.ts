/**
 * Who may give which role: nobody gives what he may not do himself, and nobody takes such a role away or
 * changes who has it.
 */
import type { Role } from '@belfry/contract'
import { BelfryError, rolePermissions } from '@belfry/contract'
import type { Credential } from '../../ports/credentials.ts'

/** Throws `forbidden`, with a pointer to the role. */
export function checkRoles({ permissions }: Credential, roles: readonly Role[]): void {
  for (const role of roles) {
    const missing = rolePermissions[role].find((each) => !permissions.has(each))
    if (missing === undefined) continue
    const message = `"${role}" may do what you may not (${missing}); somebody with that role has to do it`
    throw new BelfryError('forbidden', `The role ${message}.`, { errors: [{ pointer: '/role', message }] })
  }
}

// What credentials that tests make by hand may do, and which key a route takes.
import type { Permission, Route } from '@belfry/contract'
import { permissionsOfScopes, rolePermissions } from '@belfry/contract'

/** The parts of a credential that say what it may do: all that the scope `admin` contains. */
export const adminRights = (id: string) => ({
  principal: { kind: 'key' as const, id, name: 'by-hand' },
  role: null,
  permissions: permissionsOfScopes(['admin']),
})

/** Whether a route takes a key of those who run the servers; one for a tenant's people may not call it. */
export const isOfPlatform = ({ permission }: Pick<Route, 'permission'>): boolean =>
  (rolePermissions.platform as readonly string[]).includes(permission) &&
  !permissionsOfScopes(['admin']).has(permission as Permission)

/**
 * How service accounts, roles and permissions look to people; programs get the
 * objects of the API, and the tables of the contract, as they are.
 */
import type { Permission, Role, ServiceAccount } from '@belfry/contract'
import type { Shape } from './printer.ts'
import { timeWithDistance } from './times.ts'

const stateOf = ({ disabledAt }: ServiceAccount): string => (disabledAt === null ? 'active' : 'disabled')

export const serviceAccountShape: Shape<ServiceAccount> = {
  name: (account) => account.name,
  columns: [
    { title: 'NAME', cell: (account) => account.name, flexible: true },
    { title: 'ROLE', cell: (account) => account.role },
    { title: 'QUEUES', cell: (account) => account.queues?.join(',') ?? 'all', flexible: true },
    { title: 'STATE', cell: (account) => stateOf(account) },
    { title: 'ID', cell: (account) => account.id },
  ],
  fields: (account, clock) => [
    ['Name', account.name],
    ['Id', account.id],
    ['Description', account.description],
    ['Role', account.role],
    ['Queues', account.queues?.join(', ') ?? 'all'],
    ['State', stateOf(account)],
    ...(account.disabledAt === null
      ? []
      : [['Disabled', timeWithDistance(account.disabledAt, clock)] as const]),
    ['Made', timeWithDistance(account.createdAt, clock)],
    ['Changed', timeWithDistance(account.updatedAt, clock)],
  ],
}

export type RoleItem = {
  readonly role: Role
  readonly description: string
  readonly permissions: readonly Permission[]
}

export const roleShape: Shape<RoleItem> = {
  name: ({ role }) => role,
  columns: [
    { title: 'ROLE', cell: ({ role }) => role },
    { title: 'MAY', cell: ({ description }) => description, flexible: true },
    { title: 'PERMISSIONS', cell: ({ permissions }) => String(permissions.length), align: 'right' },
  ],
  fields: () => [],
}

export type PermissionItem = { readonly permission: Permission; readonly description: string }

export const permissionShape: Shape<PermissionItem> = {
  name: ({ permission }) => permission,
  columns: [
    { title: 'PERMISSION', cell: ({ permission }) => permission },
    { title: 'ALLOWS TO', cell: ({ description }) => description, flexible: true },
  ],
  fields: () => [],
}

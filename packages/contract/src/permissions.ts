/**
 * What may be done, and who may do it, as tables of data. A permission is one kind of act on one kind of
 * thing. A role is a named set of them, for people and service accounts; a scope is a named set of them,
 * for API keys. The rights of a key are those of its scopes; of a key that somebody owns, only those that
 * its owner has too. Each route of the API names the permission that it takes (routes.ts).
 */

/** Every permission, with what it allows. */
export const permissionWords = {
  'job.read': 'look at jobs',
  'job.write': 'define, change and delete jobs',
  'job.operate': 'pause and resume jobs',
  'schedule.read': 'look at schedules, their occurrences and backfills',
  'schedule.write': 'make, change and delete schedules',
  'schedule.operate': 'pause, resume, skip, trigger and backfill schedules',
  'calendar.read': 'look at calendars',
  'calendar.write': 'make, change and delete calendars',
  'workflow.read': 'look at workflows and their runs',
  'workflow.write': 'save and delete workflows',
  'workflow.start': 'start workflow runs',
  'workflow.operate': 'cancel, rerun, mark and skip in workflow runs',
  'workflow.approve': 'approve and reject what waits for a decision',
  'event.send': 'send events and signals',
  'run.read': 'look at runs, their attempts, results and logs, and at dead letters',
  'run.start': 'start runs of jobs',
  'run.operate': 'cancel runs, replay and delete dead letters',
  'queue.read': 'look at queues',
  'queue.operate': 'pause and resume queues',
  'limit.read': 'look at pools and limits',
  'limit.write': 'change pools and limits',
  'quota.read': 'look at quotas and their use',
  'worker.read': 'look at workers',
  'worker.serve': 'run functions, in the queues of the key',
  'secret.read': 'look at the names, versions and grants of secrets; nobody reads a value',
  'secret.write': 'make, rotate and delete secrets',
  'secret.grant': 'say who may use a secret',
  'audit.read': 'read the audit log',
  'audit.export': 'export the audit log with its checkpoints',
  'key.read': 'look at API keys',
  'key.write': 'make and revoke API keys',
  'member.read': 'look at members and their sessions',
  'member.write': 'invite, change and remove members',
  'owner.write': 'make and remove owners',
  'service_account.read': 'look at service accounts',
  'service_account.write': 'make, change and disable service accounts',
  'service_account.act_as': 'let jobs run as a service account, and change jobs that do',
  'tenant.manage': 'make tenants, and let their first people and keys in',
  'quota.write': 'change the quotas of tenants',
  'cluster.read': 'look at the cluster, over all tenants',
  'secret.rewrap': 'wrap the keys of all tenants anew after the master key changed; opens no secret',
} as const

export type Permission = keyof typeof permissionWords
export const permissions = Object.keys(permissionWords) as readonly Permission[]

const beyondTenant: readonly Permission[] = ['tenant.manage', 'quota.write', 'cluster.read', 'secret.rewrap']
const ofTenant = permissions.filter((each) => !beyondTenant.includes(each))
const ofAdmin = ofTenant.filter((each) => each !== 'owner.write')

const looking: readonly Permission[] = [
  'job.read',
  'schedule.read',
  'calendar.read',
  'workflow.read',
  'run.read',
  'queue.read',
  'limit.read',
  'quota.read',
  'worker.read',
]
const starting: readonly Permission[] = [...looking, 'run.start', 'workflow.start', 'event.send']
const operating: readonly Permission[] = [
  ...starting,
  'job.operate',
  'schedule.operate',
  'workflow.operate',
  'workflow.approve',
  'run.operate',
  'queue.operate',
]
const ofPlatform: readonly Permission[] = [...beyondTenant, 'owner.write']

/**
 * `read`: look. `enqueue`: start runs of existing jobs. `operate`: pause, resume, trigger, cancel. `admin`:
 * change jobs, schedules and keys of the tenant. A higher one contains those before it. `platform`: make
 * tenants and keys for them. `worker`: run functions, in the queues of the key; `admin` contains it, and it
 * contains nothing.
 */
export const scopes = ['read', 'enqueue', 'operate', 'admin', 'platform', 'worker'] as const
export type Scope = (typeof scopes)[number]

export const scopePermissions: Readonly<Record<Scope, readonly Permission[]>> = {
  read: looking,
  enqueue: starting,
  operate: operating,
  admin: ofAdmin,
  platform: ofPlatform,
  worker: ['worker.serve'],
}

export const roles = [
  'owner',
  'admin',
  'operator',
  'developer',
  'viewer',
  'auditor',
  'worker',
  'platform',
] as const
export type Role = (typeof roles)[number]

export const rolePermissions: Readonly<Record<Role, readonly Permission[]>> = {
  owner: ofTenant,
  admin: ofAdmin,
  operator: operating,
  developer: [
    ...starting,
    'job.write',
    'job.operate',
    'schedule.write',
    'schedule.operate',
    'calendar.write',
    'workflow.write',
    'workflow.operate',
    'run.operate',
    'secret.read',
    'service_account.read',
  ],
  viewer: looking,
  auditor: [
    ...looking,
    'secret.read',
    'audit.read',
    'audit.export',
    'key.read',
    'member.read',
    'service_account.read',
  ],
  worker: ['worker.serve'],
  platform: ofPlatform,
}

export const roleWords: Readonly<Record<Role, string>> = {
  owner: 'everything in the tenant, other owners included',
  admin: 'everything in the tenant but making and removing owners',
  operator: 'run what is there: start, pause, cancel, replay, approve',
  developer: 'write jobs, schedules and workflows, and run them',
  viewer: 'look at definitions and runs',
  auditor: 'look, and read who did what: the audit log, keys, members',
  worker: 'run functions',
  platform: 'make tenants, their quotas and their first owners; nothing inside a tenant',
}

/** What a key with these scopes may do, before its owner's role bounds it. */
export function permissionsOfScopes(given: readonly Scope[]): ReadonlySet<Permission> {
  return new Set(given.flatMap((scope) => scopePermissions[scope]))
}

/** Scopes that contain a permission, and roles that do: for messages and documents. */
export function holdersOf(permission: Permission): { scopes: readonly Scope[]; roles: readonly Role[] } {
  return {
    scopes: scopes.filter((scope) => scopePermissions[scope].includes(permission)),
    roles: roles.filter((role) => rolePermissions[role].includes(permission)),
  }
}

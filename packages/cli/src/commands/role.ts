/**
 * `belfry role …` and `belfry access can …`: what roles allow, and whether the key in use may do something.
 * Roles are a table that every version of Belfry brings along, so no server is asked for them.
 */
import type { Permission, Role, Route } from '@belfry/contract'
import {
  nearest,
  permissions,
  permissionWords,
  rolePermissions,
  roles,
  roleWords,
  routes,
} from '@belfry/contract'
import type { Call, Command } from '../command.ts'
import { required } from '../command.ts'
import { exitCodes, UsageError } from '../exit-codes.ts'
import { permissionShape, roleShape } from '../output/access-shapes.ts'

const itemOf = (permission: Permission) => ({ permission, description: permissionWords[permission] })

async function list(call: Call): Promise<undefined> {
  const items = roles.map((role) => {
    return { role, description: roleWords[role], permissions: rolePermissions[role] }
  })
  call.printer.list({ items }, roleShape, '')
  call.printer.say('Next: belfry role get ROLE')
}

async function get(call: Call): Promise<undefined> {
  const role = roleNamed(required(call, 'role'))
  call.printer.list({ items: rolePermissions[role].map(itemOf) }, permissionShape, '')
}

function roleNamed(text: string): Role {
  const role = roles.find((each) => each === text)
  if (role !== undefined) return role
  const near = nearest(text, roles)
  const meant = near === undefined ? '' : `; did you mean ${near}?`
  throw new UsageError(`"${text}" is not one of the roles ${roles.join(', ')}${meant}`)
}

/** What is asked: a permission, or the name of a route, which takes one. */
function wantedPermission(text: string): Permission | 'any_key' | 'public' {
  const permission = permissions.find((each) => each === text)
  if (permission !== undefined) return permission
  const table: Readonly<Record<string, Route>> = routes
  const route = Object.hasOwn(table, text) ? table[text] : undefined
  if (route !== undefined) return route.permission
  const near = nearest(text, [...permissions, ...Object.keys(table)])
  const meant = near === undefined ? 'see `belfry role get owner`' : `did you mean ${near}?`
  throw new UsageError(`"${text}" is neither a permission nor a call of the API; ${meant}`)
}

/** Who is asked about: a role, or who has the key. */
async function holder(call: Call): Promise<{ name: string; has: readonly Permission[] }> {
  const role = call.flags.text('role')
  if (role !== undefined)
    return { name: `the role ${roleNamed(role)}`, has: rolePermissions[roleNamed(role)] }
  const who = await (await call.client()).whoami()
  const owner = who.principal.kind === 'key' ? 'key' : who.principal.kind.replace('_', ' ')
  return { name: `the ${owner} ${who.principal.name}`, has: who.permissions }
}

async function can(call: Call): Promise<number | undefined> {
  const asked = required(call, 'act')
  const permission = wantedPermission(asked)
  const { name, has } = await holder(call)
  const allowed = permission === 'any_key' || permission === 'public' || has.includes(permission)
  const holders = roles.filter((role) => (rolePermissions[role] as readonly string[]).includes(permission))
  const because = allowed ? '' : `; these roles may: ${holders.join(', ')}`
  const line = `${allowed ? 'yes' : 'no'}: ${name} ${allowed ? 'may' : 'may not'} (${permission})${because}`
  call.printer.value({ allowed, permission, roles: holders }, [line])
  return allowed ? undefined : exitCodes.failed
}

async function own(call: Call): Promise<undefined> {
  const { has } = await holder(call)
  call.printer.list({ items: has.map(itemOf) }, permissionShape, 'Nothing: the key has no permission.')
}

const roleFlag = {
  name: 'role',
  value: 'role',
  choices: roles,
  summary: 'Of this role, instead of the key in use',
}

export const roleCommands: readonly Command[] = [
  {
    noun: 'role',
    verb: 'list',
    summary: 'List roles: what people and service accounts may do',
    effect: 'local',
    isDefault: true,
    examples: [{ words: 'All roles', command: 'belfry role list' }],
    run: list,
  },
  {
    noun: 'role',
    verb: 'get',
    summary: 'List the permissions of a role',
    arguments: [{ name: 'role', summary: roles.join(', ') }],
    effect: 'local',
    examples: [{ words: 'What a developer may do', command: 'belfry role get developer' }],
    run: get,
  },
  {
    noun: 'access',
    verb: 'can',
    summary: 'Say whether the key in use may do something; exit code 1 if not',
    arguments: [
      { name: 'act', summary: 'A permission, such as run.start, or a call of the API, such as jobCreate' },
    ],
    flags: [roleFlag],
    effect: 'read',
    examples: [
      { words: 'May this key start runs?', command: 'belfry access can run.start' },
      { words: 'May operators change jobs?', command: 'belfry access can job.write --role operator' },
    ],
    run: can,
  },
  {
    noun: 'access',
    verb: 'list',
    summary: 'List all that the key in use may do',
    flags: [roleFlag],
    effect: 'read',
    examples: [{ words: 'All of it', command: 'belfry access list' }],
    run: own,
  },
]

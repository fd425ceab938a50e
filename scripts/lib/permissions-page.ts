// The reference page of permissions: what each role and each scope allows, and what each call of the API
// takes, rendered from the tables that decide (packages/contract/src/permissions.ts, routes.ts).
import {
  type Permission,
  permissions,
  permissionWords,
  rolePermissions,
  roles,
  roleWords,
  type Route,
  routes,
  scopePermissions,
} from '@belfry/contract'

const row = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`

function matrix(held: Readonly<Record<string, readonly Permission[]>>): string {
  const names = Object.keys(held)
  const lines = permissions.map((permission) => {
    const marks = names.map((name) => (held[name]?.includes(permission) === true ? 'yes' : ''))
    return row([`\`${permission}\``, permissionWords[permission], ...marks])
  })
  const head = [row(['permission', 'allows to', ...names]), row(['---', '---', ...names.map(() => '---')])]
  return [...head, ...lines].join('\n')
}

const needs = ({ permission }: Route): string => {
  if (permission === 'public') return 'nothing'
  return permission === 'any_key' ? 'any credential; what more, the call says' : `\`${permission}\``
}

export function renderPermissions(): string {
  const table: readonly Route[] = Object.values(routes)
  const calls = table.map((route) => row([`\`${route.method} ${route.path}\``, needs(route), route.summary]))
  return `# Permissions

<!-- Generated from packages/contract/src/permissions.ts and routes.ts; do not edit. -->

What may be done, and who may do it. A person and a service account have a role; an API key has scopes. A
key that somebody owns may do what its scopes **and** the role of its owner allow, at each use. How to work
with them: [access](../how-to/access.md).

## Roles

${row(['role', 'may'])}
${row(['---', '---'])}
${roles.map((role) => row([`\`${role}\``, roleWords[role]])).join('\n')}

${matrix(rolePermissions)}

## Scopes of keys

${matrix(scopePermissions)}

## Calls of the API

${row(['call', 'takes', 'does'])}
${row(['---', '---', '---'])}
${calls.join('\n')}
`
}

// Every route × every role, and every route × every scope of a key: whoever has the permission passes the
// gate, whoever has it not is refused, with the permission named, and nothing is stored. The table of who
// may do what is in contract/permissions.ts; docs/reference/permissions.md shows it, and a test holds that
// page to it.
import type { Permission, Role, Route, RouteName, Scope } from '@belfry/contract'
import { permissionsOfScopes, rolePermissions, roles, routes, scopes } from '@belfry/contract'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Credential } from '../../packages/server/src/ports/credentials.ts'
import { startTestApi, type TestApi } from '../support/api.ts'
import { cases, nextNumber, pathOf, routeNames, someId } from '../support/route-cases.ts'

const others = '019ad0c1-7f3e-7c63-9a52-6e4d8c1b2a40'
type Caller = { readonly name: string; readonly role: Role | null; readonly scopes: readonly Scope[] }
const callers: readonly Caller[] = [
  ...roles.map((role) => ({ name: `role-${role}`, role, scopes: [] })),
  ...scopes.map((scope) => ({ name: `scope-${scope}`, role: null, scopes: [scope] })),
]
const permissionsOf = ({ role, scopes: given }: Caller): ReadonlySet<Permission> =>
  role === null ? permissionsOfScopes(given) : new Set(rolePermissions[role])

let t: TestApi
beforeAll(async () => {
  let tenantId = others
  const byName = new Map(callers.map((caller) => [caller.name, caller]))
  const credentialOf = (caller: Caller): Credential => ({
    keyId: others,
    principal: { kind: caller.role === null ? 'key' : 'person', id: others, name: caller.name },
    role: caller.role,
    permissions: permissionsOf(caller),
    tenantId,
    tenantName: 'acme',
    tenantCreatedAtMs: 0,
    scopes: caller.scopes,
    queues: null,
  })
  t = await startTestApi({
    authenticator: {
      async authenticate(key) {
        const caller = byName.get(key)
        return caller && credentialOf(caller)
      },
      provedLately: () => false,
      forget: () => undefined,
    },
  })
  tenantId = t.tenantId
})
afterAll(() => t.close())

/** Of routes that any key may call: what they take beside, for the call that is made here. */
const furtherNeeds: Partial<Readonly<Record<RouteName, readonly Permission[]>>> = {
  keyCreate: ['key.write'],
  queueStats: ['queue.read', 'worker.serve'],
  memberCreate: ['member.write'],
}

function passes(name: RouteName, caller: Caller): boolean {
  const { permission }: Route = routes[name]
  const has = permissionsOf(caller)
  if (permission === 'public') return true
  if (permission !== 'any_key') return has.has(permission)
  return furtherNeeds[name]?.some((each) => has.has(each)) ?? true
}

let cells = 0
const call = (name: RouteName, caller: Caller) =>
  t.call(routes[name].method, pathOf(name, someId) + (cases[name].query ?? ''), {
    ...cases[name].options?.(nextNumber()),
    key: caller.name,
  })

describe('who may call', () => {
  it.each(routeNames)('%s', async (name) => {
    const { permission }: Route = routes[name]
    const expected: Record<string, boolean> = {}
    const found: Record<string, boolean> = {}
    for (const caller of callers) {
      const before = await t.counts()
      const { status, body } = await call(name, caller)
      // a public route may ask for a token of its own
      expect(status === 401 && permission !== 'public', caller.name).toBe(false)
      expected[caller.name] = passes(name, caller)
      found[caller.name] = status !== 403
      cells += 1
      if (status !== 403) continue
      expect(body.code).toBe('forbidden')
      expect(body.detail).toContain(permission === 'any_key' ? '' : `"${permission}"`)
      expect(await t.counts()).toEqual(before)
    }
    expect(found).toEqual(expected)
  })

  it('was asked for every route and every caller', () => {
    expect(cells).toBe(routeNames.length * callers.length)
  })

  it('is somebody: no permission of a route lacks a role, and nothing but what is written takes none', () => {
    const table: readonly Route[] = Object.values(routes)
    const open = routeNames.filter((name) => (routes[name] as Route).permission === 'public')
    expect(open.toSorted()).toEqual([
      'callbackReport',
      'inviteAccept',
      'oidcCallback',
      'oidcStart',
      'signIn',
      'signInWays',
    ])
    for (const { permission } of table) {
      if (permission === 'public' || permission === 'any_key') continue
      expect(
        roles.some((role) => rolePermissions[role].includes(permission)),
        permission,
      ).toBe(true)
    }
  })
})

// The contract by itself: scopes, defaults that must not leak into changes, what text and JSON may hold, the
// route table.
import {
  documentedErrors,
  errorTable,
  givenInstantSchema,
  isSecretHeader,
  jobCreateSchema,
  jobUpdateSchema,
  jsonSchema,
  type Route,
  routes,
  safeText,
  scheduleCreateSchema,
  scheduleUpdateSchema,
  permissions,
  permissionsOfScopes,
  holdersOf,
  rolePermissions,
  roles,
  scopePermissions,
  scopes,
} from '@belfry/contract'
import type { Permission } from '@belfry/contract'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'

const handler = { kind: 'http', url: 'https://example.com' }

const contains = (larger: readonly string[], smaller: readonly string[]): boolean =>
  smaller.every((each) => larger.includes(each))

describe('scopes', () => {
  it('contain those before them; platform and worker contain nothing', () => {
    const contained = scopes.map((given) =>
      scopes.filter((each) => contains(scopePermissions[given], scopePermissions[each])),
    )
    expect(contained).toEqual([
      ['read'],
      ['read', 'enqueue'],
      ['read', 'enqueue', 'operate'],
      ['read', 'enqueue', 'operate', 'admin', 'worker'],
      ['platform'],
      ['worker'],
    ])
    expect(permissionsOfScopes([]).size).toBe(0)
  })
})

describe('roles', () => {
  it('contain each other as their names say, and every permission has a role', () => {
    const contained = roles.map((role) =>
      roles.filter((each) => each !== role && contains(rolePermissions[role], rolePermissions[each])),
    )
    expect(Object.fromEntries(roles.map((role, index) => [role, contained[index]]))).toEqual({
      owner: ['admin', 'operator', 'developer', 'viewer', 'auditor', 'worker'],
      admin: ['operator', 'developer', 'viewer', 'auditor', 'worker'],
      operator: ['viewer'],
      developer: ['viewer'],
      viewer: [],
      auditor: ['viewer'],
      worker: [],
      platform: [],
    })
    const held = new Set(roles.flatMap((role) => rolePermissions[role]))
    expect(permissions.filter((each) => !held.has(each))).toEqual([])
    for (const role of roles) expect(new Set(rolePermissions[role]).size).toBe(rolePermissions[role].length)
  })

  it('leave tenants, quotas and the cluster to those who run the servers', () => {
    const beyond = ['tenant.manage', 'quota.write', 'cluster.read'] as const
    const having = (permission: Permission) => holdersOf(permission).roles
    expect(beyond.map(having)).toEqual([['platform'], ['platform'], ['platform']])
    expect(having('owner.write')).toEqual(['owner', 'platform'])
  })
})

describe('instants that come in', () => {
  it('are those of the years 1970 to 2199 in UTC, whatever their offset', () => {
    const offset = fc.integer({ min: -1439, max: 1439 })
    const date = fc.date({
      min: new Date('0001-01-02T00:00:00Z'),
      max: new Date('9999-12-30T00:00:00Z'),
      noInvalidDate: true,
    })
    fc.assert(
      fc.property(date, offset, (instant, minutes) => {
        const local = new Date(instant.getTime() + minutes * 60_000).toISOString().slice(0, -1)
        const hours = String(Math.floor(Math.abs(minutes) / 60)).padStart(2, '0')
        const rest = String(Math.abs(minutes) % 60).padStart(2, '0')
        const year = instant.getUTCFullYear()
        const text = `${local}${minutes < 0 ? '-' : '+'}${hours}:${rest}`
        expect([text, givenInstantSchema.safeParse(text).success]).toEqual([
          text,
          year >= 1970 && year <= 2199,
        ])
      }),
    )
  })
})

describe('headers that carry secrets', () => {
  it.each([
    'Authorization',
    'Proxy-Authorization-2',
    'cookie',
    'X-Api-Key',
    'apikey',
    'X-Auth',
    'X-Auth-Token',
    'x-hub-signature-256',
    'X-Client-Secret',
    'x-functions-key',
    'X-Password',
  ])('%s is one', (name) => expect(isSecretHeader(name)).toBe(true))

  it.each(['Content-Type', 'Accept', 'X-Team', 'X-Author', 'X-Keyboard', 'X-Monkey', 'User-Agent'])(
    '%s is none',
    (name) => expect(isSecretHeader(name)).toBe(false),
  )
})

describe('targets', () => {
  const faultOf = (more: object) =>
    jobCreateSchema.safeParse({ name: 'a', handler: { ...handler, ...more } }).error?.issues[0]?.message

  it.each(['localhost:18080', 'example.com:80/x?y', '127.0.0.1:9', '[::1]:8080', 'example.com', 'a.b/c'])(
    '%s lacks its scheme',
    (url) =>
      expect(faultOf({ url })).toMatch(`has no scheme; put http:// or https:// before it: http://${url}`),
  )

  it.each([
    ['http:///x', 'http://x/'],
    ['http:example.com', 'http://example.com/'],
    ['https:/example.com/y', 'https://example.com/y'],
    ['HTTP:////example.com', 'http://example.com/'],
  ])('%s is to be written as %s', (url, right) => expect(faultOf({ url })).toContain(`write it as ${right}`))

  it.each(['https://example.com', 'HTTPS://example.com/a//b', 'http://[::1]:8080/', 'http://localhost:1'])(
    '%s is one',
    (url) => expect(faultOf({ url })).toBeUndefined(),
  )

  it('have each header once, in whatever case', () => {
    expect(faultOf({ headers: { 'X-A': '1', 'X-B': '2' } })).toBeUndefined()
    expect(faultOf({ headers: { 'X-A': '1', 'x-a': '2' } })).toContain('the same header as "X-A"')
  })
})

describe('defaults', () => {
  it('fill what is created and never what is changed', () => {
    const job = jobCreateSchema.parse({ name: 'a', handler })
    expect(job.retry).toEqual({
      maxAttempts: 3,
      backoff: 'exponential',
      baseMs: 1_000,
      capMs: 300_000,
      delaysMs: [],
      jitter: 'full',
      retryOn: [],
      neverRetryOn: [],
    })
    expect(jobUpdateSchema.parse({})).toEqual({})
    expect(jobUpdateSchema.parse({ retry: { maxAttempts: 9 } })).toEqual({ retry: { maxAttempts: 9 } })
    expect(scheduleUpdateSchema.parse({})).toEqual({})
    expect(scheduleUpdateSchema.parse({ catchUp: { policy: 'all' } })).toEqual({ catchUp: { policy: 'all' } })
    const schedule = scheduleCreateSchema.parse({ name: 'a', every: '1h', job: 'b' })
    expect(schedule).toMatchObject({ dialect: 'unix', ifPast: 'reject', overlap: 'skip', jitterMs: 0 })
    for (const key of ['retry', 'attemptTimeoutMs', 'delivery', 'queue', 'handler'])
      expect(schedule).not.toHaveProperty(key)
  })

  it('a schedule with its own handler takes the settings of the job', () => {
    const own = { name: 'a', every: '1h', handler, delivery: 'at_most_once', attemptTimeoutMs: 500 }
    expect(scheduleCreateSchema.parse(own)).toMatchObject({ delivery: 'at_most_once', attemptTimeoutMs: 500 })
    expect(scheduleCreateSchema.safeParse({ ...own, attemptTimeoutMs: 99 }).success).toBe(false)
  })
})

describe('what comes in', () => {
  it('JSON passes exactly when Postgres can keep it', () => {
    fc.assert(
      fc.property(fc.jsonValue({ stringUnit: 'binary', maxDepth: 4 }), (value) => {
        const text = JSON.stringify(value)
        const strings = text.match(/"(?:[^"\\]|\\.)*"/g)?.map((each) => JSON.parse(each) as string) ?? []
        const fits = strings.every((each) => !each.includes('\u0000') && each.isWellFormed())
        expect(jsonSchema.safeParse(value).success).toBe(fits)
      }),
    )
  })

  it('names the place of what is wrong', () => {
    const path = (value: unknown) => jsonSchema.safeParse(value).error?.issues[0]?.path
    expect(path({ a: [1, { b: 'x\u0000' }] })).toEqual(['a', 1, 'b'])
    expect(path([Number.NaN])).toEqual([0])
    expect(path({ a: { 'k\u0000': 1 } })).toEqual(['a'])
    expect(path('x'.repeat(262_143))).toEqual([])
    expect(jsonSchema.safeParse('x'.repeat(262_142)).success).toBe(true)
    expect(jsonSchema.safeParse('\\u0000').success).toBe(true)
  })

  it('text is whole Unicode without NUL', () => {
    const text = safeText(10)
    expect([
      text.safeParse('ok').success,
      text.safeParse('a\u0000').success,
      text.safeParse('\ud800').success,
    ]).toEqual([true, false, false])
  })
})

/** Whether a route says that what its path names may not be there. */
const isFound = ({ errors }: Route): boolean =>
  errors.includes('not_found') || errors.includes('session_lost')

describe('the route table', () => {
  it('has one route for each method and path, with a permission, a summary and documented errors', () => {
    const seen = new Set<string>()
    for (const [name, route] of Object.entries<Route>(routes)) {
      const place = `${route.method} ${route.path}`
      expect(seen.has(place), place).toBe(false)
      seen.add(place)
      expect(['any_key', 'public', ...permissions]).toContain(route.permission)
      expect(route.path).toMatch(/^\/v1\/[a-z-]+(?:\/:(?:id|queue|runId|tenant))?(?:\/[a-z-]+){0,2}$/)
      const asks = route.method === 'GET' || name === 'schedulePreview'
      expect(route.effect === 'none', name).toBe(asks)
      // what workers and targets call, or who signs in, is no act of a person that could be tried first
      const isOfPrograms = route.tag === 'workers' || route.permission === 'public'
      const tries = route.effect !== 'none' && !isOfPrograms && name !== 'passwordChange'
      expect(tries, name).toBe(route.query !== undefined && 'dryRun' in route.query.shape)
      const inPath = [...route.path.matchAll(/:(\w+)/g)].map(([, param]) => param)
      expect(Object.keys(route.params?.shape ?? {}), name).toEqual(inPath)
      expect(!route.path.includes(':id') || isFound(route), name).toBe(true)
      expect(route.status !== 201 || route.effect === 'create' || isOfPrograms, name).toBe(true)
      for (const code of documentedErrors(route)) expect(errorTable).toHaveProperty(code)
    }
  })
})

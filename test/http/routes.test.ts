// Every route of the contract once as it is meant, without a key, with a key of too small a scope, and with
// the id of another tenant's thing. The tables here are checked to be complete, so a new route cannot be
// forgotten.
import { errorTable, permissionsOfScopes, type Route, routes, scopes } from '@belfry/contract'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Answer, type AnswerBody, startTestApi, type TestApi } from '../support/api.ts'
import { isOfPlatform } from '../support/rights.ts'
import {
  cases,
  makeThings,
  nextNumber,
  pathOf,
  prepare,
  routeNames as names,
  someId,
} from '../support/route-cases.ts'

let t: TestApi
beforeAll(async () => {
  t = await startTestApi()
})
afterAll(() => t.close())

/** What of an answer is not as its route says; undefined: nothing. */
function mismatch({ media, response }: Route, { body, headers }: Answer): unknown {
  if (media === undefined) return response?.safeParse(body).error
  const type = String(headers['content-type'])
  return type.includes(media) ? undefined : type
}

describe('each route', () => {
  it.each(names.filter((name) => cases[name].elsewhere === undefined))(
    '%s answers as documented',
    async (name) => {
      const route: Route = routes[name]
      const things = await makeThings(t, t.adminKey)
      await prepare(t, things, cases[name])
      const key = isOfPlatform(route) ? await t.keyFor('acme', ['platform']) : t.adminKey
      const { thing, options, query = '' } = cases[name]
      const path = pathOf(name, thing === undefined ? '' : things[thing]) + query
      const answer = await t.call(route.method, path, { key, ...options?.(nextNumber()) })
      expect(answer.body?.detail ?? '').toBe('')
      expect(answer.status).toBe(route.status)
      expect(mismatch(route, answer)).toBeUndefined()
    },
  )

  it.each(names.filter((name) => (routes[name] as Route).permission !== 'public'))(
    '%s is closed without a key',
    async (name) => {
      const before = await t.counts()
      for (const headers of [{}, { authorization: 'Basic YTpi' }, { authorization: 'Bearer bfy_nope' }]) {
        const options = { ...cases[name].options?.(nextNumber()), key: null, headers }
        const answer = await t.call(routes[name].method, pathOf(name, someId), options)
        expect(answer.status).toBe(401)
        expect(answer.body.code).toBe('unauthenticated')
        expect(answer.headers['www-authenticate']).toContain('Bearer')
      }
      expect(await t.counts()).toEqual(before)
    },
  )

  it.each(names)('%s refuses keys whose scope is too small', async (name) => {
    const { permission, method }: Route = routes[name]
    for (const given of scopes) {
      const needed = name === 'keyCreate' ? 'key.write' : permission
      if (needed === 'any_key' || needed === 'public' || permissionsOfScopes([given]).has(needed)) continue
      const key = await t.keyFor('small', [given])
      const before = await t.counts()
      const answer = await t.call(method, pathOf(name, someId), {
        key,
        ...cases[name].options?.(nextNumber()),
      })
      expect(answer.body).toMatchObject({ status: 403, code: 'forbidden' })
      expect(await t.counts()).toEqual(before)
    }
  })

  it.each(names.filter((name) => cases[name].thing !== undefined))(
    '%s says 404 for foreign and unknown ids',
    async (name) => {
      const foreign = await makeThings(t, await t.keyFor('others', ['admin']))
      const { thing = 'job', options } = cases[name]
      const before = await t.database.sql('SELECT * FROM belfry.schedule ORDER BY id')
      const counts = await t.counts()
      const answers = [foreign[thing], someId].map((id) =>
        t.call(routes[name].method, pathOf(name, id), options?.(nextNumber()) ?? {}),
      )
      const [of, unknown] = await Promise.all(answers)
      const none = { status: 404, code: 'not_found' }
      const lost = { status: 409, code: 'session_lost' }
      expect(of?.body).toMatchObject(thing === 'worker' ? lost : none)
      const words = (body: AnswerBody | undefined, id: string) => ({
        ...body,
        instance: '',
        detail: body?.detail.replace(id, ''),
      })
      expect(words(of?.body, foreign[thing])).toEqual(words(unknown?.body, someId))
      expect(await t.counts()).toEqual(counts)
      expect(await t.database.sql('SELECT * FROM belfry.schedule ORDER BY id')).toEqual(before)
    },
  )

  it('lists only what is the tenant’s own', async () => {
    const stranger = await t.keyFor('stranger', ['admin'])
    for (const path of [
      '/v1/jobs',
      '/v1/schedules',
      '/v1/calendars',
      '/v1/pools',
      '/v1/workflows',
      '/v1/workflow-runs',
      '/v1/runs',
      '/v1/runs?state=pending',
      '/v1/runs?state=failed',
    ]) {
      expect((await t.call('GET', path, { key: stranger })).body.items).toEqual([])
    }
    expect((await t.call('GET', '/v1/keys', { key: stranger })).body.items).toHaveLength(1)
  })
})

describe('around the routes', () => {
  it('every path of the router takes a permission or is one of three that tell what is there', async () => {
    const open: string[] = []
    for (const path of ['/', '/v1/openapi.json', ...names.map((name) => pathOf(name, someId))]) {
      const answer = await t.call('GET', path, { key: null })
      if (answer.status === 200) open.push(path)
    }
    expect(open.sort()).toEqual(['/', '/v1/openapi.json', '/v1/sign-in'])
  })

  it('says 404 with what was meant, 405 with what is taken, both as problems', async () => {
    const unknown = await t.call('GET', '/v1/schedule', { key: null })
    expect(unknown.body).toMatchObject({
      code: 'not_found',
      detail: expect.stringContaining('/v1/schedules') as string,
    })
    expect(unknown.headers['content-type']).toBe('application/problem+json; charset=utf-8')
    const wrong = await t.call('PUT', '/v1/jobs')
    expect(wrong.body).toMatchObject({ code: 'method_not_allowed', status: 405 })
    expect(wrong.headers['allow']).toBe('GET, HEAD, POST')
    for (const path of ['/v1/jobs/', '/v1//jobs', '/V1/jobs', '/v1/configs', '/configs']) {
      expect([400, 404]).toContain((await t.call('GET', path)).status)
      expect((await t.call('GET', path, { key: null })).status).toBeGreaterThanOrEqual(400)
    }
  })

  it('echoes a sane request id, makes one otherwise, and sends security headers', async () => {
    const echoed = await t.call('GET', '/v1/whoami', { key: null, headers: { 'x-request-id': 'abc-1.2' } })
    expect(echoed.headers['x-request-id']).toBe('abc-1.2')
    expect(echoed.body.instance).toBe('abc-1.2')
    const made = await t.call('GET', '/v1/whoami', { headers: { 'x-request-id': 'a b"<script>' } })
    expect(made.headers['x-request-id']).toMatch(/^[0-9a-f-]{36}$/)
    expect(made.headers['x-content-type-options']).toBe('nosniff')
    expect(made.headers['content-security-policy']).toContain("default-src 'none'")
    expect(made.headers['cache-control']).toBe('no-store')
  })

  it('every answered problem is one of the table', async () => {
    const answer = await t.call('GET', `/v1/jobs/${someId}`)
    const { status, title, retryable } = errorTable.not_found
    expect(answer.body).toMatchObject({
      type: 'https://belfry.dev/errors#not_found',
      title,
      status,
      retryable,
    })
  })
})

describe('an id that is too long', () => {
  it.each(['/v1/jobs/ID', '/v1/schedules/ID/occurrences', '/v1/runs/ID'])(
    '%s: an id of 5000 characters is not repeated',
    async (path) => {
      const { status, body } = await t.call('GET', path.replace('ID', 'x'.repeat(5_000)))
      expect([status, body.code, body.errors.map(({ pointer }) => pointer)]).toEqual([
        400,
        'invalid_request',
        ['/params/id'],
      ])
      expect(body.errors[0]?.message).toContain('ids look like')
      expect(JSON.stringify(body).length).toBeLessThan(1_000)
    },
  )
})

// Two tenants, each with one of everything. Every route of the contract × the other tenant's ids of every
// kind in the path; every place in a query or body that may name something × the other tenant's thing:
// answered as if it did not exist, word for word, and nothing is changed. Every list and every look × every
// id of the other tenant in the database: none of them is ever shown. Cursors of the other are refused. All
// of it is made from the table of routes, so a new route or field is held to it or fails.
import type { Route, RouteName } from '@belfry/contract'
import { routes } from '@belfry/contract'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { httpJob, startTestApi, type Answer, type TestApi } from '../support/api.ts'
import {
  cases,
  makeThings,
  nextNumber,
  pathOf,
  routeNames,
  someId,
  type Things,
} from '../support/route-cases.ts'
import {
  mayNameWhatIsToCome,
  type Named,
  placesOf,
  references,
  routeOf,
} from '../support/route-references.ts'

let t: TestApi
let own: Things
let foreign: Things
let foreignKey: string
/** Every id of a row of the other tenant, in whatever table and column. */
let foreignIds: ReadonlySet<string>

beforeAll(async () => {
  t = await startTestApi()
  foreignKey = await t.keyFor('zqforeign', ['admin'])
  own = await makeThings(t, t.adminKey)
  foreign = await makeThings(t, foreignKey)
  await makeThings(t, foreignKey)
  await makeNamed(foreignKey, 'zqforeign')
  await t.call('POST', '/v1/jobs', { body: httpJob('zq-own') })
  foreignIds = await idsOf('zqforeign')
}, 60_000)
afterAll(() => t.close())

async function makeNamed(key: string, name: string): Promise<void> {
  const bodies: Readonly<Record<string, unknown>> = {
    '/v1/jobs': httpJob(name),
    '/v1/schedules': { name, every: '1h', job: name },
    '/v1/calendars': { name, weekdays: ['sat'] },
    '/v1/pools': { name, slots: 1 },
    '/v1/service-accounts': { name, role: 'viewer' },
    '/v1/workflows': { name, tasks: [{ id: 'a', handler: httpJob('x').handler }] },
    '/v1/secrets': { name, value: 'bright-otter-kettle-93' },
  }
  for (const [path, body] of Object.entries(bodies)) {
    const { status } = await t.call('POST', path, { key, body })
    expect([path, [200, 201].includes(status)]).toEqual([path, true])
  }
}

async function idsOf(tenant: string): Promise<ReadonlySet<string>> {
  const columns = await t.database.sql<{ name: string; column: string }>(
    `SELECT c.relname AS name, a.attname AS column
     FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
     WHERE c.relnamespace = 'belfry'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
       AND a.atttypid = 'uuid'::regtype AND a.attnum > 0 AND NOT a.attisdropped
       AND EXISTS (SELECT 1 FROM pg_attribute o WHERE o.attrelid = c.oid AND o.attname = 'tenant_id')`,
  )
  const parts = columns.map(
    ({ name, column }) =>
      `SELECT x."${column}"::text AS id FROM belfry."${name}" x JOIN belfry.tenant t ON t.id = x.tenant_id
       WHERE t.name = $1`,
  )
  const rows = await t.database.sql<{ id: string | null }>(parts.join(' UNION '), [tenant])
  return new Set(rows.flatMap(({ id }) => (id === null || /^0{8}-/.test(id) ? [] : [id])))
}

/** What of an answer could tell one thing from another: all but the thing itself and the request. */
function told({ status, body, headers }: Answer, value: string): unknown {
  const text = JSON.stringify({ ...body, instance: '' }).replaceAll(value, 'VALUE')
  return { status, type: headers['content-type'], text: withoutTimes(text) }
}
const withoutTimes = (text: string): string => text.replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, 'TIME')

const withId = routeNames.filter((name) => /:(id|runId)\b/.test(routes[name].path))
const send = (name: RouteName, id: string) => {
  const path = pathOf(name, id).replace(':runId', id) + (cases[name].query ?? '')
  return t.call(routes[name].method, path, cases[name].options?.(nextNumber()) ?? {})
}
let cells = 0

describe('ids of another tenant in the path', () => {
  it.each(withId)('%s', async (name) => {
    const before = await t.counts()
    const unknown = told(await send(name, someId), someId)
    expect((unknown as Answer).status, name).toBeGreaterThanOrEqual(400)
    for (const [kind, id] of Object.entries(foreign)) {
      expect(told(await send(name, id), id), `${name} with a ${kind}`).toEqual(unknown)
      cells += 1
    }
    expect(await t.counts()).toEqual(before)
  })

  it('were tried for every route with an id and every kind of thing', () => {
    expect(new Set(Object.values(foreign)).size).toBe(Object.keys(foreign).length)
    expect(cells).toBe(withId.length * Object.keys(foreign).length)
  })
})

/** An id as old as this one: its age is in it, and may be said. */
const unknownLike = (id: string): string => id.slice(0, -12) + (id.endsWith('0') ? '1' : '0').repeat(12)

/** A name or id of the other tenant's, and one of the same form that nobody has. */
const pairOf = (thing: Named, by: 'id' | 'name'): readonly [string, string] =>
  by === 'name' || thing === 'tenant' || thing === 'secret'
    ? ['zqforeign', 'zqunknown']
    : [foreign[thing], unknownLike(foreign[thing])]

/** What a dry run would make has an id of its own. */
const sameSaying = ({ status, text }: { status: number; text: string }, place: string) => ({
  status,
  text: mayNameWhatIsToCome.includes(place)
    ? text.replaceAll(/[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, 'ID')
    : text,
})

describe('things of another tenant in a query or body', () => {
  it('have a call for each place where one may be named', () => {
    const places = [...placesOf().keys()]
    expect(places.filter((place) => references[place] === undefined)).toEqual([])
  })

  it.each(Object.keys(references))('%s', async (place) => {
    const reference = references[place]
    if (reference === undefined) return
    const name = routeOf(place)
    const route: Route = routes[name]
    const thing = cases[name].thing
    const ask = async (value: string) => {
      const sent = reference.send(value)
      const path = pathOf(name, thing === undefined ? someId : own[thing])
      const dryRun = mayNameWhatIsToCome.includes(place) ? '?dryRun=true' : ''
      const query = 'query' in sent ? `?${sent.query}` : dryRun
      const answer = await t.call(route.method, path + query, 'body' in sent ? { body: sent.body } : {})
      return told(answer, value) as { status: number; text: string }
    }
    const [theirs, nobodys] = pairOf(reference.thing, reference.by)
    const before = await t.counts()
    const [found, unknown] = [await ask(theirs), await ask(nobodys)]
    expect(sameSaying(found, place)).toEqual(sameSaying(unknown, place))
    expect(await t.counts()).toEqual(before)
    expect([200, 400, 401, 403, 404, 409]).toContain(found.status)
  })
})

describe('what a tenant is shown', () => {
  const looks = routeNames.filter((name) => {
    const { effect, method, permission, media }: Route = routes[name]
    const tenants =
      permission === 'tenant.manage' || permission === 'cluster.read' || permission === 'quota.write'
    return effect === 'none' && method === 'GET' && permission !== 'public' && !tenants && media === undefined
  })

  /** Without a member they are those of who asks, and a key has none. */
  const queryOf = (name: RouteName, of: Things): string =>
    name === 'personSessionList' ? `?memberId=${of.member}` : (cases[name].query ?? '')

  it.each(looks)('%s names nothing of another', async (name) => {
    const thing = cases[name].thing
    const path = pathOf(name, thing === undefined ? someId : own[thing]) + queryOf(name, own)
    const { status, body } = await t.call('GET', path)
    expect(status, name).toBe(200)
    const text = JSON.stringify(body)
    expect([...foreignIds].filter((id) => text.includes(id))).toEqual([])
    expect(text).not.toContain('zqforeign')
  })

  it('the other does have ids that could be shown', () => {
    expect(foreignIds.size).toBeGreaterThan(50)
  })

  const paged = looks.filter((name) => {
    const { query, path }: Route = routes[name]
    return query !== undefined && 'cursor' in query.shape && !path.includes(':')
  })
  const withOnePage: RouteName[] = []
  it.each(paged)('%s takes no cursor of another', async (name) => {
    const { path } = routes[name]
    const asked = (of: Things) => `${path}${queryOf(name, of).replace(/^$/, '?')}&limit=1`
    const first = await t.call('GET', asked(foreign), { key: foreignKey })
    const cursor = first.body.nextCursor
    if (cursor === null) return void withOnePage.push(name)
    const answer = await t.call('GET', `${asked(own)}&cursor=${cursor}`)
    expect(answer.body).toMatchObject({ status: 400, code: 'invalid_cursor' })
  })

  it('nearly all lists have a second page to try it with', () => {
    expect(withOnePage.toSorted()).toEqual(['auditExport', 'personSessionList'])
  })
})

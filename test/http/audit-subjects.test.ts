// What the audit calls the things that it tells of: every call leaves a name, a deletion too; and the jobs of
// functions that a worker registers are on record as if they were saved by hand.
import type { AuditEntryView, RouteName } from '@belfry/contract'
import { auditEntrySchema, auditRuleOf, routes } from '@belfry/contract'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startTestApi, type TestApi } from '../support/api.ts'
import { cases, makeThings, nextNumber, pathOf, prepare, routeNames, someId } from '../support/route-cases.ts'

let t: TestApi
let key: string
beforeAll(async () => {
  t = await startTestApi()
  key = await t.keyFor('acme', ['admin', 'platform'])
})
afterAll(() => t.close())

async function entries(query: string): Promise<AuditEntryView[]> {
  await t.audit.flush()
  const { body } = await t.call('GET', `/v1/audit?limit=200${query}`, { key })
  return body.items.map((item) => auditEntrySchema.parse(item))
}

/** What is one of a kind, or goes by its id. */
const nameless: ReadonlySet<string> = new Set(['audit', 'queue', 'session'])
/** Of many things at once, or of the tenant that the caller is in. */
const ofNone: ReadonlySet<RouteName> = new Set<RouteName>([
  'tenantLimitSet',
  'secretRewrap',
  'runCancelMany',
  'deadLetterReplayMany',
  'deadLetterDeleteMany',
])
const named = routeNames.filter((name) => {
  const rule = auditRuleOf(name)
  if (rule === undefined || !('action' in rule) || ofNone.has(name)) return false
  return !nameless.has(rule.subject) && cases[name].elsewhere === undefined
})

describe('the name of what it was done to', () => {
  it.each(named)('%s', async (name) => {
    const one = cases[name]
    const things = await makeThings(t, t.adminKey)
    await prepare(t, things, one)
    const path = pathOf(name, one.thing === undefined ? someId : things[one.thing])
    const options = { ...one.options?.(nextNumber()), key }
    const { status, headers } = await t.call(routes[name].method, path + (one.query ?? ''), options)
    expect([200, 201, 202, 204]).toContain(status)
    const mine = (await entries('')).filter((entry) => entry.requestId === headers['x-request-id'])
    expect(mine.map(({ outcome }) => outcome)).toEqual(['done'])
    expect(mine[0]?.subject.name ?? '').not.toBe('')
  })
})

it('a job that a worker registers or changes is on record, one that is unchanged is not', async () => {
  const worker = await t.keyFor('acme', ['worker'])
  const register = (job: object) =>
    t.call('POST', '/v1/functions', { key: worker, body: { jobs: [{ name: 'resize', ...job }] } })
  expect((await register({})).status).toBe(200)
  expect((await register({})).body.jobs).toMatchObject([{ change: 'none' }])
  const more = { queue: 'images', retry: { maxAttempts: 7 }, description: 'makes them small' }
  expect((await register(more)).body.jobs).toMatchObject([{ change: 'updated' }])
  const [id] = (await t.call('GET', '/v1/jobs?name=resize', { key })).body.items.map((job) => job.id)
  const subject = { kind: 'job', id, name: 'resize' }
  expect(await entries('&subject=resize')).toMatchObject([
    { action: 'job.update', subject, details: { fields: ['description', 'queue', 'retry'], version: 2 } },
    { action: 'job.create', subject, details: { version: 1 } },
  ])
})

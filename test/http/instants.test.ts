// Instants and cursors of every kind, in every place that takes one: at the edge of what is allowed they are
// taken, beyond it they are refused with a reason, and none makes a 500.
import { type RouteName, type Route, routes } from '@belfry/contract'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { makeCursor } from '../../packages/server/src/http/cursor.ts'
import { httpJob, startTestApi, type TestApi } from '../support/api.ts'
import { isOfPlatform } from '../support/rights.ts'

let t: TestApi
let schedule: string
let paused: string
let run: string
let workflow: string
beforeAll(async () => {
  t = await startTestApi()
  await t.call('POST', '/v1/jobs', { body: httpJob('known') })
  schedule = (await t.call('POST', '/v1/schedules', { body: { name: 's', job: 'known', every: '1h' } })).body
    .id
  paused = (await t.call('POST', '/v1/schedules', { body: { name: 'p', job: 'known', every: '1h' } })).body.id
  await t.call('POST', `/v1/schedules/${paused}/pause`)
  run = (await t.call('POST', '/v1/runs', { body: { job: 'known' } })).body.id
  const tasks = [{ id: 'a', job: 'known' }]
  workflow = (await t.call('POST', '/v1/workflows', { body: { name: 'w', tasks } })).body.id
})
afterAll(() => t.close())

type Place = { readonly name: string; readonly send: (instant: string) => ReturnType<TestApi['call']> }
const planned = (more: object) =>
  t.call('POST', '/v1/schedules?dryRun=true', { body: { name: 'x', job: 'known', every: '5m', ...more } })
const edited = (more: object) => t.call('PATCH', `/v1/schedules/${schedule}?dryRun=true`, { body: more })
const listed = (path: string, name: string, instant: string) =>
  t.call('GET', `${path}?${new URLSearchParams({ [name]: instant }).toString()}`)
const places: readonly Place[] = [
  { name: 'startAt', send: (startAt) => planned({ startAt }) },
  { name: 'endAt', send: (endAt) => planned({ endAt }) },
  { name: 'startAt of an edit', send: (startAt) => edited({ startAt }) },
  { name: 'endAt of an edit', send: (endAt) => edited({ endAt }) },
  {
    name: 'until of a sleep',
    send: (until) => t.call('POST', `/v1/schedules/${schedule}/sleep?dryRun=true`, { body: { until } }),
  },
  {
    name: 'scheduledFor of a trigger',
    send: (scheduledFor) =>
      t.call('POST', `/v1/schedules/${schedule}/trigger?dryRun=true`, { body: { scheduledFor } }),
  },
  {
    name: 'backfillFrom of a resume',
    send: (backfillFrom) =>
      t.call('POST', `/v1/schedules/${paused}/resume?dryRun=true`, { body: { backfillFrom } }),
  },
  {
    name: 'runAt',
    send: (runAt) => t.call('POST', '/v1/runs?dryRun=true', { body: { job: 'known', runAt } }),
  },
  {
    name: 'expiresAt',
    send: (expiresAt) =>
      t.call('POST', '/v1/keys?dryRun=true', { body: { name: 'k', scopes: ['read'], expiresAt } }),
  },
  { name: 'createdAfter', send: (instant) => listed('/v1/runs', 'createdAfter', instant) },
  { name: 'createdBefore', send: (instant) => listed('/v1/runs', 'createdBefore', instant) },
  { name: 'from', send: (instant) => listed(`/v1/schedules/${schedule}/occurrences`, 'from', instant) },
  { name: 'to', send: (instant) => listed(`/v1/schedules/${schedule}/occurrences`, 'to', instant) },
]

describe.each(places)('$name', ({ send }) => {
  it.each([
    '0000-01-01T00:00:00Z',
    '0001-01-01T00:00:00+14:00',
    '1970-01-01T00:00:00+00:01',
    '2199-12-31T23:59:59-00:01',
    '2200-01-01T00:00:00Z',
    '9999-12-31T23:59:59-14:00',
  ])('refuses %s with the reason', async (instant) => {
    const { status, body } = await send(instant)
    expect([status, body.code, body.errors.length]).toEqual([400, 'invalid_request', 1])
    expect(body.errors[0]?.message).toContain('outside the years 1970 to 2199')
  })

  it.each(['yesterday', '1800', '2026-13-01T00:00:00Z'])('refuses %s once', async (instant) => {
    const { status, body } = await send(instant)
    expect([status, body.code, body.errors.length]).toEqual([400, 'invalid_request', 1])
    expect(body.errors[0]?.message).toContain('is not an instant')
  })

  it.each(['1970-01-01T00:00:00Z', '1969-12-31T23:00:00-01:00', '2199-12-31T23:59:59.999Z'])(
    'does not refuse %s for its year',
    async (instant) => {
      const { body } = await send(instant)
      expect(JSON.stringify(body)).not.toContain('outside the years')
    },
  )

  it('never makes a 500', async () => {
    const two = (max: number) => fc.integer({ min: 0, max }).map((n) => String(n).padStart(2, '0'))
    const year = fc.integer({ min: 0, max: 9999 }).map((n) => String(n).padStart(4, '0'))
    const offset = fc.oneof(
      fc.constant('Z'),
      fc.tuple(fc.constantFrom('+', '-'), two(24), fc.constant(':'), two(60)),
    )
    const instant = fc
      .tuple(year, fc.constant('-'), two(13), fc.constant('-'), two(32), fc.constant('T'), two(24), offset)
      .map(([y, d1, mo, d2, d, sep, h, o]) => [y, d1, mo, d2, d, sep, h, ':00:00', ...[o].flat()].join(''))
    await fc.assert(
      fc.asyncProperty(fc.oneof(instant, fc.date().map(String)), async (each) => {
        const { status, body } = await send(each)
        expect(status, JSON.stringify(body)).toBeLessThan(500)
      }),
      { numRuns: 60 },
    )
  })
})

describe('at', () => {
  it('never makes a 500, whatever the year', async () => {
    const year = fc.integer({ min: 0, max: 9999 }).map((n) => String(n).padStart(4, '0'))
    const zone = fc.constantFrom('Z', '+14:00', '-23:59', '')
    const ifPast = fc.constantFrom('reject', 'runNow')
    await fc.assert(
      fc.asyncProperty(year, zone, ifPast, async (y, offset, past) => {
        const body = {
          name: 'x',
          job: 'known',
          at: `${y}-12-31T23:59:59${offset}`,
          ifPast: past,
          jitterMs: 9,
        }
        const answer = await t.call('POST', '/v1/schedules?dryRun=true', { body })
        expect(answer.status, JSON.stringify(answer.body)).toBeLessThan(500)
      }),
      { numRuns: 200 },
    )
  })
})

describe('a cursor', () => {
  // sessions are those of a person, whom a key has to name: http/people.test.ts
  const lists = (Object.entries(routes) as [RouteName, Route][]).filter(
    ([name, route]) =>
      name !== 'personSessionList' && route.query !== undefined && 'cursor' in route.query.shape,
  )
  const idOf = (name: RouteName) =>
    name === 'attemptList' ? run : name === 'workflowVersionList' ? workflow : schedule
  const pathOf = (name: RouteName) => routes[name].path.replace(':id', idOf(name))
  /** The name of the list in its cursors, and the filter that stands in them without a query. */
  const scopes: Readonly<Record<string, () => { list: string; filter: Record<string, unknown> }>> = {
    tenantList: () => ({ list: 'tenants', filter: {} }),
    keyList: () => ({ list: 'keys', filter: {} }),
    jobList: () => ({ list: 'jobs', filter: {} }),
    scheduleList: () => ({ list: 'schedules', filter: {} }),
    occurrenceList: () => ({ list: 'occurrences', filter: { schedule } }),
    runList: () => ({ list: 'runs', filter: {} }),
    attemptList: () => ({ list: 'attempts', filter: { run } }),
    workerList: () => ({ list: 'workers', filter: {} }),
    backfillList: () => ({ list: 'backfills', filter: {} }),
    calendarList: () => ({ list: 'calendars', filter: {} }),
    replanList: () => ({ list: 'replans', filter: {} }),
    poolList: () => ({ list: 'pools', filter: {} }),
    deadLetterList: () => ({ list: 'dead-letters', filter: { state: ['open'] } }),
    workflowList: () => ({ list: 'workflows', filter: {} }),
    workflowVersionList: () => ({ list: 'workflow-versions', filter: { workflow } }),
    workflowRunList: () => ({ list: 'workflow-runs', filter: {} }),
    approvalList: () => ({ list: 'approvals', filter: {} }),
    auditList: () => ({ list: 'audit', filter: { afterMs: null, beforeMs: null } }),
    auditExport: () => ({ list: 'audit_chain', filter: {} }),
    memberList: () => ({ list: 'members', filter: {} }),
    secretList: () => ({ list: 'secrets', filter: {} }),
    serviceAccountList: () => ({ list: 'service-accounts', filter: {} }),
  }
  /** Where it is not the id of what was the last on the page before. */
  const goodPositions: Readonly<Record<string, string>> = {
    occurrenceList: '0',
    attemptList: '0',
    workflowVersionList: '0',
    auditExport: '0',
    deadLetterList: '0.019ad0c1-7f3e-7c63-9a52-6e4d8c1b2a3f',
  }
  const ask = async (name: RouteName, cursor: string) => {
    const key = isOfPlatform(routes[name]) ? await platform() : t.adminKey
    return t.call('GET', `${pathOf(name)}?${new URLSearchParams({ cursor }).toString()}`, { key })
  }
  let platformKey: string | undefined
  const platform = async () => (platformKey ??= await t.keyFor('acme', ['platform']))
  const forged = (name: RouteName, position: string) =>
    makeCursor({ ...(scopes[name]?.() ?? { list: '', filter: {} }), tenantId: t.tenantId }, position)

  it.each(lists.map(([name]) => name))(
    'of %s is taken as it was made, and judged if it was not',
    async (name) => {
      const good = goodPositions[name] ?? t.tenantId
      expect((await ask(name, forged(name, good))).status).toBe(200)
      for (const position of [
        '',
        'x',
        '-1',
        '9999999999999999',
        '8640000000000001',
        '1e3',
        '007',
        '2147483648000000',
        `${t.tenantId}x`,
        `0.${t.tenantId}x`,
        `9999999999999999.${t.tenantId}`,
      ]) {
        const { status, body } = await ask(name, forged(name, position))
        // a place in the chain may be any whole number
        if (name === 'auditExport' && /^[1-9]\d+$/.test(position)) continue
        expect([position, status, body.code]).toEqual([position, 400, 'invalid_cursor'])
      }
    },
  )

  it.each(lists.map(([name]) => name))('of %s never makes a 500', async (name) => {
    const position = fc.oneof(
      fc.string({ unit: 'binary' }),
      fc.maxSafeInteger().map(String),
      fc.stringMatching(/^-?\d{1,16}$/),
      fc.uuid(),
    )
    await fc.assert(
      fc.asyncProperty(position, fc.boolean(), async (each, bound) => {
        const { status, body } = await ask(name, bound ? forged(name, each) : each)
        expect(status, JSON.stringify(body)).toBeLessThan(500)
      }),
      { numRuns: 100 },
    )
  })
})

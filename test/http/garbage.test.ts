// Whatever is sent, the API answers with something other than a 500, and a dry run stores nothing of it.
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type CallOptions, httpJob, startTestApi, type TestApi } from '../support/api.ts'

let t: TestApi
let before: Record<string, number>
let calendarId: string
let scheduleId: string
beforeAll(async () => {
  t = await startTestApi()
  await t.call('POST', '/v1/jobs', { body: httpJob('known') })
  const weekend = { name: 'weekend', weekdays: ['sat', 'sun'] }
  calendarId = (await t.call('POST', '/v1/calendars', { body: weekend })).body.id
  const hourly = { name: 'hourly', every: '1h', job: 'known' }
  scheduleId = (await t.call('POST', '/v1/schedules', { body: hourly })).body.id
  before = await t.counts()
})
afterAll(() => t.close())

describe('garbage', () => {
  const answered = async (options: CallOptions, path: string) => {
    const { status, body } = await t.call('POST', path, options)
    expect(status, JSON.stringify(body)).toBeLessThan(500)
    expect(status < 400 || typeof body.code === 'string').toBe(true)
  }
  const paths = [
    '/v1/jobs?dryRun=true',
    '/v1/schedules?dryRun=true',
    '/v1/schedules/preview',
    '/v1/runs?dryRun=true',
    '/v1/keys?dryRun=true',
    '/v1/calendars?dryRun=true',
  ]
  const anyPath = fc.constantFrom(...paths)

  it('a parameter that no route reads is refused, and nothing is done', async () => {
    const body = { jobs: [{ name: 'dry' }] }
    const refused = await t.call('POST', '/v1/functions?dryRun=true', { body })
    expect([refused.status, refused.body.code]).toEqual([400, 'invalid_request'])
    expect(refused.body.errors).toEqual([
      { pointer: '/query/dryRun', message: 'is unknown: this route takes no parameters' },
    ])
    expect((await t.call('GET', '/v1/jobs?name=dry')).body.items).toEqual([])
  })

  it('any bytes never make a 500', async () => {
    const bytes = fc.uint8Array({ maxLength: 200 }).map((each) => Buffer.from(each))
    await fc.assert(
      fc.asyncProperty(bytes, anyPath, (raw, path) => answered({ raw }, path)),
      { numRuns: 300 },
    )
    expect(await t.counts()).toEqual(before)
  })

  it('any JSON never makes a 500', async () => {
    const known = [
      'name',
      'job',
      'handler',
      'every',
      'cron',
      'at',
      'zone',
      'input',
      'retry',
      'runAt',
      'queue',
      'scopes',
      'startAt',
      'dialect',
      'dayMatch',
      'dst',
      'from',
      'skipOn',
      'onlyOn',
      'onExcluded',
      'dates',
      'ranges',
      'yearly',
      'weekdays',
      'windows',
      'ics',
    ]
    const value = fc.oneof(
      fc.jsonValue(),
      fc.string({ unit: 'binary' }),
      fc.constantFrom<unknown>(
        'known',
        '5m',
        '* * * * *',
        'UTC',
        '2030-01-01T00:00:00Z',
        'every 2 weeks',
        'jenkins',
        { kind: 'http', url: 'http://x' },
        ['weekend'],
        ['2026-12-24', '12-25', 'sat'],
        'next_business_day',
        [{ from: '2026-12-24', to: '2026-12-31' }],
        [{ cron: '0 9 * * *', minutes: 60 }],
        'BEGIN:VEVENT\nDTSTART;VALUE=DATE:20261224\nRRULE:FREQ=YEARLY\nEND:VEVENT',
      ),
    )
    const body = fc.dictionary(fc.constantFrom(...known), value)
    await fc.assert(
      fc.asyncProperty(body, anyPath, (each, path) => answered({ body: each }, path)),
      { numRuns: 500 },
    )
    expect(await t.counts()).toEqual(before)
  })

  it('any JSON to a schedule or an action of it never makes a 500', async () => {
    const known = [
      'count',
      'reason',
      'until',
      'scheduledFor',
      'backfillFrom',
      'input',
      'every',
      'cron',
      'startAt',
      'dst',
      'jitterMs',
      'flexibleWindowMs',
      'catchUp',
      'overlap',
      'runLimit',
      'pauseAfterFailures',
      'afterCompletion',
    ]
    const value = fc.oneof(
      fc.jsonValue(),
      fc.integer(),
      fc.constantFrom<unknown>('2199-01-01T00:00:00Z', 'skip', 'buffer_all', 'delete', '90s', null, {
        policy: 'all',
        windowMs: 60_000,
      }),
    )
    const body = fc.dictionary(fc.constantFrom(...known), value, { maxKeys: 4 })
    const actions = ['pause', 'resume', 'skip', 'sleep', 'wake', 'trigger']
    const target = fc.constantFrom<readonly [string, string]>(
      ['PATCH', ''],
      ...actions.map((action) => ['POST', `/${action}`] as const),
    )
    await fc.assert(
      fc.asyncProperty(body, target, async (each, [method, action]) => {
        const path = `/v1/schedules/${scheduleId}${action}?dryRun=true`
        const answer = await t.call(method, path, { body: each })
        expect(answer.status, JSON.stringify(answer.body)).toBeLessThan(500)
      }),
      { numRuns: 500 },
    )
    expect(await t.counts()).toEqual(before)
  })

  it('any query and any id never make a 500', async () => {
    const list = fc.constantFrom(
      '/v1/jobs',
      '/v1/runs',
      '/v1/schedules',
      '/v1/keys',
      '/v1/calendars',
      `/v1/calendars/${calendarId}/days`,
    )
    const query = fc.dictionary(
      fc.constantFrom('limit', 'cursor', 'state', 'name', 'jobId', 'from', 'to', 'zone', 'x'),
      fc.string(),
    )
    await fc.assert(
      fc.asyncProperty(list, query, async (path, params) => {
        const { status } = await t.call('GET', `${path}?${new URLSearchParams(params).toString()}`)
        expect(status).toBeLessThan(500)
      }),
      { numRuns: 300 },
    )
    await fc.assert(
      fc.asyncProperty(fc.string({ unit: 'binary', minLength: 1 }), async (id) => {
        const { status } = await t.call('GET', `/v1/jobs/${encodeURIComponent(id.toWellFormed())}`)
        expect(status).toBeLessThan(500)
      }),
      { numRuns: 200 },
    )
  })
})

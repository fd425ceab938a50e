// What the API puts on record: every call that changes something, in its own transaction and by the
// credential; refusals beside it; never a value, never in a dry run. Cases audit.fail_closed,
// audit.denied_logged, audit.no_secret, audit.actor_spoof and audit.clock.
import type { AuditEntryView, AuditRecord } from '@belfry/contract'
import { auditEntrySchema, auditRuleOf, type RouteName, routes } from '@belfry/contract'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { eventually, httpJob, startTestApi, type TestApi } from '../support/api.ts'
import { judge, openSealer } from '../support/audit-rig.ts'

let t: TestApi
beforeAll(async () => {
  t = await startTestApi()
})
afterAll(() => t.close())

async function entries(query = '', key = t.adminKey): Promise<AuditEntryView[]> {
  await t.audit.flush()
  const answer = await t.call('GET', `/v1/audit?limit=200${query}`, { key })
  expect(answer.status).toBe(200)
  return answer.body.items.map((item) => auditEntrySchema.parse(item))
}
const newest = async (query = '') => (await entries(query))[0]
let made = 0
/** An instant that JavaScript has, and Postgres does not read as it is written. */
const farOff = 'Sat, 01 Jan 99999 00:00:00 GMT'
const makeJob = async (more: object = {}) => {
  const answer = await t.call('POST', '/v1/jobs', { body: httpJob(`job-${made++}`, { ...more }) })
  expect(answer.status).toBe(201)
  return answer.body
}

it('every route that changes something is audited, or says why not', () => {
  const names = Object.keys(routes) as RouteName[]
  const silent = names.filter((name) => routes[name].effect !== 'none' && auditRuleOf(name) === undefined)
  expect(silent).toEqual([])
  const rules = names.flatMap((name) => auditRuleOf(name) ?? [])
  const words = rules.map((rule) => ('action' in rule ? rule.action : 'not.audited'))
  expect(words.filter((word) => !/^[a-z_]+\.[a-z_]+$/.test(word))).toEqual([])
  const reasons = rules.flatMap((rule) => ('notAudited' in rule ? [rule.notAudited] : []))
  expect(reasons.filter((reason) => reason.length < 20)).toEqual([])
})

describe('a call', () => {
  it('is on record with who, what, from where and when', async () => {
    const before = Date.now()
    const job = await makeJob()
    const entry = await newest()
    expect(entry).toMatchObject({
      action: 'job.create',
      outcome: 'done',
      code: null,
      actor: { kind: 'key', name: 'key-0' },
      address: '127.0.0.1',
      subject: { kind: 'job', id: job.id, name: job.name },
      details: { version: 1 },
      seq: null,
    })
    expect(entry?.keyId).toBe(entry?.actor.id)
    expect(Math.abs(Date.parse(entry?.at ?? '') - before)).toBeLessThan(60_000)
  })

  it('a change says which fields and which version, a delete what it was', async () => {
    const job = await makeJob()
    await t.call('PATCH', `/v1/jobs/${job.id}`, { body: { priority: 3, description: 'x' } })
    expect(await newest()).toMatchObject({
      action: 'job.update',
      details: { fields: ['description', 'priority'], version: 2 },
    })
    await t.call('DELETE', `/v1/jobs/${job.id}`)
    expect(await newest()).toMatchObject({ action: 'job.delete', subject: { kind: 'job', id: job.id } })
  })

  it('a reason that was given stands with it', async () => {
    const body = { name: 'with-reason', cron: '0 3 * * *', handler: httpJob('x').handler }
    const schedule = await t.call('POST', '/v1/schedules', { body })
    await t.call('POST', `/v1/schedules/${schedule.body.id}/pause`, { body: { reason: 'holiday' } })
    expect(await newest()).toMatchObject({ action: 'schedule.pause', details: { reason: 'holiday' } })
    await t.call('POST', `/v1/schedules/${schedule.body.id}/trigger`, { body: {} })
    expect(await newest()).toMatchObject({
      action: 'schedule.trigger',
      subject: { kind: 'schedule', id: schedule.body.id },
    })
  })

  it('what the platform does to another tenant stands in the log of both', async () => {
    const platform = await t.keyFor('acme', ['platform', 'admin'])
    await t.call('POST', '/v1/tenants', { key: platform, body: { name: 'guest' } })
    const body = { name: 'given', scopes: ['admin'], tenant: 'guest' }
    const given = await t.call('POST', '/v1/keys', { key: platform, body })
    expect(given.status).toBe(201)
    const invite = { email: 'first@guest.example', role: 'owner', tenant: 'guest' }
    expect((await t.call('POST', '/v1/members', { key: platform, body: invite })).status).toBe(201)
    const own = given.body.secret
    for (const [action, name] of [
      ['key', 'given'],
      ['member', 'first@guest.example'],
    ] as const) {
      const there = await entries(`&action=${action}`, own)
      expect(there).toMatchObject([{ subject: { name }, actor: { kind: 'key' } }])
      expect((await entries(`&action=${action}`))[0]).toMatchObject({ subject: { name } })
    }
    await t.call('PATCH', '/v1/tenants/guest/quotas', { key: platform, body: { jobs: 5 } })
    expect((await entries('&action=quota', own))[0]).toMatchObject({ details: { fields: ['jobs'] } })
  })

  it('a dry run, a failed call and a replayed answer leave nothing', async () => {
    const count = (await entries()).length
    await t.call('POST', '/v1/jobs?dryRun=true', { body: httpJob('dry') })
    await t.call('POST', '/v1/jobs', { body: { name: 'no-handler' } })
    expect((await entries()).length).toBe(count)
    const headers = { 'idempotency-key': 'once' }
    const body = httpJob(`job-${made++}`)
    expect((await t.call('POST', '/v1/jobs', { body, headers })).status).toBe(201)
    expect((await t.call('POST', '/v1/jobs', { body, headers })).headers['idempotency-replayed']).toBe('true')
    expect((await entries()).length).toBe(count + 1)
  })

  it('audit.fail_closed: where its entry cannot be stored, the work is taken back', async () => {
    await t.database.sql(
      `ALTER TABLE belfry.audit_inbox ADD CONSTRAINT broken CHECK (action <> 'job.create') NOT VALID`,
    )
    const body = httpJob('not-on-record')
    const answer = await t.call('POST', '/v1/jobs', { body })
    await t.database.sql('ALTER TABLE belfry.audit_inbox DROP CONSTRAINT broken')
    expect(answer.status).toBe(500)
    const [found] = await t.database.sql(`SELECT id FROM belfry.job WHERE name = 'not-on-record'`)
    expect(found).toBeUndefined()
  })

  it('audit.actor_spoof: who it was comes from the credential alone', async () => {
    const headers = {
      'x-user': 'root',
      'x-forwarded-for': '203.0.113.9',
      'x-forwarded-user': 'root',
      forwarded: 'for=203.0.113.9',
    }
    await t.call('POST', '/v1/jobs', { body: httpJob(`job-${made++}`), headers })
    expect(await newest()).toMatchObject({ actor: { kind: 'key', name: 'key-0' }, address: '127.0.0.1' })
  })

  it('audit.clock: what the caller says of the time stands apart from the time of the server', async () => {
    const headers = { date: 'Sat, 01 Jan 2000 00:00:00 GMT' }
    await t.call('POST', '/v1/jobs', { body: httpJob(`job-${made++}`), headers })
    const entry = await newest()
    expect(entry?.claimedAt).toBe('2000-01-01T00:00:00.000Z')
    expect(Date.now() - Date.parse(entry?.at ?? '')).toBeLessThan(60_000)
    for (const date of ['nonsense', '9'.repeat(40), 'Sat, 01 Jan 275761 00:00:00 GMT', farOff]) {
      await t.call('POST', '/v1/jobs', { body: httpJob(`job-${made++}`), headers: { date } })
      expect(await newest()).toMatchObject({ action: 'job.create', claimedAt: null })
    }
  })

  it('audit.no_secret: no value of a body, a header or an answer is on record', async () => {
    const secret = 'k9-very-secret-value'
    const handler = { kind: 'http', url: `https://example.com/${secret}`, headers: { authorization: secret } }
    const job = await makeJob({ handler, description: secret, dedupe: undefined })
    await t.call('POST', '/v1/runs', { body: { jobId: job.id, input: { password: secret } } })
    await t.call('POST', '/v1/secrets', { body: { name: 'token', value: secret } })
    const key = await t.call('POST', '/v1/keys', { body: { name: 'made', scopes: ['read'] } })
    await t.audit.flush()
    const rows = await t.database.sql<{ text: string }>(
      'SELECT inbox::text AS text FROM belfry.audit_inbox AS inbox',
    )
    expect(rows.length).toBeGreaterThan(5)
    for (const { text } of rows) {
      expect(text).not.toContain(secret)
      expect(text).not.toContain(key.body.secret)
    }
    expect(await newest('&action=secret')).toMatchObject({
      action: 'secret.create',
      subject: { name: 'token' },
    })
  })
})

describe('audit.denied_logged: what is refused', () => {
  it('a right that is lacking: 403', async () => {
    const key = await t.keyFor('acme', ['read'])
    await t.call('POST', '/v1/jobs', { key, body: httpJob('no') })
    expect(await newest('&outcome=refused')).toMatchObject({
      action: 'job.create',
      code: 'forbidden',
      actor: { kind: 'key' },
      address: '127.0.0.1',
      details: { route: 'POST /v1/jobs' },
    })
  })

  it('a thing that is not there for this tenant: 404, whether another has it or nobody', async () => {
    const job = await makeJob()
    const key = await t.keyFor('other', ['admin'])
    await t.call('DELETE', `/v1/jobs/${job.id}`, { key })
    const [entry] = await entries('&outcome=refused', key)
    expect(entry).toMatchObject({
      action: 'job.delete',
      code: 'not_found',
      subject: { kind: 'job', id: job.id },
    })
    // the tenant whose it is learns nothing of it, nor of anything else there
    expect((await entries()).some((each) => each.id === entry?.id)).toBe(false)
    const nobodys = '019ad0c1-7f3e-7c63-9a52-6e4d8c1b2a3f'
    await t.call('DELETE', `/v1/jobs/${nobodys}`, { key })
    const { subject, ...same } = (await entries('&outcome=refused', key))[0] ?? {}
    expect({ ...same, id: 0, at: 0, requestId: 0 }).toEqual({
      ...entry,
      id: 0,
      at: 0,
      requestId: 0,
      subject: undefined,
    })
    expect(subject?.id).toBe(nobodys)
  })

  it('a key that is known and wrong or revoked: 401; one that nobody knows leaves nothing', async () => {
    const secret = await t.keyFor('acme', ['read'])
    await t.call('GET', '/v1/jobs', { key: `${secret.slice(0, -3)}abc` })
    // looked for after the answer
    const refused = () => entries('&outcome=refused&action=route')
    const [entry] = await eventually(async () => ((await refused()).length > 0 ? refused() : undefined))
    expect(entry).toMatchObject({
      action: 'route.call',
      code: 'unauthenticated',
      subject: { kind: 'route', name: 'jobList' },
    })
    const count = (await entries()).length
    await t.call('GET', '/v1/jobs', { key: `bfy_zzzzzzzzzzzz_${'a'.repeat(43)}` })
    await t.call('GET', '/v1/jobs', { key: null })
    expect((await entries()).length).toBe(count)
  })

  it('a target that is not allowed', async () => {
    const handler = { kind: 'http', url: 'http://169.254.169.254/latest/?token=hidden-in-the-query' }
    const answer = await t.call('POST', '/v1/jobs', { body: { name: 'metadata', handler } })
    expect(answer.body.code).toBe('invalid_target')
    const entry = await newest('&outcome=refused')
    expect(entry).toMatchObject({
      action: 'job.create',
      code: 'invalid_target',
      details: { target: '169.254.169.254' },
    })
    expect(JSON.stringify(entry)).not.toContain('hidden')
  })

  it('whatever stands in a path is kept, and holds nothing up', async () => {
    const key = await t.keyFor('odd', ['read'])
    const own = await t.keyFor('odd', ['admin'])
    const paths = ['a%00b', '%ED%A0%80', 'x'.repeat(2_000), '%F0%9F%A6%87', '"\\u0000', '..%2F..%2Fetc']
    for (const path of paths) await t.call('DELETE', `/v1/jobs/${path}`, { key })
    const kept = (await entries('&outcome=refused&action=job.delete', own)).map(({ subject }) => subject.id)
    expect(kept).toEqual(expect.arrayContaining(['ab', 'x'.repeat(256), '🦇', '../../etc']))
    await openSealer(t.db).runOnce()
    expect((await entries('', own)).every(({ seq }) => seq !== null)).toBe(true)
  })

  it('whatever date a caller names, the refusal is kept, and so are those after it', async () => {
    const key = await t.keyFor('late', ['read'])
    const own = await t.keyFor('late', ['admin'])
    const refuse = (id: string, headers = {}) => t.call('DELETE', `/v1/jobs/${id}`, { key, headers })
    await refuse('first', { date: farOff })
    await refuse('second')
    const kept = await entries('&outcome=refused', own)
    const said = kept.map(({ subject, claimedAt }) => [subject.id, claimedAt])
    expect(said).toEqual(
      expect.arrayContaining([
        ['first', null],
        ['second', null],
      ]),
    )
  })

  it('the same is on record once a minute, and a flood no more than a bound', async () => {
    const key = await t.keyFor('knocking', ['read'])
    const own = await t.keyFor('knocking', ['admin'])
    for (let index = 0; index < 20; index++) await t.call('POST', '/v1/jobs', { key, body: {} })
    expect(await entries('&outcome=refused', own)).toHaveLength(1)
    for (let index = 0; index < 200; index++) {
      const id = `019ad0c1-7f3e-7c63-9a52-${String(index).padStart(12, '0')}`
      await t.call('GET', `/v1/jobs/${id}`, { key })
    }
    expect((await entries('&outcome=refused', own)).length).toBe(60)
  })
})

describe('the list', () => {
  it('takes filters by actor, action, subject, outcome and time, and pages through', async () => {
    const key = await t.keyFor('listing', ['admin'])
    const ids: string[] = []
    for (let index = 0; index < 5; index++) {
      const answer = await t.call('POST', '/v1/jobs', { key, body: httpJob(`listed-${index}`) })
      ids.push(answer.body.id)
    }
    await t.call('DELETE', `/v1/jobs/${ids[0]}`, { key })
    await openSealer(t.db).runOnce()
    await t.call('DELETE', `/v1/jobs/${ids[1]}`, { key })
    const actions = async (query: string) => (await entries(query, key)).map(({ action }) => action)
    const made = Array.from({ length: 5 }, () => 'job.create')
    expect(await actions('')).toEqual(['job.delete', 'job.delete', ...made])
    expect(await actions('&action=job.delete')).toHaveLength(2)
    expect(await actions('&action=job')).toHaveLength(7)
    expect(await actions('&action=schedule')).toEqual([])
    expect(await actions(`&subject=${ids[0]}`)).toEqual(['job.delete', 'job.create'])
    expect(await actions('&subject=listed-3')).toEqual(['job.create'])
    expect(await actions('&actor=nobody')).toEqual([])
    expect(await actions('&outcome=refused')).toEqual([])
    expect(await actions('&after=2199-01-01T00:00:00Z')).toEqual([])
    expect(await actions('&before=2001-01-01T00:00:00Z')).toEqual([])
    const all = await entries('', key)
    expect(all.map(({ seq }) => seq)).toEqual([null, 6, 5, 4, 3, 2, 1])
    const paged: string[] = []
    let cursor = ''
    for (;;) {
      const page = await t.call('GET', `/v1/audit?limit=2${cursor}`, { key })
      paged.push(...page.body.items.map(({ id }) => id))
      if (page.body.nextCursor === null) break
      cursor = `&cursor=${page.body.nextCursor}`
    }
    expect(paged).toEqual(all.map(({ id }) => id))
  })

  it('is for those who may read it', async () => {
    const key = await t.keyFor('acme', ['operate'])
    for (const path of ['', '/status', '/export'])
      expect((await t.call('GET', `/v1/audit${path}`, { key })).status).toBe(403)
  })
})

describe('the export', () => {
  it('is whole and attested, page by page, and leaves an entry itself', async () => {
    const key = await t.keyFor('exporting', ['admin'])
    for (let index = 0; index < 7; index++)
      await t.call('POST', '/v1/jobs', { key, body: httpJob(`exported-${index}`) })
    await openSealer(t.db).runOnce()
    const records: AuditRecord[] = []
    let cursor = ''
    for (;;) {
      const { body } = await t.call('GET', `/v1/audit/export?limit=3${cursor}`, { key })
      const page = body as unknown as {
        items: AuditRecord[]
        checkpoints: AuditRecord[]
        cuts: AuditRecord[]
        nextCursor: string | null
      }
      records.push(...page.cuts, ...page.items, ...page.checkpoints)
      if (page.nextCursor === null) break
      cursor = `&cursor=${page.nextCursor}`
    }
    expect(judge(records)).toMatchObject({ ok: true, tenants: [{ first: 1, last: 7, signedSize: 7 }] })
    const status = await t.call('GET', '/v1/audit/status', { key })
    expect(status.body).toMatchObject({ size: 7, signedSize: 7, waiting: 0 })
    expect((await entries('&action=audit.export', key)).length).toBe(1)
  })
})

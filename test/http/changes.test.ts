// What all resources share: pages and cursors, entity tags, dry runs, names.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { httpJob, startTestApi, type TestApi } from '../support/api.ts'

let t: TestApi
beforeAll(async () => {
  t = await startTestApi()
})
afterAll(() => t.close())

describe('pages', () => {
  it('walk a list to its end, newest first, whatever is added meanwhile', async () => {
    const key = await t.keyFor('pager', ['admin'])
    const ids: string[] = []
    for (let n = 0; n < 5; n++)
      ids.unshift((await t.call('POST', '/v1/jobs', { key, body: httpJob(`j${n}`) })).body.id)
    const seen: string[] = []
    for (let cursor: string | null = ''; cursor !== null; ) {
      const page = await t.call('GET', `/v1/jobs?limit=2${cursor === '' ? '' : `&cursor=${cursor}`}`, { key })
      seen.push(...page.body.items.map((item: { id: string }) => item.id))
      cursor = page.body.nextCursor
      await t.call('POST', '/v1/jobs', { key, body: httpJob(`late${seen.length}`) })
    }
    expect(seen).toEqual(ids)
  })

  it('a cursor is bound to its list, its filter and its tenant', async () => {
    for (const name of ['p1', 'p2']) await t.call('POST', '/v1/jobs', { body: httpJob(name) })
    const { nextCursor } = (await t.call('GET', '/v1/jobs?limit=1')).body
    const other = await t.keyFor('cursor-thief', ['admin'])
    const tries = [
      t.call('GET', `/v1/jobs?name=p1&cursor=${nextCursor}`),
      t.call('GET', `/v1/schedules?cursor=${nextCursor}`),
      t.call('GET', `/v1/jobs?cursor=${nextCursor}`, { key: other }),
      t.call('GET', `/v1/jobs?cursor=${nextCursor}x`),
    ]
    for (const { body } of await Promise.all(tries))
      expect(body).toMatchObject({ status: 400, code: 'invalid_cursor' })
    expect((await t.call('GET', `/v1/jobs?limit=500&cursor=${nextCursor}`)).status).toBe(200)
  })
})

describe('entity tags', () => {
  const cases: [string, () => Promise<string>, object][] = [
    [
      '/v1/jobs',
      async () => (await t.call('POST', '/v1/jobs', { body: httpJob('tagged') })).body.id,
      { priority: 3 },
    ],
    [
      '/v1/schedules',
      async () => {
        const body = { name: 'tagged-s', every: '1h', handler: httpJob('x').handler }
        return (await t.call('POST', '/v1/schedules', { body })).body.id
      },
      { description: 'new' },
    ],
  ]
  it.each(cases)(
    '%s: a change under a stale tag is refused, under the present one done',
    async (path, make, change) => {
      const id = await make()
      const first = await t.call('GET', `${path}/${id}`)
      expect(first.headers['etag']).toBe('"1"')
      const edit = (tag: string) =>
        t.call('PATCH', `${path}/${id}`, { body: change, headers: { 'if-match': tag } })
      expect((await edit('"7"')).body).toMatchObject({ status: 412, code: 'precondition_failed' })
      expect((await edit('W/"1"')).status).toBe(412)
      expect((await edit('1')).body).toMatchObject({
        status: 400,
        errors: [{ pointer: '/headers/if-match' }],
      })
      const done = await edit('"7", "1"')
      expect([done.status, done.headers['etag']]).toEqual([200, '"2"'])
      expect((await edit('"1"')).status).toBe(412)
      expect((await edit('*')).status).toBe(200)
      const gone = await t.call('DELETE', `${path}/${id}`, { headers: { 'if-match': '"1"' } })
      expect(gone.status).toBe(412)
      expect((await t.call('GET', `${path}/${id}`)).status).toBe(200)
    },
  )

  it('of two edits that race under one tag, one wins', async () => {
    const { id } = (await t.call('POST', '/v1/jobs', { body: httpJob('raced') })).body
    const edits = Array.from({ length: 8 }, (_, n) =>
      t.call('PATCH', `/v1/jobs/${id}`, { body: { priority: n + 1 }, headers: { 'if-match': '"1"' } }),
    )
    const statuses = (await Promise.all(edits)).map(({ status }) => status).sort((a, b) => a - b)
    expect(statuses).toEqual([200, ...Array.from({ length: 7 }, () => 412)])
  })
})

describe('a dry run', () => {
  it('answers as the real thing, checks everything, stores nothing and tells nobody', async () => {
    const { id } = (await t.call('POST', '/v1/jobs', { body: httpJob('dry') })).body
    const schedule = (
      await t.call('POST', '/v1/schedules', { body: { name: 'dry', job: 'dry', every: '1h' } })
    ).body
    const run = (await t.call('POST', '/v1/runs', { body: { job: 'dry', runAt: '2090-01-01T00:00:00Z' } }))
      .body
    const key = (await t.call('POST', '/v1/keys', { body: { name: 'dry', scopes: ['read'] } })).body
    const state = () =>
      t.database.sql(
        `SELECT to_jsonb(j) AS row FROM belfry.job j UNION ALL SELECT to_jsonb(s) FROM belfry.schedule s
         UNION ALL SELECT to_jsonb(m) FROM belfry.timer m UNION ALL SELECT to_jsonb(d) FROM belfry.delayed d
         UNION ALL SELECT to_jsonb(k) - 'last_used_at' FROM belfry.api_key k`,
      )
    const [before, counts] = [await state(), await t.counts()]
    t.hints.length = 0
    t.events.length = 0
    const dry = (method: string, path: string, body?: unknown) =>
      t.call(method, `${path}?dryRun=true`, body === undefined ? {} : { body })
    expect((await dry('POST', '/v1/jobs', httpJob('new'))).body).toMatchObject({ name: 'new', version: 1 })
    expect((await dry('POST', '/v1/jobs', httpJob('dry'))).body).toMatchObject({ code: 'name_taken' })
    expect((await dry('PATCH', `/v1/jobs/${id}`, { priority: 1 })).body).toMatchObject({
      priority: 1,
      version: 2,
    })
    expect((await dry('DELETE', `/v1/jobs/${id}`)).body).toMatchObject({ code: 'in_use' })
    const made = await dry('POST', '/v1/schedules', { name: 'x', every: '1h', handler: httpJob('x').handler })
    expect(made.body.nextAt).not.toBeNull()
    expect((await dry('POST', '/v1/schedules', { name: 'dry', job: 'dry', every: '1h' })).body.code).toBe(
      'name_taken',
    )
    expect((await dry('PATCH', `/v1/schedules/${schedule.id}`, { every: '2h' })).body.every).toBe('2h')
    expect((await dry('POST', `/v1/schedules/${schedule.id}/pause`)).body.state).toBe('paused')
    expect((await dry('POST', `/v1/schedules/${schedule.id}/trigger`)).body.state).toBe('pending')
    expect((await dry('DELETE', `/v1/schedules/${schedule.id}`)).status).toBe(204)
    expect((await dry('POST', '/v1/runs', { job: 'dry' })).body.state).toBe('pending')
    expect((await dry('POST', `/v1/runs/${run.id}/cancel`)).body.state).toBe('canceled')
    expect((await dry('POST', `/v1/keys/${key.id}/revoke`)).body.revokedAt).not.toBeNull()
    expect((await dry('POST', '/v1/keys', { name: 'y', scopes: ['read'] })).status).toBe(201)
    expect(await state()).toEqual(before)
    expect(await t.counts()).toEqual(counts)
    expect([t.hints, t.events]).toEqual([[], []])
    expect((await t.call('GET', '/v1/whoami', { key: key.secret })).status).toBe(200)
  })
})

describe('jobs', () => {
  it('merge a change, keep their versions, and are deleted only when unused', async () => {
    const { body: job } = await t.call('POST', '/v1/jobs', {
      body: httpJob('merge', { retry: { maxAttempts: 7, baseMs: 5 } }),
    })
    const edited = await t.call('PATCH', `/v1/jobs/${job.id}`, {
      body: { retry: { baseMs: 9 }, description: 'd' },
    })
    expect(edited.body).toMatchObject({
      version: 2,
      description: 'd',
      retry: { maxAttempts: 7, baseMs: 9 },
      handler: job.handler,
    })
    const same = await t.call('PATCH', `/v1/jobs/${job.id}`, { body: { retry: { baseMs: 9 } } })
    expect(same.body.version).toBe(2)
    const versions = await t.database.sql(
      'SELECT version FROM belfry.job_version WHERE job_id = $1 ORDER BY version',
      [job.id],
    )
    expect(versions).toEqual([{ version: 1 }, { version: 2 }])
    const { body: schedule } = await t.call('POST', '/v1/schedules', {
      body: { name: 'uses', job: 'merge', every: '1h' },
    })
    const refused = await t.call('DELETE', `/v1/jobs/${job.id}`)
    expect(refused.body).toMatchObject({
      status: 409,
      code: 'in_use',
      detail: expect.stringContaining('"uses"') as string,
    })
    await t.call('DELETE', `/v1/schedules/${schedule.id}`)
    expect((await t.call('DELETE', `/v1/jobs/${job.id}`)).status).toBe(204)
    expect((await t.call('POST', '/v1/jobs', { body: httpJob('merge') })).status).toBe(201)
  })

  it('cannot be deleted while a schedule is being made for them', async () => {
    for (let n = 0; n < 10; n++) {
      const { body: job } = await t.call('POST', '/v1/jobs', { body: httpJob(`held-${n}`) })
      const [made, deleted] = await Promise.all([
        t.call('POST', '/v1/schedules', { body: { name: `held-${n}`, job: job.name, every: '1h' } }),
        t.call('DELETE', `/v1/jobs/${job.id}`),
      ])
      expect([
        [201, 409],
        [404, 204],
      ]).toContainEqual([made.status, deleted.status])
    }
  })
})

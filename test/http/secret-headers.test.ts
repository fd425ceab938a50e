// Headers of a job that carry secrets: stored, sent to the target, and shown to nobody again.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startTestApi, type TestApi } from '../support/api.ts'

let t: TestApi
beforeAll(async () => {
  t = await startTestApi()
})
afterAll(() => t.close())

const secret = 'Bearer s3cr3t-value'
const headers = { Authorization: secret, 'X-Api-Key': secret, 'X-Team': 'billing', 'x-hub-signature': secret }
const masked = { Authorization: '***', 'X-Api-Key': '***', 'X-Team': 'billing', 'x-hub-signature': '***' }
const url = 'https://example.com/hook'
let made = 0
const create = async (more: object = {}) =>
  (
    await t.call('POST', '/v1/jobs', {
      body: { name: `j${made++}`, handler: { kind: 'http', url, headers }, ...more },
    })
  ).body
const stored = async (id: string) => {
  const [row] = await t.database.sql<{ headers: unknown }>(
    `SELECT v.definition #> '{handler,headers}' AS headers FROM belfry.job j
     JOIN belfry.job_version v ON v.job_id = j.id AND v.version = j.version WHERE j.id = $1`,
    [id],
  )
  return row?.headers
}
const patch = (id: string, handler: object) =>
  t.call('PATCH', `/v1/jobs/${id}`, { body: { handler: { kind: 'http', url, ...handler } } })

describe('a secret header', () => {
  it('is masked in every answer about its job, and stored as it is', async () => {
    const key = {
      body: { name: 'kept', handler: { kind: 'http', url, headers } },
      headers: { 'idempotency-key': 'k' },
    }
    const first = await t.call('POST', '/v1/jobs', key)
    const { id } = first.body
    const answers = [
      first,
      await t.call('POST', '/v1/jobs', key),
      await t.call('GET', `/v1/jobs/${id}`),
      await t.call('PATCH', `/v1/jobs/${id}`, { body: { priority: 3 } }),
    ]
    for (const { body } of answers) expect(body.handler).toMatchObject({ headers: masked })
    const texts = [...answers, await t.call('GET', '/v1/jobs')].map(({ body }) => JSON.stringify(body))
    for (const text of texts) expect(text).not.toContain('s3cr3t')
    expect(await stored(id)).toEqual(headers)
    const kept = await t.database.sql<{ row: string }>('SELECT i::text AS row FROM belfry.idempotency_key i')
    expect(kept).toHaveLength(1)
    expect(JSON.stringify(kept)).not.toContain('s3cr3t')
  })

  it('keeps its value when the mask is sent back, whatever the case of its name', async () => {
    const { id } = await create()
    const edited = await patch(id, { headers: { ...masked, 'X-Team': 'sales' }, method: 'PUT' })
    expect([edited.status, edited.body.version]).toEqual([200, 2])
    expect(await stored(id)).toEqual({ ...headers, 'X-Team': 'sales' })
    await patch(id, { headers: { authorization: '***', 'x-api-key': 'new' }, url: `${url}/v2` })
    expect(await stored(id)).toEqual({ authorization: secret, 'x-api-key': 'new' })
    const { body: unchanged } = await t.call('GET', `/v1/jobs/${id}`)
    const { kind, ...same } = unchanged.handler
    expect((await patch(id, same)).body.version).toBe(unchanged.version)
    expect(kind).toBe('http')
  })

  it.each([
    [
      'a new job',
      () =>
        t.call('POST', '/v1/jobs', { body: { name: 'm', handler: { kind: 'http', url, headers: masked } } }),
    ],
    [
      'a schedule with its own handler',
      () =>
        t.call('POST', '/v1/schedules', {
          body: { name: 'm', every: '1h', handler: { kind: 'http', url, headers: masked } },
        }),
    ],
  ] as const)('is refused as a mask for %s', async (_what, send) => {
    const before = await t.counts()
    const { body } = await send()
    expect(body).toMatchObject({ status: 400, code: 'invalid_request' })
    expect(body.errors.map(({ pointer }) => pointer)).toContain('/handler/headers/Authorization')
    expect(await t.counts()).toEqual(before)
  })

  it('does not follow its job to another origin, nor to a header that had none', async () => {
    const { id } = await create()
    const elsewhere = await patch(id, { url: 'https://evil.example/', headers: { Authorization: '***' } })
    expect(elsewhere.body.errors).toMatchObject([{ pointer: '/handler/headers/Authorization' }])
    const missing = await patch(id, { headers: { Cookie: '***' } })
    expect(missing.body.errors).toMatchObject([{ pointer: '/handler/headers/Cookie' }])
    expect(await stored(id)).toEqual(headers)
  })

  it('may have three stars as its value where nothing looks like a secret', async () => {
    const job = await create({ handler: { kind: 'http', url, headers: { 'X-Rating': '***' } } })
    expect(await stored(job.id)).toEqual({ 'X-Rating': '***' })
  })
})

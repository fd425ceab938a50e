// Secrets by the API: they go in and never come out, whoever asks and whatever goes wrong; versions, grants,
// and what a job may name.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { runAlone } from '../cli/support/cli.ts'
import { type AnswerBody, startTestApi, type TestApi } from '../support/api.ts'

let t: TestApi
let url: string
beforeAll(async () => {
  t = await startTestApi()
  url = await t.api.listen({ host: '127.0.0.1', port: 0 })
})
afterAll(() => t.close())

type SecretBody = AnswerBody & {
  readonly description: string
  readonly versions: readonly { version: number; createdBy: string }[]
  readonly grants: readonly { grantee: { kind: string; name: string | null }; targets: string[] | null }[]
}

const value = 'hunter2-correct-horse'
let made = 0
const newName = () => `secret-${made++}`
const call = async (method: string, path: string, body?: unknown, more: object = {}) => {
  const answer = await t.call(method, path, { ...(body === undefined ? {} : { body }), ...more })
  expect(JSON.stringify(answer)).not.toContain(value)
  return { ...answer, body: answer.body as SecretBody }
}
const create = async (more: object = {}) => {
  const name = newName()
  return (await call('POST', '/v1/secrets', { name, value, ...more })).body
}
const createJob = async (secret: string, target = 'https://api.example.com/hook') => {
  const handler = { kind: 'http', url: target, headers: { 'X-Token': `{{secrets.${secret}}}` } }
  return (await call('POST', '/v1/jobs', { name: `job-${made++}`, handler })).body
}
/** Every row of every table as text, as a dump has it. */
async function dump(): Promise<string> {
  const tables = await t.database.sql<{ name: string }>(
    "SELECT format('%I.%I', schemaname, tablename) AS name FROM pg_tables WHERE schemaname NOT LIKE 'pg\\_%'",
  )
  const texts: string[] = []
  for (const { name } of tables)
    for (const { row } of await t.database.sql<{ row: string }>(`SELECT x::text AS row FROM ${name} AS x`))
      texts.push(row)
  return texts.join('\n')
}

describe('a secret', () => {
  it('is stored, listed, changed and deleted without its value ever being answered', async () => {
    const name = newName()
    const first = await call('POST', '/v1/secrets', { name, value, description: 'of the partner' })
    expect([first.status, first.headers['location']]).toEqual([201, `/v1/secrets/${first.body.id}`])
    expect(first.body).toMatchObject({ name, version: 1, grants: [] })
    expect(first.body.versions[0]?.createdBy).toMatch(/^key /)
    const listed = await call('GET', `/v1/secrets?name=${name}`)
    expect(listed.body.items).toMatchObject([{ name, version: 1, grants: 0 }])
    const path = `/v1/secrets/${first.body.id}`
    const changed = await call('PATCH', path, { description: 'new words' })
    expect(changed.body.description).toBe('new words')
    expect((await call('PATCH', path, { description: 'x' }, { headers: { 'if-match': '"1"' } })).status).toBe(
      412,
    )
    expect((await call('DELETE', path)).status).toBe(204)
    expect((await call('GET', path)).status).toBe(404)
  })

  it('stands in no row of the database, in no encoding', async () => {
    const name = newName()
    const key = { headers: { 'idempotency-key': `key-of-${name}` } }
    const { body } = await call('POST', '/v1/secrets', { name, value }, key)
    expect((await call('POST', '/v1/secrets', { name, value }, key)).headers['idempotency-replayed']).toBe(
      'true',
    )
    expect((await call('POST', '/v1/secrets', { name, value: `${value}x` }, key)).status).toBe(422)
    await call('POST', `/v1/secrets/${body.id}/rotate`, { value: `${value}-2` })
    const all = await dump()
    expect(all).toContain(name)
    const bytes = Buffer.from(value)
    for (const form of [value, bytes.toString('hex'), bytes.toString('base64').slice(0, -4)])
      expect(all).not.toContain(form)
  })

  it('has versions: rotated, put back, and dropped where they leaked', async () => {
    const { id } = await create()
    const rotate = (more: object = {}) => call('POST', `/v1/secrets/${id}/rotate`, { value, ...more })
    const versions = ({ body }: { body: SecretBody }) => body.versions.map(({ version }) => version)
    expect(versions(await rotate())).toEqual([2, 1])
    for (let count = 0; count < 4; count++) await rotate()
    const kept = await call('GET', `/v1/secrets/${id}`)
    expect([kept.body.version, versions(kept)]).toEqual([6, [6, 5, 4, 3, 2]])
    const back = await call('POST', `/v1/secrets/${id}/restore`, { version: 3 })
    expect([back.body.version, versions(back)]).toEqual([3, [6, 5, 4, 3, 2]])
    const gone = await call('POST', `/v1/secrets/${id}/restore`, { version: 1 })
    expect([gone.status, gone.body.errors[0]?.message]).toEqual([400, 'is not kept; there are 6, 5, 4, 3, 2'])
    expect(versions(await rotate({ discardBefore: true }))).toEqual([7])
  })

  it.each([
    ['ab', 'could not be masked'],
    ['        ', 'could not be masked'],
    [`${value}\u0000`, 'NUL'],
    [value.repeat(2_000), 'Too big|at most|longer'],
  ])('is refused where it cannot be kept or masked (log.secret_short)', async (given, words) => {
    const answer = await call('POST', '/v1/secrets', { name: newName(), value: given })
    expect([answer.status, answer.body.errors[0]?.pointer]).toEqual([400, '/value'])
    expect(answer.body.detail).toMatch(new RegExp(words))
  })

  it('is repeated by no error', async () => {
    const raw = [
      `{"name":"x","value":"${value}"`,
      `{"name":"x","value":"${value}","value":"${value}"}`,
      `{"name":"${value}/","value":"${value}","more":1}`,
      `["${value}"]`,
    ]
    for (const text of raw) {
      const answer = await t.call('POST', '/v1/secrets', {
        raw: text,
        headers: { 'content-type': 'application/json' },
      })
      expect(answer.status).toBe(400)
      expect(JSON.stringify(answer.body)).not.toContain(value)
    }
    const taken = await create()
    const again = await call('POST', '/v1/secrets', { name: taken.name, value })
    expect([again.status, again.body.code]).toEqual([409, 'name_taken'])
  })

  it('is not stored by a dry run, nor is the key that it made for the tenant', async () => {
    const key = await t.keyFor('dry', ['admin'])
    const name = newName()
    const asDry = (path: string, body: object) => call('POST', path, body, { key })
    expect((await asDry('/v1/secrets?dryRun=true', { name, value })).status).toBe(201)
    expect((await call('GET', '/v1/secrets', undefined, { key })).body.items).toEqual([])
    expect((await asDry('/v1/secrets', { name, value })).status).toBe(201)
    const [row] = await t.database.sql<{ count: number }>(
      `SELECT count(*)::int FROM belfry.tenant_key k JOIN belfry.tenant t ON t.id = k.tenant_id
       WHERE t.name = 'dry'`,
    )
    expect(row?.count).toBe(1)
  })

  it('is there for its own tenant alone, and for nobody who may not write', async () => {
    const { id, name } = await create()
    const foreign = await t.keyFor('other', ['admin'])
    const paths = [
      ['GET', ''],
      ['PATCH', '', {}],
      ['DELETE', ''],
      ['POST', '/rotate', { value }],
      ['POST', '/restore', { version: 1 }],
      ['POST', '/grants', { job: 'x' }],
      ['POST', '/grants/revoke', { job: 'x' }],
    ] as const
    for (const [method, path, body] of paths)
      expect((await call(method, `/v1/secrets/${id}${path}`, body, { key: foreign })).status).toBe(404)
    expect((await call('GET', `/v1/secrets?name=${name}`, undefined, { key: foreign })).body.items).toEqual(
      [],
    )
    const reader = await t.keyFor('acme', ['operate'])
    expect((await call('POST', '/v1/secrets', { name: newName(), value }, { key: reader })).status).toBe(403)
    expect((await call('POST', '/v1/secrets/rewrap', {}, { key: t.adminKey })).status).toBe(403)
  })
})

describe('a job that names a secret', () => {
  it('is saved only where the secret is there', async () => {
    const handler = { kind: 'http', url: 'https://example.com/', headers: { 'X-A': '{{secrets.nowhere}}' } }
    const job = await call('POST', '/v1/jobs', { name: 'j', handler })
    expect([job.status, job.body.errors[0]?.message]).toEqual([
      400,
      'names the secret "nowhere", which is not there; store it first',
    ])
    const schedule = { name: 's', every: '1h', handler }
    expect((await call('POST', '/v1/schedules', schedule)).body.errors[0]?.message).toMatch(/nowhere/)
    const workflow = { name: 'w', tasks: [{ id: 'a', handler }] }
    const saved = await call('POST', '/v1/workflows', workflow)
    expect([saved.status, saved.body.errors[0]?.pointer]).toEqual([400, '/tasks/0/handler'])
    const other = { ...handler, headers: { 'X-A': '{{secrets.a.b()}}' } }
    expect((await call('POST', '/v1/jobs', { name: 'j', handler: other })).status).toBe(400)
  })

  it('is granted it for where it takes it; again after it moved; for anywhere if asked', async () => {
    const { id, name } = await create()
    const job = await createJob(name)
    const grant = (more: object = {}) => call('POST', `/v1/secrets/${id}/grants`, { job: job.name, ...more })
    const bound = await grant()
    expect(bound.body.grants).toMatchObject([
      { grantee: { kind: 'job', name: job.name }, targets: ['https://api.example.com'] },
    ])
    const handler = { ...job.handler, url: 'https://elsewhere.example.com/' }
    await call('PATCH', `/v1/jobs/${job.id}`, { handler })
    expect((await grant()).body.grants).toMatchObject([{ targets: ['https://elsewhere.example.com'] }])
    expect((await grant({ anyTarget: true })).body.grants).toMatchObject([{ targets: null }])
    expect((await call('DELETE', `/v1/secrets/${id}`)).body.detail).toContain(
      `granted to the job "${job.name}"`,
    )
    expect((await call('POST', `/v1/secrets/${id}/grants/revoke`, { job: job.name })).body.grants).toEqual([])
    const twice = await call('POST', `/v1/secrets/${id}/grants/revoke`, { job: job.name })
    expect([twice.status, twice.body.detail]).toEqual([404, expect.stringContaining('is not granted to')])
    expect((await call('DELETE', `/v1/secrets/${id}`)).status).toBe(204)
  })

  it('gets no bound grant for a secret that it does not name, and nobody one who is not there', async () => {
    const [mine, other] = [await create(), await create()]
    const job = await createJob(mine.name)
    const wrong = await call('POST', `/v1/secrets/${other.id}/grants`, { job: job.name })
    expect([wrong.status, wrong.body.errors[0]?.pointer]).toEqual([400, '/job'])
    for (const body of [{ job: 'none' }, { workflow: 'none' }, { serviceAccount: 'none' }])
      expect((await call('POST', `/v1/secrets/${mine.id}/grants`, body)).status).toBe(404)
    for (const body of [{}, { job: 'a', workflow: 'b' }])
      expect((await call('POST', `/v1/secrets/${mine.id}/grants`, body)).status).toBe(400)
  })

  it('may be a task of a workflow', async () => {
    const { id, name } = await create()
    const handler = {
      kind: 'http',
      url: 'https://task.example.com/',
      headers: { 'X-A': `{{secrets.${name}}}` },
    }
    const tasks = [
      { id: 'a', handler },
      { id: 'b', handler: { kind: 'http', url: 'https://no.example.com/' } },
    ]
    const workflow = await call('POST', '/v1/workflows', { name: `flow-${made++}`, tasks })
    const grant = await call('POST', `/v1/secrets/${id}/grants`, { workflow: workflow.body.name })
    expect(grant.body.grants).toMatchObject([
      { grantee: { kind: 'workflow', name: workflow.body.name }, targets: ['https://task.example.com'] },
    ])
  })

  it('shows where a header takes a secret from, as there is none in it', async () => {
    const { name } = await create()
    const headers = {
      Authorization: `Bearer {{secrets.${name}}}`,
      Cookie: `session={{secrets.${name}}}`,
      'X-Token': `abcdefghijklmnopq {{secrets.${name}}}`,
    }
    const handler = { kind: 'http', url: 'https://example.com/', headers }
    const job = await call('POST', '/v1/jobs', { name: `job-${made++}`, handler })
    expect(job.body.handler).toMatchObject({ headers: { ...headers, 'X-Token': '***' } })
  })
})

describe('belfry secret', () => {
  const belfry = (argv: readonly string[], stdin = '') => {
    const env = { BELFRY_URL: url, BELFRY_API_KEY: t.adminKey, TZ: 'UTC', XDG_CONFIG_HOME: '/nonexistent' }
    return runAlone([...argv], { env, now: () => Date.now(), stdin })
  }

  it('takes a value from standard input, never from the command line, and shows it nowhere', async () => {
    const set = await belfry(
      ['secret', 'set', 'cli-token', '--from-stdin', '--description', 'by hand'],
      `${value}\n`,
    )
    expect([set.code, set.err]).toEqual([0, expect.stringContaining('Created the secret cli-token')])
    expect((await belfry(['secret', 'set', 'cli-token', value])).code).toBe(2)
    expect((await belfry(['secret', 'set', 'cli-token'])).err).toContain('--from-stdin')
    const again = await belfry(
      ['secret', 'set', 'cli-token', '--from-stdin', '--discard-before'],
      `${value}2`,
    )
    expect(again.err).toContain('Set the secret cli-token to version 2')
    const job = await createJob('cli-token')
    const grant = await belfry(['secret', 'grant', 'cli-token', '--job', job.name])
    expect(grant.err).toContain(`the job ${job.name} may use cli-token for https://api.example.com`)
    const shown = await belfry(['secret', 'get', 'cli-token'])
    expect(shown.out).toMatch(new RegExp(`Granted to +job ${job.name}: https://api.example.com`))
    expect((await belfry(['secret', 'list', '--all'])).out).toMatch(/cli-token +2 +1/)
    const busy = await belfry(['secret', 'delete', 'cli-token'])
    expect([busy.code, busy.err]).toEqual([1, expect.stringContaining('revoke that first')])
    expect((await belfry(['secret', 'revoke', 'cli-token', '--job', job.name])).code).toBe(0)
    expect((await belfry(['secret', 'restore', 'cli-token', '--to', '1'])).err).toContain('is not kept')
    expect((await belfry(['secret', 'delete', 'cli-token'])).code).toBe(0)
    const near = await belfry(['secret', 'get', 'secret-O'])
    expect([near.code, near.err]).toEqual([1, expect.stringContaining('did you mean secret-')])
    for (const { out, err } of [set, again, grant, shown]) expect(out + err).not.toContain(value)
  })
})

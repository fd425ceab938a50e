// Service accounts over the API: who may make which, what their keys may do and for how long, as whom jobs
// run, and that disabling one stops all of it.
import { rolePermissions, scopePermissions } from '@belfry/contract'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createKeyDirectory } from '../../packages/server/src/postgres/catalog/key-store.ts'
import { createAuthenticator } from '../../packages/server/src/security/credentials.ts'
import { eventually, httpJob, startTestApi, type TestApi } from '../support/api.ts'
import { realClock } from '../support/real-clock.ts'
import { enqueue, openHandWorker } from '../support/remote-worker.ts'

let t: TestApi
beforeAll(async () => {
  t = await startTestApi()
})
afterAll(() => t.close())

let names = 0
const nameOf = (word: string): string => `${word}-${names++}`
const make = async (role: string, more: object = {}) =>
  (await t.call('POST', '/v1/service-accounts', { body: { name: nameOf('account'), role, ...more } })).body
const change = (id: string, body: object, more: object = {}) =>
  t.call('PATCH', `/v1/service-accounts/${id}`, { body, ...more })
const keyOf = async (serviceAccount: string, scopes: readonly string[], more: object = {}) => {
  const body = { name: nameOf('key'), scopes, serviceAccount, ...more }
  return (await t.call('POST', '/v1/keys', { body })).body
}
const statusWith = async (key: string, path = '/v1/jobs') => (await t.call('GET', path, { key })).status

describe('a service account', () => {
  it('is made, found by name, changed under its version, and never twice of one name', async () => {
    const made = await make('developer', { description: 'deploys' })
    expect(made).toMatchObject({ role: 'developer', description: 'deploys', queues: null, version: 1 })
    const taken = await t.call('POST', '/v1/service-accounts', { body: { name: made.name, role: 'viewer' } })
    expect(taken.body).toMatchObject({ code: 'name_taken', errors: [{ pointer: '/name' }] })
    const listed = await t.call('GET', `/v1/service-accounts?name=${made.name}`)
    expect(listed.body.items.map(({ id }) => id)).toEqual([made.id])
    const stale = await change(made.id, { role: 'viewer' }, { headers: { 'if-match': '"7"' } })
    expect(stale.body.code).toBe('precondition_failed')
    const changed = await change(made.id, { role: 'viewer' }, { headers: { 'if-match': '"1"' } })
    expect(changed.body).toMatchObject({ role: 'viewer', description: 'deploys', version: 2 })
    expect(changed.headers['etag']).toBe('"2"')
  })

  it('stays as it is after a dry run', async () => {
    const made = await make('viewer')
    const tried = await t.call('PATCH', `/v1/service-accounts/${made.id}?dryRun=true`, {
      body: { disabled: true },
    })
    expect(tried.body).toMatchObject({ version: 2, disabledAt: expect.any(String) as string })
    expect((await t.call('GET', `/v1/service-accounts/${made.id}`)).body).toMatchObject({ disabledAt: null })
  })

  it('is an owner or of the platform for nobody', async () => {
    for (const role of ['owner', 'platform', 'root']) {
      const refused = await t.call('POST', '/v1/service-accounts', { body: { name: nameOf('x'), role } })
      expect(refused.body).toMatchObject({ status: 400, errors: [{ pointer: '/role' }] })
    }
  })
})

describe('a key of a service account', () => {
  it('may do what its scopes and the role of the account both allow', async () => {
    const account = await make('viewer')
    const key = await keyOf(account.name, ['admin'])
    expect(key).toMatchObject({ owner: { kind: 'service_account', id: account.id, name: account.name } })
    const who = await t.call('GET', '/v1/whoami', { key: key.secret })
    expect(who.body).toMatchObject({
      principal: { kind: 'service_account', id: account.id, name: account.name },
      role: 'viewer',
      permissions: rolePermissions.viewer.filter((each) => scopePermissions.admin.includes(each)),
    })
    expect(await statusWith(key.secret)).toBe(200)
    const refused = await t.call('POST', '/v1/jobs', { key: key.secret, body: httpJob(nameOf('j')) })
    expect(refused.body).toMatchObject({ status: 403, code: 'forbidden' })
    expect(refused.body.detail).toContain('has the role viewer')
  })

  it('follows the role at once', async () => {
    const account = await make('viewer')
    const { secret: key } = await keyOf(account.name, ['admin'])
    const post = async () => (await t.call('POST', '/v1/jobs', { key, body: httpJob(nameOf('j')) })).status
    expect(await post()).toBe(403)
    await change(account.id, { role: 'developer' })
    expect(await post()).toBe(201)
    await change(account.id, { role: 'auditor' })
    expect(await post()).toBe(403)
  })

  it('does nothing while the account is disabled: at once here, within 5 s elsewhere', async () => {
    const account = await make('viewer')
    const keys = [await keyOf(account.name, ['read']), await keyOf(account.name, ['read'])]
    let nowMs = 0
    const directory = createKeyDirectory({ db: t.db })
    const elsewhere = createAuthenticator({ directory, clock: { ...realClock, monotonicMs: () => nowMs } })
    for (const { secret } of keys) {
      expect(await elsewhere.authenticate(secret)).toBeDefined()
      expect(await statusWith(secret)).toBe(200)
    }
    const disabled = await change(account.id, { disabled: true })
    nowMs = 4_999
    for (const { secret } of keys) {
      expect(await statusWith(secret)).toBe(401)
      expect(await elsewhere.authenticate(secret)).toBeUndefined()
    }
    const again = await change(account.id, { disabled: true })
    expect(again.body).toMatchObject({ disabledAt: (disabled.body as { disabledAt?: string }).disabledAt })
    await change(account.id, { disabled: false })
    for (const { secret } of keys) expect(await statusWith(secret)).toBe(200)
  })

  it('is not made for one that is disabled or unknown, nor with scopes that come to nothing', async () => {
    const account = await make('worker')
    const nothing = await t.call('POST', '/v1/keys', {
      body: { name: nameOf('k'), scopes: ['worker', 'read'], serviceAccount: account.name },
    })
    expect(nothing.body).toMatchObject({ status: 400, errors: [{ pointer: '/scopes/1' }] })
    await change(account.id, { disabled: true })
    const body = { name: nameOf('k'), scopes: ['worker'], serviceAccount: account.name }
    expect((await t.call('POST', '/v1/keys', { body })).body).toMatchObject({
      status: 400,
      errors: [{ pointer: '/serviceAccount' }],
    })
    const unknown = await t.call('POST', '/v1/keys', { body: { ...body, serviceAccount: 'nobody' } })
    expect(unknown.body).toMatchObject({ status: 404, errors: [{ pointer: '/serviceAccount' }] })
  })

  it('belongs to who makes it: an account gives its own keys, and none beyond its role', async () => {
    const account = await make('admin')
    const { secret: key } = await keyOf(account.name, ['admin'])
    const own = await t.call('POST', '/v1/keys', { key, body: { name: nameOf('k'), scopes: ['read'] } })
    expect(own.body).toMatchObject({ owner: { kind: 'service_account', id: account.id } })
    const platform = await t.call('POST', '/v1/keys', {
      key,
      body: { name: nameOf('k'), scopes: ['platform'] },
    })
    expect(platform.status).toBe(403)
    await change(account.id, { disabled: true })
    expect(await statusWith(own.body.secret)).toBe(401)
  })

  it('serves the queues that the account and the key both have', async () => {
    const account = await make('worker', { queues: ['mail', 'reports'] })
    const { secret: key } = await keyOf(account.name, ['worker'], { queues: ['mail', 'other'] })
    const open = (queue: string) =>
      t.call('POST', '/v1/workers', { key, body: { functions: ['f'], queues: [queue], slots: 1 } })
    expect((await open('mail')).status).toBe(200)
    for (const queue of ['reports', 'other', 'default']) expect((await open(queue)).status).toBe(403)
  })
})

describe('the key of a person', () => {
  it('is bounded by his role, and dead when he is disabled', async () => {
    const made = await t.call('POST', '/v1/members', { body: { email: 'kim@example.com', role: 'admin' } })
    const token = (made.body as { inviteToken?: string }).inviteToken
    const accepted = await t.call('POST', '/v1/invites/accept', {
      key: null,
      body: { token, password: 'gull-harbour-41-lantern', answer: 'token' },
    })
    const session = (accepted.body as unknown as { token: string }).token
    const key = await t.call('POST', '/v1/keys', {
      key: session,
      body: { name: nameOf('k'), scopes: ['admin'] },
    })
    expect(key.body).toMatchObject({ owner: { kind: 'person', id: made.body.id } })
    const { secret } = key.body
    const post = async () =>
      (await t.call('POST', '/v1/jobs', { key: secret, body: httpJob(nameOf('j')) })).status
    expect(await post()).toBe(201)
    await t.call('PATCH', `/v1/members/${made.body.id}`, { body: { role: 'viewer' } })
    expect(await post()).toBe(403)
    expect(await statusWith(secret)).toBe(200)
    await t.call('PATCH', `/v1/members/${made.body.id}`, { body: { state: 'disabled' } })
    expect(await statusWith(secret)).toBe(401)
  })
})

describe('a job that runs as somebody', () => {
  const jobAs = async (runAs: string, more: object = {}) =>
    (await t.call('POST', '/v1/jobs', { body: { ...httpJob(nameOf('job')), runAs, ...more } })).body

  it('says so, in each version, and its runs say as whom they run', async () => {
    const [first, second] = [await make('viewer'), await make('viewer')]
    const job = await jobAs(first.name)
    expect(job).toMatchObject({ runAs: first.name, version: 1 })
    const before = await enqueue(t, job.name)
    const changed = await t.call('PATCH', `/v1/jobs/${job.id}`, { body: { runAs: second.name } })
    expect(changed.body).toMatchObject({ runAs: second.name, version: 2 })
    const after = await enqueue(t, job.name)
    const runAs = async (id: string) => (await t.call('GET', `/v1/runs/${id}`)).body
    expect([await runAs(before), await runAs(after)]).toMatchObject([
      { runAs: first.name },
      { runAs: second.name },
    ])
    const nobody = await t.call('PATCH', `/v1/jobs/${job.id}`, { body: { runAs: null } })
    expect(nobody.body).toMatchObject({ runAs: null })
  })

  it('is changed by those only who may act as it: its own keys, admins and owners', async () => {
    const account = await make('developer')
    const other = await make('developer')
    const job = await jobAs(account.name)
    const { secret: own } = await keyOf(account.name, ['admin'])
    const { secret: others } = await keyOf(other.name, ['admin'])
    const patch = (key: string, body: object) => t.call('PATCH', `/v1/jobs/${job.id}`, { key, body })
    for (const body of [{ priority: 1 }, { runAs: null }, { runAs: other.name }, httpJob('x')]) {
      const refused = await patch(others, { ...body, ...('name' in body ? { name: undefined } : {}) })
      expect(refused.body, JSON.stringify(body)).toMatchObject({
        status: 403,
        errors: [{ pointer: '/runAs' }],
      })
    }
    expect((await patch(own, { priority: 1 })).status).toBe(200)
    expect((await patch(own, { runAs: other.name })).status).toBe(403)
    const create = await t.call('POST', '/v1/jobs', {
      key: others,
      body: { ...httpJob(nameOf('j')), runAs: account.name },
    })
    expect(create.body).toMatchObject({ status: 403, errors: [{ pointer: '/runAs' }] })
    const remove = (key: string) => t.call('DELETE', `/v1/jobs/${job.id}`, { key })
    expect((await remove(others)).body).toMatchObject({ status: 403, errors: [{ pointer: '/runAs' }] })
    expect((await patch(t.adminKey, { runAs: other.name })).status).toBe(200)
    expect((await remove(own)).status).toBe(403)
    expect((await remove(others)).status).toBe(204)
  })

  it('names an account that is there, is not disabled and has the queue', async () => {
    const bound = await make('viewer', { queues: ['mail'] })
    const send = (body: object) => t.call('POST', '/v1/jobs', { body: { ...httpJob(nameOf('j')), ...body } })
    expect((await send({ runAs: 'nobody' })).body).toMatchObject({
      status: 404,
      errors: [{ pointer: '/runAs' }],
    })
    expect((await send({ runAs: bound.name })).body).toMatchObject({
      status: 400,
      errors: [{ pointer: '/queue' }],
    })
    const job = (await send({ runAs: bound.name, queue: 'mail' })).body
    const moved = await t.call('PATCH', `/v1/jobs/${job.id}`, { body: { queue: 'other' } })
    expect(moved.body).toMatchObject({ status: 400, errors: [{ pointer: '/queue' }] })
    await change(bound.id, { disabled: true })
    expect((await send({ runAs: bound.name, queue: 'mail' })).body).toMatchObject({
      status: 400,
      errors: [{ pointer: '/runAs' }],
    })
  })

  it('as a function: its worker registers it, but may not say as whom it runs', async () => {
    const [account, other] = [await make('worker'), await make('worker')]
    const name = nameOf('function')
    const register = (key: string, job: object) =>
      t.call('POST', '/v1/functions', { key, body: { jobs: [job] } })
    expect((await register(t.adminKey, { name, runAs: account.name })).status).toBe(200)
    const { secret: key } = await keyOf(other.name, ['worker'])
    expect((await register(key, { name, priority: 3 })).status).toBe(200)
    for (const runAs of [null, other.name]) {
      const refused = await register(key, { name, runAs })
      expect(refused.body).toMatchObject({ status: 403, errors: [{ pointer: '/jobs/0/runAs' }] })
    }
    const fresh = await register(key, { name: nameOf('function'), runAs: other.name })
    expect(fresh.status).toBe(200)
  })

  it('as a function: takes nothing more of the account by what its worker registers', async () => {
    const account = await make('worker')
    const name = nameOf('function')
    const [known, prod] = [nameOf('known').replaceAll('-', '_'), nameOf('prod').replaceAll('-', '_')]
    for (const each of [known, prod])
      await t.call('POST', '/v1/secrets', { body: { name: each, value: 'quiet-harbour-19' } })
    const register = async (key: string, job: object) => {
      const { status, body } = await t.call('POST', '/v1/functions', { key, body: { jobs: [job] } })
      return { status, pointer: body.errors?.[0]?.pointer }
    }
    const given = { name, runAs: account.name, secrets: [known], queue: 'mail' }
    expect((await register(t.adminKey, given)).status).toBe(200)
    const { secret: stranger } = await keyOf((await make('worker')).name, ['worker'])
    const { secret: own } = await keyOf(account.name, ['worker'])
    for (const key of [stranger, own]) {
      // what it is anyway, and how it is tried again
      expect((await register(key, { ...given, runAs: undefined })).status).toBe(200)
      expect((await register(key, { name, retry: { maxAttempts: 2 } })).status).toBe(200)
    }
    const more = [
      [{ name, secrets: [known, prod] }, '/jobs/0/secrets'],
      [{ name, secrets: [prod] }, '/jobs/0/secrets'],
      [{ name, queue: 'other' }, '/jobs/0/queue'],
    ] as const
    for (const [job, pointer] of more) expect(await register(stranger, job)).toEqual({ status: 403, pointer })
    const [stored] = (await t.call('GET', `/v1/jobs?name=${name}`)).body.items
    expect(stored).toMatchObject({ version: 2 })
    expect((await register(stranger, { name, secrets: [] })).status).toBe(200)
    expect((await register(own, { name, secrets: [prod] })).status).toBe(200)
    expect((await register(own, { name, queue: 'other' })).status).toBe(200)
  })

  it('ends, and is handed to no worker, once the account is disabled or loses the queue', async () => {
    const account = await make('worker')
    const name = nameOf('function')
    await t.call('POST', '/v1/functions', {
      body: { jobs: [{ name, runAs: account.name, retry: { maxAttempts: 1 } }] },
    })
    const worker = await openHandWorker(t, { functions: [name] })
    const first = await enqueue(t, name)
    expect((await worker.claim()).map(({ runId }) => runId)).toEqual([first])
    const endOf = async (id: string) => {
      const { body } = await t.call('GET', `/v1/runs/${id}`)
      return body as unknown as { state: string; attemptList: readonly { error: { code: string } | null }[] }
    }
    // the gate knows of accounts for three seconds
    const disable = async (body: object, code: string) => {
      await change(account.id, body)
      const ended = await eventually(async () => {
        const run = await enqueue(t, name)
        const taken = await worker.claim()
        for (const each of taken) await worker.complete(each, { outcome: 'succeeded' })
        const ended = await endOf(run)
        return ended.attemptList[0]?.error?.code === code && ended
      })
      expect(ended.state).toBe('failed')
    }
    await disable({ disabled: true }, 'identity_disabled')
    await disable({ disabled: false, queues: ['mail'] }, 'identity_denied')
  })
})

describe('a worker that waits for runs', () => {
  it('is sent away when its account is disabled meanwhile, and gets nothing that comes then', async () => {
    const account = await make('worker')
    const name = nameOf('function')
    await t.call('POST', '/v1/functions', { body: { jobs: [{ name }] } })
    const { secret: key } = await keyOf(account.name, ['worker'])
    const worker = await openHandWorker(t, { functions: [name], key })
    const waiting = worker.call('claim', { max: 1, waitMs: 20_000 })
    const since = performance.now()
    await change(account.id, { disabled: true })
    expect(await waiting).toMatchObject({ status: 401, body: { code: 'unauthenticated' } })
    expect(performance.now() - since).toBeLessThan(5_000)
    const run = await enqueue(t, name)
    expect((await worker.call('claim', { max: 1, waitMs: 0 })).status).toBe(401)
    expect((await t.call('GET', `/v1/runs/${run}`)).body).toMatchObject({ state: 'pending' })
  })
})

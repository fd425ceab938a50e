// Keys: who may make which, how they end, and how fast that shows.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createKeyDirectory } from '../../packages/server/src/postgres/catalog/key-store.ts'
import { createAuthenticator } from '../../packages/server/src/security/credentials.ts'
import { eventually, httpJob, startTestApi, type TestApi } from '../support/api.ts'
import { realClock } from '../support/real-clock.ts'

let t: TestApi
beforeAll(async () => {
  t = await startTestApi()
})
afterAll(() => t.close())

let made = 0
const keyBody = (scopes: string[], more: object = {}) => ({ name: `k${made++}`, scopes, ...more })

describe('making keys', () => {
  it('an admin gives what he has, and not more', async () => {
    const admin = t.adminKey
    for (const scope of ['read', 'enqueue', 'operate', 'admin']) {
      expect((await t.call('POST', '/v1/keys', { key: admin, body: keyBody([scope]) })).status).toBe(201)
    }
    const more = await t.call('POST', '/v1/keys', { key: admin, body: keyBody(['read', 'platform']) })
    expect(more.body).toMatchObject({ status: 403, code: 'forbidden', errors: [{ pointer: '/scopes/1' }] })
  })

  it('another tenant needs platform, which may give all but itself there', async () => {
    const body = (scopes: string[]) => keyBody(scopes, { tenant: 'elsewhere' })
    const platform = await t.keyFor('acme', ['platform'])
    await t.call('POST', '/v1/tenants', { key: platform, body: { name: 'elsewhere' } })
    const refused = await t.call('POST', '/v1/keys', { body: body(['read']) })
    expect(refused.body).toMatchObject({ code: 'forbidden', errors: [{ pointer: '/tenant' }] })
    const key = await t.call('POST', '/v1/keys', { key: platform, body: body(['admin']) })
    expect(key.status).toBe(201)
    const who = await t.call('GET', '/v1/whoami', { key: key.body.secret })
    expect(who.body).toMatchObject({ tenant: { name: 'elsewhere' }, scopes: ['admin'] })
    expect((await t.call('POST', '/v1/keys', { key: platform, body: body(['platform']) })).status).toBe(201)
    const nobody = await t.call('POST', '/v1/keys', {
      key: platform,
      body: keyBody(['read'], { tenant: 'nowhere' }),
    })
    expect(nobody.body).toMatchObject({ status: 404, errors: [{ pointer: '/tenant' }] })
  })

  it('platform alone makes no keys in its own tenant and reads no jobs', async () => {
    const platform = await t.keyFor('acme', ['platform'])
    expect((await t.call('POST', '/v1/keys', { key: platform, body: keyBody(['read']) })).status).toBe(403)
    expect((await t.call('GET', '/v1/jobs', { key: platform })).status).toBe(403)
  })

  it('names are taken once, and free again after revoking', async () => {
    const first = await t.call('POST', '/v1/keys', { body: { name: 'ci', scopes: ['read'] } })
    const second = await t.call('POST', '/v1/keys', { body: { name: 'ci', scopes: ['read'] } })
    expect(second.body).toMatchObject({ status: 409, code: 'name_taken', errors: [{ pointer: '/name' }] })
    await t.call('POST', `/v1/keys/${first.body.id}/revoke`)
    expect((await t.call('POST', '/v1/keys', { body: { name: 'ci', scopes: ['read'] } })).status).toBe(201)
  })

  it('an end in the past is refused, one ahead is kept', async () => {
    const past = await t.call('POST', '/v1/keys', {
      body: keyBody(['read'], { expiresAt: '2020-01-01T00:00:00Z' }),
    })
    expect(past.body).toMatchObject({ status: 400, errors: [{ pointer: '/expiresAt' }] })
    const ahead = await t.call('POST', '/v1/keys', {
      body: keyBody(['read'], { expiresAt: '2099-01-01T01:00:00+01:00' }),
    })
    expect(ahead.body.expiresAt).toBe('2099-01-01T00:00:00.000Z')
  })
})

describe('keys that end', () => {
  it('a revoked key is refused at once here, and within 5 s elsewhere', async () => {
    const { body } = await t.call('POST', '/v1/keys', { body: keyBody(['read']) })
    let nowMs = 0
    const directory = createKeyDirectory({ db: t.db })
    const elsewhere = createAuthenticator({ directory, clock: { ...realClock, monotonicMs: () => nowMs } })
    expect(await elsewhere.authenticate(body.secret)).toMatchObject({ keyId: body.id })
    expect((await t.call('GET', '/v1/whoami', { key: body.secret })).status).toBe(200)
    const revoked = await t.call('POST', `/v1/keys/${body.id}/revoke`)
    expect(revoked.body.revokedAt).not.toBeNull()
    expect((await t.call('GET', '/v1/whoami', { key: body.secret })).status).toBe(401)
    nowMs = 4_999
    expect(await elsewhere.authenticate(body.secret)).toBeDefined()
    nowMs = 5_000
    expect(await elsewhere.authenticate(body.secret)).toBeUndefined()
    const again = await t.call('POST', `/v1/keys/${body.id}/revoke`)
    expect(again.body.revokedAt).toBe(revoked.body.revokedAt)
  })

  it('an expired key is refused', async () => {
    const { body } = await t.call('POST', '/v1/keys', { body: keyBody(['read']) })
    await t.database.sql("UPDATE belfry.api_key SET expires_at = now() - interval '1 ms' WHERE id = $1", [
      body.id,
    ])
    expect((await t.call('GET', '/v1/whoami', { key: body.secret })).status).toBe(401)
  })

  it('neither a hash nor a changed secret is a key', async () => {
    const [row] = await t.database.sql<{ prefix: string; hash: string }>(
      "SELECT prefix, encode(secret_hash, 'base64') AS hash FROM belfry.api_key LIMIT 1",
    )
    const hash = row?.hash.replaceAll('+', '-').replaceAll('/', '_').replace('=', '') ?? ''
    const last = t.adminKey.at(-1) === 'A' ? 'E' : 'A'
    for (const key of [
      `bfy_${row?.prefix}_${hash}`,
      `${t.adminKey.slice(0, -1)}${last}`,
      t.adminKey.toUpperCase(),
    ]) {
      expect((await t.call('GET', '/v1/whoami', { key })).status).toBe(401)
    }
  })

  it('notes when a key was used', async () => {
    const { body } = await t.call('POST', '/v1/keys', { body: keyBody(['read']) })
    await t.call('GET', '/v1/whoami', { key: body.secret })
    const used = await eventually(async () => {
      const { items } = (await t.call('GET', '/v1/keys')).body
      return (
        items.find((key: { id: string; lastUsedAt: string | null }) => key.id === body.id)?.lastUsedAt ??
        undefined
      )
    })
    expect(Math.abs(Date.parse(used) - Date.now())).toBeLessThan(10_000)
  })
})

describe('limits', () => {
  it('answers 429 with Retry-After beyond the rate of a key, and leaves other keys alone', async () => {
    const small = await startTestApi({ limits: { perKeyPerMinute: 3, failuresPerMinute: 2 } })
    try {
      const other = await small.keyFor('acme', ['read'])
      const statuses: number[] = []
      for (let n = 0; n < 5; n++) statuses.push((await small.call('GET', '/v1/whoami')).status)
      expect(statuses).toEqual([200, 200, 200, 429, 429])
      const limited = await small.call('POST', '/v1/jobs', { body: httpJob('x') })
      expect(limited.body).toMatchObject({ code: 'too_many_requests', retryable: true })
      expect(Number(limited.headers['retry-after'])).toBeGreaterThan(0)
      expect((await small.call('GET', '/v1/whoami', { key: other })).status).toBe(200)

      const guesses: number[] = []
      for (let n = 0; n < 4; n++)
        guesses.push((await small.call('GET', '/v1/whoami', { key: 'bfy_guess' })).status)
      expect(guesses.slice(0, 2)).toEqual([401, 401])
      expect(guesses.slice(2)).toEqual([429, 429])
      // who has a key is not locked out by a neighbour behind the same address
      expect((await small.call('GET', '/v1/whoami', { key: other })).status).toBe(200)
    } finally {
      await small.close()
    }
  })
})

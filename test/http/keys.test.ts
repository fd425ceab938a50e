// Keys: who may make which, how they end, and how fast that shows.
import { createHash, randomBytes } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { KeyDirectory } from '../../packages/server/src/ports/credentials.ts'
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
  it('a typo in a key is found without a look at the database; keys of before have no checksum', async () => {
    const { asked, counting } = countingDirectory()
    const authenticator = createAuthenticator({ directory: counting, clock: realClock })
    const { secret } = (await t.call('POST', '/v1/keys', { body: keyBody(['read']) })).body
    const typo = secret.slice(0, 30) + (secret[30] === 'a' ? 'b' : 'a') + secret.slice(31)
    expect(await authenticator.authenticate(typo)).toBeUndefined()
    expect(asked.found).toBe(0)
    const without = secret.slice(0, -8)
    expect(await authenticator.authenticate(without)).toMatchObject({ tenantId: t.tenantId })
    expect(asked.found).toBe(1)
  })

  it('an admin gives what he has, and not more', async () => {
    const admin = t.adminKey
    for (const scope of ['read', 'enqueue', 'operate', 'admin']) {
      expect((await t.call('POST', '/v1/keys', { key: admin, body: keyBody([scope]) })).status).toBe(201)
    }
    const more = await t.call('POST', '/v1/keys', { key: admin, body: keyBody(['read', 'platform']) })
    expect(more.body).toMatchObject({ status: 403, code: 'forbidden', errors: [{ pointer: '/scopes/1' }] })
  })

  it('another tenant needs platform, which may give all there while nobody runs it', async () => {
    const body = (scopes: string[]) => keyBody(scopes, { tenant: 'elsewhere' })
    const platform = await t.keyFor('acme', ['platform'])
    await t.call('POST', '/v1/tenants', { key: platform, body: { name: 'elsewhere' } })
    const refused = await t.call('POST', '/v1/keys', { body: body(['read']) })
    expect(refused.body).toMatchObject({ code: 'forbidden', errors: [{ pointer: '/tenant' }] })
    const key = await t.call('POST', '/v1/keys', { key: platform, body: body(['admin']) })
    expect(key.status).toBe(201)
    const who = await t.call('GET', '/v1/whoami', { key: key.body.secret })
    expect(who.body).toMatchObject({ tenant: { name: 'elsewhere' }, scopes: ['admin'] })
    for (const scope of ['read', 'admin', 'platform']) {
      const late = await t.call('POST', '/v1/keys', { key: platform, body: body([scope]) })
      expect(late.body).toMatchObject({ status: 403, errors: [{ pointer: '/tenant' }] })
      expect(late.body.detail).toContain('a key with the scope "admin"')
    }
    await t.call('POST', `/v1/keys/${key.body.id}/revoke`, { key: key.body.secret })
    for (const scope of ['platform', 'admin'])
      expect((await t.call('POST', '/v1/keys', { key: platform, body: body([scope]) })).status).toBe(201)
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

  it('nobody revokes a key that may do more than he, except his own', async () => {
    const strong = await t.keyFor('acme', ['admin', 'platform'])
    const made = await t.call('POST', '/v1/keys', { key: strong, body: keyBody(['admin', 'platform']) })
    const revoke = (key: string) => t.call('POST', `/v1/keys/${made.body.id}/revoke`, { key })
    const refused = await revoke(t.adminKey)
    expect(refused.body).toMatchObject({ status: 403, code: 'forbidden' })
    expect(refused.body.detail).toContain('"platform"')
    expect((await t.call('GET', '/v1/whoami', { key: made.body.secret })).status).toBe(200)
    expect((await revoke(made.body.secret)).status).toBe(200)
    const other = await t.call('POST', '/v1/keys', { key: strong, body: keyBody(['platform']) })
    const path = `/v1/keys/${other.body.id}/revoke`
    expect((await t.call('POST', path, { key: strong })).status).toBe(200)
  })

  it('names are taken once, and free again after revoking', async () => {
    const first = await t.call('POST', '/v1/keys', { body: { name: 'ci', scopes: ['read'] } })
    const second = await t.call('POST', '/v1/keys', { body: { name: 'ci', scopes: ['read'] } })
    expect(second.body).toMatchObject({ status: 409, code: 'name_taken', errors: [{ pointer: '/name' }] })
    await t.call('POST', `/v1/keys/${first.body.id}/revoke`)
    expect((await t.call('POST', '/v1/keys', { body: { name: 'ci', scopes: ['read'] } })).status).toBe(201)
  })

  it('a dry run shows no secret, for none would work', async () => {
    const before = await t.counts()
    const dry = await t.call('POST', '/v1/keys?dryRun=true', { body: keyBody(['read']) })
    expect([dry.status, dry.body.secret]).toEqual([201, null])
    expect(await t.counts()).toEqual(before)
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
    nowMs = 2_499
    expect(await elsewhere.authenticate(body.secret)).toBeDefined()
    nowMs = 2_500
    expect(await elsewhere.authenticate(body.secret)).toBeUndefined()
    const again = await t.call('POST', `/v1/keys/${body.id}/revoke`)
    expect(again.body.revokedAt).toBe(revoked.body.revokedAt)
  })

  it('an expired key is refused (case token.expired_key)', async () => {
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

/** Counts what is asked of the database. */
function countingDirectory() {
  const directory = createKeyDirectory({ db: t.db })
  const asked = { found: 0, touched: 0 }
  const counting: KeyDirectory = {
    findByPrefix: (prefix) => {
      asked.found += 1
      return directory.findByPrefix(prefix)
    },
    touch: (keyId) => {
      asked.touched += 1
      return directory.touch(keyId)
    },
  }
  return { asked, counting }
}
const randomKey = () => `bfy_${randomBytes(6).toString('hex')}_${randomBytes(32).toString('base64url')}`

describe('what is remembered of keys', () => {
  it('asks once for all who come with a key at the same time', async () => {
    const { asked, counting } = countingDirectory()
    const authenticator = createAuthenticator({ directory: counting, clock: realClock })
    const found = await Promise.all(Array.from({ length: 50 }, () => authenticator.authenticate(t.adminKey)))
    expect(new Set(found.map((each) => each?.tenantId))).toEqual(new Set([t.tenantId]))
    expect(asked).toEqual({ found: 1, touched: 1 })
  })

  it('is dropped one by one beyond the limit, never all at once', async () => {
    const asked: string[] = []
    const touched: string[] = []
    const secretHash = (secret: string) => createHash('sha256').update(secret).digest()
    const secret = 's'.repeat(43)
    const directory: KeyDirectory = {
      findByPrefix: async (prefix) => {
        asked.push(prefix)
        return {
          keyId: prefix,
          principal: { kind: 'key' as const, id: prefix, name: prefix },
          role: null,
          tenantId: 't',
          tenantName: 't',
          tenantCreatedAtMs: 0,
          scopes: ['read'],
          queues: null,
          secretHash: secretHash(secret),
          expiresInMs: null,
        }
      },
      touch: async (keyId) => void touched.push(keyId),
    }
    const authenticator = createAuthenticator({ directory, clock: { ...realClock, monotonicMs: () => 0 } })
    const keyOf = (n: number) => `bfy_${String(n).padStart(12, '0')}_${secret}`
    for (let n = 0; n <= 10_000; n++) await authenticator.authenticate(keyOf(n))
    asked.length = 0
    touched.length = 0
    for (let n = 1; n <= 10_000; n++) await authenticator.authenticate(keyOf(n))
    expect([asked, touched]).toEqual([[], []])
    await authenticator.authenticate(keyOf(0))
    expect([asked, touched]).toEqual([['000000000000'], ['000000000000']])
  })

  it('never outlives a key that is revoked while it is looked up', async () => {
    const { body } = await t.call('POST', '/v1/keys', { body: keyBody(['read']) })
    const directory = createKeyDirectory({ db: t.db })
    const looked = Promise.withResolvers<void>()
    const authenticator = createAuthenticator({
      directory: {
        ...directory,
        findByPrefix: async (prefix) => {
          const stored = await directory.findByPrefix(prefix)
          await looked.promise
          return stored
        },
      },
      clock: realClock,
    })
    const early = authenticator.authenticate(body.secret)
    await eventually(async () => t.db.stats().idle === t.db.stats().open)
    await t.call('POST', `/v1/keys/${body.id}/revoke`)
    authenticator.forget(body.id)
    looked.resolve()
    await early
    expect(await authenticator.authenticate(body.secret)).toBeUndefined()
  })
})

describe('limits', () => {
  it('guesses beyond the limit cost no query, also when they come all at once', async () => {
    const { asked, counting } = countingDirectory()
    const small = await startTestApi({
      authenticator: createAuthenticator({ directory: counting, clock: realClock }),
      limits: { failuresPerMinute: 5 },
    })
    try {
      const guess = (key: string) => small.call('GET', '/v1/whoami', { key })
      expect((await guess(t.adminKey)).status).toBe(200)
      asked.found = 0
      const answers = await Promise.all(Array.from({ length: 40 }, () => guess(randomKey())))
      expect(asked.found).toBe(5)
      expect(answers.filter(({ status }) => status === 401)).toHaveLength(5)
      const limited = answers.filter(({ status }) => status === 429)
      expect(limited).toHaveLength(35)
      expect(limited.map(({ headers }) => Number(headers['retry-after']))).not.toContain(0)
      // who has proved his key before goes on, also when it has to be looked up again
      expect((await guess(t.adminKey)).status).toBe(200)
    } finally {
      await small.close()
    }
  })

  it('right keys are not counted as attempts that failed', async () => {
    const small = await startTestApi({ limits: { failuresPerMinute: 1 } })
    try {
      for (let n = 0; n < 5; n++) {
        const key = await small.keyFor('acme', ['read'])
        expect((await small.call('GET', '/v1/whoami', { key })).status).toBe(200)
      }
    } finally {
      await small.close()
    }
  })

  it('one key has so many requests under way and no more; others are not held up', async () => {
    const small = await startTestApi({ limits: { inFlightPerKey: 2 } })
    const lock = await small.database.hold('SELECT 1 FROM belfry.job FOR UPDATE')
    try {
      const { body: job } = await small.call('POST', '/v1/jobs', { body: httpJob('held') })
      await lock.take()
      const edit = () => small.call('PATCH', `/v1/jobs/${job.id}`, { body: { description: 'x' } })
      const held = [edit(), edit()]
      await eventually(async () => (await small.database.waiting()) === 2)
      const refused = await edit()
      expect(refused.body).toMatchObject({ status: 429, code: 'too_many_requests', retryable: true })
      expect(refused.headers['retry-after']).toBe('1')
      const other = await small.keyFor('acme', ['read'])
      expect((await small.call('GET', '/v1/jobs', { key: other })).status).toBe(200)
      await lock.release()
      expect((await Promise.all(held)).map(({ status }) => status)).toEqual([200, 200])
      expect((await edit()).status).toBe(200)
    } finally {
      await lock.release()
      await small.close()
    }
  })

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

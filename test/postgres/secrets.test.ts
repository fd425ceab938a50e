// Secrets on real Postgres: what an attempt gets and what it does not; rows that were moved or changed; who
// may read what; master keys that are changed while secrets are in use.
import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { HttpHandlerDefinition } from '@belfry/contract'
import type { SecretAnswer, SecretSource, Vault } from '../../packages/server/src/ports/secrets.ts'
import {
  createPostgresSecretReader,
  readKeyWrappers,
} from '../../packages/server/src/postgres/secret-reader.ts'
import { createSecretSource } from '../../packages/server/src/security/secrets/secret-source.ts'
import { type AnswerBody, startTestApi, type TestApi } from '../support/api.ts'
import { realClock } from '../support/real-clock.ts'
import { randomRing, vaultOn } from '../support/test-vault.ts'

const ring = randomRing(1, 2)
const only = (number: number) => new Map([...ring].filter(([each]) => each === number))

/** As if the process had been started anew with another vault. */
const switching = (now: () => Vault): Vault => ({
  get currentId() {
    return now().currentId
  },
  newKey: (...given) => now().newKey(...given),
  rewrap: (...given) => now().rewrap(...given),
  warm: (...given) => now().warm(...given),
  seal: (...given) => now().seal(...given),
  open: (...given) => now().open(...given),
  unknown: (...given) => now().unknown(...given),
})

let t: TestApi
beforeAll(async () => {
  t = await startTestApi({ vault: vaultOn(only(1)) })
})
afterAll(() => t.close())

let made = 0
type Body = AnswerBody & { readonly grants: readonly unknown[] }
async function call(method: string, path: string, body: object, key = t.adminKey): Promise<Body> {
  const answer = await t.call(method, path, { body, key })
  expect(answer.status, JSON.stringify(answer.body)).toBeLessThan(300)
  return answer.body as Body
}

async function secretOf(value: string, key = t.adminKey): Promise<Body> {
  return call('POST', '/v1/secrets', { name: `s${made++}`, value }, key)
}

const handlerOf = (name: string, url = 'https://a.example.com/x'): HttpHandlerDefinition => ({
  kind: 'http',
  url,
  method: 'POST',
  headers: { 'X-A': `{{secrets.${name}}}` },
})

async function jobWith(name: string, key = t.adminKey): Promise<{ id: string; name: string }> {
  return call('POST', '/v1/jobs', { name: `j${made++}`, handler: handlerOf(name) }, key)
}

const sourceOn = (vault: Vault, keepMs = 0): SecretSource =>
  createSecretSource({ reader: createPostgresSecretReader(t.db), vault, clock: realClock, keepMs })

const fault = (answer: SecretAnswer) => (answer.ok ? undefined : answer.fault)
const values = (answer: SecretAnswer) => (answer.ok ? Object.fromEntries(answer.values) : answer.fault)

describe('an attempt', () => {
  it('gets what its job was granted, for where it takes it', async () => {
    const secret = await secretOf('value-one')
    const job = await jobWith(secret.name)
    const source = sourceOn(vaultOn(only(1)))
    const ask = { tenantId: t.tenantId, jobId: job.id, handler: handlerOf(secret.name), runAs: null }
    expect(fault(await source.resolve(ask))).toMatchObject({
      code: 'secret_denied',
      retryable: false,
      message: expect.stringContaining(`belfry secret grant ${secret.name} --job`) as string,
    })
    await call('POST', `/v1/secrets/${secret.id}/grants`, { job: job.name })
    expect(values(await source.resolve(ask))).toEqual({ [secret.name]: 'value-one' })
    await call('POST', `/v1/secrets/${secret.id}/rotate`, { value: 'value-two' })
    expect(values(await source.resolve(ask))).toEqual({ [secret.name]: 'value-two' })
    await call('POST', `/v1/secrets/${secret.id}/restore`, { version: 1 })
    expect(values(await source.resolve(ask))).toEqual({ [secret.name]: 'value-one' })
    const elsewhere = { ...ask, handler: handlerOf(secret.name, 'https://evil.example.com/') }
    expect(fault(await source.resolve(elsewhere))).toMatchObject({
      code: 'secret_denied',
      message: expect.stringContaining('https://evil.example.com') as string,
    })
    await call('POST', `/v1/secrets/${secret.id}/grants/revoke`, { job: job.name })
    expect(fault(await source.resolve(ask))?.code).toBe('secret_denied')
  })

  it('gets what the service account was granted as which its job runs, until that is disabled', async () => {
    const secret = await secretOf('value-one')
    const account = await call('POST', '/v1/service-accounts', { name: `robot-${made++}`, role: 'developer' })
    const handler = handlerOf(secret.name)
    const job = await call('POST', '/v1/jobs', { name: `j${made++}`, handler, runAs: account.name })
    const source = sourceOn(vaultOn(only(1)))
    const ask = { tenantId: t.tenantId, jobId: job.id, handler, runAs: account.name }
    expect(fault(await source.resolve(ask))?.code).toBe('secret_denied')
    await call('POST', `/v1/secrets/${secret.id}/grants`, { serviceAccount: account.name })
    expect(values(await source.resolve(ask))).toEqual({ [secret.name]: 'value-one' })
    await call('PATCH', `/v1/service-accounts/${account.id}`, { disabled: true })
    expect(fault(await source.resolve(ask))?.code).toBe('secret_denied')
  })

  it('gets nothing of an account as which its own version did not run, or its job runs no more', async () => {
    const secret = await secretOf('value-one')
    const account = await call('POST', '/v1/service-accounts', { name: `robot-${made++}`, role: 'developer' })
    await call('POST', `/v1/secrets/${secret.id}/grants`, { serviceAccount: account.name })
    const evil = handlerOf(secret.name, 'https://evil.example.com/')
    const job = await call('POST', '/v1/jobs', { name: `j${made++}`, handler: evil })
    const handler = handlerOf(secret.name)
    await call('PATCH', `/v1/jobs/${job.id}`, { handler, runAs: account.name })
    // one source with its memory: what one version is given is not kept for another
    const source = sourceOn(vaultOn(only(1)), 60_000)
    const second = { tenantId: t.tenantId, jobId: job.id, handler, runAs: account.name }
    expect(values(await source.resolve(second))).toEqual({ [secret.name]: 'value-one' })
    for (const first of [evil, handler])
      expect(fault(await source.resolve({ ...second, handler: first, runAs: null }))?.code).toBe(
        'secret_denied',
      )
    await call('PATCH', `/v1/jobs/${job.id}`, { runAs: null })
    expect(fault(await sourceOn(vaultOn(only(1))).resolve(second))?.code).toBe('secret_denied')
  })

  it('gets nothing that is not there, and no more than it asks for', async () => {
    const secret = await secretOf('value-one')
    const job = await jobWith(secret.name)
    const source = sourceOn(vaultOn(only(1)))
    const ask = { tenantId: t.tenantId, jobId: job.id, handler: handlerOf('nowhere'), runAs: null }
    expect(fault(await source.resolve(ask))).toMatchObject({ code: 'secret_missing', retryable: false })
    const none = { ...ask, handler: { ...ask.handler, headers: {} } }
    expect(values(await source.resolve(none))).toEqual({})
    expect(values(await source.resolve({ ...ask, names: [] }))).toEqual({})
  })

  it('gets nothing of another tenant, not even with the id of its job', async () => {
    const secret = await secretOf('value-one')
    const job = await jobWith(secret.name)
    await call('POST', `/v1/secrets/${secret.id}/grants`, { job: job.name })
    const key = await t.keyFor('elsewhere', ['admin'])
    const own = await secretOf('value-of-b', key)
    const [row] = await t.database.sql<{ id: string }>(
      "SELECT id FROM belfry.tenant WHERE name = 'elsewhere'",
    )
    const source = sourceOn(vaultOn(only(1)))
    const ask = { tenantId: row?.id ?? '', jobId: job.id, handler: handlerOf(secret.name), runAs: null }
    expect(fault(await source.resolve(ask))?.code).toBe('secret_missing')
    expect(fault(await source.resolve({ ...ask, handler: handlerOf(own.name) }))?.code).toBe('secret_denied')
  })

  it('has a change within five seconds, from a memory that asks once', async () => {
    const secret = await secretOf('value-one')
    const job = await jobWith(secret.name)
    await call('POST', `/v1/secrets/${secret.id}/grants`, { job: job.name })
    let nowMs = 0
    let reads = 0
    const reader = createPostgresSecretReader(t.db)
    const source = createSecretSource({
      reader: { ...reader, read: (ask) => (reads++, reader.read(ask)) },
      vault: vaultOn(only(1)),
      clock: { ...realClock, monotonicMs: () => nowMs },
    })
    const ask = { tenantId: t.tenantId, jobId: job.id, handler: handlerOf(secret.name), runAs: null }
    const all = await Promise.all(Array.from({ length: 50 }, () => source.resolve(ask)))
    expect(new Set(all.map((each) => JSON.stringify(values(each)))).size).toBe(1)
    expect(all.map(values)[0]).toEqual({ [secret.name]: 'value-one' })
    await call('POST', `/v1/secrets/${secret.id}/rotate`, { value: 'value-two' })
    nowMs = 3_999
    expect([values(await source.resolve(ask)), reads]).toEqual([{ [secret.name]: 'value-one' }, 1])
    nowMs = 5_000
    expect([values(await source.resolve(ask)), reads]).toEqual([{ [secret.name]: 'value-two' }, 2])
  })
})

describe('what is stored', () => {
  /** Undefined: it opened. */
  async function faultAfter(change: string, params: readonly unknown[], secret: Body, jobId: string) {
    await t.database.sql(change, params)
    const ask = { tenantId: t.tenantId, jobId, handler: handlerOf(secret.name), runAs: null }
    return fault(await sourceOn(vaultOn(only(1))).resolve(ask))
  }
  async function granted() {
    const secret = await secretOf('value-of-a')
    const job = await jobWith(secret.name)
    await call('POST', `/v1/secrets/${secret.id}/grants`, { job: job.name })
    return { secret, jobId: job.id }
  }

  it('opens in no other row, tenant or version (secret.row_move)', async () => {
    const key = await t.keyFor('moved', ['admin'])
    const foreign = await secretOf('value-of-b', key)
    const { secret, jobId } = await granted()
    const other = await secretOf('another-one')
    const take = (from: string) => `
      UPDATE belfry.secret_version
      SET sealed = (SELECT sealed FROM belfry.secret_version WHERE secret_id = '${from}')
      WHERE secret_id = $1`
    for (const from of [foreign.id, other.id])
      expect(await faultAfter(take(from), [secret.id], secret, jobId)).toMatchObject({
        code: 'secrets_unavailable',
        message: expect.stringContaining('was changed or moved') as string,
      })
    const second = await granted()
    const renumber = 'UPDATE belfry.secret_version SET version = 9 WHERE secret_id = $1'
    await t.database.sql('UPDATE belfry.secret SET version = 9 WHERE id = $1', [second.secret.id])
    expect((await faultAfter(renumber, [second.secret.id], second.secret, second.jobId))?.code).toBe(
      'secrets_unavailable',
    )
    // the key of another tenant in the place of one's own
    const swap = `UPDATE belfry.tenant_key SET wrapped = (SELECT wrapped FROM belfry.tenant_key k
      JOIN belfry.tenant t ON t.id = k.tenant_id WHERE t.name = 'moved') WHERE tenant_id = $1`
    const [before] = await t.database.sql<{ wrapped: Buffer }>(
      'SELECT wrapped FROM belfry.tenant_key WHERE tenant_id = $1',
      [t.tenantId],
    )
    const third = await granted()
    expect((await faultAfter(swap, [t.tenantId], third.secret, third.jobId))?.message).toMatch(
      /does not open with/,
    )
    const restore = 'UPDATE belfry.tenant_key SET wrapped = $2 WHERE tenant_id = $1'
    expect(
      await faultAfter(restore, [t.tenantId, before?.wrapped], third.secret, third.jobId),
    ).toBeUndefined()
  })

  it('opens no more after one bit of it was changed (secret.bit_flip)', async () => {
    const { secret, jobId } = await granted()
    for (const place of [0, 12, 20]) {
      const flip = `UPDATE belfry.secret_version
        SET sealed = set_byte(sealed, ${place}, get_byte(sealed, ${place}) # 1)
        WHERE secret_id = $1`
      expect((await faultAfter(flip, [secret.id], secret, jobId))?.code).toBe('secrets_unavailable')
      expect(await faultAfter(flip, [secret.id], secret, jobId)).toBeUndefined()
    }
  })

  it.each([
    ['belfry_app', 'SELECT sealed FROM belfry.secret_version'],
    ['belfry_app', 'UPDATE belfry.secret_version SET version = 1'],
    ['belfry_app', 'UPDATE belfry.tenant_key SET wrapped = wrapped'],
    ['belfry_app', 'DELETE FROM belfry.tenant_key'],
    ['belfry_engine', 'UPDATE belfry.secret SET version = 1'],
    ['belfry_engine', 'INSERT INTO belfry.secret_grant SELECT * FROM belfry.secret_grant'],
    ['belfry_engine', 'SELECT description FROM belfry.secret'],
    ['belfry_platform', 'SELECT 1 FROM belfry.secret'],
    ['belfry_platform', 'SELECT 1 FROM belfry.secret_version'],
    ['belfry_platform', 'DELETE FROM belfry.tenant_key'],
  ])('is beyond what %s may do: %s', async (role, text) => {
    const work = t.database.sql(`DO $do$ BEGIN SET LOCAL ROLE ${role}; EXECUTE $sql$${text}$sql$; END $do$`)
    await expect(work).rejects.toThrow(/permission denied/)
  })

  it('names the secret and the fix where the master key is not here', async () => {
    const { secret, jobId } = await granted()
    const ask = { tenantId: t.tenantId, jobId, handler: handlerOf(secret.name), runAs: null }
    expect(fault(await sourceOn(vaultOn(only(2))).resolve(ask))).toMatchObject({
      code: 'secrets_unavailable',
      retryable: true,
      message: expect.stringMatching(
        /"s\d+" cannot be used: .*wrapped by ring:1, and this process has ring:2/,
      ) as string,
    })
  })
})

describe('a new master key', () => {
  it('wraps all keys in steps, after which the old one opens nothing (secret.kek_rotate)', async () => {
    let vault = vaultOn(only(1))
    const old = await startTestApi({ vault: switching(() => vault) })
    const tenants = Array.from({ length: 7 }, (_, index) => `tenant-${index}`)
    for (const tenant of tenants) {
      const key = await old.keyFor(tenant, ['admin'])
      expect(
        (await old.call('POST', '/v1/secrets', { key, body: { name: 's', value: `of ${tenant}` } })).status,
      ).toBe(201)
    }
    const sealed = () =>
      old.database.sql<{ sealed: Buffer }>('SELECT sealed FROM belfry.secret_version ORDER BY secret_id')
    const before = await sealed()
    vault = vaultOn(ring)
    const platform = await old.keyFor('acme', ['platform'])
    const step = async (query = '') => {
      const path = `/v1/secrets/rewrap${query}`
      return (await old.call('POST', path, { key: platform, body: { limit: 3 } })).body as unknown
    }
    expect(await step('?dryRun=true')).toMatchObject({ rewrapped: 3, left: 4 })
    expect(await step()).toMatchObject({ current: 'ring:2', rewrapped: 3, left: 4 })
    expect(await readKeyWrappers(old.db)).toEqual([
      { wrapperId: 'ring:1', tenants: 4 },
      { wrapperId: 'ring:2', tenants: 3 },
    ])
    // two at once do not get in each other's way: what both take is replaced once
    await Promise.all([step(), step()])
    await step()
    expect(await step()).toMatchObject({ rewrapped: 0, left: 0, wrappedBy: [{ key: 'ring:2', tenants: 7 }] })
    expect(await sealed()).toEqual(before)
    for (const [number, code] of [
      [2, undefined],
      [1, 'secrets_unavailable'],
    ] as const) {
      const source = createSecretSource({
        reader: createPostgresSecretReader(old.db),
        vault: vaultOn(only(number)),
        clock: realClock,
      })
      for (const tenant of tenants) {
        const key = await old.keyFor(tenant, ['admin'])
        const name = `j-${randomUUID()}`
        const body = { name, handler: handlerOf('s') }
        const job = await old.call('POST', '/v1/jobs', { key, body })
        const [secret] = (await old.call('GET', '/v1/secrets', { key })).body.items
        await old.call('POST', `/v1/secrets/${secret?.id}/grants`, { key, body: { job: name } })
        const [row] = await old.database.sql<{ id: string }>('SELECT id FROM belfry.tenant WHERE name = $1', [
          tenant,
        ])
        const ask = { tenantId: row?.id ?? '', jobId: job.body.id, handler: handlerOf('s'), runAs: null }
        const answer = await source.resolve(ask)
        expect(answer.ok ? values(answer) : answer.fault.code).toEqual(code ?? { s: `of ${tenant}` })
      }
    }
    await old.close()
  })
})

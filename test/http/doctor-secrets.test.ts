// `belfry doctor` and the master keys of secrets: what is wrong with them is named, with what to do, and
// never a key.
import { chmodSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { examineSecrets } from '../../packages/server/src/compose/doctor-secrets.ts'
import { keyWrappers } from '../../packages/server/src/compose/secrets.ts'
import { loadConfig } from '../../packages/server/src/config/load.ts'
import { keyRingText } from '../../packages/server/src/domain/key-ring.ts'
import { createEgress } from '../../packages/server/src/security/egress/egress.ts'
import { startTestApi, type TestApi } from '../support/api.ts'
import { realClock } from '../support/real-clock.ts'
import { randomRing, vaultOn } from '../support/test-vault.ts'

const ring = randomRing(1, 2)
const text = keyRingText(ring).trim().replaceAll('\n', ',')
const only = (number: number) => keyRingText(new Map([...ring].filter(([each]) => each === number))).trim()

let t: TestApi
let databaseUrl: string
let dataDir: string
beforeAll(async () => {
  t = await startTestApi({ vault: vaultOn(new Map([...ring].filter(([number]) => number === 1))) })
  const { host, port, user, database } = t.database.connection
  databaseUrl = `postgres://${user}@localhost:${port}/${database}?host=${encodeURIComponent(host)}`
  await t.call('POST', '/v1/secrets', { body: { name: 's', value: 'a-value-to-keep' } })
  dataDir = mkdtempSync(join(tmpdir(), 'belfry-keys-'))
})
afterAll(async () => {
  rmSync(dataDir, { recursive: true, force: true })
  await t.close()
})

const configOf = (settings: Record<string, unknown>) => loadConfig({ flags: settings }).config
async function look(settings: Record<string, unknown>) {
  const [found, ...more] = await examineSecrets(configOf(settings))
  expect([more, JSON.stringify(found).includes(only(1).slice(2, 20))]).toEqual([[], false])
  return found
}

describe('the keys of the configuration', () => {
  it('are there, fit, are old, are missing, or are none', async () => {
    expect(await look({ databaseUrl, secretKeys: only(1) })).toMatchObject({ status: 'ok', fix: null })
    expect(await look({ databaseUrl, secretKeys: text })).toMatchObject({
      status: 'warn',
      message: expect.stringContaining('1 tenants still need an older one') as string,
      fix: expect.stringContaining('belfry secret rewrap') as string,
    })
    expect(await look({ databaseUrl, secretKeys: only(2) })).toMatchObject({
      status: 'fail',
      message: expect.stringContaining('need the master key ring:1') as string,
    })
    expect(await look({ databaseUrl })).toMatchObject({
      status: 'warn',
      fix: expect.stringContaining('openssl rand') as string,
    })
  })

  it('may be of a KMS that is not there', async () => {
    const kms = {
      secretKmsKeys: 'arn:aws:kms:eu-west-1:123456789012:key/abc',
      secretKmsAccessKeyId: 'AKIAEXAMPLE',
      secretKmsSecretAccessKey: 'a-secret-of-kms',
      secretKmsEndpoint: 'http://127.0.0.1:1',
    }
    const found = await look({ databaseUrl, ...kms })
    expect(found).toMatchObject({
      status: 'fail',
      message: expect.stringContaining('KMS does not open or seal') as string,
    })
    expect(JSON.stringify(found)).not.toContain('a-secret-of-kms')
  })

  it.each([
    [{ secretKeys: '1:short' }, '32'],
    [{ secretKmsKeys: 'alias/x' }, 'BELFRY_SECRET_KMS_REGION'],
    [{ secretKmsKeys: 'arn:aws:kms:eu-west-1:123456789012:key/abc' }, 'BELFRY_SECRET_KMS_CREDENTIALS=chain'],
    [{ secretKmsKeys: 'https://kms' }, 'no key of KMS'],
    [{ secretWrapBy: 'kms' }, 'BELFRY_SECRET_KMS_KEYS'],
    [{ secretWrapBy: 'keys' }, 'BELFRY_SECRET_KEYS'],
  ])('are refused where they do not go together: %j', (settings, words) => {
    expect(() => configOf(settings)).toThrow(words)
  })
})

describe('the key in the data directory', () => {
  const egress = createEgress({ allowCidrs: [], clock: realClock })
  afterAll(() => egress.close())

  it('is made at the first start for its user alone, and is the same from then on', async () => {
    expect(await look({ dataDir })).toMatchObject({
      status: 'ok',
      message: expect.stringContaining('no master key yet') as string,
    })
    const [first] = keyWrappers(configOf({ dataDir }), egress)
    const path = join(dataDir, 'secret-keys')
    expect(statSync(path).mode & 0o777).toBe(0o600)
    const signal = AbortSignal.timeout(5_000)
    const wrapped = await first?.wrap(Buffer.alloc(32, 7), 'a', signal)
    const [again] = keyWrappers(configOf({ dataDir }), egress)
    const opened = wrapped && (await again?.unwrap(wrapped, 'a', signal))
    expect(Buffer.from(opened ?? [])).toEqual(Buffer.alloc(32, 7))
    expect(await look({ dataDir })).toMatchObject({
      status: 'ok',
      message: expect.stringContaining(path) as string,
    })
    chmodSync(path, 0o644)
    expect(await look({ dataDir })).toMatchObject({ status: 'fail', fix: `chmod 600 ${path}` })
    writeFileSync(path, 'garbage')
    expect(() => keyWrappers(configOf({ dataDir }), egress)).toThrow(`${path} is not a list of keys`)
  })
})

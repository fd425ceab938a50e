// The keys of tenants: one that nobody can open stops neither the others nor a process, and no transaction is
// open while a key service is asked.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { SecretsRewrapped } from '@belfry/contract'
import { loadConfig } from '../../packages/server/src/config/load.ts'
import { examineSecrets } from '../../packages/server/src/compose/doctor-secrets.ts'
import { openSecrets } from '../../packages/server/src/compose/secrets.ts'
import { keyRingText, type KeyRing } from '../../packages/server/src/domain/key-ring.ts'
import type { KeyWrapper, Vault } from '../../packages/server/src/ports/secrets.ts'
import { createEgress } from '../../packages/server/src/security/egress/egress.ts'
import { createRingWrapper } from '../../packages/server/src/security/secrets/key-ring.ts'
import { createVault } from '../../packages/server/src/security/secrets/vault.ts'
import { startTestApi, type TestApi } from '../support/api.ts'
import { realClock } from '../support/real-clock.ts'
import { randomRing } from '../support/test-vault.ts'

const ring = randomRing(1, 2, 3)
const only = (...numbers: readonly number[]): KeyRing =>
  new Map([...ring].filter(([each]) => numbers.includes(each)))
const asked: number[] = []

/** Notes how many transactions are open at each call. */
function watched(wrapper: KeyWrapper): KeyWrapper {
  const look = async () => {
    const [row] = await t.database.sql<{ open: number }>(
      `SELECT count(*)::int AS open FROM pg_stat_activity
       WHERE datname = current_database() AND state LIKE 'idle in transaction%'`,
    )
    asked.push(row?.open ?? -1)
  }
  return {
    ids: wrapper.ids,
    opens: (id) => wrapper.opens(id),
    wrap: async (...given) => {
      await look()
      return wrapper.wrap(...given)
    },
    unwrap: async (...given) => {
      await look()
      return wrapper.unwrap(...given)
    },
  }
}

const watchedVault = (keys: KeyRing): Vault =>
  createVault({ wrappers: [watched(createRingWrapper(keys))], clock: realClock })

let vault: Vault
let t: TestApi
let platform: string
beforeAll(async () => {
  vault = watchedVault(only(1))
  t = await startTestApi({
    vault: {
      get currentId() {
        return vault.currentId
      },
      newKey: (...given) => vault.newKey(...given),
      rewrap: (...given) => vault.rewrap(...given),
      warm: (...given) => vault.warm(...given),
      seal: (...given) => vault.seal(...given),
      open: (...given) => vault.open(...given),
      unknown: (...given) => vault.unknown(...given),
    },
  })
  platform = await t.keyFor('ops', ['platform'])
  for (let count = 0; count < 7; count++) {
    const key = await t.keyFor(`tenant-${count}`, ['admin'])
    const { status } = await t.call('POST', '/v1/secrets', {
      key,
      body: { name: 's', value: `of tenant-${count}` },
    })
    if (status !== 201) throw new Error(`The secret of tenant-${count} was not stored: ${status}`)
  }
})
afterAll(() => t.close())

async function step(body: object): Promise<SecretsRewrapped> {
  const answer = await t.call('POST', '/v1/secrets/rewrap', { key: platform, body })
  expect(answer.status, JSON.stringify(answer.body)).toBe(200)
  return answer.body as unknown as SecretsRewrapped
}

const readiness = async (keys: KeyRing): Promise<{ fault: string | undefined; told: string }> => {
  const { host, port, user, database } = t.database.connection
  const databaseUrl = `postgres://${user}@localhost:${port}/${database}?host=${encodeURIComponent(host)}`
  const { config } = loadConfig({
    flags: { databaseUrl, secretKeys: keyRingText(keys).trim().replaceAll('\n', ',') },
  })
  const egress = createEgress({ allowCidrs: [], clock: realClock })
  const { check, report } = openSecrets({ config, clock: realClock, egress, db: t.db, leases: t.db })
  const [fault, told, [diagnosis]] = await Promise.all([
    check.check().then(
      () => undefined,
      (error: unknown) => (error instanceof Error ? error.message : String(error)),
    ),
    report.report(),
    examineSecrets(config),
  ])
  await egress.close()
  return { fault, told: `${told.status}, ${diagnosis?.status}: ${told.message}` }
}

describe('one key that nobody can open', () => {
  it('is told and passed by, in a step and at each start', async () => {
    const tenants = await t.database.sql<{ tenant_id: string }>(
      'SELECT tenant_id FROM belfry.tenant_key ORDER BY tenant_id',
    )
    const bad = tenants[0]?.tenant_id ?? ''
    await t.database.sql('UPDATE belfry.tenant_key SET wrapped = $2 WHERE tenant_id = $1', [
      bad,
      Buffer.alloc(60, 7),
    ])
    const gone = tenants[1]?.tenant_id ?? ''
    await t.database.sql("UPDATE belfry.tenant_key SET wrapper_id = 'ring:9' WHERE tenant_id = $1", [gone])
    vault = watchedVault(only(1, 2))
    const first = await step({ limit: 3 })
    expect(first).toMatchObject({ rewrapped: 1, left: 6, next: tenants[2]?.tenant_id })
    expect(first.failed).toEqual([
      { tenant: bad, why: expect.stringContaining('does not open with ring:1') as string },
      { tenant: gone, why: expect.stringContaining('is wrapped by ring:9') as string },
    ])
    const second = await step({ limit: 3, after: first.next })
    const third = await step({ limit: 3, after: second.next })
    expect([second.rewrapped, third.rewrapped, third.left, third.next]).toEqual([3, 1, 2, null])

    const fits = await readiness(only(1, 2))
    expect(fits.fault).toBeUndefined()
    expect(fits.told).toContain('warn, warn: stored secrets need the master key ring:9')
    const nothing = await readiness(only(3))
    expect(nothing.fault).toContain('need the master key')
    expect(nothing.told).toContain('warn, fail:')
  })
})

describe('a key service', () => {
  it('is asked while no transaction is open', async () => {
    vault = watchedVault(only(1, 2))
    const key = await t.keyFor('new', ['admin'])
    asked.length = 0
    const made = await t.call('POST', '/v1/secrets', { key, body: { name: 'a', value: 'first-value' } })
    expect([made.status, asked.length]).toEqual([201, 2])
    vault = watchedVault(only(1, 2))
    const path = `/v1/secrets/${made.body.id}/rotate`
    expect((await t.call('POST', path, { key, body: { value: 'second-value' } })).status).toBe(200)
    expect(asked).toHaveLength(3)
    vault = watchedVault(only(1, 2, 3))
    const { rewrapped, failed } = await step({ limit: 50 })
    expect([rewrapped, failed.length]).toEqual([6, 2])
    expect(new Set(asked)).toEqual(new Set([0]))
  })
})

/**
 * The first tenant and key, made directly in the database by whoever may: `belfry dev` and `belfry server
 * init`. After that, keys are made over the API.
 */
import type { Scope } from '@belfry/contract'
import { nameSchema, scopes as knownScopes } from '@belfry/contract'
import { BelfryError } from '@belfry/contract'
import type { KeyMint } from '../../ports/credentials.ts'
import type { Ids } from '../../ports/ids.ts'
import type { TenantRecord } from '../../ports/tenants.ts'
import type { Database, Transaction } from '../database.ts'
import { ensureTenant, findTenantByName } from '../statements/access.ts'
import { readNow } from '../statements/idempotency.ts'
import { insertKeyOf } from './key-store.ts'
import { msOf, only } from './values.ts'

export interface BootstrapOptions {
  readonly tenant: string
  /** Throws `name_taken` if a key of this name is in use in the tenant. */
  readonly keyName: string
  readonly scopes: readonly Scope[]
}

export interface Bootstrapped {
  readonly tenantId: string
  readonly tenantCreated: boolean
  readonly keyId: string
  /** The whole key; shown once, stored nowhere. */
  readonly key: string
}

/**
 * Makes sure that the tenant exists and makes a key for it. Throws BelfryError `invalid_request`,
 * `name_taken`, `database_*`.
 */
export async function bootstrapTenant(
  parts: { db: Database; ids: Ids; mint: KeyMint },
  options: BootstrapOptions,
): Promise<Bootstrapped> {
  const { db, ids, mint } = parts
  checkNames(options)
  return db.transaction({ role: 'belfry_platform' }, async (tx) => {
    const nowMs = msOf(only(await tx.query(readNow, [])).now)
    const { tenant, made } = await tenantNamed(tx, ids.uuidv7(nowMs), options.tenant)
    const minted = mint.mint()
    const key = await insertKeyOf(tx, tenant.id, {
      id: ids.uuidv7(nowMs),
      name: options.keyName,
      owner: null,
      prefix: minted.prefix,
      secretHash: minted.secretHash,
      scopes: options.scopes,
      queues: null,
      expiresAtMs: null,
    })
    return { tenantId: tenant.id, tenantCreated: made, keyId: key.id, key: minted.key }
  })
}

/** Makes sure that the tenant exists. Throws `invalid_request`, `database_*`. */
export async function ensureTenantNamed(
  { db, ids }: { db: Database; ids: Ids },
  name: string,
): Promise<TenantRecord> {
  checkName('tenant', name)
  return db.transaction({ role: 'belfry_platform' }, async (tx) => {
    const nowMs = msOf(only(await tx.query(readNow, [])).now)
    const { tenant } = await tenantNamed(tx, ids.uuidv7(nowMs), name)
    return { id: tenant.id, name: tenant.name, createdAtMs: msOf(tenant.created_at) }
  })
}

async function tenantNamed(tx: Transaction, id: string, name: string) {
  const [made] = await tx.query(ensureTenant, [id, name])
  const tenant = made ?? only(await tx.query(findTenantByName, [name]))
  return { tenant, made: made !== undefined }
}

function checkNames({ tenant, keyName, scopes }: BootstrapOptions): void {
  checkName('tenant', tenant)
  checkName('key', keyName)
  if (scopes.length === 0 || scopes.some((scope) => !knownScopes.includes(scope))) {
    throw new BelfryError(
      'invalid_request',
      `Give the key at least one of the scopes ${knownScopes.join(', ')}.`,
    )
  }
}

function checkName(what: string, name: string): void {
  const checked = nameSchema.safeParse(name)
  if (checked.success) return
  const words = checked.error.issues.map((issue) => issue.message).join('; ')
  throw new BelfryError('invalid_request', `The name of the ${what}, "${name}", is not valid: ${words}.`)
}

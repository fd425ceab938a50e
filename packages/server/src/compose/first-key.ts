/**
 * Tenants and keys that are made beside the API, directly in the store: by `belfry server init`, `belfry dev`
 * and the demo. Such a key may do everything in its tenant, and make other tenants.
 */
import { randomBytes } from 'node:crypto'
import type { Scope } from '@belfry/contract'
import { systemClock } from '../adapters/system/clock.ts'
import { createSystemIds } from '../adapters/system/ids.ts'
import type { Bootstrapped } from '../postgres/catalog/bootstrap.ts'
import { bootstrapTenant } from '../postgres/catalog/bootstrap.ts'
import { createKeyDirectory } from '../postgres/catalog/key-store.ts'
import type { Database } from '../postgres/database.ts'
import { createAuthenticator, keyMint } from '../security/credentials.ts'

const ownerScopes: readonly Scope[] = ['admin', 'platform']

/**
 * Makes a key for a tenant, which is made too if there is none of that name. Throws `invalid_request`,
 * `database_*`.
 */
export function makeOwnerKey(db: Database, tenant: string, purpose: string): Promise<Bootstrapped> {
  // keys of one tenant have different names, and this may be called at each start
  const keyName = `${purpose}-${randomBytes(4).toString('hex')}`
  return bootstrapTenant(
    { db, ids: createSystemIds(), mint: keyMint },
    { tenant, keyName, scopes: ownerScopes },
  )
}

/** Whether the store knows this key and it may still be used. */
export async function keyWorks(db: Database, key: string): Promise<boolean> {
  const authenticator = createAuthenticator({ directory: createKeyDirectory({ db }), clock: systemClock })
  return (await authenticator.authenticate(key)) !== undefined
}

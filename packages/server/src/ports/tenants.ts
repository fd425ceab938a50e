/**
 * Tenants and API keys as they are stored: those of one tenant (`KeyStore`), and what the platform does to
 * any (`TenantStore`). Only hashes of secrets pass here.
 */
import type { Scope } from '@belfry/contract'
import type { Principal } from './credentials.ts'
import type { PageRequest } from './paging.ts'

export interface TenantRecord {
  readonly id: string
  readonly name: string
  readonly createdAtMs: number
}

export interface KeyRecord {
  readonly id: string
  readonly name: string
  /** Null: nobody's. */
  readonly owner: Principal | null
  readonly queues: readonly string[] | null
  readonly prefix: string
  readonly scopes: readonly Scope[]
  readonly createdAtMs: number
  readonly expiresAtMs: number | null
  readonly revokedAtMs: number | null
  readonly lastUsedAtMs: number | null
}

export interface NewKey {
  readonly id: string
  readonly name: string
  /** A person or a service account of the tenant; null: nobody. */
  readonly owner: Pick<Principal, 'kind' | 'id'> | null
  /** Queues that a worker with it may serve; null: every one. */
  readonly queues: readonly string[] | null
  readonly prefix: string
  readonly secretHash: Uint8Array
  readonly scopes: readonly Scope[]
  readonly expiresAtMs: number | null
}

export interface TenantHands {
  /** An active one. */
  readonly hasOwner: boolean
  /** One that may be used now and has the scope `admin`. */
  readonly hasAdminKey: boolean
}

export interface TenantStore {
  /** Throws `name_taken`. */
  insert(tenant: { id: string; name: string }): Promise<TenantRecord>
  list(page: PageRequest): Promise<readonly TenantRecord[]>
  findByName(name: string): Promise<TenantRecord | undefined>
  /** Who could let others in there. */
  handsOf(tenantId: string): Promise<TenantHands>
  /** A key for any tenant. Throws `name_taken`. */
  insertKey(tenantId: string, key: NewKey): Promise<KeyRecord>
}

export interface KeyStore {
  /** Throws `name_taken`. */
  insert(key: NewKey): Promise<KeyRecord>
  list(page: PageRequest): Promise<readonly KeyRecord[]>
  find(id: string): Promise<KeyRecord | undefined>
  /** Revoked from now on; one that was revoked before keeps its time. */
  revoke(id: string): Promise<KeyRecord | undefined>
  /** Those of a person or an account. */
  revokeAllOf(ownerId: string): Promise<void>
}

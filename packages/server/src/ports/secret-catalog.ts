/**
 * Secrets as the API manages them for one tenant, and the keys of tenants as the platform wraps them anew.
 * Nothing here answers a value. Instants are epoch ms.
 */
import type { PageRequest } from './paging.ts'
import type { WrappedKey } from './secrets.ts'

export interface SecretSummaryRecord {
  readonly id: string
  readonly name: string
  readonly description: string
  readonly version: number
  readonly createdAtMs: number
  readonly updatedAtMs: number
  readonly grantCount: number
}

export interface SecretVersionRecord {
  readonly version: number
  readonly createdBy: string
  readonly createdAtMs: number
}

export type GranteeKind = 'job' | 'workflow' | 'service_account'

export interface SecretGrantRecord {
  readonly granteeKind: GranteeKind
  readonly granteeId: string
  /** Null: it was deleted. */
  readonly granteeName: string | null
  /** Null: anywhere. */
  readonly targets: readonly string[] | null
  readonly createdBy: string
  readonly createdAtMs: number
}

export interface SecretRecord extends Omit<SecretSummaryRecord, 'grantCount'> {
  /** Grows with every change; the ETag. */
  readonly revision: number
  /** Newest first. */
  readonly versions: readonly SecretVersionRecord[]
  readonly grants: readonly SecretGrantRecord[]
}

export interface NewSecret {
  readonly id: string
  readonly name: string
  readonly description: string
  readonly sealed: Uint8Array
  readonly createdBy: string
}

export interface NewSecretVersion {
  readonly version: number
  readonly sealed: Uint8Array
  readonly createdBy: string
  /** Versions below this one are deleted. */
  readonly keepFrom: number
}

export interface Grantee {
  readonly kind: GranteeKind
  readonly id: string
  readonly name: string
}

export interface SecretStore {
  /** With its first version. Throws `name_taken`. */
  insert(secret: NewSecret): Promise<SecretRecord>
  find(id: string): Promise<SecretRecord | undefined>
  /** Locked until the end of the transaction. */
  lock(id: string): Promise<SecretRecord | undefined>
  list(page: PageRequest, filter: { name: string | undefined }): Promise<readonly SecretSummaryRecord[]>
  describe(id: string, description: string): Promise<SecretRecord>
  /** A new version, which is the current one from now on. */
  rotate(id: string, version: NewSecretVersion): Promise<SecretRecord>
  /** Makes a version that is kept the current one. */
  restore(id: string, version: number): Promise<SecretRecord>
  remove(id: string): Promise<void>
  /** Those of the names that no secret has. */
  missing(names: readonly string[]): Promise<readonly string[]>
  findGrantee(kind: GranteeKind, name: string): Promise<Grantee | undefined>
  /** The handlers of a workflow's own jobs. */
  handlersOf(workflowId: string): Promise<readonly { readonly kind: string }[]>
  /** A grant of before is replaced. */
  grant(
    id: string,
    grant: { grantee: Grantee; targets: readonly string[] | null; createdBy: string },
  ): Promise<SecretRecord>
  /** Whether there was one. */
  revoke(id: string, grantee: Grantee): Promise<boolean>
}

/** The key of the tenant of the transaction. */
export interface TenantKeyStore {
  find(): Promise<WrappedKey | undefined>
  /** Stores it unless there is one; answers the one that is there afterwards. */
  ensure(key: WrappedKey): Promise<WrappedKey>
}

export interface TenantKeyRecord {
  readonly tenantId: string
  readonly key: WrappedKey
}

/** The keys of all tenants. */
export interface TenantKeyList {
  /** Those that another than `wrapperId` wrapped, by their tenants, after that one. */
  listNotWrappedBy(
    wrapperId: string,
    afterTenantId: string | undefined,
    limit: number,
  ): Promise<readonly TenantKeyRecord[]>
  /** False: it is not the one of before any more, and stays as it is. */
  replace(before: TenantKeyRecord, key: WrappedKey): Promise<boolean>
  countByWrapper(): Promise<readonly { readonly wrapperId: string; readonly tenants: number }[]>
}

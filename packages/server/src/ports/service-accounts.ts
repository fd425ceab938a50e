/**
 * Service accounts of a tenant, as the API reads and changes them. What is executed as one
 * looks at it by RunStore.identities. Instants are epoch ms.
 */
import type { serviceAccountRoles } from '@belfry/contract'
import type { PageRequest } from './paging.ts'

export interface ServiceAccountRecord {
  readonly id: string
  readonly name: string
  readonly description: string
  readonly role: (typeof serviceAccountRoles)[number]
  /** Null: every one. */
  readonly queues: readonly string[] | null
  readonly version: number
  readonly createdAtMs: number
  readonly updatedAtMs: number
  readonly disabledAtMs: number | null
}

export type ServiceAccountFields = Pick<ServiceAccountRecord, 'description' | 'role' | 'queues'> & {
  readonly disabled: boolean
}

export interface ServiceAccountStore {
  /** Throws `name_taken`. */
  insert(
    account: Pick<ServiceAccountRecord, 'id' | 'name' | 'description' | 'role' | 'queues'>,
  ): Promise<ServiceAccountRecord>
  list(
    page: PageRequest,
    filter: { readonly name: string | undefined },
  ): Promise<readonly ServiceAccountRecord[]>
  find(id: string): Promise<ServiceAccountRecord | undefined>
  lock(id: string): Promise<ServiceAccountRecord | undefined>
  /** Held against changes until the end of the transaction. */
  holdByName(name: string): Promise<ServiceAccountRecord | undefined>
  /** A new version; one that is disabled already keeps its time. */
  update(id: string, fields: ServiceAccountFields): Promise<ServiceAccountRecord>
}

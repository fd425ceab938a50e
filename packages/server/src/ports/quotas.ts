/**
 * What the store knows of quotas (contract/quotas.ts). `QuotaStore` reads in the transaction of a request;
 * buckets are another matter: taking from one is a short transaction of its own, so that nobody waits for a
 * row that a longer one holds.
 */
import type { QuotaName } from '@belfry/contract'

/** `most` null: no limit, whatever the default is. */
export interface QuotaOverride {
  readonly quota: QuotaName
  readonly most: number | null
  readonly setAtMs: number
}

/** What is counted row by row. */
export type CountedQuota = 'jobs' | 'schedules' | 'workflows' | 'keys' | 'secrets' | 'runs'

export interface QuotaStore {
  /** Of the tenant; whatever is left out is as the configuration says. */
  overrides(): Promise<readonly QuotaOverride[]>
  /** Others of the tenant that want the same wait until the end of the transaction. */
  lock(quota: QuotaName): Promise<void>
  /** How many there are, counted up to `upTo`. */
  count(quota: CountedQuota, upTo: number): Promise<number>
}

/** `most` undefined: as the configuration says. */
export interface QuotaChange {
  readonly quota: QuotaName
  readonly most: number | null | undefined
}

/** As the platform, for any tenant. */
export interface TenantQuotas {
  overridesOf(tenantId: string): Promise<readonly QuotaOverride[]>
  /** `most` undefined: as the configuration says. */
  set(tenantId: string, changes: readonly QuotaChange[]): Promise<void>
}

export interface BucketRequest {
  readonly tenantId: string
  readonly quota: QuotaName
  readonly perSecond: number
  readonly burst: number
  /** Nothing less is of use. */
  readonly need: number
  /** For a moment ahead. */
  readonly want: number
}

export interface QuotaBuckets {
  /**
   * Takes tokens: between `need` and `want`, or none, and then says in what time they are there. A need
   * beyond the burst is met by a full bucket, which has to make up for it then.
   */
  take(request: BucketRequest): Promise<{ readonly taken: number; readonly waitMs: number }>
}

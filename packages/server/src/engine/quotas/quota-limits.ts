/**
 * The limits of tenants as this process knows them: defaults from the configuration, and what was set for a
 * tenant, at most five seconds old. A tenant for whom nothing was set costs a look at a map.
 */
import type { QuotaName } from '@belfry/contract'
import type { Clock } from '../../ports/clock.ts'
import type { QuotaStore } from '../../ports/quotas.ts'

/** Null: no limit. */
export type QuotaLimits = Readonly<Record<QuotaName, number | null>>

/** How a limit is asked for: in the transaction of the request, or in one for that. */
export type Ask = <T>(work: (quotas: QuotaStore) => Promise<T>) => Promise<T>

const rememberMs = 5_000
const maxTenants = 10_000

export interface QuotaLimitBook {
  readonly defaults: QuotaLimits
  of(tenantId: string, ask: Ask): Promise<QuotaLimits>
  /** What is known without asking. */
  known(tenantId: string): QuotaLimits
  forget(tenantId: string): void
}

export function createQuotaLimitBook(defaults: QuotaLimits, clock: Clock): QuotaLimitBook {
  const remembered = new Map<string, { readonly limits: QuotaLimits; readonly untilMs: number }>()
  return {
    defaults,
    async of(tenantId, ask) {
      const nowMs = clock.monotonicMs()
      const known = remembered.get(tenantId)
      if (known !== undefined && nowMs < known.untilMs) return known.limits
      const overrides = await ask((quotas) => quotas.overrides())
      const own = Object.fromEntries(overrides.map(({ quota, most }) => [quota, most]))
      const limits: QuotaLimits = overrides.length === 0 ? defaults : { ...defaults, ...own }
      remembered.delete(tenantId)
      const [oldest] = remembered.size >= maxTenants ? remembered.keys() : []
      if (oldest !== undefined) remembered.delete(oldest)
      remembered.set(tenantId, { limits, untilMs: nowMs + rememberMs })
      return limits
    },
    known: (tenantId) => remembered.get(tenantId)?.limits ?? defaults,
    forget: (tenantId) => void remembered.delete(tenantId),
  }
}

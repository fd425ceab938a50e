/**
 * Endpoints of quotas: a tenant sees its own, and how much of each is used; who manages tenants sees and sets
 * those of any. What is set holds at once in this process, and in the others within seconds.
 */
import {
  type Quota,
  quotaCountedUpTo,
  type QuotaList,
  quotaNames,
  quotaTable,
  type QuotaUpdate,
} from '@belfry/contract'
import type { QuotaLimits } from '../../engine/quotas/quota-limits.ts'
import type { CatalogTx, PlatformTx } from '../../ports/catalog.ts'
import type { TenantRecord } from '../../ports/tenants.ts'
import type { CountedQuota, QuotaOverride } from '../../ports/quotas.ts'
import type { Endpoints } from '../endpoint.ts'
import { noSuch } from '../missing.ts'

type QuotaEndpoints = Pick<Endpoints, 'quotaList' | 'tenantQuotaList' | 'tenantQuotaUpdate'>

/** One more says that there are more. */
const mostCounted = quotaCountedUpTo + 1
const counted: readonly CountedQuota[] = ['jobs', 'schedules', 'workflows', 'keys', 'secrets', 'runs']

export const quotaEndpoints: QuotaEndpoints = {
  quotaList: {
    as: 'tenant',
    async answer({ tx, tools, credential }) {
      const overrides = await tx.quotas.overrides()
      const items = quotaViews(tools.quotas.defaults, overrides, await usedOf(tx))
      return { body: { tenant: credential.tenantName, items } }
    },
  },
  tenantQuotaList: {
    as: 'platform',
    async answer({ tx, tools, params }) {
      return { body: await listed(tx, await tenantNamed(tx, params.tenant), tools.quotas.defaults) }
    },
  },
  tenantQuotaUpdate: {
    as: 'platform',
    async answer({ tx, tools, params, body, after, credential }) {
      const tenant = await tenantNamed(tx, params.tenant)
      await tx.quotas.set(tenant.id, changesOf(body))
      after({ kind: 'quotas_set', tenantId: tenant.id })
      after({ kind: 'hint', hint: { topic: 'gate', key: tenant.id } })
      const alsoIn = tenant.id === credential.tenantId ? {} : { alsoIn: tenant.id }
      return {
        body: await listed(tx, tenant, tools.quotas.defaults),
        audited: { subjectName: tenant.name, ...alsoIn },
      }
    },
  },
}

async function tenantNamed(tx: PlatformTx, name: string): Promise<TenantRecord> {
  const tenant = await tx.tenants.findByName(name)
  if (tenant === undefined) throw noSuch('tenant', name)
  return tenant
}

function changesOf(body: QuotaUpdate) {
  return quotaNames.flatMap((quota) => {
    const limit = body[quota]
    if (limit === undefined) return []
    return [{ quota, most: limit === 'default' ? undefined : limit }]
  })
}

async function listed(tx: PlatformTx, tenant: TenantRecord, defaults: QuotaLimits): Promise<QuotaList> {
  return {
    tenant: tenant.name,
    items: quotaViews(defaults, await tx.quotas.overridesOf(tenant.id), new Map()),
  }
}

async function usedOf(tx: CatalogTx): Promise<ReadonlyMap<string, number>> {
  const used = new Map<string, number>()
  for (const quota of counted) used.set(quota, await tx.quotas.count(quota, mostCounted))
  used.set('runsInFlight', Math.min((await tx.limits.tenantLimit()).used, mostCounted))
  return used
}

function quotaViews(
  defaults: QuotaLimits,
  overrides: readonly QuotaOverride[],
  used: ReadonlyMap<string, number>,
): Quota[] {
  const own = new Map(overrides.map((each) => [each.quota, each]))
  return quotaNames.map((quota) => {
    const { kind, unit, words: description } = quotaTable[quota]
    const override = own.get(quota)
    return {
      quota,
      kind,
      unit,
      description,
      limit: override === undefined ? defaults[quota] : override.most,
      source: override === undefined ? 'default' : 'tenant',
      used: used.get(quota) ?? null,
      setAt: override === undefined ? null : new Date(override.setAtMs).toISOString(),
    }
  })
}

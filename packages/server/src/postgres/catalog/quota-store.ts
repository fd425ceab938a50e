/**
 * Quotas in Postgres (ports/quotas.ts). What the gate holds stands in the row of the tenant besides, and its
 * jobs are told: that is done as the tenant, within the same transaction.
 */
import { type QuotaName, quotaNames } from '@belfry/contract'
import type {
  CountedQuota,
  QuotaBuckets,
  QuotaOverride,
  QuotaStore,
  TenantQuotas,
} from '../../ports/quotas.ts'
import type { Database, Transaction } from '../database.ts'
import { readCaller, takeScope } from '../statements/enqueue-inside.ts'
import { holdLimits, refreshLimited } from '../statements/gate-changes.ts'
import * as statements from '../statements/quotas.ts'
import { msOf, only } from './values.ts'

const counts = {
  jobs: statements.countJobs,
  schedules: statements.countSchedules,
  workflows: statements.countWorkflows,
  keys: statements.countKeys,
  secrets: statements.countSecrets,
  runs: statements.countRuns,
} as const satisfies Record<CountedQuota, unknown>

export function createQuotaStore(tx: Transaction): QuotaStore {
  return {
    overrides: async () => overridesOf(await tx.query(statements.listOwnQuotas, [])),
    async lock(quota) {
      await tx.query(statements.lockQuota, [quota])
    },
    count: async (quota, upTo) => Math.min(upTo, only(await tx.query(counts[quota], [upTo])).count),
  }
}

/** Of a tenant, in a transaction for that. */
export const createQuotaLookup =
  (db: Pick<Database, 'transaction'>) =>
  (tenantId: string) =>
  <T>(work: (quotas: QuotaStore) => Promise<T>): Promise<T> =>
    db.transaction({ role: 'belfry_app', tenantId, readOnly: true }, (tx) => work(createQuotaStore(tx)))

export function createTenantQuotas(tx: Transaction): TenantQuotas {
  const list = async (tenantId: string) => overridesOf(await tx.query(statements.listQuotasOf, [tenantId]))
  return {
    overridesOf: list,
    async set(tenantId, changes) {
      const set = changes.flatMap(({ quota, most }) => (most === undefined ? [] : [{ quota, most }]))
      const reset = changes.flatMap(({ quota, most }) => (most === undefined ? [quota] : []))
      const names = set.map(({ quota }) => quota)
      await tx.query(statements.setQuotas, [tenantId, names, set.map(({ most }) => most)])
      await tx.query(statements.resetQuotas, [tenantId, reset])
      if (!changes.some(({ quota }) => quota === 'runsInFlight' || quota === 'startRate')) return
      const now = new Map((await list(tenantId)).map(({ quota, most }) => [quota, most]))
      const ofGate = [now.get('runsInFlight') ?? null, now.get('startRate') ?? null] as const
      await tx.query(statements.setGateQuotas, [tenantId, ...ofGate])
      await tellJobs(tx, tenantId)
    },
  }
}

/** The platform sees no jobs, so this is done as the tenant. */
async function tellJobs(tx: Transaction, tenantId: string): Promise<void> {
  const { role, tenant } = only(await tx.query(readCaller, []))
  await tx.query(takeScope, ['belfry_app', tenantId])
  await tx.query(holdLimits, [])
  await tx.query(refreshLimited, [])
  await tx.query(takeScope, [role, tenant ?? ''])
}

export function createQuotaBuckets(db: Pick<Database, 'run'>): QuotaBuckets {
  return {
    async take({ tenantId, quota, perSecond, burst, need, want }) {
      const scope = { role: 'belfry_app', tenantId } as const
      const { taken, tokens } = only(
        await db.run(scope, statements.takeTokens, [quota, perSecond, burst, need, want]),
      )
      const missing = Math.min(need, burst) - tokens
      return { taken, waitMs: taken > 0 ? 0 : Math.max(1, Math.ceil((missing / perSecond) * 1_000)) }
    },
  }
}

const isKnown = (name: string): name is QuotaName => (quotaNames as readonly string[]).includes(name)

/** Names of a newer version are left out. */
const overridesOf = (rows: readonly statements.QuotaRow[]): QuotaOverride[] =>
  rows.flatMap(({ quota, most, set_at: at }) =>
    isKnown(quota) ? [{ quota, most: most === null ? null : Number(most), setAtMs: msOf(at) }] : [],
  )

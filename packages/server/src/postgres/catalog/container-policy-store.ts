/**
 * What the containers of tenants may be, on Postgres (ports/container-policies.ts): one row a tenant that has
 * something of its own.
 */
import type { PolicyChange } from '../../domain/container/container-policy.ts'
import type { OwnContainerPolicy, TenantContainerPolicies } from '../../ports/container-policies.ts'
import { noOverride } from '../../ports/container-policies.ts'
import type { Database, Transaction } from '../database.ts'
import * as statements from '../statements/container-policies.ts'

export const createOwnContainerPolicy = (tx: Transaction): OwnContainerPolicy => ({
  read: async () => overrideOf(await tx.query(statements.readOwnContainerPolicy, [])),
})

/** For workers, in a transaction of its own. */
export const createContainerPolicyReader =
  (db: Pick<Database, 'transaction'>) =>
  (tenantId: string): Promise<PolicyChange> =>
    db.transaction({ role: 'belfry_app', tenantId, readOnly: true }, (tx) =>
      createOwnContainerPolicy(tx).read(),
    )

export const createTenantContainerPolicies = (tx: Transaction): TenantContainerPolicies => ({
  readOf: async (tenantId) => overrideOf(await tx.query(statements.readContainerPolicyOf, [tenantId])),
  async set(tenantId, override) {
    const { images, digestsRequired, egress, maxMemoryMb, maxCpuMillis, maxPids } = override
    const limits = [maxMemoryMb, maxCpuMillis, maxPids] as const
    await tx.query(statements.setContainerPolicy, [tenantId, images, digestsRequired, egress, ...limits])
  },
})

function overrideOf([row]: readonly statements.ContainerPolicyRow[]): PolicyChange {
  if (row === undefined) return noOverride
  return {
    images: row.images,
    digestsRequired: row.digests_required,
    egress: row.egress,
    maxMemoryMb: row.max_memory_mb,
    maxCpuMillis: row.max_cpu_millis,
    maxPids: row.max_pids,
  }
}

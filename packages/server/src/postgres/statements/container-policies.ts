/**
 * What the containers of tenants may be. As belfry_app for the tenant of the transaction, or as
 * belfry_platform for any.
 */
import { statement } from '../statement.ts'

export type ContainerPolicyRow = {
  readonly images: readonly string[] | null
  readonly digests_required: boolean | null
  readonly egress: readonly string[] | null
  readonly max_memory_mb: number | null
  readonly max_cpu_millis: number | null
  readonly max_pids: number | null
}

const columns = 'images, digests_required, egress, max_memory_mb, max_cpu_millis, max_pids'

/** Of the tenant of the transaction; no row: as the configuration says. */
export const readOwnContainerPolicy = statement<ContainerPolicyRow>(
  'container_policy_own',
  `SELECT ${columns} FROM belfry.container_policy WHERE tenant_id = belfry.tenant_id()`,
)

/** Of one tenant; no row: as the configuration says. */
export const readContainerPolicyOf = statement<ContainerPolicyRow, [tenantId: string]>(
  'container_policy_of',
  `SELECT ${columns} FROM belfry.container_policy WHERE tenant_id = $1`,
)

/** Sets all of it. */
export const setContainerPolicy = statement<
  unknown,
  [
    tenantId: string,
    images: readonly string[] | null,
    digestsRequired: boolean | null,
    egress: readonly string[] | null,
    maxMemoryMb: number | null,
    maxCpuMillis: number | null,
    maxPids: number | null,
  ]
>(
  'container_policy_set',
  `
INSERT INTO belfry.container_policy (tenant_id, ${columns}) VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT (tenant_id) DO UPDATE SET
  images = excluded.images, digests_required = excluded.digests_required, egress = excluded.egress,
  max_memory_mb = excluded.max_memory_mb, max_cpu_millis = excluded.max_cpu_millis,
  max_pids = excluded.max_pids, set_at = excluded.set_at`,
)

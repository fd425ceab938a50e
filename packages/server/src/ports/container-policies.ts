/**
 * What the containers of a tenant may be, where that is other than the configuration says. Both sides of it:
 * the tenant's own, which is read when a job is saved or run, and that of any tenant, for the operator.
 */
import type { PolicyChange } from '../domain/container/container-policy.ts'

export const noOverride: PolicyChange = {
  images: null,
  digestsRequired: null,
  egress: null,
  maxMemoryMb: null,
  maxCpuMillis: null,
  maxPids: null,
}

/** Of the tenant of a transaction. */
export interface OwnContainerPolicy {
  read(): Promise<PolicyChange>
}

/** Of any tenant. */
export interface TenantContainerPolicies {
  readOf(tenantId: string): Promise<PolicyChange>
  set(tenantId: string, override: PolicyChange): Promise<void>
}

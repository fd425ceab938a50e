/**
 * Endpoints of what containers may be: a tenant sees what holds for it; who manages tenants sees and sets it
 * for any. Workers ask anew for each run, so it holds at once.
 */
import type { ContainerPolicyView } from '@belfry/contract'
import { containerPolicyFields } from '@belfry/contract'
import {
  type ContainerPolicy,
  type PolicyChange,
  policyFor,
} from '../../domain/container/container-policy.ts'
import type { PlatformTx } from '../../ports/catalog.ts'
import type { TenantRecord } from '../../ports/tenants.ts'
import type { Endpoints } from '../endpoint.ts'
import { noSuch } from '../missing.ts'

type ContainerEndpoints = Pick<
  Endpoints,
  'containerPolicyGet' | 'tenantContainerPolicyGet' | 'tenantContainerPolicyUpdate'
>

export const containerEndpoints: ContainerEndpoints = {
  containerPolicyGet: {
    as: 'tenant',
    async answer({ tx, tools, credential }) {
      return { body: view(credential.tenantName, tools.containers, await tx.containerPolicy.read()) }
    },
  },
  tenantContainerPolicyGet: {
    as: 'platform',
    async answer({ tx, tools, params }) {
      const tenant = await tenantNamed(tx, params.tenant)
      return { body: view(tenant.name, tools.containers, await tx.containerPolicies.readOf(tenant.id)) }
    },
  },
  tenantContainerPolicyUpdate: {
    as: 'platform',
    async answer({ tx, tools, params, body, credential }) {
      const tenant = await tenantNamed(tx, params.tenant)
      const before = await tx.containerPolicies.readOf(tenant.id)
      const given = Object.entries(body).filter(([, value]) => value !== undefined)
      const change: PolicyChange = { ...before, ...Object.fromEntries(given) }
      await tx.containerPolicies.set(tenant.id, change)
      const alsoIn = tenant.id === credential.tenantId ? {} : { alsoIn: tenant.id }
      return {
        body: view(tenant.name, tools.containers, change),
        audited: { subjectId: tenant.id, subjectName: tenant.name, ...alsoIn },
      }
    },
  },
}

async function tenantNamed(tx: PlatformTx, name: string): Promise<TenantRecord> {
  const tenant = await tx.tenants.findByName(name)
  if (tenant === undefined) throw noSuch('tenant', name)
  return tenant
}

function view(tenant: string, all: ContainerPolicy, change: PolicyChange): ContainerPolicyView {
  const policy = policyFor(all, change)
  return {
    tenant,
    images: [...policy.images],
    digestsRequired: policy.requireDigest,
    egress: [...(policy.egress.internet ? ['internet'] : []), ...policy.egress.lists.keys()],
    maxMemoryMb: policy.maxMemoryMb,
    maxCpuMillis: policy.maxCpuMillis,
    maxPids: policy.maxPids,
    ofTenant: containerPolicyFields.filter((field) => change[field] !== null),
  }
}

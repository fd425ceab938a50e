// What containers may be, as the test server of the contract answers it: what is set is answered and not
// kept.
import type { ContainerPolicyView } from '@belfry/contract'
import type { Answers } from './contract-tables.ts'

const policy: ContainerPolicyView = {
  tenant: 'dev',
  images: ['registry.example.com/team/*'],
  digestsRequired: false,
  egress: ['internet'],
  maxMemoryMb: 2048,
  maxCpuMillis: 2000,
  maxPids: 256,
  ofTenant: ['images'],
}

export const containerAnswers: Answers = {
  containerPolicyGet: () => policy,
  tenantContainerPolicyGet: () => ({ ...policy, tenant: 'billing' }),
  tenantContainerPolicyUpdate: ({ fields }) => {
    const set = Object.entries(fields).filter(([, value]) => value !== null)
    return { ...policy, tenant: 'billing', ...Object.fromEntries(set), ofTenant: set.map(([name]) => name) }
  },
}

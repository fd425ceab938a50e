/**
 * What containers may be, in the client: of the own tenant, and, for who manages tenants, of any. Containers
 * are run by jobs like any other handler.
 */
import { argumentsOf } from './client-verbs.ts'
import type { Requester } from './requester.ts'
import type { AnswerOf, BodyOf, CallOptions, ChangeOptions } from './route-types.ts'

export interface ContainerPolicies {
  /** Of the own tenant. */
  get(options?: CallOptions): Promise<AnswerOf<'containerPolicyGet'>>
  /** Of a tenant by its name; needs the right to change quotas. */
  getOf(tenant: string, options?: CallOptions): Promise<AnswerOf<'tenantContainerPolicyGet'>>
  /** Null leaves a field to the configuration. */
  setOf(
    tenant: string,
    body: BodyOf<'tenantContainerPolicyUpdate'>,
    options?: ChangeOptions,
  ): Promise<AnswerOf<'tenantContainerPolicyUpdate'>>
}

export function containerPoliciesOf(requester: Pick<Requester, 'request'>): ContainerPolicies {
  return {
    get: (options = {}) => requester.request('containerPolicyGet', options),
    getOf: (tenant, options = {}) =>
      requester.request('tenantContainerPolicyGet', { ...options, params: { tenant } }),
    setOf: (tenant, body, options) =>
      requester.request('tenantContainerPolicyUpdate', { ...argumentsOf(options), params: { tenant }, body }),
  }
}

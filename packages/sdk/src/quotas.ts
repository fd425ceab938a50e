/**
 * Quotas in the client: what the own tenant may have and uses; for who manages tenants, those of any. Both
 * are answered with what is used now.
 */
import { argumentsOf } from './client-verbs.ts'
import type { Requester } from './requester.ts'
import type { AnswerOf, BodyOf, CallOptions, ChangeOptions } from './route-types.ts'

export interface Quotas {
  /** Of the own tenant, with how much of each is used. */
  list(options?: CallOptions): Promise<AnswerOf<'quotaList'>>
  /** Of a tenant by its name; needs the right to change quotas. */
  listOf(tenant: string, options?: CallOptions): Promise<AnswerOf<'tenantQuotaList'>>
  /** A number, null for no limit, `default` for what the configuration says. */
  setOf(
    tenant: string,
    body: BodyOf<'tenantQuotaUpdate'>,
    options?: ChangeOptions,
  ): Promise<AnswerOf<'tenantQuotaUpdate'>>
}

export function quotasOf(requester: Pick<Requester, 'request'>): Quotas {
  return {
    list: (options = {}) => requester.request('quotaList', options),
    listOf: (tenant, options = {}) =>
      requester.request('tenantQuotaList', { ...options, params: { tenant } }),
    setOf: (tenant, body, options) =>
      requester.request('tenantQuotaUpdate', { ...argumentsOf(options), params: { tenant }, body }),
  }
}

/**
 * Service accounts in the client: who programs are, and as whom jobs run. They go by their ids here; jobs and
 * keys name them.
 */
import { argumentsOf } from './client-verbs.ts'
import type { shapes } from './client-verbs.ts'
import type { Listing } from './listing.ts'
import type { Requester } from './requester.ts'
import type { AnswerOf, BodyOf, CallOptions, ChangeOptions, ItemOf, QueryOf } from './route-types.ts'

export interface ServiceAccounts {
  create(
    body: BodyOf<'serviceAccountCreate'>,
    options?: ChangeOptions,
  ): Promise<AnswerOf<'serviceAccountCreate'>>
  list(query?: QueryOf<'serviceAccountList'>, options?: CallOptions): Listing<ItemOf<'serviceAccountList'>>
  get(id: string, options?: CallOptions): Promise<AnswerOf<'serviceAccountGet'>>
  /** With `disabled` its keys do nothing, and jobs do not run as it, within 5 s. */
  update(
    id: string,
    body: BodyOf<'serviceAccountUpdate'>,
    options?: ChangeOptions,
  ): Promise<AnswerOf<'serviceAccountUpdate'>>
}

export function serviceAccountsOf(
  requester: Pick<Requester, 'request'>,
  { list }: Pick<ReturnType<typeof shapes>, 'list'>,
): ServiceAccounts {
  return {
    create: (body, options) => requester.request('serviceAccountCreate', { ...argumentsOf(options), body }),
    list: (query, options = {}) => list('serviceAccountList', query, options),
    get: (id, options = {}) => requester.request('serviceAccountGet', { ...options, params: { id } }),
    update: (id, body, options) =>
      requester.request('serviceAccountUpdate', { ...argumentsOf(options), params: { id }, body }),
  }
}

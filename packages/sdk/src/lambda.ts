/**
 * AWS Lambda in the client: what a tenant has to know before its functions can be called. Jobs that call one
 * are made as all others.
 */
import type { Requester } from './requester.ts'
import type { AnswerOf, CallOptions } from './route-types.ts'

export interface Lambda {
  /** The external id that a role's trust policy must ask for, and which functions may be called. */
  access(options?: CallOptions): Promise<AnswerOf<'lambdaGet'>>
}

export function lambdaOf(requester: Pick<Requester, 'request'>): Lambda {
  return { access: (options = {}) => requester.request('lambdaGet', options) }
}

/**
 * Secrets in the client: values that jobs need, who may use them, and the change of the master key. Values go
 * in and never come out: no call answers one.
 */
import type { shapes } from './client-verbs.ts'
import { argumentsOf } from './client-verbs.ts'
import type { Listing } from './listing.ts'
import type { Requester } from './requester.ts'
import type { AnswerOf, BodyOf, CallOptions, ChangeOptions, ItemOf, QueryOf } from './route-types.ts'

type Answer = AnswerOf<'secretGet'>
type Change<N extends 'secretRotate' | 'secretRestore' | 'secretGrant' | 'secretRevoke' | 'secretUpdate'> = (
  id: string,
  body: BodyOf<N>,
  options?: ChangeOptions,
) => Promise<Answer>

export interface Secrets {
  create(body: BodyOf<'secretCreate'>, options?: ChangeOptions): Promise<Answer>
  list(query?: QueryOf<'secretList'>, options?: CallOptions): Listing<ItemOf<'secretList'>>
  /** With its versions and grants. */
  get(id: string, options?: CallOptions): Promise<Answer>
  update: Change<'secretUpdate'>
  /** A new value, which attempts get within five seconds. */
  rotate: Change<'secretRotate'>
  /** Back to a version that is kept. */
  restore: Change<'secretRestore'>
  /** Refused while it is granted to anything. */
  delete(id: string, options?: ChangeOptions): Promise<void>
  grant: Change<'secretGrant'>
  revoke: Change<'secretRevoke'>
  /** One step of wrapping the keys of all tenants by the newest master key; call it until `left` is 0. */
  rewrap(body?: BodyOf<'secretRewrap'>, options?: ChangeOptions): Promise<AnswerOf<'secretRewrap'>>
}

export function secretsOf(
  requester: Pick<Requester, 'request'>,
  { list }: Pick<ReturnType<typeof shapes>, 'list'>,
): Secrets {
  const { request } = requester
  const of = (id: string) => ({ params: { id } })
  return {
    create: (body, options) => request('secretCreate', { body, ...argumentsOf(options) }),
    list: (query, options = {}) => list('secretList', query, options),
    get: (id, options = {}) => request('secretGet', { ...options, ...of(id) }),
    update: (id, body, options) => request('secretUpdate', { ...of(id), body, ...argumentsOf(options) }),
    rotate: (id, body, options) => request('secretRotate', { ...of(id), body, ...argumentsOf(options) }),
    restore: (id, body, options) => request('secretRestore', { ...of(id), body, ...argumentsOf(options) }),
    delete: (id, options) => request('secretDelete', { ...of(id), ...argumentsOf(options) }),
    grant: (id, body, options) => request('secretGrant', { ...of(id), body, ...argumentsOf(options) }),
    revoke: (id, body, options) => request('secretRevoke', { ...of(id), body, ...argumentsOf(options) }),
    rewrap: (body, options) => request('secretRewrap', { body, ...argumentsOf(options) }),
  }
}

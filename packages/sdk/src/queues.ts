/**
 * Pools and queues in the client: limits that jobs share, how queues stand, pauses, and the limit of the
 * tenant for all of its runs. Queues go by their names.
 */
import { argumentsOf } from './client-verbs.ts'
import type { Listing } from './listing.ts'
import type { Requester } from './requester.ts'
import type { AnswerOf, BodyOf, CallOptions, ChangeOptions, ItemOf, QueryOf } from './route-types.ts'

export interface Pools {
  create(body: BodyOf<'poolCreate'>, options?: ChangeOptions): Promise<AnswerOf<'poolCreate'>>
  list(query?: QueryOf<'poolList'>, options?: CallOptions): Listing<ItemOf<'poolList'>>
  get(id: string, options?: CallOptions): Promise<AnswerOf<'poolGet'>>
  update(id: string, body?: BodyOf<'poolUpdate'>, options?: ChangeOptions): Promise<AnswerOf<'poolUpdate'>>
  /** Refused while a job names it. */
  delete(id: string, options?: ChangeOptions): Promise<AnswerOf<'poolDelete'>>
}

export interface Queues {
  list(options?: CallOptions): Promise<AnswerOf<'queueList'>>
  /** What runs next, in order and why, and what holds the rest. */
  get(name: string, query?: QueryOf<'queueGet'>, options?: CallOptions): Promise<AnswerOf<'queueGet'>>
  /** How much waits and runs, and how many workers would be enough. */
  stats(name: string, query?: QueryOf<'queueStats'>, options?: CallOptions): Promise<AnswerOf<'queueStats'>>
  /** For this tenant; what runs goes on. */
  pause(name: string, body?: BodyOf<'queuePause'>, options?: ChangeOptions): Promise<AnswerOf<'queuePause'>>
  resume(name: string, options?: ChangeOptions): Promise<AnswerOf<'queueResume'>>
  /** How many runs of the tenant there may be at once. */
  limit(options?: CallOptions): Promise<AnswerOf<'tenantLimitGet'>>
  setLimit(body: BodyOf<'tenantLimitSet'>, options?: ChangeOptions): Promise<AnswerOf<'tenantLimitSet'>>
}

export function queuesOf(requester: Pick<Requester, 'request'>): Queues {
  const named = (queue: string) => ({ params: { queue } })
  return {
    list: (options = {}) => requester.request('queueList', options),
    get: (name, query, options = {}) => requester.request('queueGet', { ...options, ...named(name), query }),
    stats: (name, query, options = {}) =>
      requester.request('queueStats', { ...options, ...named(name), query }),
    pause: (name, body, options) =>
      requester.request('queuePause', { ...argumentsOf(options), ...named(name), body }),
    resume: (name, options) => requester.request('queueResume', { ...argumentsOf(options), ...named(name) }),
    limit: (options = {}) => requester.request('tenantLimitGet', options),
    setLimit: (body, options) => requester.request('tenantLimitSet', { ...argumentsOf(options), body }),
  }
}

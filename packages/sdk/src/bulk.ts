/**
 * Operations on many, and dead letters. The API takes a bounded number a call; here the calls follow each
 * other until nothing is left. Breaking off in between (the signal, a lost connection) leaves what was done;
 * the same call again goes on with what is left.
 */
import type { DeadLettersDeleted, DeadLettersReplayed, RunsCanceled } from '@belfry/contract'
import { optionsOf } from './check-input.ts'
import { argumentsOf } from './client-verbs.ts'
import type { Listing } from './listing.ts'
import { listing } from './listing.ts'
import type { Requester } from './requester.ts'
import type { AnswerOf, BodyOf, CallOptions, ChangeOptions, ItemOf, QueryOf } from './route-types.ts'

/** A body without the place where a step goes on. */
type Whole<N extends 'runCancelMany' | 'deadLetterReplayMany' | 'deadLetterDeleteMany'> = Omit<
  BodyOf<N>,
  'cursor'
>

export type CancelManyBody = Whole<'runCancelMany'>

export type BulkOptions = ChangeOptions & {
  /** Called after each step, with the sums so far. */
  readonly onStep?: ((done: Readonly<Record<string, number>>) => void) | undefined
}

export type DeadLetterVerbs = {
  /** Runs that failed and were not dealt with, the latest failure first. */
  list(query?: QueryOf<'deadLetterList'>, options?: CallOptions): Listing<ItemOf<'deadLetterList'>>
  /** How many there are of each error. */
  groups(query?: QueryOf<'deadLetterGroups'>, options?: CallOptions): Promise<AnswerOf<'deadLetterGroups'>>
  /** With the run. */
  get(id: string, options?: CallOptions): Promise<AnswerOf<'deadLetterGet'>>
  /** A new run of the same job, with the same input or another; again, it answers the same run. */
  replay(
    id: string,
    body?: BodyOf<'deadLetterReplay'>,
    options?: ChangeOptions,
  ): Promise<AnswerOf<'deadLetterReplay'>>
  /** All that a filter means; a dry run answers the preview. */
  replayMany(body: Whole<'deadLetterReplayMany'>, options?: BulkOptions): Promise<DeadLettersReplayed>
  /** Acknowledges it; the run stays in the history. */
  delete(id: string, options?: ChangeOptions): Promise<AnswerOf<'deadLetterDelete'>>
  deleteMany(body: Whole<'deadLetterDeleteMany'>, options?: BulkOptions): Promise<DeadLettersDeleted>
}

/** Step after step until there is no next one. */
async function throughSteps<Step extends { readonly nextCursor: string | null }>(
  step: (cursor: string | undefined) => Promise<Step>,
  add: (sum: Step, next: Step) => Step,
  tell: (sum: Step) => void,
): Promise<Step> {
  let sum = await step(undefined)
  tell(sum)
  while (sum.nextCursor !== null) {
    sum = add(sum, await step(sum.nextCursor))
    tell(sum)
  }
  return sum
}

/** Cancels all runs that a filter means; a dry run answers the preview. */
export async function cancelMany(
  requester: Requester,
  body: CancelManyBody,
  given?: BulkOptions,
): Promise<RunsCanceled> {
  const { onStep, ...options } = optionsOf(given)
  return throughSteps(
    (cursor) =>
      requester.request('runCancelMany', { body: { ...body, ...at(cursor) }, ...argumentsOf(options) }),
    (sum, next) => ({
      ...next,
      canceled: sum.canceled + next.canceled,
      asked: sum.asked + next.asked,
      ended: sum.ended + next.ended,
    }),
    ({ canceled, asked, ended }) => onStep?.({ canceled, asked, ended }),
  )
}

const at = (cursor: string | undefined) => (cursor === undefined ? {} : { cursor })

export function deadLettersOf(requester: Requester): DeadLetterVerbs {
  return {
    list: (query, options = {}) =>
      listing(
        (cursor) => requester.request('deadLetterList', { ...options, query: { ...query, cursor } }),
        query?.cursor,
      ),
    groups: (query, options = {}) => requester.request('deadLetterGroups', { ...options, query }),
    get: (id, options = {}) => requester.request('deadLetterGet', { ...options, params: { id } }),
    replay: (id, body = {}, options = {}) =>
      requester.request('deadLetterReplay', { ...argumentsOf(options), params: { id }, body }),
    replayMany: (body, given) => {
      const { onStep, ...options } = optionsOf(given)
      return throughSteps(
        (cursor) =>
          requester.request('deadLetterReplayMany', {
            body: { ...body, ...at(cursor) },
            ...argumentsOf(options),
          }),
        (sum, next) => ({
          ...next,
          replayed: sum.replayed + next.replayed,
          refused: [...sum.refused, ...next.refused],
        }),
        ({ replayed, refused }) => onStep?.({ replayed, refused: refused.length }),
      )
    },
    delete: (id, options = {}) =>
      requester.request('deadLetterDelete', { ...argumentsOf(options), params: { id } }),
    deleteMany: (body, given) => {
      const { onStep, ...options } = optionsOf(given)
      return throughSteps(
        (cursor) =>
          requester.request('deadLetterDeleteMany', {
            body: { ...body, ...at(cursor) },
            ...argumentsOf(options),
          }),
        (sum, next) => ({ ...next, deleted: sum.deleted + next.deleted }),
        ({ deleted }) => onStep?.({ deleted }),
      )
    },
  }
}

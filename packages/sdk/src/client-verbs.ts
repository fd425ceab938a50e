/**
 * The verbs that the nouns of the client share: which routes are called by each of them, and how a call of
 * one is made. The nouns themselves are in client.ts.
 */
import { optionsOf } from './check-input.ts'
import type { Listing, Page } from './listing.ts'
import { listing } from './listing.ts'
import type { Requester } from './requester.ts'
import type {
  AnswerOf,
  BodyOf,
  CallOptions,
  ChangeOptions,
  ItemOf,
  ListRoute,
  QueryOf,
} from './route-types.ts'

type CreateRoute =
  | 'jobCreate'
  | 'scheduleCreate'
  | 'runCreate'
  | 'runBatch'
  | 'keyCreate'
  | 'tenantCreate'
  | 'calendarCreate'
  | 'poolCreate'
  | 'workflowApply'
  | 'workflowRunCreate'
  | 'eventSend'
type ChangeRoute =
  | 'jobUpdate'
  | 'scheduleUpdate'
  | 'schedulePause'
  | 'scheduleResume'
  | 'scheduleSkip'
  | 'scheduleSleep'
  | 'scheduleTrigger'
  | 'runCancel'
  | 'backfillCreate'
  | 'backfillPause'
  | 'backfillCancel'
  | 'calendarUpdate'
  | 'jobPause'
  | 'poolUpdate'
  | 'workflowRunCancel'
  | 'workflowRunRerun'
  | 'workflowRunMark'
  | 'workflowRunSkip'
  | 'workflowRunApprove'
  | 'workflowRunReject'
  | 'workflowRunSignal'
type ActRoute =
  | 'jobDelete'
  | 'scheduleDelete'
  | 'scheduleWake'
  | 'backfillResume'
  | 'keyRevoke'
  | 'calendarDelete'
  | 'jobResume'
  | 'poolDelete'
  | 'workflowDelete'
type GetRoute =
  | 'jobGet'
  | 'scheduleGet'
  | 'runGet'
  | 'runExplain'
  | 'backfillGet'
  | 'calendarGet'
  | 'poolGet'
  | 'workflowRunGet'
  | 'workflowRunHistory'

export type Create<N extends CreateRoute> = (body: BodyOf<N>, options?: ChangeOptions) => Promise<AnswerOf<N>>
export type Change<N extends ChangeRoute> = (
  id: string,
  body?: BodyOf<N>,
  options?: ChangeOptions,
) => Promise<AnswerOf<N>>
export type Act<N extends ActRoute> = (id: string, options?: ChangeOptions) => Promise<AnswerOf<N>>
export type Get<N extends GetRoute> = (id: string, options?: CallOptions) => Promise<AnswerOf<N>>
export type List<N extends ListRoute> = (query?: QueryOf<N>, options?: CallOptions) => Listing<ItemOf<N>>

/** Options of a change as arguments of its request: a dry run is asked for in the query. */
export function argumentsOf(given?: ChangeOptions) {
  const { dryRun, ...options } = optionsOf(given)
  return { ...options, ...(dryRun === undefined ? {} : { query: { dryRun } }) }
}

/** The parts of a client that come in the same shape for several nouns. */
export function shapes(requester: Requester) {
  // The route's own types are checked at the noun; in here one name stands for many, so its arguments are
  // widened once.
  const ask = <N extends keyof AnswerTable>(name: N, args: object): Promise<AnswerOf<N>> =>
    requester.request(name, args)
  return {
    create:
      <N extends CreateRoute>(name: N): Create<N> =>
      (body, options) =>
        ask(name, { body, ...argumentsOf(options) }),
    change:
      <N extends ChangeRoute>(name: N): Change<N> =>
      (id, body, options) =>
        ask(name, { params: { id }, body, ...argumentsOf(options) }),
    act:
      <N extends ActRoute>(name: N): Act<N> =>
      (id, options) =>
        ask(name, { params: { id }, ...argumentsOf(options) }),
    get:
      <N extends GetRoute>(name: N): Get<N> =>
      (id, options) =>
        ask(name, { params: { id }, ...options }),
    list: <N extends ListRoute>(
      name: N,
      query: QueryOf<N> | undefined,
      options: object,
    ): Listing<ItemOf<N>> => {
      const given: { readonly cursor?: string } = query ?? {}
      const page = (cursor: string | undefined) => ask(name, { ...options, query: { ...given, cursor } })
      return listing((cursor) => page(cursor) as Promise<unknown> as Promise<Page<ItemOf<N>>>, given.cursor)
    },
  }
}
type AnswerTable = { [N in CreateRoute | ChangeRoute | ActRoute | GetRoute | ListRoute]: AnswerOf<N> }

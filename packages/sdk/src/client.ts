/**
 * The client of Belfry's API: one noun for each resource, every route of the contract typed, retries and
 * typed errors included. It needs `fetch` and nothing else. Errors: `BelfryError` with a code of the
 * contract's table.
 */
import type { Run } from '@belfry/contract'
import { baseUrlOf } from './base-url.ts'
import type { AnyJob, Job } from './functions/define-job.ts'
import type { EnqueueArguments } from './functions/enqueue.ts'
import { enqueueRequest } from './functions/enqueue.ts'
import { registerJobs } from './functions/register.ts'
import type { Listing, Page } from './listing.ts'
import { listing } from './listing.ts'
import type { Requester } from './requester.ts'
import { createRequester } from './requester.ts'
import type {
  AnswerOf,
  BodyOf,
  CallOptions,
  ChangeOptions,
  ItemOf,
  ListRoute,
  QueryOf,
} from './route-types.ts'
import type { RetryOptions } from './transport.ts'
import type { WaitOptions } from './wait-for-run.ts'
import { waitForRun } from './wait-for-run.ts'

export type ClientOptions = {
  /** Where the API is, such as `http://127.0.0.1:4680`; a path before `/v1` is kept. */
  readonly url: string
  readonly apiKey?: string | undefined
  readonly fetch?: typeof fetch | undefined
  /** Limit of one try of one request; 30,000 ms by default. */
  readonly timeoutMs?: number | undefined
  readonly retry?: RetryOptions | undefined
}

type CreateRoute = 'jobCreate' | 'scheduleCreate' | 'runCreate' | 'keyCreate' | 'tenantCreate'
type ChangeRoute = 'jobUpdate' | 'scheduleUpdate' | 'schedulePause' | 'scheduleTrigger' | 'runCancel'
type ActRoute = 'jobDelete' | 'scheduleDelete' | 'scheduleResume' | 'keyRevoke'
type GetRoute = 'jobGet' | 'scheduleGet' | 'runGet'

type Create<N extends CreateRoute> = (body: BodyOf<N>, options?: ChangeOptions) => Promise<AnswerOf<N>>
type Change<N extends ChangeRoute> = (
  id: string,
  body?: BodyOf<N>,
  options?: ChangeOptions,
) => Promise<AnswerOf<N>>
type Act<N extends ActRoute> = (id: string, options?: ChangeOptions) => Promise<AnswerOf<N>>
type Get<N extends GetRoute> = (id: string, options?: CallOptions) => Promise<AnswerOf<N>>
type List<N extends ListRoute> = (query?: QueryOf<N>, options?: CallOptions) => Listing<ItemOf<N>>

export type Client = Requester & {
  readonly url: string
  whoami(options?: CallOptions): Promise<AnswerOf<'whoami'>>
  readonly jobs: {
    create: Create<'jobCreate'>
    list: List<'jobList'>
    get: Get<'jobGet'>
    update: Change<'jobUpdate'>
    delete: Act<'jobDelete'>
  }
  readonly schedules: {
    create: Create<'scheduleCreate'>
    list: List<'scheduleList'>
    get: Get<'scheduleGet'>
    update: Change<'scheduleUpdate'>
    delete: Act<'scheduleDelete'>
    pause: Change<'schedulePause'>
    resume: Act<'scheduleResume'>
    trigger: Change<'scheduleTrigger'>
    /** When it would fire; with `scheduleId`, before and after an edit. Stores nothing. */
    preview(body: BodyOf<'schedulePreview'>, options?: CallOptions): Promise<AnswerOf<'schedulePreview'>>
    /** What became of each planned time, newest first. */
    occurrences(
      id: string,
      query?: QueryOf<'occurrenceList'>,
      options?: CallOptions,
    ): Listing<ItemOf<'occurrenceList'>>
  }
  readonly runs: {
    create: Create<'runCreate'>
    list: List<'runList'>
    /** With the newest of its attempts. */
    get: Get<'runGet'>
    /** All its attempts, newest first. */
    attempts(
      id: string,
      query?: QueryOf<'attemptList'>,
      options?: CallOptions,
    ): Listing<ItemOf<'attemptList'>>
    cancel: Change<'runCancel'>
  }
  /** What an attempt of a function logged, page by page. */
  readonly logs: {
    get(id: string, query?: QueryOf<'runLog'>, options?: CallOptions): Promise<AnswerOf<'runLog'>>
  }
  readonly workers: {
    /** Those of functions that are alive. */
    list: List<'workerList'>
  }
  readonly functions: {
    /** Makes or updates the jobs of these definitions; `createWorker` does it at its start. */
    register(jobs: readonly AnyJob[], options?: CallOptions): Promise<AnswerOf<'functionRegister'>>
  }
  /** Asks for a run of a job that is code; its input is checked first. Throws `invalid_request`. */
  enqueue<Input>(job: Job<Input, unknown>, ...rest: EnqueueArguments<Input>): Promise<Run>
  readonly keys: { create: Create<'keyCreate'>; list: List<'keyList'>; revoke: Act<'keyRevoke'> }
  readonly tenants: { create: Create<'tenantCreate'>; list: List<'tenantList'> }
  /** Resolves with the ended run, whatever its end; throws `wait_timeout`. */
  waitForRun(id: string, options?: WaitOptions): Promise<Run>
}

/** The parts of a client that come in the same shape for several nouns. */
function shapes(requester: Requester) {
  // The route's own types are checked at the noun; in here one name stands for many, so its arguments are
  // widened once.
  const ask = <N extends keyof AnswerTable>(name: N, args: object): Promise<AnswerOf<N>> =>
    requester.request(name, args)
  const split = ({ dryRun, ...options }: ChangeOptions = {}) => ({
    ...options,
    ...(dryRun === undefined ? {} : { query: { dryRun } }),
  })
  return {
    create:
      <N extends CreateRoute>(name: N): Create<N> =>
      (body, options) =>
        ask(name, { body, ...split(options) }),
    change:
      <N extends ChangeRoute>(name: N): Change<N> =>
      (id, body, options) =>
        ask(name, { params: { id }, body, ...split(options) }),
    act:
      <N extends ActRoute>(name: N): Act<N> =>
      (id, options) =>
        ask(name, { params: { id }, ...split(options) }),
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

/** Makes a client. Throws `invalid_config` for a URL that cannot be one; asks nothing of the server yet. */
export function createClient(options: ClientOptions): Client {
  const url = baseUrlOf(options.url)
  const requester = createRequester(url, options.apiKey, {
    fetch: options.fetch ?? globalThis.fetch,
    timeoutMs: options.timeoutMs ?? 30_000,
    retry: { retries: 3, baseMs: 250, capMs: 5_000, ...options.retry },
  })
  const { create, change, act, get, list } = shapes(requester)
  return {
    url,
    ...requester,
    whoami: (callOptions = {}) => requester.request('whoami', callOptions),
    jobs: {
      create: create('jobCreate'),
      list: (query, callOptions = {}) => list('jobList', query, callOptions),
      get: get('jobGet'),
      update: change('jobUpdate'),
      delete: act('jobDelete'),
    },
    schedules: {
      create: create('scheduleCreate'),
      list: (query, callOptions = {}) => list('scheduleList', query, callOptions),
      get: get('scheduleGet'),
      update: change('scheduleUpdate'),
      delete: act('scheduleDelete'),
      pause: change('schedulePause'),
      resume: act('scheduleResume'),
      trigger: change('scheduleTrigger'),
      preview: (body, callOptions = {}) => requester.request('schedulePreview', { ...callOptions, body }),
      occurrences: (id, query, callOptions = {}) =>
        list('occurrenceList', query, { ...callOptions, params: { id } }),
    },
    runs: {
      create: create('runCreate'),
      list: (query, callOptions = {}) => list('runList', query, callOptions),
      get: get('runGet'),
      attempts: (id, query, callOptions = {}) =>
        list('attemptList', query, { ...callOptions, params: { id } }),
      cancel: change('runCancel'),
    },
    logs: {
      get: (id, query, callOptions = {}) =>
        requester.request('runLog', { ...callOptions, params: { id }, query }),
    },
    workers: { list: (query, callOptions = {}) => list('workerList', query, callOptions) },
    functions: {
      register: (jobs, callOptions) => registerJobs(requester, jobs, callOptions),
    },
    async enqueue(job, ...[input, enqueueOptions]) {
      const { body, ...callOptions } = await enqueueRequest(job, input, enqueueOptions)
      return requester.request('runCreate', { ...callOptions, body })
    },
    keys: {
      create: create('keyCreate'),
      list: (query, callOptions = {}) => list('keyList', query, callOptions),
      revoke: act('keyRevoke'),
    },
    tenants: {
      create: create('tenantCreate'),
      list: (query, callOptions = {}) => list('tenantList', query, callOptions),
    },
    waitForRun: (id, waitOptions) => waitForRun(requester, id, waitOptions),
  }
}

/**
 * The client of Belfry's API: one noun for each resource, every route of the contract typed, retries and
 * typed errors included. It needs `fetch` and nothing else. Errors: `BelfryError` with a code of the
 * contract's table.
 */
import type { Backfill, Run } from '@belfry/contract'
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
import { waitForBackfill } from './wait-for-backfill.ts'
import type { WaitOptions } from './wait-for-run.ts'
import { waitForRun } from './wait-for-run.ts'
import type { WaitUntilOptions } from './wait-until-over.ts'

export type ClientOptions = {
  /** Where the API is, such as `http://127.0.0.1:4680`; a path before `/v1` is kept. */
  readonly url: string
  readonly apiKey?: string | undefined
  readonly fetch?: typeof fetch | undefined
  /** Limit of one try of one request; 30,000 ms by default. */
  readonly timeoutMs?: number | undefined
  readonly retry?: RetryOptions | undefined
}

type CreateRoute =
  | 'jobCreate'
  | 'scheduleCreate'
  | 'runCreate'
  | 'keyCreate'
  | 'tenantCreate'
  | 'calendarCreate'
  | 'workflowApply'
  | 'workflowRunCreate'
type ChangeRoute =
  | 'jobUpdate'
  | 'scheduleUpdate'
  | 'schedulePause'
  | 'scheduleResume'
  | 'scheduleSkip'
  | 'scheduleSleep'
  | 'scheduleTrigger'
  | 'runCancel'
  | 'workflowRunCancel'
  | 'backfillCreate'
  | 'backfillPause'
  | 'backfillCancel'
  | 'calendarUpdate'
type ActRoute =
  | 'jobDelete'
  | 'scheduleDelete'
  | 'scheduleWake'
  | 'backfillResume'
  | 'keyRevoke'
  | 'calendarDelete'
  | 'workflowDelete'
type GetRoute = 'jobGet' | 'scheduleGet' | 'runGet' | 'backfillGet' | 'calendarGet' | 'workflowRunGet'

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
  /** Version, time and zone data of the server that answers. */
  server(options?: CallOptions): Promise<AnswerOf<'serverGet'>>
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
    /** From now on; with `backfillFrom` what was planned since then runs as well. */
    resume: Change<'scheduleResume'>
    /** Leaves out the next planned times. */
    skip: Change<'scheduleSkip'>
    /** Leaves out the planned times until an instant. */
    sleep(
      id: string,
      body: BodyOf<'scheduleSleep'>,
      options?: ChangeOptions,
    ): Promise<AnswerOf<'scheduleSleep'>>
    /** Ends a skip or sleep. */
    wake: Act<'scheduleWake'>
    /** Runs it now, or for another nominal time; its planned times do not move. */
    trigger: Change<'scheduleTrigger'>
    /** When it would fire; with `scheduleId`, before and after an edit. Stores nothing. */
    preview(body: BodyOf<'schedulePreview'>, options?: CallOptions): Promise<AnswerOf<'schedulePreview'>>
    /** Runs planned times that are over; a dry run answers the preview. */
    backfill(
      id: string,
      body: BodyOf<'backfillCreate'>,
      options?: ChangeOptions,
    ): Promise<AnswerOf<'backfillCreate'>>
    /** When it runs next, and why it ran or did not run at a time or in a stretch of time. */
    explain(
      id: string,
      query?: QueryOf<'scheduleExplain'>,
      options?: CallOptions,
    ): Promise<AnswerOf<'scheduleExplain'>>
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
  readonly backfills: {
    list: List<'backfillList'>
    get: Get<'backfillGet'>
    pause: Change<'backfillPause'>
    resume: Act<'backfillResume'>
    /** No further planned times; with `cancelRuns` what waits or runs ends as well. */
    cancel: Change<'backfillCancel'>
  }
  /** What schedules leave out (`skipOn`) or keep to (`onlyOn`). */
  readonly calendars: {
    create: Create<'calendarCreate'>
    list: List<'calendarList'>
    get: Get<'calendarGet'>
    /** Each part that is given replaces the one before; null takes it away. */
    update: Change<'calendarUpdate'>
    /** Refused while a schedule uses it. */
    delete: Act<'calendarDelete'>
    /** Which days and times it covers, and why. */
    days(
      id: string,
      query?: QueryOf<'calendarDays'>,
      options?: CallOptions,
    ): Promise<AnswerOf<'calendarDays'>>
  }
  /** Jobs that depend on each other. */
  readonly workflows: {
    /** Makes the one of this name, or gives it a new version where it differs. */
    apply: Create<'workflowApply'>
    list: List<'workflowList'>
    /** In its newest version, or in another. */
    get(id: string, query?: QueryOf<'workflowGet'>, options?: CallOptions): Promise<AnswerOf<'workflowGet'>>
    versions(
      id: string,
      query?: QueryOf<'workflowVersionList'>,
      options?: CallOptions,
    ): Listing<ItemOf<'workflowVersionList'>>
    /** What differs between two versions; what the last change did if none is named. */
    diff(
      id: string,
      query?: QueryOf<'workflowDiff'>,
      options?: CallOptions,
    ): Promise<AnswerOf<'workflowDiff'>>
    delete: Act<'workflowDelete'>
  }
  readonly workflowRuns: {
    create: Create<'workflowRunCreate'>
    list: List<'workflowRunList'>
    get: Get<'workflowRunGet'>
    /** How its tasks stand. */
    tasks(id: string, options?: CallOptions): Promise<AnswerOf<'workflowRunTasks'>>
    /** What waits ends, what runs is asked to; clean-up runs. */
    cancel: Change<'workflowRunCancel'>
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
  /** Zones whose future times were computed again; needs the scope `platform`. */
  readonly replans: { list: List<'replanList'> }
  /** Resolves with the ended run, whatever its end; throws `wait_timeout`. */
  waitForRun(id: string, options?: WaitOptions): Promise<Run>
  /** Resolves with the backfill when it is over, however it ended; throws `wait_timeout`. */
  waitForBackfill(id: string, options?: WaitUntilOptions<Backfill>): Promise<Backfill>
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

/** The noun with the most verbs. */
function schedulesOf(requester: Requester, parts: ReturnType<typeof shapes>): Client['schedules'] {
  const { create, change, act, get, list } = parts
  return {
    create: create('scheduleCreate'),
    list: (query, callOptions = {}) => list('scheduleList', query, callOptions),
    get: get('scheduleGet'),
    update: change('scheduleUpdate'),
    delete: act('scheduleDelete'),
    pause: change('schedulePause'),
    resume: change('scheduleResume'),
    skip: change('scheduleSkip'),
    sleep: change('scheduleSleep'),
    wake: act('scheduleWake'),
    trigger: change('scheduleTrigger'),
    preview: (body, callOptions = {}) => requester.request('schedulePreview', { ...callOptions, body }),
    backfill: change('backfillCreate'),
    explain: (id, query, callOptions = {}) =>
      requester.request('scheduleExplain', { ...callOptions, params: { id }, query }),
    occurrences: (id, query, callOptions = {}) =>
      list('occurrenceList', query, { ...callOptions, params: { id } }),
  }
}

function workflowsOf(
  requester: Requester,
  { create, act, list }: ReturnType<typeof shapes>,
): Client['workflows'] {
  return {
    apply: create('workflowApply'),
    list: (query, callOptions = {}) => list('workflowList', query, callOptions),
    get: (id, query, callOptions = {}) =>
      requester.request('workflowGet', { ...callOptions, params: { id }, query }),
    versions: (id, query, callOptions = {}) =>
      list('workflowVersionList', query, { ...callOptions, params: { id } }),
    diff: (id, query, callOptions = {}) =>
      requester.request('workflowDiff', { ...callOptions, params: { id }, query }),
    delete: act('workflowDelete'),
  }
}

/** What has to do with jobs that are code. */
function functionsOf(
  requester: Requester,
  { list }: ReturnType<typeof shapes>,
): Pick<Client, 'logs' | 'workers' | 'functions' | 'enqueue'> {
  return {
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
  }
}

/** Makes a client. Throws `invalid_config` for a URL that cannot be one; asks nothing of the server yet. */
export function createClient(options: ClientOptions): Client {
  const url = baseUrlOf(options.url)
  const requester = createRequester(url, options.apiKey, {
    fetch: options.fetch ?? globalThis.fetch,
    timeoutMs: options.timeoutMs ?? 30_000,
    retry: { retries: 3, baseMs: 250, capMs: 5_000, ...options.retry },
  })
  const parts = shapes(requester)
  const { create, change, act, get, list } = parts
  return {
    url,
    ...requester,
    whoami: (callOptions = {}) => requester.request('whoami', callOptions),
    server: (callOptions = {}) => requester.request('serverGet', callOptions),
    jobs: {
      create: create('jobCreate'),
      list: (query, callOptions = {}) => list('jobList', query, callOptions),
      get: get('jobGet'),
      update: change('jobUpdate'),
      delete: act('jobDelete'),
    },
    schedules: schedulesOf(requester, parts),
    runs: {
      create: create('runCreate'),
      list: (query, callOptions = {}) => list('runList', query, callOptions),
      get: get('runGet'),
      attempts: (id, query, callOptions = {}) =>
        list('attemptList', query, { ...callOptions, params: { id } }),
      cancel: change('runCancel'),
    },
    ...functionsOf(requester, parts),
    backfills: {
      list: (query, callOptions = {}) => list('backfillList', query, callOptions),
      get: get('backfillGet'),
      pause: change('backfillPause'),
      resume: act('backfillResume'),
      cancel: change('backfillCancel'),
    },
    calendars: {
      create: create('calendarCreate'),
      list: (query, callOptions = {}) => list('calendarList', query, callOptions),
      get: get('calendarGet'),
      update: change('calendarUpdate'),
      delete: act('calendarDelete'),
      days: (id, query, callOptions = {}) =>
        requester.request('calendarDays', { ...callOptions, params: { id }, query }),
    },
    workflows: workflowsOf(requester, parts),
    workflowRuns: {
      create: create('workflowRunCreate'),
      list: (query, callOptions = {}) => list('workflowRunList', query, callOptions),
      get: get('workflowRunGet'),
      tasks: (id, callOptions = {}) =>
        requester.request('workflowRunTasks', { ...callOptions, params: { id } }),
      cancel: change('workflowRunCancel'),
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
    replans: { list: (query, callOptions = {}) => list('replanList', query, callOptions) },
    waitForRun: (id, waitOptions) => waitForRun(requester, id, waitOptions),
    waitForBackfill: (id, waitOptions) => waitForBackfill(requester, id, waitOptions),
  }
}

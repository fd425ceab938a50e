/**
 * The client of Belfry's API: one noun for each resource, every route of the contract typed, retries and
 * typed errors included. It needs `fetch` and nothing else. Errors: `BelfryError` with a code of the
 * contract's table.
 */
import type { Backfill, Run, RunCreated, RunReceipt } from '@belfry/contract'
import { baseUrlOf } from './base-url.ts'
import type { BulkOptions, CancelManyBody, DeadLetterVerbs } from './bulk.ts'
import { cancelMany, deadLettersOf } from './bulk.ts'
import { checkClientOptions } from './check-input.ts'
import type { Act, Change, Create, Get, List } from './client-verbs.ts'
import { shapes } from './client-verbs.ts'
import type { AnyJob, Job } from './functions/define-job.ts'
import type { FollowOptions, LogEvent } from './follow-logs.ts'
import { followLogs } from './follow-logs.ts'
import type { EnqueueArguments } from './functions/enqueue.ts'
import type { EnqueueManyOptions } from './functions/enqueue-many.ts'
import { manyRequest, sendMany } from './functions/enqueue-many.ts'
import { enqueueRequest } from './functions/enqueue.ts'
import { registerJobs } from './functions/register.ts'
import type { Listing } from './listing.ts'
import { type Pools, type Queues, queuesOf } from './queues.ts'
import { type Audit, auditOf } from './audit.ts'
import { type People, peopleOf } from './people.ts'
import { type Lambda, lambdaOf } from './lambda.ts'
import { secretsOf, type Secrets } from './secrets.ts'
import { type ServiceAccounts, serviceAccountsOf } from './service-accounts.ts'
import { type ContainerPolicies, containerPoliciesOf } from './container-policies.ts'
import { type Quotas, quotasOf } from './quotas.ts'
import type { Requester } from './requester.ts'
import { createRequester } from './requester.ts'
import type { AnswerOf, BodyOf, CallOptions, ChangeOptions, ItemOf, QueryOf } from './route-types.ts'
import type { RetryOptions } from './transport.ts'
import { waitForBackfill } from './wait-for-backfill.ts'
import type { WaitOptions } from './wait-for-run.ts'
import { waitForRun } from './wait-for-run.ts'
import type { WaitUntilOptions } from './wait-until-over.ts'
import { workflowRunsOf, type WorkflowRunVerbs, workflowsOf, type WorkflowVerbs } from './workflows/verbs.ts'

export type ClientOptions = {
  /** Where the API is, such as `http://127.0.0.1:4680`; a path before `/v1` is kept. */
  readonly url: string
  readonly apiKey?: string | undefined
  readonly fetch?: typeof fetch | undefined
  /** Limit of one try of one request; 30,000 ms by default. */
  readonly timeoutMs?: number | undefined
  readonly retry?: RetryOptions | undefined
}

export type Client = Requester &
  People & {
    readonly url: string
    whoami(options?: CallOptions): Promise<AnswerOf<'whoami'>>
    /** Version, time and zone data of the server that answers. */
    server(options?: CallOptions): Promise<AnswerOf<'serverGet'>>
    /** Its processes, shards and terms, and what is wrong; needs the scope `platform`. */
    cluster(options?: CallOptions): Promise<AnswerOf<'clusterGet'>>
    readonly jobs: {
      create: Create<'jobCreate'>
      list: List<'jobList'>
      get: Get<'jobGet'>
      update: Change<'jobUpdate'>
      delete: Act<'jobDelete'>
      pause: Change<'jobPause'>
      resume: Act<'jobResume'>
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
      /** Up to 1,000 in one call; each has a result of its own, or with `atomic` all or nothing. */
      enqueueBatch: Create<'runBatch'>
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
      /** All that a filter means; a dry run answers the preview. */
      cancelMany(body: CancelManyBody, options?: BulkOptions): Promise<AnswerOf<'runCancelMany'>>
      /** What holds it back now, or why it ended as it did. */
      explain: Get<'runExplain'>
      /**
       * Lines of its log as they are written, of all its attempts, and its end; connections that break are
       * made again, and no line is missed or told twice.
       */
      followLogs(id: string, options?: FollowOptions): AsyncIterable<LogEvent>
    }
    readonly deadLetters: DeadLetterVerbs
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
    /** Limits that several jobs share. */
    readonly pools: Pools
    readonly queues: Queues
    /** What a tenant may have. */
    readonly containerPolicies: ContainerPolicies
    readonly quotas: Quotas
    /** Who did what. */
    readonly audit: Audit
    readonly lambda: Lambda
    /** Values that jobs need and nobody reads back. */
    readonly secrets: Secrets
    /** Jobs that depend on each other. */
    readonly workflows: WorkflowVerbs
    readonly workflowRuns: WorkflowRunVerbs
    /** Says that something happened: workflows that name it in their triggers begin, once for each key. */
    readonly sendEvent: Create<'eventSend'>
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
    enqueue<Input>(job: Job<Input, unknown>, ...rest: EnqueueArguments<Input>): Promise<RunCreated>
    /**
     * Asks for a run for each input, in calls of up to 1,000, each of which is all or nothing. Every input is
     * checked before. Throws `invalid_request`.
     */
    enqueueMany<Input>(
      job: Job<Input, unknown>,
      inputs: readonly Input[],
      options?: EnqueueManyOptions<Input>,
    ): Promise<readonly RunReceipt[]>
    readonly keys: { create: Create<'keyCreate'>; list: List<'keyList'>; revoke: Act<'keyRevoke'> }
    readonly serviceAccounts: ServiceAccounts
    readonly tenants: { create: Create<'tenantCreate'>; list: List<'tenantList'> }
    /** Zones whose future times were computed again; needs the scope `platform`. */
    readonly replans: { list: List<'replanList'> }
    /** Resolves with the ended run, whatever its end; throws `wait_timeout`. */
    waitForRun(id: string, options?: WaitOptions): Promise<Run>
    /** Resolves with the backfill when it is over, however it ended; throws `wait_timeout`. */
    waitForBackfill(id: string, options?: WaitUntilOptions<Backfill>): Promise<Backfill>
  }

/** The noun with the most verbs. */
function schedulesOf(
  requester: Requester,
  { create, change, act, get, list }: ReturnType<typeof shapes>,
): Client['schedules'] {
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

/** What schedules keep to. */
function calendarsOf(
  requester: Requester,
  { create, change, act, get, list }: ReturnType<typeof shapes>,
): Client['calendars'] {
  return {
    create: create('calendarCreate'),
    list: (query, callOptions = {}) => list('calendarList', query, callOptions),
    get: get('calendarGet'),
    update: change('calendarUpdate'),
    delete: act('calendarDelete'),
    days: (id, query, callOptions = {}) =>
      requester.request('calendarDays', { ...callOptions, params: { id }, query }),
  }
}

/** What has to do with jobs that are code. */
function functionsOf(
  requester: Requester,
  { list }: ReturnType<typeof shapes>,
): Pick<Client, 'logs' | 'workers' | 'functions' | 'enqueue' | 'enqueueMany'> {
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
    enqueueMany: async (job, inputs, manyOptions) =>
      sendMany(requester, await manyRequest(job, inputs, manyOptions)),
  }
}

/** What limits runs. */
function limitsOf(
  requester: Requester,
  { create, change, act, get, list }: ReturnType<typeof shapes>,
): Pick<Client, 'pools' | 'queues' | 'containerPolicies' | 'quotas'> {
  return {
    pools: {
      create: create('poolCreate'),
      list: (query, callOptions = {}) => list('poolList', query, callOptions),
      get: get('poolGet'),
      update: change('poolUpdate'),
      delete: act('poolDelete'),
    },
    queues: queuesOf(requester),
    containerPolicies: containerPoliciesOf(requester),
    quotas: quotasOf(requester),
  }
}

function runsOf(
  requester: Requester,
  { create, change, get, list }: ReturnType<typeof shapes>,
): Client['runs'] {
  return {
    create: create('runCreate'),
    enqueueBatch: create('runBatch'),
    list: (query, options = {}) => list('runList', query, options),
    get: get('runGet'),
    attempts: (id, query, options = {}) => list('attemptList', query, { ...options, params: { id } }),
    cancel: change('runCancel'),
    cancelMany: (body, options) => cancelMany(requester, body, options),
    explain: get('runExplain'),
    followLogs: (id, options) => followLogs(requester, id, options),
  }
}

/** Makes a client. Throws `invalid_config` for options that cannot be meant; asks the server nothing yet. */
export function createClient(options: ClientOptions): Client {
  checkClientOptions(options)
  const url = baseUrlOf(options.url)
  const timeoutMs = options.timeoutMs ?? 30_000
  const requester = createRequester(url, options.apiKey, {
    fetch: options.fetch ?? globalThis.fetch,
    timeoutMs,
    retry: { retries: 3, baseMs: 250, capMs: 5_000, ...options.retry },
  })
  const parts = shapes(requester)
  const { create, change, act, get, list } = parts
  return {
    url,
    ...requester,
    audit: auditOf(requester, parts),
    lambda: lambdaOf(requester),
    secrets: secretsOf(requester, parts),
    serviceAccounts: serviceAccountsOf(requester, parts),
    ...peopleOf(requester, parts),
    whoami: (callOptions = {}) => requester.request('whoami', callOptions),
    server: (callOptions = {}) => requester.request('serverGet', callOptions),
    cluster: (callOptions = {}) => requester.request('clusterGet', callOptions),
    jobs: {
      create: create('jobCreate'),
      list: (query, callOptions = {}) => list('jobList', query, callOptions),
      get: get('jobGet'),
      update: change('jobUpdate'),
      delete: act('jobDelete'),
      pause: change('jobPause'),
      resume: act('jobResume'),
    },
    schedules: schedulesOf(requester, parts),
    runs: runsOf(requester, parts),
    ...functionsOf(requester, parts),
    deadLetters: deadLettersOf(requester),
    backfills: {
      list: (query, callOptions = {}) => list('backfillList', query, callOptions),
      get: get('backfillGet'),
      pause: change('backfillPause'),
      resume: act('backfillResume'),
      cancel: change('backfillCancel'),
    },
    calendars: calendarsOf(requester, parts),
    ...limitsOf(requester, parts),
    workflows: workflowsOf(requester),
    workflowRuns: workflowRunsOf(requester),
    sendEvent: create('eventSend'),
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
    waitForRun: (id, waitOptions) => waitForRun(requester, id, waitOptions, timeoutMs),
    waitForBackfill: (id, waitOptions) => waitForBackfill(requester, id, waitOptions),
  }
}

/**
 * `createBelfry`: schedules, runs and functions inside the program's own process, on its Postgres, with no
 * server and no port. The server package is loaded when it starts, not before.
 *
 *   start  store opened (and migrated) ─► jobs stored ─► schedules fire, functions run
 *   stop   no new claims ─► functions drain, then are signalled ─► rest given back ─► store closed
 */
import type { RunCreate, RunCreated, RunReceipt } from '@belfry/contract'
import { BelfryError } from '@belfry/contract'
import type { AnyJob, Client, EnqueueManyOptions, EnqueueOptions, Job } from '@belfry/sdk'
import { createClient } from '@belfry/sdk'
import {
  anObject,
  checkArgument,
  checkOptions,
  enqueueRequest,
  flag,
  jobsRule,
  jsonOf,
  manyRequest,
  milliseconds,
  queueOf,
  text,
  texts,
  whole,
} from '@belfry/sdk/functions'
import type { EmbeddedBelfry } from '@belfry/server'
import { functionBodies } from './function-bodies.ts'

export interface BelfryOptions {
  /** Postgres 15 to 18. Without it Belfry runs one of its own, with its data in `dataDir`. */
  readonly databaseUrl?: string
  readonly dataDir?: string
  /** Functions of this program. */
  readonly jobs?: readonly AnyJob[]
  /** Whom everything belongs to; made where it is missing. Default `main`. */
  readonly tenant?: string
  /** Functions at a time. Default 10. */
  readonly slots?: number
  /** Default: those of the jobs. */
  readonly queues?: readonly string[]
  /** False: this process only asks for runs; it fires no schedule and runs no function. Default true. */
  readonly work?: boolean
  /** HTTP jobs called from here, of all tenants, at a time. Default 0: they are left to servers. */
  readonly httpSlots?: number
  /** Bring the schema up to date at the start. Default true. */
  readonly migrate?: boolean
  /** Connections at most. Default 16. */
  readonly poolSize?: number
  /** How long a stop waits for functions before it signals them. Default 30,000 ms. */
  readonly drainMs?: number
  readonly logLevel?: 'trace' | 'debug' | 'info' | 'warn' | 'error' | 'silent'
  /** Any other setting, by its name in the configuration reference. */
  readonly settings?: Readonly<Record<string, unknown>>
}

/** A `pg` client, or anything that queries like one, with a transaction open. */
export interface TransactionClient {
  query(text: string, values: unknown[]): Promise<{ rows: unknown[] }>
}

export interface InsideOptions extends Omit<EnqueueOptions, 'idempotencyKey' | 'ifMatch' | 'signal'> {
  /** The run is there if and only if the transaction on this client commits. */
  readonly client: TransactionClient
}

export interface Belfry extends AsyncDisposable {
  /** Resolves when it fires and runs. Throws BelfryError; nothing stays open then. Not after `stop`. */
  start(): Promise<void>
  /** Resolves when nothing of it runs any more. May be called twice. */
  stop(): Promise<void>
  /** Everything of the API: schedules, runs, jobs. From `start` on. */
  readonly client: Client
  enqueue<Input>(job: Job<Input, unknown>, input: Input, options: InsideOptions): Promise<RunReceipt>
  enqueue<Input>(job: Job<Input, unknown>, input?: Input, options?: EnqueueOptions): Promise<RunCreated>
  /**
   * A run for each input, all or none: in a transaction of its own, or with `client` in the one that is open
   * there. Throws `invalid_request` with pointers below `/inputs/N`.
   */
  enqueueMany<Input>(
    job: Job<Input, unknown>,
    inputs: readonly Input[],
    options?: EnqueueManyOptions<Input> & Partial<Pick<InsideOptions, 'client'>>,
  ): Promise<readonly RunReceipt[]>
}

/** Where requests seem to go: nothing leaves this process. */
const nowhere = 'http://belfry.embedded.invalid'

const rules = {
  databaseUrl: text,
  dataDir: text,
  jobs: jobsRule,
  tenant: text,
  slots: whole(1, 10_000),
  queues: texts,
  work: flag,
  httpSlots: whole(0, 10_000),
  migrate: flag,
  poolSize: whole(1, 10_000),
  drainMs: milliseconds,
  logLevel: text,
  settings: anObject,
}
const aClient = {
  what: 'a pg client, or what queries like one',
  fits: (value: unknown) =>
    typeof value === 'object' && value !== null && 'query' in value && typeof value.query === 'function',
}

/** Throws `invalid_config` for options that cannot be meant; opens nothing yet. */
export function createBelfry(options: BelfryOptions): Belfry {
  return createWithClock(options).belfry
}

/** A Belfry whose time is set: what `belfry/testing` offers for databases that it makes and throws away. */
export function createWithClock(
  options: BelfryOptions,
  clockAtMs?: number,
): { readonly belfry: Belfry; readonly time: () => NonNullable<EmbeddedBelfry['time']> } {
  checkOptions('createBelfry', 'invalid_config', options, rules)
  const { jobs = [], work = true } = options
  let embedded: EmbeddedBelfry | undefined
  let starting: Promise<EmbeddedBelfry> | undefined
  let stopped: Promise<void> | undefined

  const client = createClient({
    url: nowhere,
    retry: { retries: 2 },
    fetch: (input, init) => running().fetch(input, init),
  })

  function running(): EmbeddedBelfry {
    if (embedded !== undefined) return embedded
    const why = stopped === undefined ? 'has not been started; await start() first' : 'was stopped'
    throw new BelfryError('invalid_state', `This Belfry ${why}.`)
  }

  async function open(): Promise<EmbeddedBelfry> {
    const made = await openStopped(options, clockAtMs)
    embedded = made
    try {
      if (jobs.length > 0) await client.functions.register(jobs)
      if (work) await made.work()
    } catch (error) {
      await made.stop()
      throw error
    }
    return made
  }

  async function stop(): Promise<void> {
    await starting?.then((made) => made.stop()).catch(() => undefined)
    embedded = undefined
  }

  const stopOnce = (): Promise<void> => (stopped ??= stop())
  const belfry: Belfry = {
    async start() {
      if (stopped !== undefined)
        throw new BelfryError('invalid_state', 'This Belfry was stopped; make another with createBelfry.')
      starting ??= open()
      await starting
    },
    stop: stopOnce,
    client,
    ...enqueueing(running, client),
    [Symbol.asyncDispose]: stopOnce,
  }
  return { belfry, time: () => running().time ?? noClock() }
}

/** Over the API of this process, or inside the caller's transaction. */
function enqueueing(running: () => EmbeddedBelfry, client: Client): Pick<Belfry, 'enqueue' | 'enqueueMany'> {
  async function enqueue<Input>(
    job: Job<Input, unknown>,
    input: Input,
    enqueueOptions: EnqueueOptions | InsideOptions = {},
  ): Promise<RunCreated | RunReceipt> {
    checkArgument('enqueue', '/options', enqueueOptions, anObject)
    if (!('client' in enqueueOptions)) {
      const { body, ...call } = await enqueueRequest(job, input, enqueueOptions)
      if (call.idempotencyKey !== undefined || call.ifMatch !== undefined)
        return client.runs.create(body, call)
      call.signal?.throwIfAborted()
      return (await running().enqueue.direct(travelled(body))) ?? client.runs.create(body, call)
    }
    const { client: callers, ...rest } = enqueueOptions
    checkArgument('enqueue', '/client', callers, aClient)
    const { body } = await enqueueRequest(job, input, rest)
    return running().enqueue.one(callers, travelled(body))
  }

  const enqueueMany: Belfry['enqueueMany'] = async (job, inputs, given = {}) => {
    checkArgument('enqueueMany', '/options', given, anObject)
    const { client: callers, ...rest } = given
    if (callers !== undefined) checkArgument('enqueueMany', '/client', callers, aClient)
    return running().enqueue.many(callers, await manyRequest(job, inputs, rest))
  }

  return { enqueue: enqueue as Belfry['enqueue'], enqueueMany }
}

/** As it would arrive at a server. */
const travelled = (body: RunCreate): RunCreate => JSON.parse(jsonOf('enqueue', body)) as RunCreate

function noClock(): never {
  throw new BelfryError(
    'invalid_state',
    'The time of this Belfry is real; start it with `clock` to have one that is set.',
  )
}

/** Everything that it leans on; it fires and runs nothing yet. */
async function openStopped(options: BelfryOptions, clockAtMs: number | undefined): Promise<EmbeddedBelfry> {
  const { jobs = [], work = true } = options
  const { startEmbedded } = await import('@belfry/server')
  return startEmbedded({
    settings: settingsOf(options),
    tenant: options.tenant ?? 'main',
    functions: functionBodies(work ? jobs : []),
    queues: options.queues ?? [...new Set(jobs.map(queueOf))],
    slots: options.slots ?? 10,
    httpSlots: work ? (options.httpSlots ?? 0) : 0,
    schedules: work,
    clockAtMs,
  })
}

function settingsOf(options: BelfryOptions): Record<string, unknown> {
  const { databaseUrl, dataDir, poolSize, drainMs } = options
  return {
    ...options.settings,
    databaseUrl,
    dataDir,
    drainMs,
    databasePoolSize: poolSize,
    migrateAtStart: databaseUrl === undefined ? undefined : (options.migrate ?? true),
    logLevel: options.logLevel ?? 'warn',
  }
}

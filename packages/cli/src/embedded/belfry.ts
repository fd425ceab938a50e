/**
 * `createBelfry`: schedules, runs and functions inside the program's own process, on its Postgres, with no
 * server and no port. The server package is loaded when it starts, not before.
 *
 *   start  store opened (and migrated) ─► jobs stored ─► schedules fire, functions run
 *   stop   no new claims ─► functions drain, then are signalled ─► rest given back ─► store closed
 */
import type { Run } from '@belfry/contract'
import { BelfryError } from '@belfry/contract'
import type { AnyJob, Client, EnqueueOptions, Job } from '@belfry/sdk'
import { createClient } from '@belfry/sdk'
import { enqueueRequest, queueOf } from '@belfry/sdk/functions'
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
  /** Resolves when it fires and runs. Throws BelfryError; nothing stays open then. */
  start(): Promise<void>
  /** Resolves when nothing of it runs any more. May be called twice. */
  stop(): Promise<void>
  /** Everything of the API: schedules, runs, jobs. From `start` on. */
  readonly client: Client
  enqueue<Input>(
    job: Job<Input, unknown>,
    input: Input,
    options: InsideOptions,
  ): Promise<{ readonly id: string; readonly dueAt: string }>
  enqueue<Input>(job: Job<Input, unknown>, input?: Input, options?: EnqueueOptions): Promise<Run>
}

/** Where requests seem to go: nothing leaves this process. */
const nowhere = 'http://belfry.embedded.invalid'

export function createBelfry(options: BelfryOptions): Belfry {
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
    const made = await openStopped(options)
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

  async function enqueue<Input>(
    job: Job<Input, unknown>,
    input: Input,
    enqueueOptions: EnqueueOptions | InsideOptions = {},
  ): Promise<Run | { readonly id: string; readonly dueAt: string }> {
    if (!('client' in enqueueOptions)) {
      const { body, ...call } = await enqueueRequest(job, input, enqueueOptions)
      return client.runs.create(body, call)
    }
    const { client: callers, ...rest } = enqueueOptions
    const { body } = await enqueueRequest(job, input, rest)
    return running().enqueueInside(callers, body)
  }

  const stopOnce = (): Promise<void> => (stopped ??= stop())
  return {
    async start() {
      starting ??= open()
      await starting
    },
    stop: stopOnce,
    client,
    enqueue: enqueue as Belfry['enqueue'],
    [Symbol.asyncDispose]: stopOnce,
  }
}

/** Everything that it leans on; it fires and runs nothing yet. */
async function openStopped(options: BelfryOptions): Promise<EmbeddedBelfry> {
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

/**
 * Belfry inside another program's process: store, scheduler and workers as in a server, on the same tables,
 * without a port that listens. The API is there all the same, called as a function: so what a program asks
 * for is checked, stored and answered by the same code as over HTTP, for one tenant and with every right in
 * it.
 *
 * Works beside servers and other programs on the same database. HTTP jobs are left to the servers unless
 * asked for: calling targets is a matter of where a process stands in the network.
 */
import { Readable } from 'node:stream'
import { BelfryError, permissionsOfScopes } from '@belfry/contract'
import { createFunctionHandler, type FunctionBody } from '../adapters/handlers/function/function-handler.ts'
import { systemClock } from '../adapters/system/clock.ts'
import { createSystemIds } from '../adapters/system/ids.ts'
import { loadConfig } from '../config/load.ts'
import type { Api } from '../http/api.ts'
import type { Credential } from '../ports/credentials.ts'
import { ensureTenantNamed } from '../postgres/catalog/bootstrap.ts'
import { createLeaseKeeper } from '../postgres/lease-keeper.ts'
import { createMetrics } from '../telemetry/metrics.ts'
import { functionRoute, serverRoutes } from '../domain/route.ts'
import type { Executed, SettableTime } from './settable-time.ts'
import { createSettableTime } from './settable-time.ts'
import { createEmbeddedEnqueue, type EmbeddedEnqueue } from './embedded-enqueue.ts'
import type { FunctionWork } from './engine.ts'
import { terminalLogger } from './logging.ts'
import { assemble, type FunctionParts } from './parts.ts'
import type { Store } from './store.ts'
import { openStore } from './store.ts'
import type { UndoStep } from './unwind.ts'
import { unwind } from './unwind.ts'
import { version } from './version.ts'

export interface EmbeddedOptions {
  /** Settings by their name in the configuration; `databaseUrl` or `dataDir` among them. */
  readonly settings: Readonly<Record<string, unknown>>
  /** Made where it is missing. */
  readonly tenant: string
  /** By name; none: this process runs no functions. */
  readonly functions: ReadonlyMap<string, FunctionBody>
  readonly queues: readonly string[]
  readonly slots: number
  /** Runs of HTTP jobs at a time, of all tenants; 0: none. */
  readonly httpSlots: number
  /** Whether schedules fire and lost runs are rescued here. */
  readonly schedules: boolean
  /**
   * Epoch ms: time stands still there, and is set from then on; only with a new `dataDir`, of which the
   * database is never again of any other use.
   */
  readonly clockAtMs?: number | undefined
}

export interface EmbeddedBelfry {
  /** Answers what the API would. */
  readonly fetch: typeof fetch
  /** Runs inside the transaction that is open on a client, or many at once. */
  readonly enqueue: EmbeddedEnqueue
  /** Begins to fire and to run. What it leans on is there before: so jobs can be stored first. */
  readonly work: () => Promise<void>
  /** Where its time is settable. */
  readonly time?: SettableTime | undefined
  readonly stop: () => Promise<void>
}

const stopMarginMs = 25_000
const embeddedStopMs = 45_000
const unlimited = 1_000_000_000

/** Throws BelfryError as `openStore`; nothing stays open then. */
export async function startEmbedded(options: EmbeddedOptions): Promise<EmbeddedBelfry> {
  const { config } = loadConfig({ flags: settingsOf(options) })
  const logger = terminalLogger(config.logLevel)
  const undo: UndoStep[] = []
  const stopAll = () => unwind(undo, { clock: systemClock, logger, budgetMs: config.drainMs + stopMarginMs })
  try {
    const { clockAtMs } = options
    const log = (level: 'info' | 'warn' | 'error', message: string) => logger[level](message)
    const store = await openStore({ config, log, settableFromMs: clockAtMs })
    const closing = { name: 'the store', undo: () => store.close() }
    undo.push(config.databaseUrl === undefined ? { ...closing, leastMs: embeddedStopMs } : closing)
    const tenant = await ensureTenantNamed({ db: store.db, ids: createSystemIds() }, options.tenant)
    const metrics = createMetrics({ version, processMetrics: false })
    const credential = credentialOf(tenant)
    const time =
      store.now === undefined || clockAtMs === undefined
        ? undefined
        : createSettableTime(store.now, clockAtMs)
    const parts = assemble(config, logger, store, metrics, {
      databaseClock: time?.databaseClock,
      callsHttp: options.httpSlots > 0,
      functions: functionsOf(options, tenant.id, store),
      authenticator: {
        authenticate: () => Promise.resolve(credential),
        provedLately: () => true,
        forget: () => {},
      },
      limits: { perKeyPerMinute: unlimited, inFlightPerKey: 256 },
    })
    undo.push({ name: 'outbound calls', undo: () => parts.egress.close() })
    undo.push({ name: 'the links beside Postgres', undo: () => parts.links.close() })
    undo.push({ name: 'the replica', undo: async () => parts.replica?.close() })
    parts.hints.start()
    undo.push({ name: 'the listener for hints', undo: () => parts.hints.close() })
    await parts.links.start()
    parts.replica?.start()
    await parts.audit.start()
    undo.push({ name: 'the notes of the audit', undo: () => parts.audit.stop() })
    const api = await parts.createApi?.()
    if (api === undefined) throw new BelfryError('internal', 'An embedded Belfry has no API.')
    undo.push({ name: 'the API', undo: () => api.close() })
    const enqueue = createEmbeddedEnqueue(parts, tenant.id, config.retentionDays, systemClock)
    undo.push({ name: 'hints of what was enqueued', undo: async () => enqueue.close() })
    let stopping: Promise<void> | undefined
    return {
      fetch: callAsFunction(api),
      enqueue,
      async work() {
        undo.push({ name: 'the engine', undo: () => parts.engine.stop() })
        await parts.engine.start()
      },
      time: time?.within({ hints: parts.hints, executed: executedBy(options, tenant.id) }),
      stop: () => (stopping ??= stopAll()),
    }
  } catch (error) {
    await stopAll()
    throw error
  }
}

function settingsOf({
  settings,
  schedules,
  httpSlots,
  functions,
  clockAtMs,
}: EmbeddedOptions): Record<string, unknown> {
  const works = httpSlots > 0 || functions.size > 0
  const roles = ['api', ...(schedules ? ['scheduler'] : []), ...(works ? ['worker'] : [])]
  const given = Object.fromEntries(Object.entries(settings).filter(([, value]) => value !== undefined))
  // nobody else has this database
  const own = clockAtMs === undefined ? {} : { databaseHints: 'local' }
  return { ...given, ...own, roles, ...(httpSlots > 0 ? { workerSlots: httpSlots } : {}) }
}

function executedBy({ functions, httpSlots, queues }: EmbeddedOptions, tenantId: string): Executed {
  const routes = [...functions.keys()].map((name) => functionRoute(tenantId, name))
  return { routes: httpSlots > 0 ? [...routes, ...serverRoutes] : routes, queues }
}

function functionsOf(
  { functions, queues, slots }: EmbeddedOptions,
  tenantId: string,
  { connection }: Pick<Store, 'connection'>,
) {
  if (functions.size === 0) return undefined
  return ({ workers, secrets }: FunctionParts): FunctionWork => ({
    handler: createFunctionHandler({ tenantId, functions, workers, secrets, clock: systemClock }),
    owner: { tenantId, keyId: null, functions: [...functions.keys()] },
    queues,
    slots,
    keeper: createLeaseKeeper({ connection, clock: systemClock }),
  })
}

function credentialOf({ id, name, createdAtMs }: Awaited<ReturnType<typeof ensureTenantNamed>>): Credential {
  return {
    // answers that are kept for an Idempotency-Key are those of the tenant's programs together
    keyId: id,
    principal: { kind: 'key', id, name: 'embedded' },
    role: null,
    permissions: permissionsOfScopes(['admin']),
    tenantId: id,
    tenantName: name,
    tenantCreatedAtMs: createdAtMs,
    scopes: ['admin'],
    queues: null,
  }
}

function callAsFunction({ app }: Api): typeof fetch {
  return async (input, init = {}) => {
    init.signal?.throwIfAborted()
    const url = new URL(input instanceof Request ? input.url : input)
    const headers = Object.fromEntries(new Headers(init.headers))
    const streams = headers['accept'] === 'text/event-stream'
    const answer = await app.inject({
      method: (init.method ?? 'GET') as 'GET',
      url: `${url.pathname}${url.search}`,
      headers: { ...headers, authorization: 'Bearer embedded' },
      ...(typeof init.body === 'string' ? { payload: init.body } : {}),
      ...(streams ? { payloadAsStream: true as const } : {}),
    })
    // as a connection that ends: the stream is let go
    if (streams) init.signal?.addEventListener('abort', () => answer.raw.res.destroy(), { once: true })
    const sent = Object.entries(answer.headers).flatMap(([name, value]) =>
      value === undefined ? [] : [[name, String(value)] as [string, string]],
    )
    const whole = streams ? Readable.toWeb(answer.stream()) : answer.body
    const body = answer.statusCode === 204 ? null : whole
    return new Response(body as ReadableStream | string | null, { status: answer.statusCode, headers: sent })
  }
}

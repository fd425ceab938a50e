/**
 * The HTTP API: everything that is served on the API port, made of the contract's routes and the parts that
 * compose hands in. One `createApi`, then `listen`; on the way down `drain` (new requests are refused) and
 * `close` (those under way end).
 */
import type { JobDefinition } from '@belfry/contract'
import { BelfryError, maxBodyBytes } from '@belfry/contract'
import Fastify, { LogController } from 'fastify'
import type { FastifyBaseLogger, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { FairTags } from '../engine/fair-tags.ts'
import type { RunWatcher } from '../engine/run-watcher.ts'
import type { WorkerGate } from '../engine/workers/worker-gate.ts'
import type { Catalog } from '../ports/catalog.ts'
import type { Authenticator, KeyMint } from '../ports/credentials.ts'
import type { EgressAgent } from '../ports/egress.ts'
import type { EventSink } from '../ports/event-sink.ts'
import type { Hints } from '../ports/hints.ts'
import type { Ids } from '../ports/ids.ts'
import type { RequestObserver } from '../ports/request-observer.ts'
import type { ZoneSource } from '../ports/zones.ts'
import type { Effect, Endpoints } from './endpoint.ts'
import type { StreamLimits } from './open-streams.ts'
import { createOpenStreams } from './open-streams.ts'
import { guardRoutes } from './plugins/access.ts'
import type { RateLimits } from './plugins/access.ts'
import { answerTheRest, refuseRawRequest } from './plugins/fallbacks.ts'
import { takeJsonBodies } from './plugins/json-body.ts'
import { watchConnections } from './plugins/open-connections.ts'
import { describeApi, serveDescription } from './plugins/openapi.ts'
import { frameRequests, requestIdOf } from './plugins/request-frame.ts'
import { takeWholeBodies } from './plugins/whole-bodies.ts'
import { sendProblem } from './problem.ts'
import { registerRoutes } from './registry.ts'
import { accessEndpoints } from './routes/access.ts'
import { backfillEndpoints } from './routes/backfills.ts'
import { calendarEndpoints } from './routes/calendars.ts'
import { deadLetterEndpoints } from './routes/dead-letters.ts'
import { explanationEndpoints } from './routes/explanations.ts'
import { jobEndpoints } from './routes/jobs.ts'
import { limitEndpoints } from './routes/limits.ts'
import { queueStatsEndpoints } from './routes/queue-stats.ts'
import { runInsightEndpoints } from './routes/run-insight.ts'
import { runCancelEndpoints } from './routes/run-cancels.ts'
import { runBatchEndpoints } from './routes/run-batch.ts'
import { runEndpoints } from './routes/runs.ts'
import { scheduleActionEndpoints } from './routes/schedule-actions.ts'
import { scheduleEndpoints } from './routes/schedules.ts'
import { serverEndpoints } from './routes/server.ts'
import { workerEndpoints } from './routes/workers.ts'
import { workflowActEndpoints } from './routes/workflow-acts.ts'
import { workflowDecisionEndpoints } from './routes/workflow-decisions.ts'
import { workflowExplanationEndpoints } from './routes/workflow-explanations.ts'
import { eventEndpoints } from './routes/events.ts'
import { workflowRunEndpoints } from './routes/workflow-runs.ts'
import { workflowEndpoints } from './routes/workflows.ts'

export interface ApiOptions {
  readonly version: string
  readonly catalog: Catalog
  readonly authenticator: Authenticator
  readonly mint: KeyMint
  readonly zones: ZoneSource
  readonly ids: Ids
  readonly tags: Pick<FairTags, 'next' | 'ready'>
  readonly hints: Pick<Hints, 'publish'>
  readonly events: EventSink
  /** What workers outside reach of the engine. */
  readonly gate: WorkerGate
  /** Follows runs for those who wait for them. */
  readonly watcher: RunWatcher
  /** Default: 50 streams a key and 2,000 a process, a sign of life each 15 s, an hour at most. */
  readonly streamLimits?: Partial<StreamLimits> | undefined
  /** Judges targets when they are stored; the call itself is judged again when it is made. */
  readonly egress: Pick<EgressAgent, 'checkTargetUrl' | 'checkTargetHeaders'>
  readonly logger?: FastifyBaseLogger | undefined
  readonly observer?: RequestObserver | undefined
  /**
   * Default: 6,000 requests a key, 64 of them at once; for workers 120,000 and 2,000; 300 failed attempts an
   * address.
   */
  readonly limits?: Partial<RateLimits> | undefined
  /** Days of history that are kept. Default 30. */
  readonly retentionDays?: number | undefined
  /** How long a close waits for requests under way. Default 12,000. */
  readonly closeWithinMs?: number | undefined
  /** Checks every answer against its schema: for tests. */
  readonly checkResponses?: boolean | undefined
}

export interface Api {
  /** For tests (`inject`) and for the OpenAPI document (`swagger`). */
  readonly app: FastifyInstance
  /** Answers the address, for example `http://127.0.0.1:7878`. Throws `in_use` or `invalid_config`. */
  listen(address: { host: string; port: number }): Promise<string>
  /** From now on new requests get `shutting_down` and their connection is closed. */
  drain(): void
  /** Drains, waits a limited time for requests under way, and closes. May be called twice. */
  close(): Promise<void>
}

const endpoints: Endpoints = {
  ...accessEndpoints,
  ...jobEndpoints,
  ...scheduleEndpoints,
  ...scheduleActionEndpoints,
  ...explanationEndpoints,
  ...backfillEndpoints,
  ...calendarEndpoints,
  ...runEndpoints,
  ...runBatchEndpoints,
  ...runCancelEndpoints,
  ...deadLetterEndpoints,
  ...limitEndpoints,
  ...queueStatsEndpoints,
  ...runInsightEndpoints,
  ...serverEndpoints,
  ...workerEndpoints,
  ...workflowEndpoints,
  ...workflowRunEndpoints,
  ...eventEndpoints,
  ...workflowActEndpoints,
  ...workflowExplanationEndpoints,
  ...workflowDecisionEndpoints,
}

const defaultLimits: RateLimits = {
  perKeyPerMinute: 6_000,
  perWorkerKeyPerMinute: 120_000,
  failuresPerMinute: 300,
  inFlightPerKey: 64,
  inFlightPerWorkerKey: 2_000,
}

const defaultStreamLimits: StreamLimits = {
  streamsPerKey: 50,
  streams: 2_000,
  streamHeartbeatMs: 15_000,
  streamLifeMs: 3_600_000,
}

const requestTimeoutMs = 30_000
const keepAliveMs = 72_000
/** Longer than a statement may take. */
const closeWithinMs = 12_000

export async function createApi(options: ApiOptions): Promise<Api> {
  let draining = false
  const app = openApp(options.logger)
  const endConnections = watchConnections(app, options.closeWithinMs ?? closeWithinMs)
  takeJsonBodies(app)
  takeWholeBodies(app)
  answerTheRest(app)
  await frameRequests(app, { observer: options.observer, draining: () => draining })
  const limits = { ...defaultLimits, ...options.limits }
  await guardRoutes(app, { authenticator: options.authenticator, limits })
  const streamLimits = { ...defaultStreamLimits, ...options.streamLimits }
  const streams = createOpenStreams(options.authenticator, streamLimits)
  await describeApi(app, options.version)
  const { ids, tags, mint, zones, catalog, retentionDays = 30 } = options
  registerRoutes(app, {
    catalog,
    endpoints,
    tools: {
      version: options.version,
      ids,
      tags,
      mint,
      zones,
      retentionDays,
      checkTarget: targetCheck(options.egress),
    },
    makeKnown: makeKnown(options),
    gate: options.gate,
    watcher: options.watcher,
    streams,
    streamHeartbeatMs: streamLimits.streamHeartbeatMs,
    inFlightPerKey: limits.inFlightPerKey,
    inFlightPerWorkerKey: limits.inFlightPerWorkerKey,
    checkResponses: options.checkResponses ?? false,
  })
  serveDescription(app)
  app.get('/', { config: { access: 'public' }, schema: { hide: true } }, async () => ({
    name: 'belfry',
    version: options.version,
    api: '/v1',
    openapi: '/v1/openapi.json',
  }))
  await app.ready()

  const drain = (): void => {
    draining = true
    options.gate.drain()
    streams.close()
    options.watcher.close()
  }
  return {
    app,
    drain,
    listen: (address) =>
      app.listen(address).catch((error: unknown) => Promise.reject(listenFault(error, address))),
    async close() {
      drain()
      endConnections()
      await app.close()
    },
  }
}

function openApp(logger: FastifyBaseLogger | undefined): FastifyInstance {
  const common = {
    bodyLimit: maxBodyBytes,
    requestTimeout: requestTimeoutMs,
    keepAliveTimeout: keepAliveMs,
    // plugins/request-frame.ts logs each answer once
    logController: new LogController({ disableRequestLogging: true, requestIdLogLabel: 'requestId' }),
    genReqId: requestIdOf,
    requestIdHeader: false as const,
    // whatever stands in a path goes to the route's own check, which says what is wrong
    routerOptions: { maxParamLength: 1_000_000 },
    // ours says the same as a problem
    return503OnClosing: false,
    forceCloseConnections: 'idle' as const,
    clientErrorHandler: refuseRawRequest,
    frameworkErrors: (error: unknown, request: FastifyRequest, reply: FastifyReply) => {
      void reply.header('x-request-id', request.id)
      void sendProblem(error, request, reply)
    },
  }
  return logger === undefined
    ? Fastify({ ...common, logger: false })
    : Fastify({ ...common, loggerInstance: logger })
}

function targetCheck({ checkTargetUrl, checkTargetHeaders }: ApiOptions['egress']) {
  return (handler: JobDefinition['handler']): void => {
    if (handler.kind === 'function') return
    const urlFault = checkTargetUrl(handler.url)
    const faults = [...(urlFault === undefined ? [] : [urlFault]), ...checkTargetHeaders(handler.headers)]
    if (faults.length === 0) return
    const errors = faults.map(({ pointer, message }) => ({ pointer, message }))
    const words = errors.map(({ pointer, message }) => `${pointer} ${message}`).join('; ')
    throw new BelfryError('invalid_target', `The target is not allowed: ${words}.`, { errors })
  }
}

function makeKnown({ hints, events, authenticator }: ApiOptions): (effect: Effect) => void {
  return (effect) => {
    if (effect.kind === 'hint') hints.publish(effect.hint)
    else if (effect.kind === 'key_revoked') authenticator.forget(effect.keyId)
    else if (effect.kind === 'fired')
      events.emit('occurrences_fired', { outcomes: effect.outcomes, durationMs: null })
    else events.emit('runs_enqueued', { count: effect.count, queue: effect.queue, source: effect.source })
  }
}

function listenFault(error: unknown, { host, port }: { host: string; port: number }): Error {
  const code = error instanceof Error ? (error as { code?: unknown }).code : undefined
  if (code === 'EADDRINUSE') {
    return new BelfryError(
      'in_use',
      `Port ${port} on ${host} is in use; choose another one, or stop what uses it.`,
      { cause: error },
    )
  }
  if (code === 'EACCES' || code === 'EADDRNOTAVAIL') {
    return new BelfryError(
      'invalid_config',
      `Belfry cannot listen on ${host}:${port} (${code}); choose another address.`,
      { cause: error },
    )
  }
  return error instanceof Error ? error : new Error(String(error))
}

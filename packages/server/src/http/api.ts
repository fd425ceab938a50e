/**
 * The HTTP API: everything that is served on the API port, made of the contract's routes and the parts that
 * compose hands in. One `createApi`, then `listen`; on the way down `drain` (new requests are refused) and
 * `close` (those under way end).
 */
import type { JobDefinition } from '@belfry/contract'
import { BelfryError, maxBodyBytes } from '@belfry/contract'
import Fastify, { LogController } from 'fastify'
import type { FastifyBaseLogger, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { ContainerPolicy } from '../domain/container/container-policy.ts'
import { handlerFaults } from '../domain/egress/handler-faults.ts'
import { lambdaFaults } from '../domain/lambda-policy.ts'
import type { CallbackGate } from '../engine/callbacks/callback-gate.ts'
import type { FairTags } from '../engine/fair-tags.ts'
import { type QuotaKeeper, withoutQuotas } from '../engine/quotas/quota-keeper.ts'
import type { RunWatcher } from '../engine/run-watcher.ts'
import type { WorkerGate } from '../engine/workers/worker-gate.ts'
import type { AuditNotes } from '../ports/audit.ts'
import type { Catalog } from '../ports/catalog.ts'
import type { Authenticator, KeyMint, KnownKeys } from '../ports/credentials.ts'
import type { EgressAgent } from '../ports/egress.ts'
import type { EventSink } from '../ports/event-sink.ts'
import type { SignIns, TokenMint } from '../ports/people.ts'
import type { Hints } from '../ports/hints.ts'
import type { Ids } from '../ports/ids.ts'
import type { RequestObserver } from '../ports/request-observer.ts'
import type { Vault } from '../ports/secrets.ts'
import type { ZoneSource } from '../ports/zones.ts'
import { createCallbackDesk } from './callback-desk.ts'
import type { Effect, Endpoints, LambdaFacts, Tools } from './endpoint.ts'
import { guardingHeaders } from './guarding-headers.ts'
import type { StreamLimits } from './open-streams.ts'
import { createHeldKeys } from './held-keys.ts'
import { createOpenStreams } from './open-streams.ts'
import { createPeopleDoor, type SignInLimits } from './people-door.ts'
import { guardRoutes } from './plugins/access.ts'
import type { RateLimits } from './plugins/access.ts'
import { recordRefusals } from './plugins/audit-refusals.ts'
import { answerTheRest, refuseRawRequest } from './plugins/fallbacks.ts'
import { takeJsonBodies } from './plugins/json-body.ts'
import { watchConnections } from './plugins/open-connections.ts'
import { describeApi, serveDescription } from './plugins/openapi.ts'
import { frameRequests, requestIdOf } from './plugins/request-frame.ts'
import { takeWholeBodies } from './plugins/whole-bodies.ts'
import { sendProblem } from './problem.ts'
import { registerRoutes } from './registry.ts'
import type { SessionCookies } from './session-cookies.ts'
import { accessEndpoints } from './routes/access.ts'
import { auditEndpoints } from './routes/audit.ts'
import { callbackEndpoints } from './routes/callbacks.ts'
import { backfillEndpoints } from './routes/backfills.ts'
import { calendarEndpoints } from './routes/calendars.ts'
import { deadLetterEndpoints } from './routes/dead-letters.ts'
import { explanationEndpoints } from './routes/explanations.ts'
import { jobEndpoints } from './routes/jobs.ts'
import { limitEndpoints } from './routes/limits.ts'
import { memberEndpoints } from './routes/members.ts'
import { oidcEndpoints } from './routes/oidc.ts'
import { personSessionEndpoints } from './routes/person-sessions.ts'
import { noContainers } from './check-container.ts'
import { containerEndpoints } from './routes/containers.ts'
import { quotaEndpoints } from './routes/quotas.ts'
import { queueStatsEndpoints } from './routes/queue-stats.ts'
import { runInsightEndpoints } from './routes/run-insight.ts'
import { runCancelEndpoints } from './routes/run-cancels.ts'
import { runBatchEndpoints } from './routes/run-batch.ts'
import { runEndpoints } from './routes/runs.ts'
import { scheduleActionEndpoints } from './routes/schedule-actions.ts'
import { scheduleEndpoints } from './routes/schedules.ts'
import { secretEndpoints } from './routes/secrets.ts'
import { serverEndpoints } from './routes/server.ts'
import { serviceAccountEndpoints } from './routes/service-accounts.ts'
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
  /** Takes what was refused. */
  readonly audit: AuditNotes
  /** Whom a refused key belongs to. */
  readonly knownKeys: KnownKeys
  readonly mint: KeyMint
  /** Seals what is stored as a secret. */
  readonly vault: Vault
  readonly zones: ZoneSource
  readonly ids: Ids
  readonly tags: Pick<FairTags, 'next' | 'ready'>
  readonly hints: Pick<Hints, 'publish'>
  readonly events: EventSink
  /** What workers outside reach of the engine. */
  readonly gate: WorkerGate
  /** Takes what targets report of runs that they took over. */
  readonly callbacks: CallbackGate
  /** Default: nothing of Lambda may be called. */
  readonly lambda?: LambdaFacts | undefined
  /** Proxies in front, as CIDRs, whose `X-Forwarded-For` is believed. Default: none. */
  readonly trustedProxies?: readonly string[] | undefined
  /** Makes the links of invitations. */
  readonly invites: TokenMint
  /** How people come in; left out: they do not. */
  readonly people?: PeopleOptions | undefined
  /** What `catalog` holds tenants to. Default: nothing. */
  /** What containers may be; left out: none are allowed. */
  readonly containers?: ContainerPolicy | undefined
  readonly quotas?: Pick<QuotaKeeper, 'defaults' | 'knownLimits' | 'forget'> | undefined
  /** Follows runs for those who wait for them. */
  readonly watcher: RunWatcher
  /** Default: 50 streams a key and 2,000 a process, a sign of life each 15 s, an hour at most. */
  readonly streamLimits?: Partial<Omit<StreamLimits, 'streamsOfTenant'>> | undefined
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

export interface PeopleOptions {
  readonly signIns: SignIns
  /** Undefined: this server keeps no session in a browser. */
  readonly cookies: SessionCookies | undefined
  readonly limits?: Partial<SignInLimits> | undefined
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
  ...callbackEndpoints,
  ...runEndpoints,
  ...runBatchEndpoints,
  ...runCancelEndpoints,
  ...auditEndpoints,
  ...deadLetterEndpoints,
  ...limitEndpoints,
  ...memberEndpoints,
  ...oidcEndpoints,
  ...personSessionEndpoints,
  ...containerEndpoints,
  ...quotaEndpoints,
  ...queueStatsEndpoints,
  ...runInsightEndpoints,
  ...secretEndpoints,
  ...serverEndpoints,
  ...serviceAccountEndpoints,
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

const defaultStreamLimits: Omit<StreamLimits, 'streamsOfTenant'> = {
  streamsPerKey: 50,
  streams: 2_000,
  streamHeartbeatMs: 15_000,
  streamLifeMs: 3_600_000,
}

const noLambda: LambdaFacts = { enabled: false, principal: null, functions: [], regions: [] }

const requestTimeoutMs = 30_000
const keepAliveMs = 72_000
/** Longer than a statement may take. */
const closeWithinMs = 12_000

export async function createApi(options: ApiOptions): Promise<Api> {
  let draining = false
  const app = openApp(options)
  const endConnections = watchConnections(app, options.closeWithinMs ?? closeWithinMs)
  takeJsonBodies(app)
  takeWholeBodies(app)
  answerTheRest(app)
  recordRefusals(app, { notes: options.audit, knownKeys: options.knownKeys })
  const cookies = options.people?.cookies
  const https = cookies?.secure ?? false
  await frameRequests(app, { observer: options.observer, draining: () => draining, https })
  const limits = { ...defaultLimits, ...options.limits }
  await guardRoutes(app, { authenticator: options.authenticator, limits, cookies })
  const { quotas = withoutQuotas } = options
  const streamLimits = {
    ...defaultStreamLimits,
    ...options.streamLimits,
    streamsOfTenant: (tenantId: string) => quotas.knownLimits(tenantId).streams,
  }
  const heldKeys = createHeldKeys(options.authenticator)
  const streams = createOpenStreams(heldKeys, streamLimits)
  await describeApi(app, options.version)
  registerRoutes(app, {
    catalog: options.catalog,
    audit: options.audit,
    endpoints,
    tools: toolsOf(options, quotas),
    makeKnown: makeKnown(options),
    gate: options.gate,
    publicServices: {
      people: options.people && createPeopleDoor({ ...options.people, nowMs: () => performance.now() }),
      callbacks: createCallbackDesk(options.callbacks, limits.failuresPerMinute),
      makeKnown: makeKnown(options),
    },
    watcher: options.watcher,
    streams,
    heldKeys,
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

/** What every endpoint may lean on. */
function toolsOf(options: ApiOptions, quotas: Tools['quotas']): Tools {
  const { version, ids, tags, mint, vault, invites, zones, retentionDays = 30, lambda = noLambda } = options
  return {
    version,
    ids,
    tags,
    mint,
    vault,
    invites,
    cookies: options.people?.cookies,
    zones,
    retentionDays,
    quotas,
    lambda,
    containers: options.containers ?? noContainers,
    checkTarget: targetCheck(options.egress, lambda),
  }
}

function openApp({ logger, trustedProxies = [] }: ApiOptions): FastifyInstance {
  const common = {
    bodyLimit: maxBodyBytes,
    // of anybody else the header says nothing: whoever likes can send it
    trustProxy: trustedProxies.length === 0 ? false : [...trustedProxies],
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
      void reply.headers({ ...guardingHeaders, 'x-request-id': request.id })
      void sendProblem(error, request, reply)
    },
  }
  return logger === undefined
    ? Fastify({ ...common, logger: false })
    : Fastify({ ...common, loggerInstance: logger })
}

function targetCheck(rules: ApiOptions['egress'], lambda: LambdaFacts) {
  return (handler: JobDefinition['handler']): void => {
    if (handler.kind !== 'http' && handler.kind !== 'lambda') return
    const faults = handler.kind === 'http' ? handlerFaults(handler, rules) : lambdaFaults(handler, lambda)
    const errors = faults.map(({ pointer, message }) => ({ pointer, message }))
    if (errors.length === 0) return
    const words = errors.map(({ pointer, message }) => `${pointer} ${message}`).join('; ')
    throw new BelfryError('invalid_target', `The target is not allowed: ${words}.`, { errors })
  }
}

function makeKnown({ hints, events, authenticator, quotas }: ApiOptions): (effect: Effect) => void {
  return (effect) => {
    if (effect.kind === 'hint') hints.publish(effect.hint)
    else if (effect.kind === 'key_revoked') authenticator.forget(effect.keyId)
    else if (effect.kind === 'principal_changed') authenticator.forget(effect.principalId)
    else if (effect.kind === 'quotas_set') quotas?.forget(effect.tenantId)
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

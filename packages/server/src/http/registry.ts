/**
 * Registers the contract's routes, each with the endpoint that answers it, and refuses to start if one has
 * none or one too many. A call goes: checked parts, one transaction (with the Idempotency-Key in it), answer,
 * and after the commit what is to be made known: hints, events, forgotten keys. Where the commit failed it
 * may have happened all the same, so hints, which are harmless, go out then too. A dry run makes nothing
 * known.
 *
 * Answers are written by JSON.stringify: it takes 45 µs for a page of 50 runs, where fast-json-stringify with
 * the contract's schema takes 220 µs and a parse by that schema 390 µs (Node 24). Tests check that answers
 * fit their schemas.
 */
import type { Route, RouteName } from '@belfry/contract'
import { BelfryError, routes } from '@belfry/contract'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { z } from 'zod'
import { Readable } from 'node:stream'
import type { RunWatcher } from '../engine/run-watcher.ts'
import type { WorkerGate } from '../engine/workers/worker-gate.ts'
import type { AuditNotes } from '../ports/audit.ts'
import type { Access, Catalog, CommonTx, IdempotencyKey, StoredAnswer } from '../ports/catalog.ts'
import type { Credential } from '../ports/credentials.ts'
import type { Visitor } from '../ports/people.ts'
import type { HeldKeys } from './held-keys.ts'
import type { OpenStreams } from './open-streams.ts'
import { streamHeaders } from './event-stream.ts'
import type { BusyKeys } from './busy-keys.ts'
import { createBusyKeys } from './busy-keys.ts'
import type {
  Answer,
  Asked,
  Effect,
  Endpoint,
  Endpoints,
  PublicAnswer,
  PublicServices,
  StreamCall,
  Tools,
  WatchCall,
} from './endpoint.ts'
import { callerOf, noteReading, recordCall } from './audit-calls.ts'
import { etagOf } from './etag.ts'
import { fingerprintOf, keptAnswer, onceOnly } from './idempotency.ts'
import { withKnownLanes } from './known-lanes.ts'
import { schemaOf } from './plugins/openapi.ts'
import { refuseUnread, validatePart } from './validation.ts'

/** What a stream holds for a slow reader, besides the page under way. */
const bufferedBytes = 64 * 1024
const busyRetrySeconds = 5

export interface RegistryOptions {
  readonly catalog: Catalog
  readonly tools: Tools
  /** For readings that are worth an entry. */
  readonly audit: AuditNotes
  readonly endpoints: Endpoints
  /** Called for each effect of a call, after its commit. Must not throw. */
  readonly makeKnown: (effect: Effect) => void
  readonly gate: WorkerGate
  readonly publicServices: PublicServices
  readonly watcher: RunWatcher
  readonly streams: OpenStreams
  readonly heldKeys: HeldKeys
  readonly streamHeartbeatMs: number
  /** Requests of one key that are answered at the same time, at most. */
  readonly inFlightPerKey: number
  /** The same for workers, most of whose requests wait and hold nothing. */
  readonly inFlightPerWorkerKey: number
  /** Checks every answer against its schema: for tests. */
  readonly checkResponses: boolean
}

export function registerRoutes(app: FastifyInstance, options: RegistryOptions): void {
  const missing = Object.keys(routes).filter((name) => !Object.hasOwn(options.endpoints, name))
  const extra = Object.keys(options.endpoints).filter((name) => !Object.hasOwn(routes, name))
  if (missing.length > 0 || extra.length > 0) {
    const words = [`Routes without an endpoint: ${missing.join(', ') || 'none'}`]
    words.push(`endpoints without a route: ${extra.join(', ') || 'none'}.`)
    throw new BelfryError('internal', words.join('; '))
  }
  app.setValidatorCompiler<z.ZodType>(({ schema, httpPart }) => (data: unknown) => {
    // A body that was left out counts as an empty object: whatever it lacks is then named.
    const given = httpPart === 'body' ? (data ?? {}) : data
    return validatePart(schema, httpPart ?? 'body', given)
  })
  app.setSerializerCompiler<z.ZodType>(({ schema }) => (data) => {
    if (options.checkResponses) schema.parse(data)
    return JSON.stringify(data)
  })
  const busy = createBusyKeys(options.inFlightPerKey)
  const busyWorkers = createBusyKeys(options.inFlightPerWorkerKey)
  // what waits holds nothing, so as many may wait as workers do
  const busyWaits = createBusyKeys(options.inFlightPerWorkerKey)
  for (const name of Object.keys(routes) as RouteName[])
    registerRoute(app, name, options.endpoints, options, { busy, busyWorkers, busyWaits })
}

function registerRoute<Name extends RouteName>(
  app: FastifyInstance,
  name: Name,
  endpoints: Pick<Endpoints, Name>,
  options: Omit<RegistryOptions, 'endpoints'>,
  { busy, busyWorkers, busyWaits }: Readonly<Record<'busy' | 'busyWorkers' | 'busyWaits', BusyKeys>>,
): void {
  const route: Route = routes[name]
  app.route({
    method: route.method,
    url: route.path,
    ...(route.bodyBytes === undefined ? {} : { bodyLimit: route.bodyBytes }),
    config: { access: route.permission, routeName: name },
    schema: schemaOf(name, route),
    handler: async (request, reply) => {
      refuseUnread(route, request)
      const known = endpoints[name]
      if (known.as === 'public') {
        const parts = { ...partsOf<Name>(request), request, visitor: visitorOf(request) }
        return sendPublic(reply, route, await known.answer({ ...parts, services: options.publicServices }))
      }
      const credential = credentialOf(request)
      const asked = { credential, ...partsOf<Name>(request), ifMatch: request.headers['if-match'] }
      const endpoint: Exclude<Endpoint<Name>, { readonly as: 'public' }> = known
      if (endpoint.as === 'person') {
        const call = { ...asked, visitor: visitorOf(request), services: options.publicServices }
        const answer = await busy.during(credential.keyId, () => endpoint.answer(call))
        return sendPublic(reply, route, answer)
      }
      if (endpoint.as === 'worker') {
        const answer = await whileKeyHolds(options.heldKeys, asker(request, route, credential), (refused) => {
          const call = { ...asked, gate: options.gate, signal: AbortSignal.any([goneSignal(reply), refused]) }
          return busyWorkers.during(credential.keyId, () => endpoint.answer(call))
        })
        return send(reply, route, answer)
      }
      if (endpoint.as === 'waiting') {
        const answer = await whileKeyHolds(options.heldKeys, asker(request, route, credential), (refused) => {
          const call = watchCall(asked, route, options, reply)
          const signal = AbortSignal.any([call.signal, refused])
          return busyWaits.during(credential.keyId, () => endpoint.answer({ ...call, signal }))
        })
        options.catalog.saw?.(credential.keyId)
        return send(reply, route, answer)
      }
      if (endpoint.as === 'stream') {
        // who asks for the head alone would wait for the end of the stream
        if (request.method === 'HEAD') return reply.headers(streamHeaders).send('')
        reply.raw.once('close', () => options.catalog.saw?.(credential.keyId))
        return stream(reply, endpoint, streamCall(asked, route, options, request, reply))
      }
      const access = {
        ...accessOf(route, asked.query, credential),
        mayLag: lagOf(route, request, reply),
        caller: callerOf(request, credential),
      }
      const key = keyOf(route, name, request, access)
      const result = await busy.during(credential.keyId, () =>
        answerOnce(name, endpoint, options, access, asked, key),
      )
      if ('replayed' in result) return replay(reply, result.replayed)
      if (access.readOnly) noteReading(options.audit, name, access, { ...asked, answer: result.result })
      return send(reply, route, result.result)
    },
  })
}

async function answerOnce<Name extends RouteName>(
  name: Name,
  endpoint: Exclude<Endpoint<Name>, { readonly as: 'worker' | 'waiting' | 'stream' | 'public' | 'person' }>,
  options: Pick<RegistryOptions, 'catalog' | 'tools' | 'makeKnown'>,
  access: Access,
  asked: Asked<Name>,
  key: IdempotencyKey | undefined,
): Promise<{ readonly result: Answer<Name> } | { readonly replayed: StoredAnswer }> {
  const { catalog, tools, makeKnown } = options
  const looking = { ...access, readOnly: true }
  const chosen =
    endpoint.as === 'chosen'
      ? await endpoint.choose(asked, {
          tools,
          lookWithin: (work) => catalog.within(looking, work),
          lookWithinPlatform: (work) => catalog.withinPlatform(looking, work),
        })
      : endpoint
  const effects: Effect[] = []
  const after = (effect: Effect) => void effects.push(effect)
  let worked = false
  const once = async (tx: CommonTx, work: () => Promise<Answer<Name>>) => {
    const answer = async () => {
      const result = await work()
      // a reading that is worth an entry is noted beside its call: this transaction writes nothing
      if (!access.readOnly) recordCall(tx, name, { ...asked, answer: result })
      return result
    }
    const outcome =
      key === undefined ? { result: await answer() } : await onceOnly(tx, key, keeping(name, answer))
    worked = true
    return outcome
  }
  try {
    const outcome = await withKnownLanes(tools.tags, (tags) => {
      effects.length = 0
      const call = { ...asked, tools: { ...tools, tags }, after }
      return chosen.as === 'platform'
        ? catalog.withinPlatform(access, (tx) => once(tx, () => chosen.answer({ ...call, tx })))
        : catalog.within(access, (tx) => {
            chosen.ahead?.({ tx, body: call.body })
            return once(tx, () => chosen.answer({ ...call, tx }))
          })
    })
    if (!access.dryRun) effects.forEach(makeKnown)
    return outcome
  } catch (error) {
    // The work was done and only its commit failed: it may be stored.
    const facts = new Set(['enqueued', 'fired'])
    if (worked && !access.dryRun) effects.filter(({ kind }) => !facts.has(kind)).forEach(makeKnown)
    throw error
  }
}

/** Fires when the connection ends before the answer was sent. */
function goneSignal({ raw }: FastifyReply): AbortSignal {
  const gone = new AbortController()
  raw.once('close', () => {
    if (!raw.writableFinished) gone.abort()
  })
  return gone.signal
}

function watchCall<Name extends RouteName>(
  asked: Asked<Name>,
  route: Route,
  { catalog, watcher }: Pick<RegistryOptions, 'catalog' | 'watcher'>,
  reply: FastifyReply,
): WatchCall<Name> {
  const access = accessOf(route, asked.query, asked.credential)
  return { ...asked, watcher, signal: goneSignal(reply), within: (work) => catalog.within(access, work) }
}

function streamCall<Name extends RouteName>(
  asked: Asked<Name>,
  route: Route,
  options: Pick<RegistryOptions, 'catalog' | 'watcher' | 'streams' | 'streamHeartbeatMs'>,
  request: FastifyRequest,
  reply: FastifyReply,
): StreamCall<Name> {
  const call = watchCall(asked, route, options, reply)
  const id = request.headers['last-event-id']
  const whose = asker(request, route, asked.credential)
  return {
    ...call,
    lastEventId: typeof id === 'string' ? id : undefined,
    heartbeatMs: options.streamHeartbeatMs,
    open: () => options.streams.open(whose, call.signal),
  }
}

/** Who goes on to be looked at while his request is open. */
const asker = (request: FastifyRequest, { permission }: Route, { keyId, tenantId }: Credential) => ({
  keyId,
  tenantId,
  key: request.credentialText ?? '',
  permission: permission === 'any_key' || permission === 'public' ? ('run.read' as const) : permission,
})

/**
 * A call that may wait, ended where its key is refused meanwhile: with that, whatever it would have
 * answered.
 */
async function whileKeyHolds<T>(
  heldKeys: HeldKeys,
  { key, permission }: Pick<ReturnType<typeof asker>, 'key' | 'permission'>,
  work: (refused: AbortSignal) => Promise<T>,
): Promise<T> {
  const refused = new AbortController()
  const release = heldKeys.hold({ key, permission, refused: () => refused.abort() })
  try {
    const answer = await work(refused.signal)
    if (!refused.signal.aborted) return answer
  } finally {
    release()
  }
  throw new BelfryError(
    'unauthenticated',
    'The API key was revoked, or lost its rights, while this call waited.',
  )
}

/** The events are made as the connection takes them. */
async function stream<Name extends RouteName>(
  reply: FastifyReply,
  endpoint: Extract<Endpoint<Name>, { readonly as: 'stream' }>,
  call: StreamCall<Name>,
): Promise<FastifyReply> {
  const { stream: held, events } = await endpoint.answer(call).catch((error: unknown) => {
    if (error instanceof BelfryError && error.code === 'too_many_requests')
      void reply.header('retry-after', String(busyRetrySeconds))
    throw error
  })
  const body = Readable.from(events, { objectMode: false, highWaterMark: bufferedBytes })
  body.once('close', () => held.release())
  return reply.headers(streamHeaders).send(body)
}

/** The answer together with what an Idempotency-Key keeps of it. */
function keeping<Name extends RouteName>(name: Name, answer: () => Promise<Answer<Name>>) {
  return async () => {
    const result = await answer()
    const body = 'keptBody' in result ? result.keptBody : result.body
    return { result, kept: keptAnswer(statusOf(routes[name], result), headersOf(result), body) }
  }
}

function visitorOf({ ip, headers, id }: FastifyRequest): Visitor {
  const userAgent = (headers['user-agent'] ?? '').replaceAll(/[^\x20-\x7e]/g, '?').slice(0, 256)
  return { address: ip.slice(0, 64), userAgent, requestId: id }
}

function credentialOf(request: FastifyRequest): Credential {
  const { credential } = request
  if (credential === null)
    throw new BelfryError(
      'unauthenticated',
      'No API key was given; send it as "Authorization: Bearer bfy_…".',
    )
  return credential
}

/** The parts of a request; the validator has checked them against the schemas that their types come from. */
function partsOf<Name extends RouteName>({ params, query, body }: FastifyRequest) {
  return { params, query, body } as Pick<Asked<Name>, 'params' | 'query' | 'body'>
}

function accessOf(route: Route, query: unknown, { tenantId, keyId }: Credential): Access {
  const dryRun = typeof query === 'object' && query !== null && 'dryRun' in query && query.dryRun === true
  return { tenantId, dryRun, readOnly: route.effect === 'none', readerId: keyId }
}

/**
 * Lists may come from a replica, and then say how old they are at most, unless they are asked for as of now.
 * What is looked at by its id, and what is decided by, is always as of now.
 */
function lagOf(route: Route, { headers }: FastifyRequest, reply: FastifyReply): Access['mayLag'] {
  const isList = route.effect === 'none' && route.query !== undefined && 'cursor' in route.query.shape
  // the chain is judged by what the server says that it has
  if (!isList || route.path === '/v1/audit/export' || /\bno-cache\b/i.test(headers['cache-control'] ?? ''))
    return undefined
  return (lagMs) => void reply.header('belfry-read-lag-ms', String(Math.ceil(lagMs)))
}

function keyOf(
  route: Route,
  name: string,
  request: FastifyRequest,
  access: Access,
): IdempotencyKey | undefined {
  const key = request.headers['idempotency-key']
  if (route.effect !== 'create' || typeof key !== 'string' || access.dryRun) return undefined
  const keyedBy = name === 'secretCreate' ? (request.credentialText ?? '') : undefined
  const fingerprint = fingerprintOf({ route: name, params: request.params, body: request.body }, keyedBy)
  return { apiKeyId: credentialOf(request).keyId, key, fingerprint }
}

function headersOf({
  version,
  location,
}: Pick<Answer<RouteName>, 'version' | 'location'>): Record<string, string> {
  return {
    ...(version === undefined ? {} : { etag: etagOf(version) }),
    ...(location === undefined ? {} : { location }),
  }
}

const statusOf = (route: Route, { joined = false }: Pick<Answer<RouteName>, 'joined'>): number =>
  joined ? (route.joinedStatus ?? route.status) : route.status

function send(reply: FastifyReply, route: Route, answer: Answer<RouteName>): FastifyReply {
  const headers = headersOf(answer)
  if (route.status !== 201) delete headers['location']
  void reply.status(statusOf(route, answer)).headers({ ...headers, ...answer.headers })
  return route.response === undefined ? reply.send() : reply.send(answer.body)
}

function sendPublic(
  reply: FastifyReply,
  route: Route,
  { body, headers = {} }: PublicAnswer<RouteName>,
): FastifyReply {
  void reply.status(route.status).headers(headers)
  return route.response === undefined ? reply.send() : reply.send(body)
}

function replay(reply: FastifyReply, { status, headers, body }: StoredAnswer): FastifyReply {
  return reply
    .status(status)
    .headers({ ...headers, 'idempotency-replayed': 'true' })
    .send(body)
}

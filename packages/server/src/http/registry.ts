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
import type { Access, Catalog, CommonTx, IdempotencyKey, StoredAnswer } from '../ports/catalog.ts'
import type { Credential } from '../ports/credentials.ts'
import type { OpenStreams } from './open-streams.ts'
import { streamHeaders } from './event-stream.ts'
import type { BusyKeys } from './busy-keys.ts'
import { createBusyKeys } from './busy-keys.ts'
import type { Answer, Asked, Effect, Endpoint, Endpoints, StreamCall, Tools, WatchCall } from './endpoint.ts'
import { etagOf } from './etag.ts'
import { fingerprintOf, keptAnswer, onceOnly } from './idempotency.ts'
import { withKnownLanes } from './known-lanes.ts'
import { keyOfHeader } from './plugins/access.ts'
import { schemaOf } from './plugins/openapi.ts'
import { invalidRequest, validatePart } from './validation.ts'

/** What a stream holds for a slow reader, besides the page under way. */
const bufferedBytes = 64 * 1024
const busyRetrySeconds = 5

export interface RegistryOptions {
  readonly catalog: Catalog
  readonly tools: Tools
  readonly endpoints: Endpoints
  /** Called for each effect of a call, after its commit. Must not throw. */
  readonly makeKnown: (effect: Effect) => void
  readonly gate: WorkerGate
  readonly watcher: RunWatcher
  readonly streams: OpenStreams
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
    config: { access: route.scope, routeName: name },
    schema: schemaOf(name, route),
    handler: async (request, reply) => {
      const credential = credentialOf(request)
      if (route.body === undefined && request.body !== undefined) {
        throw invalidRequest([{ pointer: '', message: 'must be empty: this route takes no body' }])
      }
      const asked = { credential, ...partsOf<Name>(request), ifMatch: request.headers['if-match'] }
      const endpoint: Endpoint<Name> = endpoints[name]
      if (endpoint.as === 'worker') {
        const call = { ...asked, gate: options.gate, signal: goneSignal(reply) }
        return send(reply, route, await busyWorkers.during(credential.keyId, () => endpoint.answer(call)))
      }
      if (endpoint.as === 'waiting') {
        const call = watchCall(asked, route, options, reply)
        const answer = await busyWaits.during(credential.keyId, () => endpoint.answer(call))
        options.catalog.saw?.(credential.keyId)
        return send(reply, route, answer)
      }
      if (endpoint.as === 'stream') {
        // who asks for the head alone would wait for the end of the stream
        if (request.method === 'HEAD') return reply.headers(streamHeaders).send('')
        reply.raw.once('close', () => options.catalog.saw?.(credential.keyId))
        return stream(reply, endpoint, streamCall(asked, route, options, request, reply))
      }
      const access = { ...accessOf(route, asked.query, credential), mayLag: lagOf(route, request, reply) }
      const key = keyOf(route, name, request, access)
      const result = await busy.during(credential.keyId, () =>
        answerOnce(name, endpoint, options, access, asked, key),
      )
      return 'replayed' in result ? replay(reply, result.replayed) : send(reply, route, result.result)
    },
  })
}

async function answerOnce<Name extends RouteName>(
  name: Name,
  endpoint: Exclude<Endpoint<Name>, { readonly as: 'worker' | 'waiting' | 'stream' }>,
  options: Pick<RegistryOptions, 'catalog' | 'tools' | 'makeKnown'>,
  access: Access,
  asked: Asked<Name>,
  key: IdempotencyKey | undefined,
): Promise<{ readonly result: Answer<Name> } | { readonly replayed: StoredAnswer }> {
  const { catalog, tools, makeKnown } = options
  const chosen = endpoint.as === 'chosen' ? endpoint.choose(asked) : endpoint
  const effects: Effect[] = []
  const after = (effect: Effect) => void effects.push(effect)
  let worked = false
  const once = async (tx: CommonTx, answer: () => Promise<Answer<Name>>) => {
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
  { headers }: FastifyRequest,
  reply: FastifyReply,
): StreamCall<Name> {
  const call = watchCall(asked, route, options, reply)
  const { scope } = route
  const id = headers['last-event-id']
  const asker = {
    keyId: asked.credential.keyId,
    key: keyOfHeader(headers.authorization) ?? '',
    scope: scope === 'any_key' ? ('read' as const) : scope,
  }
  return {
    ...call,
    lastEventId: typeof id === 'string' ? id : undefined,
    heartbeatMs: options.streamHeartbeatMs,
    open: () => options.streams.open(asker, call.signal),
  }
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
  if (!isList || /\bno-cache\b/i.test(headers['cache-control'] ?? '')) return undefined
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
  const fingerprint = fingerprintOf({ route: name, params: request.params, body: request.body })
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
  void reply.status(statusOf(route, answer)).headers(headers)
  return route.response === undefined ? reply.send() : reply.send(answer.body)
}

function replay(reply: FastifyReply, { status, headers, body }: StoredAnswer): FastifyReply {
  return reply
    .status(status)
    .headers({ ...headers, 'idempotency-replayed': 'true' })
    .send(body)
}

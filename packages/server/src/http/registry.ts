/**
 * Registers the contract's routes, each with the endpoint that answers it, and refuses to start if one has
 * none or one too many. A call goes: checked parts, one transaction (with the Idempotency-Key in it), answer,
 * and after the commit what is to be made known: hints, events, forgotten keys. A dry run makes nothing
 * known.
 */
import type { Route, RouteName } from '@belfry/contract'
import { BelfryError, routes } from '@belfry/contract'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { z } from 'zod'
import type { Access, Catalog, CommonTx, IdempotencyKey, StoredAnswer } from '../ports/catalog.ts'
import type { Credential } from '../ports/credentials.ts'
import type { Answer, Asked, Effect, Endpoints, Tools } from './endpoint.ts'
import { etagOf } from './etag.ts'
import { fingerprintOf, keptAnswer, onceOnly } from './idempotency.ts'
import { schemaOf } from './plugins/openapi.ts'
import { invalidRequest, validatePart } from './validation.ts'

export interface RegistryOptions {
  readonly catalog: Catalog
  readonly tools: Tools
  readonly endpoints: Endpoints
  /** Called for each effect of a call, after its commit. Must not throw. */
  readonly makeKnown: (effect: Effect) => void
  /** Checks every answer against its schema: for tests. */
  readonly checkResponses: boolean
}

/** The parts of an endpoint that the registry needs, whatever the route. */
type AnyTx = CommonTx
type AnyAnswer = { body: unknown; version?: number; location?: string; keptBody?: unknown }
type AnyEndpoint = {
  readonly as: 'tenant' | 'platform' | 'chosen'
  readonly choose?: (asked: unknown) => AnyEndpoint
  readonly answer?: (call: unknown) => Promise<AnyAnswer>
}

export function registerRoutes(app: FastifyInstance, options: RegistryOptions): void {
  const missing = Object.keys(routes).filter((name) => !Object.hasOwn(options.endpoints, name))
  const extra = Object.keys(options.endpoints).filter((name) => !Object.hasOwn(routes, name))
  if (missing.length > 0 || extra.length > 0) {
    const words = [`Routes without an endpoint: ${missing.join(', ') || 'none'}`]
    words.push(`endpoints without a route: ${extra.join(', ') || 'none'}.`)
    throw new BelfryError('internal', words.join('; '))
  }
  app.setValidatorCompiler(({ schema, httpPart }) => (data: unknown) => {
    // A body that was left out counts as an empty object: whatever it lacks is then named.
    const given = httpPart === 'body' ? (data ?? {}) : data
    return validatePart(schema as unknown as z.ZodType, httpPart ?? 'body', given)
  })
  app.setSerializerCompiler(({ schema }) => (data) => {
    if (options.checkResponses && 'safeParse' in schema) (schema as unknown as z.ZodType).parse(data)
    return JSON.stringify(data)
  })
  for (const name of Object.keys(routes) as RouteName[]) registerRoute(app, name, options)
}

function registerRoute(app: FastifyInstance, name: RouteName, options: RegistryOptions): void {
  const route: Route = routes[name]
  const endpoint = options.endpoints[name] as unknown as AnyEndpoint
  app.route({
    method: route.method,
    url: route.path,
    config: { access: route.scope, routeName: name },
    schema: schemaOf(name, route),
    handler: async (request, reply) => {
      const credential = credentialOf(request)
      if (route.body === undefined && request.body !== undefined) {
        throw invalidRequest([{ pointer: '', message: 'must be empty: this route takes no body' }])
      }
      const asked: Asked<RouteName> = {
        credential,
        params: request.params as never,
        query: request.query as never,
        body: request.body as never,
        ifMatch: request.headers['if-match'],
      }
      const access = accessOf(route, request, credential)
      const result = await answerOnce({
        name,
        route,
        endpoint,
        options,
        access,
        asked,
        key: keyOf(route, name, request, access),
      })
      return 'replayed' in result ? replay(reply, result.replayed) : send(reply, route, result.result)
    },
  })
}

interface OneCall {
  readonly name: RouteName
  readonly route: Route
  readonly endpoint: AnyEndpoint
  readonly options: RegistryOptions
  readonly access: Access
  readonly asked: Asked<RouteName>
  readonly key: IdempotencyKey | undefined
}

async function answerOnce(one: OneCall) {
  const { endpoint, options, access, asked, key, route } = one
  const chosen = endpoint.as === 'chosen' ? endpoint.choose?.(asked) : endpoint
  if (chosen?.answer === undefined)
    throw new BelfryError('internal', `The endpoint ${one.name} answers nothing.`)
  const { answer } = chosen
  const effects: Effect[] = []
  const work = async (tx: AnyTx) => {
    const call = { ...asked, tx, tools: options.tools, after: (effect: Effect) => void effects.push(effect) }
    if (key === undefined) return { result: await answer(call) }
    return onceOnly(tx, key, async () => {
      const result = await answer(call)
      const kept = keptAnswer(
        route.status,
        headersOf(result),
        'keptBody' in result ? result.keptBody : result.body,
      )
      return { result, kept }
    })
  }
  const outcome =
    chosen.as === 'platform'
      ? await options.catalog.withinPlatform(access, work)
      : await options.catalog.within(access, work)
  if (!access.dryRun) for (const effect of effects) options.makeKnown(effect)
  return outcome
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

function accessOf(route: Route, request: FastifyRequest, { tenantId }: Credential): Access {
  const { dryRun } = request.query as { dryRun?: boolean }
  return { tenantId, dryRun: dryRun === true, readOnly: route.effect === 'none' }
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

function send(reply: FastifyReply, route: Route, answer: AnyAnswer): FastifyReply {
  const headers = headersOf(answer)
  if (route.status !== 201) delete headers['location']
  void reply.status(route.status).headers(headers)
  return route.response === undefined ? reply.send() : reply.send(answer.body)
}

function replay(reply: FastifyReply, { status, headers, body }: StoredAnswer): FastifyReply {
  return reply
    .status(status)
    .headers({ ...headers, 'idempotency-replayed': 'true' })
    .send(body)
}

/**
 * Who may pass. Deny is the default: a route says which scope it needs or that it is public, and one that
 * says neither cannot be registered. The key is checked before the body is read. Requests are counted by key;
 * failed attempts to authenticate by address. From an address with too many of them only keys that proved
 * right here lately are looked up: others behind the same proxy go on, and guesses cost no query.
 */
import type { Scope } from '@belfry/contract'
import { BelfryError, scopeAllows } from '@belfry/contract'
import rateLimit from '@fastify/rate-limit'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Authenticator, Credential } from '../../ports/credentials.ts'
import type { FailedAttempts } from '../failed-attempts.ts'
import { createFailedAttempts } from '../failed-attempts.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** What a key needs to call this route; `public` needs none. */
    access?: Scope | 'any_key' | 'public'
    /** The name of the route in the contract. */
    routeName?: string
  }
  interface FastifyRequest {
    credential: Credential | null
  }
}

export interface RateLimits {
  /** Requests that a key may make in a minute, to one process. */
  readonly perKeyPerMinute: number
  /** The same of the routes that workers call. */
  readonly perWorkerKeyPerMinute: number
  /** Failed attempts to authenticate in a minute, from one address. */
  readonly failuresPerMinute: number
  /** Requests of one key that are answered at the same time, by one process. */
  readonly inFlightPerKey: number
  readonly inFlightPerWorkerKey: number
}

export async function guardRoutes(
  app: FastifyInstance,
  options: { authenticator: Authenticator; limits: RateLimits },
): Promise<void> {
  const { authenticator, limits } = options
  app.addHook('onRoute', (route) => {
    if (route.config?.access !== undefined) return
    throw new Error(
      `The route ${String(route.method)} ${route.url} says neither a scope nor that it is public.`,
    )
  })
  app.decorateRequest('credential', null)
  await app.register(rateLimit, { global: false, timeWindow: 60_000, cache: 10_000 })
  const byKey = app.createRateLimit({
    max: limits.perKeyPerMinute,
    keyGenerator: (request) => request.credential?.keyId ?? request.ip,
  })
  const byWorkerKey = app.createRateLimit({
    max: limits.perWorkerKeyPerMinute,
    keyGenerator: (request) => `worker ${request.credential?.keyId ?? request.ip}`,
  })
  const failures = createFailedAttempts({
    limit: limits.failuresPerMinute,
    nowMs: () => performance.now(),
  })

  app.addHook('onRequest', async (request, reply) => {
    const { access } = request.routeOptions.config
    if (request.is404 || access === 'public' || access === undefined) return
    const credential = await authenticate(authenticator, failures, request, reply)
    request.credential = credential
    const counted = await (access === 'worker' ? byWorkerKey : byKey)(request)
    if (!counted.isAllowed && counted.isExceeded)
      throw tooMany(reply, counted.ttlInSeconds, 'requests with this key')
    if (access !== 'any_key' && !scopeAllows(credential.scopes, access)) {
      const own = credential.scopes.join(', ')
      const message = `This needs a key with the scope "${access}"; yours has ${own}.`
      throw new BelfryError('forbidden', message)
    }
  })
}

/** The key in `Authorization: Bearer bfy_…`. */
export const keyOfHeader = (header: string | undefined): string | undefined =>
  /^Bearer +(\S+) *$/i.exec(header ?? '')?.[1]

async function authenticate(
  authenticator: Authenticator,
  failures: FailedAttempts,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<Credential> {
  const header = request.headers.authorization
  const key = keyOfHeader(header)
  const credential = await look(authenticator, failures, key, request.ip, reply)
  if (credential !== undefined) return credential
  void reply.header('www-authenticate', 'Bearer realm="belfry"')
  const message =
    header === undefined
      ? 'No API key was given; send it as "Authorization: Bearer bfy_…".'
      : 'The API key is unknown, wrong, revoked or expired; send a valid one ("Authorization: Bearer bfy_…").'
  throw new BelfryError('unauthenticated', message)
}

/** Looks the key up, unless the address has used up its attempts. */
async function look(
  authenticator: Authenticator,
  failures: FailedAttempts,
  key: string | undefined,
  address: string,
  reply: FastifyReply,
): Promise<Credential | undefined> {
  if (key !== undefined && authenticator.provedLately(key)) return authenticator.authenticate(key)
  const refused = failures.begin(address)
  if (refused !== undefined) throw tooMany(reply, Math.ceil(refused.waitMs / 1_000), 'failed attempts')
  if (key === undefined) return undefined
  try {
    const credential = await authenticator.authenticate(key)
    if (credential !== undefined) failures.takeBack(address)
    return credential
  } catch (error) {
    failures.takeBack(address)
    throw error
  }
}

function tooMany(reply: FastifyReply, seconds: number, what: string): BelfryError {
  const retryAfter = Math.max(1, seconds)
  void reply.header('retry-after', String(retryAfter))
  return new BelfryError('too_many_requests', `Too many ${what} in a minute. Try again in ${retryAfter} s.`)
}

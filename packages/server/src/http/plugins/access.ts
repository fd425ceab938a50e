/**
 * Who may pass. Deny is the default: a route says which permission it takes or that it is public, and one
 * that says neither cannot be registered. The key is checked before the body is read. Requests are counted
 * by key; failed attempts to authenticate by address. From an address with too many of them only keys that
 * proved right here lately are looked up: others behind the same proxy go on, and guesses cost no query.
 */
import type { Permission } from '@belfry/contract'
import { BelfryError, holdersOf } from '@belfry/contract'
import rateLimit from '@fastify/rate-limit'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Authenticator, Credential } from '../../ports/credentials.ts'
import type { FailedAttempts } from '../failed-attempts.ts'
import { createFailedAttempts } from '../failed-attempts.ts'
import type { SessionCookies } from '../session-cookies.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** What it takes to call this route; `public` takes nothing. */
    access?: Permission | 'any_key' | 'public'
    /** The name of the route in the contract. */
    routeName?: string
  }
  interface FastifyRequest {
    credential: Credential | null
    /** The key or session token that proved it; null: none. */
    credentialText: string | null
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
  options: { authenticator: Authenticator; limits: RateLimits; cookies: SessionCookies | undefined },
): Promise<void> {
  const { authenticator, limits, cookies } = options
  app.addHook('onRoute', (route) => {
    if (route.config?.access !== undefined) return
    throw new Error(
      `The route ${String(route.method)} ${route.url} says neither a permission nor that it is public.`,
    )
  })
  app.decorateRequest('credential', null)
  app.decorateRequest('credentialText', null)
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
    const credential = await authenticate({ authenticator, failures, cookies }, request, reply)
    request.credential = credential
    const counted = await (access === 'worker.serve' ? byWorkerKey : byKey)(request)
    if (!counted.isAllowed && counted.isExceeded)
      throw tooMany(reply, counted.ttlInSeconds, 'requests with this key')
    if (access !== 'any_key') mustHave(credential, access)
  })
}

/** Throws `forbidden` where the credential lacks the permission. */
export function mustHave(credential: Credential, permission: Permission): void {
  if (credential.permissions.has(permission)) return
  const { scopes, roles } = holdersOf(permission)
  const named =
    scopes.length === 0 ? '' : `a key with the scope ${scopes.map((each) => `"${each}"`).join(' or ')}, or `
  const own = [
    ...(credential.scopes.length === 0 ? [] : [`the key has ${credential.scopes.join(', ')}`]),
    ...(credential.role === null ? [] : [`${credential.principal.name} has the role ${credential.role}`]),
  ]
  const message =
    `This needs the permission "${permission}": ${named}the role ` +
    `${roles.join(', ')}; ${own.join(', and ')}.`
  throw new BelfryError('forbidden', message)
}

/** The key in `Authorization: Bearer bfy_…`. */
export const keyOfHeader = (header: string | undefined): string | undefined =>
  /^Bearer +(\S+) *$/i.exec(header ?? '')?.[1]

interface Door {
  readonly authenticator: Authenticator
  readonly failures: FailedAttempts
  readonly cookies: SessionCookies | undefined
}

/** By the header; where there is none by the cookie, which browsers send along for other sites too. */
async function authenticate(
  { authenticator, failures, cookies }: Door,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<Credential> {
  const header = request.headers.authorization
  const key = header === undefined ? cookies?.tokenOf(request) : keyOfHeader(header)
  if (header === undefined && key !== undefined) cookies?.checkOrigin(request)
  request.credentialText = key ?? null
  const credential = await look(authenticator, failures, key, request.ip, reply)
  if (credential !== undefined) return credential
  void reply.header('www-authenticate', 'Bearer realm="belfry"')
  if (header === undefined && key !== undefined)
    throw new BelfryError('unauthenticated', 'The session is over; sign in again.')
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

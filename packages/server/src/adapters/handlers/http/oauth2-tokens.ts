/**
 * Access tokens by OAuth2 client credentials, for calls that ask for one. Held in memory until shortly before
 * they end; fetched by the egress module, under its rules, once for all calls that wait for the same. Nothing
 * of a token or of an answer of its endpoint is ever part of an error, but for the name of the error in it.
 */
import { createHash } from 'node:crypto'
import type { HttpHandlerDefinition } from '@belfry/contract'
import type { Clock } from '../../../ports/clock.ts'
import type { EgressAgent, EgressOutcome, EgressResponse } from '../../../ports/egress.ts'
import type { CallFault } from './prepared-call.ts'
import { judgeStatus } from './status-verdict.ts'

export interface TokenAsk {
  readonly tenantId: string
  readonly oauth2: NonNullable<HttpHandlerDefinition['oauth2']>
  readonly clientSecret: string
}

export type TokenAnswer =
  | { readonly ok: true; readonly token: string }
  | { readonly ok: false; readonly fault: CallFault }

export interface Tokens {
  /** One that is good for a while; never rejects. The signal ends the waiting, not a shared fetch. */
  get(ask: TokenAsk, signal: AbortSignal): Promise<TokenAnswer>
  /** The target did not take this one: the next `get` fetches another. */
  drop(ask: TokenAsk, token: string): void
}

export interface TokensOptions {
  readonly egress: Pick<EgressAgent, 'request'>
  readonly clock: Clock
  readonly userAgent: string
}

interface Held {
  readonly token: string
  readonly untilMs: number
}

const fetchLimitMs = 15_000
const keepBytes = 64 * 1024
const maxHeld = 10_000
/** Where the answer does not say how long it holds. */
const defaultLifeMs = 300_000
const longestLifeMs = 24 * 3_600_000
/** Before its end a token is not used any more: this long, or a tenth of its life if that is less. */
const longestSkewMs = 60_000

function keyOf({ tenantId, oauth2, clientSecret }: TokenAsk): string {
  const { tokenUrl, clientId, scopes, audience, authentication } = oauth2
  const parts = [tenantId, tokenUrl, clientId, clientSecret, scopes, audience, authentication]
  // hashed, so that no secret is held longer than its call
  return createHash('sha256').update(JSON.stringify(parts)).digest('base64')
}

export function createTokens(options: TokensOptions): Tokens {
  const { clock } = options
  const held = new Map<string, Held>()
  const fetching = new Map<string, Promise<TokenAnswer>>()

  async function fetchToken(key: string, ask: TokenAsk): Promise<TokenAnswer> {
    try {
      const fetched = await requestToken(options, ask)
      if (!fetched.ok) return fetched
      const skewMs = Math.min(longestSkewMs, fetched.lifeMs / 10)
      held.delete(key)
      held.set(key, { token: fetched.token, untilMs: clock.monotonicMs() + fetched.lifeMs - skewMs })
      const oldest = held.keys().next()
      if (held.size > maxHeld && oldest.done !== true) held.delete(oldest.value)
      return { ok: true, token: fetched.token }
    } finally {
      fetching.delete(key)
    }
  }

  return {
    async get(ask, signal) {
      const key = keyOf(ask)
      const present = held.get(key)
      if (present !== undefined && present.untilMs > clock.monotonicMs())
        return { ok: true, token: present.token }
      const running = fetching.get(key) ?? fetchToken(key, ask)
      fetching.set(key, running)
      return await unlessAborted(running, signal)
    },
    drop(ask, token) {
      const key = keyOf(ask)
      if (held.get(key)?.token === token) held.delete(key)
    },
  }
}

async function unlessAborted(running: Promise<TokenAnswer>, signal: AbortSignal): Promise<TokenAnswer> {
  const left = Promise.withResolvers<TokenAnswer>()
  const leave = (): void => {
    const message = 'the call was stopped while it waited for a token'
    left.resolve({ ok: false, fault: { code: 'aborted', message, retryable: true } })
  }
  if (signal.aborted) leave()
  signal.addEventListener('abort', leave, { once: true })
  try {
    return await Promise.race([running, left.promise])
  } finally {
    signal.removeEventListener('abort', leave)
  }
}

type Fetched =
  | { readonly ok: true; readonly token: string; readonly lifeMs: number }
  | { readonly ok: false; readonly fault: CallFault }

const failed = (code: string, message: string, retryable: boolean): Fetched => ({
  ok: false,
  fault: { code, message, retryable },
})

/** As RFC 6749 writes client id and secret for Basic: form-encoded first. */
const formText = (text: string): string => new URLSearchParams([['', text]]).toString().slice(1)

async function requestToken({ egress, userAgent }: TokensOptions, ask: TokenAsk): Promise<Fetched> {
  const { clientId, clientSecret: ref, scopes, audience, authentication, tokenUrl } = ask.oauth2
  const form = new URLSearchParams({ grant_type: 'client_credentials' })
  if (scopes !== undefined && scopes.length > 0) form.set('scope', scopes.join(' '))
  if (audience !== undefined) form.set('audience', audience)
  const headers: Record<string, string> = {
    'User-Agent': userAgent,
    Accept: 'application/json',
    'Accept-Encoding': 'identity',
    'Content-Type': 'application/x-www-form-urlencoded',
  }
  if (authentication === 'body') {
    form.set('client_id', clientId)
    form.set('client_secret', ask.clientSecret)
  } else {
    const pair = `${formText(clientId)}:${formText(ask.clientSecret)}`
    headers['Authorization'] = `Basic ${Buffer.from(pair).toString('base64')}`
  }
  const signal = AbortSignal.timeout(fetchLimitMs)
  const request = {
    method: 'POST',
    url: tokenUrl,
    headers,
    body: form.toString(),
    signal,
    keepBytes,
  } as const
  return tokenOf(await egress.request(request), new URL(tokenUrl).host, ref.secret)
}

function tokenOf(outcome: EgressOutcome, host: string, secretName: string): Fetched {
  const where = `the token endpoint ${host}`
  if (!outcome.ok) {
    const { code, message, retryable } = outcome.error
    return failed(code, `no token: ${where}: ${message}`, retryable)
  }
  const { response } = outcome
  const answer = jsonOf(response)
  if (response.status !== 200) {
    const { error } = answer
    const named = typeof error === 'string' && /^[a-z_]{1,64}$/.test(error) ? ` (${error})` : ''
    const verdict = judgeStatus(response.status)
    const fix = `check tokenUrl, clientId, scopes and the secret "${secretName}"`
    const message = `no token: ${where} answered ${response.status}${named}; ${fix}`
    return failed('oauth2_failed', message, verdict.succeeded || verdict.retryable)
  }
  const { access_token: token, token_type: type = 'Bearer', expires_in: seconds } = answer
  if (typeof token !== 'string' || !/^[\u0021-\u007e]{1,16384}$/.test(token))
    return failed('oauth2_failed', `no token: ${where} answered without a usable access_token`, true)
  if (typeof type !== 'string' || type.toLowerCase() !== 'bearer')
    return failed('oauth2_failed', `no token: ${where} gave one that is not of the type Bearer`, false)
  const lifeMs = Number(seconds ?? Number.NaN) * 1_000
  const known = Number.isFinite(lifeMs) && lifeMs >= 0
  return { ok: true, token, lifeMs: known ? Math.min(lifeMs, longestLifeMs) : defaultLifeMs }
}

function jsonOf({ body, truncated }: EgressResponse): Readonly<Record<string, unknown>> {
  if (truncated) return {}
  try {
    const value: unknown = JSON.parse(Buffer.from(body).toString('utf8'))
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {}
  } catch {
    return {}
  }
}

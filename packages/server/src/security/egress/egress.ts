/**
 * The one egress module: an HTTP client for calls on somebody's behalf. Rules of whom it calls are in
 * domain/egress and hold in the connector, so no way of asking gets around them. It follows no redirects,
 * inflates nothing, uses no proxy from the environment, and bounds headers, body, connections and the time to
 * connect. The caller's signal bounds the whole call, also while a body drips.
 */
import { lookup } from 'node:dns/promises'
import { BelfryError } from '@belfry/contract'
import type { Agent, Dispatcher } from 'undici'
import {
  type EgressPolicy,
  type EgressRanges,
  judgeUrl,
  parsePolicy,
} from '../../domain/egress/egress-policy.ts'
import { headerFaults } from '../../domain/egress/header-rules.ts'
import type { Clock } from '../../ports/clock.ts'
import type {
  EgressAgent,
  EgressError,
  EgressOutcome,
  EgressRequest,
  EgressResponse,
} from '../../ports/egress.ts'
import { type AgentLimits, type Agents, createAgents } from './agents.ts'
import { callFailure, type CallPlace, egressError } from './call-failure.ts'
import { type Capture, createCapture } from './capture.ts'
import { type Dial, dial } from './dial.ts'
import { createLookups, lookupThreads, type Resolver } from './lookups.ts'

export interface EgressOptions extends EgressRanges {
  readonly clock: Clock
  /** Resolves a name to all its addresses; the system's resolver by default. */
  readonly resolver?: Resolver
  /** Opens a socket to checked addresses; replaced in tests, which must not reach the addresses they name. */
  readonly dial?: Dial
  /** Name resolution, connection and TLS handshake together. Default 10 s. */
  readonly connectTimeoutMs?: number
  /** Connections to one origin; further calls wait for a free one. Default 256. */
  readonly connectionsPerOrigin?: number
  /** How long an unused connection is kept. Default 2 s. */
  readonly idleTimeoutMs?: number
  /** Response headers, all together. Default 16 KiB. */
  readonly maxHeaderBytes?: number
  /** Response body, after which the connection is destroyed and the call has failed. Default 16 MiB. */
  readonly maxResponseBytes?: number
  /** Certificate authorities trusted besides the default ones, PEM. */
  readonly extraAuthorities?: readonly string[]
}

/** Interim responses (1xx) of one call. */
const maxInterim = 32

const defaults: AgentLimits = {
  connectTimeoutMs: 10_000,
  connectionsPerOrigin: 256,
  idleTimeoutMs: 2_000,
  maxHeaderBytes: 16 * 1024,
  maxResponseBytes: 16 * 1024 * 1024,
}

export function systemResolver(clock: Clock): Resolver {
  const atOnce = lookupThreads(process.env)
  return createLookups({ lookup: (host) => lookup(host, { all: true }), clock, atOnce })
}

function policyOf(options: EgressRanges): EgressPolicy {
  const parsed = parsePolicy(options)
  if (parsed.ok) return parsed.policy
  const message = parsed.faults.map((fault) => fault.message).join('; ')
  throw new BelfryError('invalid_config', `egress: ${message}`, { errors: parsed.faults })
}

function joined(headers: Dispatcher.ResponseData['headers']): ReadonlyMap<string, string> {
  const entries = Object.entries(headers).flatMap(([name, value]): [string, string][] => {
    if (value === undefined) return []
    return [[name.toLowerCase(), Array.isArray(value) ? value.join(', ') : value]]
  })
  return new Map(entries)
}

function responseOf(head: Dispatcher.ResponseData, capture: Capture): EgressResponse {
  const body = capture.kept()
  const bodyBytes = capture.bytes()
  return {
    status: head.statusCode,
    headers: joined(head.headers),
    body,
    bodyBytes,
    truncated: bodyBytes > body.length,
  }
}

interface Client {
  readonly agents: Agents
  readonly policy: EgressPolicy
  readonly limits: AgentLimits
}

async function receive(
  head: Dispatcher.ResponseData,
  request: EgressRequest,
  place: CallPlace,
): Promise<EgressOutcome> {
  const limitBytes = place.maxResponseBytes
  const capture = createCapture(request.keepBytes, limitBytes)
  try {
    const whole = await capture.read(head.body)
    const response = responseOf(head, capture)
    if (whole) return { ok: true, response }
    const fix = 'answer with less, and keep large results elsewhere'
    const message = `${place.place} sent a response body of more than ${limitBytes} bytes; ${fix}`
    return { ok: false, error: egressError('response_too_large', message, response) }
  } catch (error) {
    return { ok: false, error: callFailure(error, request.signal, place, responseOf(head, capture)) }
  }
}

/** The operator's own settings are held to the form of a URL alone. */
function refusalOf({ url, byOperator }: EgressRequest, policy: EgressPolicy): EgressError | undefined {
  const known = byOperator === true && URL.canParse(url) && /^https?:$/.test(new URL(url).protocol)
  const refusal = known ? undefined : judgeUrl(url, policy)
  return refusal && egressError('target_denied', `the target ${refusal.message}`)
}

function agentOf(agents: Agents, request: EgressRequest): Agent | EgressError {
  try {
    return agents.of(request)
  } catch {
    // Not the client's own words: they may quote the key.
    const fix =
      'check that they are PEM, that the key is not encrypted and that it belongs to the certificate'
    const message = `the client certificate, its key or the authority cannot be used for TLS; ${fix}`
    return egressError('client_certificate_invalid', message)
  }
}

async function send({ agents, policy, limits }: Client, request: EgressRequest): Promise<EgressOutcome> {
  const refusal = refusalOf(request, policy)
  if (refusal !== undefined) return { ok: false, error: refusal }
  const agent = agentOf(agents, request)
  if ('code' in agent) return { ok: false, error: agent }
  const url = new URL(request.url)
  const port = url.port === '' ? (url.protocol === 'https:' ? '443' : '80') : url.port
  const { maxHeaderBytes, maxResponseBytes } = limits
  const isTls = url.protocol === 'https:'
  const place = { place: `${url.hostname}:${port}`, isTls, maxHeaderBytes, maxResponseBytes }
  const stop = new AbortController()
  const onAbort = (): void => stop.abort()
  let interim = 0
  if (request.signal.aborted) onAbort()
  // cheaper than AbortSignal.any, and gone with the call
  request.signal.addEventListener('abort', onAbort, { once: true })
  try {
    const head = await agent.request({
      origin: url.origin,
      path: `${url.pathname}${url.search}`,
      method: request.method,
      headers: request.headers,
      body: request.body ?? null,
      signal: stop.signal,
      onInfo() {
        interim += 1
        if (interim > maxInterim) stop.abort()
      },
    })
    return await receive(head, request, place)
  } catch (error) {
    if (interim > maxInterim) {
      const most = `more than ${maxInterim} interim (1xx) responses`
      const message = `${place.place} sent ${most}; send the final one`
      return { ok: false, error: egressError('invalid_response', message) }
    }
    return { ok: false, error: callFailure(error, request.signal, place) }
  } finally {
    request.signal.removeEventListener('abort', onAbort)
  }
}

/** Throws BelfryError `invalid_config` for ranges that cannot be read. */
export function createEgress(options: EgressOptions): EgressAgent {
  const policy = policyOf(options)
  const limits = { ...defaults, ...options }
  const agents = createAgents({
    policy,
    limits,
    clock: options.clock,
    resolve: options.resolver ?? systemResolver(options.clock),
    dial: options.dial ?? dial,
    extraAuthorities: options.extraAuthorities,
  })
  return {
    request: (request) => send({ agents, policy, limits }, request),
    checkTargetUrl: (url) => judgeUrl(url, policy),
    checkTargetHeaders: headerFaults,
    close: () => agents.close(),
  }
}

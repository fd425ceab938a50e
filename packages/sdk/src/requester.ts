/**
 * From a route's name and its parts to a typed answer: fills the path, writes the query, adds credentials
 * and the Idempotency-Key, and checks the answer lightly (an object, a page has items), so that a newer
 * server with more fields still fits an older client.
 */
import type { Route, RouteName } from '@belfry/contract'
import { BelfryError, routes } from '@belfry/contract'
import { unexpectedAnswer } from './answer-errors.ts'
import { checkArgument, jsonOf, printable, token } from './check-input.ts'
import type { ServerEvent } from './server-events.ts'
import { openEvents } from './server-events.ts'
import type { AnswerOf, RequestArguments } from './route-types.ts'
import type { HttpAnswer, TransportOptions } from './transport.ts'
import { send } from './transport.ts'

/** An answer with what stands in its headers. */
export type Answer<T> = {
  readonly data: T
  readonly status: number
  /** For `ifMatch` of a later change; null where the route gives none. */
  readonly etag: string | null
  readonly requestId: string | null
  /** The answer is an earlier one, kept under the same Idempotency-Key. */
  readonly replayed: boolean
}

export type Requester = {
  /** Sends a request to a route and answers with data and headers. */
  call<N extends RouteName>(name: N, args?: RequestArguments<N>): Promise<Answer<AnswerOf<N>>>
  /**
   * Opens a stream of events and hands it on, event by event, until it ends; nothing is tried again here.
   * Throws as `call`, and `server_unreachable` where the connection breaks or falls silent.
   */
  events<N extends RouteName>(
    name: N,
    args: RequestArguments<N>,
    lastEventId?: string,
  ): AsyncGenerator<ServerEvent, void>
  /** As `call`, data only. */
  request<N extends RouteName>(name: N, args?: RequestArguments<N>): Promise<AnswerOf<N>>
}

type LooseArguments = {
  readonly params?: Readonly<Record<string, string>> | undefined
  readonly query?: Readonly<Record<string, unknown>> | undefined
  readonly body?: unknown
  readonly idempotencyKey?: string | undefined
  readonly ifMatch?: string | undefined
  readonly signal?: AbortSignal | undefined
}

/** Fills `:name` parts of a route's path. Throws `invalid_request` where one is missing. */
function fillPath(path: string, params: Readonly<Record<string, string>>): string {
  return path.replace(/:(\w+)/g, (_whole, name: string) => {
    const value = params[name]
    if (typeof value === 'string' && !['', '.', '..'].includes(value))
      return encodeURIComponent(value.toWellFormed())
    const message = value === undefined || value === '' ? 'is missing' : 'is not a text that can be an id'
    throw new BelfryError('invalid_request', `The path ${path} needs "${name}", which ${message}.`, {
      errors: [{ pointer: `/params/${name}`, message }],
    })
  })
}

/** Writes a query string, with its question mark; '' when nothing is set. */
function writeQuery(query: Readonly<Record<string, unknown>>): string {
  const search = new URLSearchParams()
  for (const [name, value] of Object.entries(query)) {
    if (value === undefined || value === null) continue
    search.set(name, Array.isArray(value) ? value.join(',') : `${value as string | number | boolean}`)
  }
  const written = search.toString()
  return written === '' ? '' : `?${written}`
}

function headersOf(route: Route, args: LooseArguments, apiKey: string | undefined): Record<string, string> {
  const headers: Record<string, string> = { accept: 'application/json', 'user-agent': 'belfry-sdk' }
  if (apiKey !== undefined) headers['authorization'] = `Bearer ${apiKey}`
  if (route.body !== undefined) headers['content-type'] = 'application/json'
  if (route.effect === 'create') headers['idempotency-key'] = args.idempotencyKey ?? crypto.randomUUID()
  if (args.ifMatch !== undefined) headers['if-match'] = args.ifMatch
  for (const [name, rule] of [
    ['idempotency-key', token],
    ['if-match', printable],
  ] as const) {
    const value = headers[name]
    if (value !== undefined) checkArgument('The request', `/headers/${name}`, value, rule)
  }
  return headers
}

function checkAnswer(route: Route, answer: HttpAnswer, shown: string): void {
  if (route.response === undefined) return
  const { body } = answer
  if (typeof body !== 'object' || body === null || Array.isArray(body)) {
    throw unexpectedAnswer(shown, 'something that is not a JSON object')
  }
  const isList = route.query !== undefined && 'cursor' in route.query.shape
  if (isList && !Array.isArray((body as Record<string, unknown>)['items'])) {
    throw unexpectedAnswer(shown, 'an object without "items"')
  }
}

/** Builds the function that every noun of the client uses. `baseUrl` has no slash at its end. */
export function createRequester(
  baseUrl: string,
  apiKey: string | undefined,
  transport: TransportOptions,
): Requester {
  async function call<N extends RouteName>(
    name: N,
    args?: RequestArguments<N>,
  ): Promise<Answer<AnswerOf<N>>> {
    const route: Route = routes[name]
    const loose: LooseArguments = args ?? {}
    const url = `${baseUrl}${fillPath(route.path, loose.params ?? {})}${writeQuery(loose.query ?? {})}`
    const answer = await send(
      {
        method: route.method,
        url,
        headers: headersOf(route, loose, apiKey),
        body:
          route.body === undefined ? undefined : jsonOf(`${route.method} ${route.path}`, loose.body ?? {}),
        signal: loose.signal,
      },
      transport,
    )
    checkAnswer(route, answer, `${route.method} ${url}`)
    return {
      data: answer.body as AnswerOf<N>,
      status: answer.status,
      etag: answer.headers.get('etag'),
      requestId: answer.headers.get('x-request-id'),
      replayed: answer.headers.get('idempotency-replayed') === 'true',
    }
  }
  function events<N extends RouteName>(name: N, args: RequestArguments<N>, lastEventId?: string) {
    const route: Route = routes[name]
    const loose: LooseArguments = args
    const url = `${baseUrl}${fillPath(route.path, loose.params ?? {})}${writeQuery(loose.query ?? {})}`
    const headers = {
      ...headersOf(route, loose, apiKey),
      accept: 'text/event-stream',
      ...(lastEventId === undefined ? {} : { 'last-event-id': lastEventId }),
    }
    return openEvents({ method: route.method, url, headers, signal: loose.signal }, transport)
  }
  return { call, events, request: async (name, args) => (await call(name, args)).data }
}

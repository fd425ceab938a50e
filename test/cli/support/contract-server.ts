// A small real HTTP server that speaks the contract: it checks what comes in with the route's own schemas,
// answers data that fits the route's response schema (a test fails if not), and keeps what it was asked. It
// knows nothing of time or Postgres; tests of the command line and the client need an API, not an engine.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { BelfryError, type Problem, type Route, type RouteName, routes, toProblem } from '@belfry/contract'
import { createStore, type Store } from './contract-store.ts'

export type SeenRequest = {
  readonly route: RouteName | undefined
  readonly method: string
  readonly path: string
  readonly query: Readonly<Record<string, string>>
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly body: unknown
}

/** Answers a request in place of the store; undefined leaves it to the store. */
export type Intercept = (
  seen: SeenRequest,
) => { status: number; body: unknown; headers?: Record<string, string> } | 'hang up' | undefined

export type ContractServer = {
  readonly url: string
  readonly store: Store
  readonly seen: SeenRequest[]
  intercept: Intercept
  close(): Promise<void>
}

/** The key that the server takes; anything else is refused. */
export const testKey = 'blf_test_0123456789abcdefghijklmnop'

export const requestId = '019ad0c1-0000-7000-8000-00000000abcd'

export function problem(code: Problem['code'], detail: string, errors: Problem['errors'] = []): Problem {
  return toProblem(new BelfryError(code, detail, { errors }), requestId)
}

type Match = { readonly name: RouteName; readonly route: Route; readonly id: string }

function matchRoute(method: string, path: string): Match | undefined {
  for (const [name, route] of Object.entries(routes) as [RouteName, Route][]) {
    const pattern = new RegExp(`^${route.path.replace(/:(?:id|queue|tenant|runId)/, '([^/]+)')}$`)
    const found = pattern.exec(path)
    if (found !== null && route.method === method)
      return { name, route, id: decodeURIComponent(found[1] ?? '') }
  }
  return undefined
}

async function readBody(request: IncomingMessage): Promise<unknown> {
  let text = ''
  for await (const chunk of request) text += String(chunk)
  return text === '' ? undefined : JSON.parse(text)
}

function checked(schema: Route['body'], value: unknown, where: string): unknown {
  if (schema === undefined) return value
  const result = schema.safeParse(value)
  if (result.success) return result.data
  const errors = result.error.issues.map((issue) => ({
    pointer: `${where}/${issue.path.join('/')}`,
    message: issue.message,
  }))
  throw new BelfryError('invalid_request', 'The request does not fit its schema; see the errors.', { errors })
}

function answer(seen: SeenRequest, match: Match | undefined, store: Store) {
  if (seen.headers['authorization'] !== `Bearer ${testKey}`) {
    throw new BelfryError('unauthenticated', 'The API key is missing or not valid; send a valid one.')
  }
  if (match === undefined) throw new BelfryError('not_found', 'There is no such path; see the reference.')
  const { name, route, id } = match
  const body = checked(route.body, seen.body ?? {}, '')
  const query = checked(route.query, seen.query, '/query') as Record<string, unknown> | undefined
  const data = store.answer(name, { id, body, query: query ?? {} })
  const status = route.status
  if (route.response === undefined) return { status, body: undefined, etag: undefined }
  const fits = route.response.safeParse(data)
  if (!fits.success) throw new Error(`the test server answers ${name} wrongly: ${fits.error.message}`)
  return { status, body: data, etag: store.etagOf(data) }
}

export async function startContractServer(): Promise<ContractServer> {
  const store = createStore()
  const seenRequests: SeenRequest[] = []
  const server = createServer((request, response) => void serve(request, response))
  const state: ContractServer = {
    url: '',
    store,
    seen: seenRequests,
    intercept: () => undefined,
    close: () =>
      new Promise((resolve) => {
        server.closeAllConnections()
        server.close(() => resolve())
      }),
  }

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? '/', 'http://localhost')
    const method = request.method ?? 'GET'
    const match = matchRoute(method, url.pathname)
    const seen: SeenRequest = {
      route: match?.name,
      method,
      path: url.pathname,
      query: Object.fromEntries(url.searchParams),
      headers: request.headers,
      body: await readBody(request),
    }
    seenRequests.push(seen)
    const send = (status: number, body: unknown, headers: Record<string, string> = {}): void => {
      response.writeHead(status, {
        'content-type': 'application/json',
        'x-request-id': requestId,
        ...headers,
      })
      response.end(body === undefined ? undefined : JSON.stringify(body))
    }
    const replaced = state.intercept(seen)
    if (replaced === 'hang up') return void request.socket.destroy()
    if (replaced !== undefined) return send(replaced.status, replaced.body, replaced.headers)
    try {
      const { status, body, etag } = answer(seen, match, store)
      send(status, body, etag === undefined ? {} : { etag })
    } catch (error) {
      const known = error instanceof BelfryError ? error : new BelfryError('internal', String(error))
      send(known.status, toProblem(known, requestId))
    }
  }

  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return Object.assign(state, { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` })
}

/**
 * The request handler of the AWS SDK over the egress module: with it a client of the SDK opens no connection
 * of its own. Bodies are in memory, as calls of Lambda, STS and KMS have them. A failed call rejects with
 * EgressCallError, which the SDK does not take for one that it may repeat by itself.
 */
import { type ClientCallOptions, clientCall } from './client-call.ts'

export interface AwsHandlerOptions extends Pick<ClientCallOptions, 'egress' | 'operatorUrls'> {
  /** Default 60 s; the abort signal of a call may end it earlier. */
  readonly callTimeoutMs?: number
  /** Default 8 MiB. */
  readonly maxResponseBytes?: number
}

/** As much of the SDK's request as is read here. */
interface AwsRequest {
  readonly method: string
  readonly protocol: string
  readonly hostname: string
  readonly port?: number
  readonly path: string
  readonly query?: Readonly<Record<string, string | readonly string[] | null>>
  readonly headers: Readonly<Record<string, string>>
  readonly body?: unknown
}

interface AwsResponse {
  readonly statusCode: number
  readonly headers: Record<string, string>
  readonly body: Uint8Array
}

/** Given as `requestHandler` to a client of the SDK. */
export interface AwsHandler {
  readonly metadata: { readonly handlerProtocol: string }
  handle(
    request: AwsRequest,
    options?: { readonly abortSignal?: unknown },
  ): Promise<{ readonly response: AwsResponse }>
  updateHttpClientConfig(): void
  httpHandlerConfigs(): Record<string, never>
  destroy(): void
}

/** As the signature of a request has it: more is escaped than encodeURIComponent does. */
const escaped = (text: string): string =>
  encodeURIComponent(text).replace(/[!'()*]/g, (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`)

function queryText(query: AwsRequest['query']): string {
  const pairs = Object.keys(query ?? {})
    .toSorted()
    .flatMap((name) => {
      const value = query?.[name] ?? null
      const values = typeof value === 'string' || value === null ? [value] : value
      return values.map((each) => (each === null ? escaped(name) : `${escaped(name)}=${escaped(each)}`))
    })
  return pairs.length === 0 ? '' : `?${pairs.join('&')}`
}

function urlOf(request: AwsRequest): string {
  const port = request.port === undefined ? '' : `:${request.port}`
  return `${request.protocol}//${request.hostname}${port}${request.path}${queryText(request.query)}`
}

function bodyOf(body: unknown): string | Uint8Array | undefined {
  if (body === undefined || body === null) return undefined
  if (typeof body === 'string' || body instanceof Uint8Array) return body
  throw new TypeError('The body of this call is a stream, which is not sent; give it as bytes.')
}

/** What the client of the egress module sets by itself. */
const framing: ReadonlySet<string> = new Set(['connection', 'content-length', 'expect', 'transfer-encoding'])

export function createAwsHandler(options: AwsHandlerOptions): AwsHandler {
  const limits = { callTimeoutMs: 60_000, maxResponseBytes: 8 * 1024 * 1024, ...options }
  return {
    metadata: { handlerProtocol: 'http/1.1' },
    async handle(request, { abortSignal } = {}) {
      const headers = Object.entries(request.headers).filter(([name]) => !framing.has(name.toLowerCase()))
      const response = await clientCall(limits, {
        method: request.method,
        url: urlOf(request),
        headers: Object.fromEntries(headers),
        body: bodyOf(request.body),
        signal: abortSignal instanceof AbortSignal ? abortSignal : undefined,
      })
      const { status: statusCode, body } = response
      return { response: { statusCode, headers: Object.fromEntries(response.headers), body } }
    },
    updateHttpClientConfig: () => undefined,
    httpHandlerConfigs: () => ({}),
    destroy: () => undefined,
  }
}

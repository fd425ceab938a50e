/**
 * A `fetch` over the egress module, for libraries that speak through one (OIDC). It is narrower than the
 * platform's: it never follows a redirect, whatever is asked, takes bodies that are in memory, inflates
 * nothing, and rejects with EgressCallError.
 */
import { type ClientCallOptions, clientCall } from './client-call.ts'

export interface EgressFetchOptions extends Pick<ClientCallOptions, 'egress' | 'operatorUrls'> {
  /** Default 15 s. */
  readonly callTimeoutMs?: number
  /** Default 1 MiB. */
  readonly maxResponseBytes?: number
}

export type EgressFetch = (input: string | URL | Request, init?: RequestInit) => Promise<Response>

/** Statuses whose responses have no body. */
const withoutBody: ReadonlySet<number> = new Set([101, 204, 205, 304])

export function createEgressFetch(options: EgressFetchOptions): EgressFetch {
  const limits = { callTimeoutMs: 15_000, maxResponseBytes: 1024 * 1024, ...options }
  return async (input, init) => {
    const request = new Request(input, { ...init, redirect: 'manual' })
    const body = request.body === null ? undefined : new Uint8Array(await request.arrayBuffer())
    const response = await clientCall(limits, {
      method: request.method,
      url: request.url,
      headers: { 'accept-encoding': 'identity', ...Object.fromEntries(request.headers) },
      body,
      signal: request.signal,
    })
    const { status, headers } = response
    return new Response(withoutBody.has(status) ? null : Uint8Array.from(response.body), {
      status,
      headers: [...headers],
    })
  }
}

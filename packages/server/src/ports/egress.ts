/**
 * The one way out: every HTTP call that Belfry makes on somebody's behalf goes through an EgressAgent. It
 * decides whom it may call, follows no redirects, inflates nothing, and bounds headers and body; the caller
 * bounds the time.
 */
import type { EgressFault } from '../domain/egress/egress-policy.ts'

/** Texts in PEM. */
export interface EgressTls {
  /** Of this client, its own first; with `privateKey`. */
  readonly certificate?: string
  readonly privateKey?: string
  /** Trusted alone, in place of the public authorities. */
  readonly authority?: string
}

export interface EgressRequest {
  readonly method: 'GET' | 'HEAD' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  readonly url: string
  /** Sent as they are. Values never appear in an error. */
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string | Uint8Array
  /** What is special about TLS; connections are shared only by calls with the same. */
  readonly tls?: EgressTls
  /**
   * The target is a setting of the operator, not a wish of a tenant: private addresses and every port may be
   * called. Default false.
   */
  readonly byOperator?: boolean
  /** Ends the call, wherever it is; the connection is destroyed. */
  readonly signal: AbortSignal
  /** Bytes of the response body that are kept; the rest is read and dropped. */
  readonly keepBytes: number
}

export interface EgressResponse {
  readonly status: number
  /** Lower-case names; several values of one name are joined by ", ". */
  readonly headers: ReadonlyMap<string, string>
  /** The first `keepBytes` of the body, as they came. */
  readonly body: Uint8Array
  /** Bytes of the body that were read in all. */
  readonly bodyBytes: number
  readonly truncated: boolean
}

/**
 * `target_denied`: the egress rules refuse it, no connection was opened. `invalid_request`: it cannot be
 * sent as HTTP. `client_certificate_invalid`: certificate, key or authority of the request cannot be used.
 * `response_too_large`, `headers_too_large`: the target sent more than the hard caps. `invalid_response`:
 * not HTTP. `connection_reset`: ended before the response was complete. `aborted`: by the caller's signal,
 * or the agent was closed.
 */
export type EgressErrorCode =
  | 'target_denied'
  | 'invalid_request'
  | 'client_certificate_invalid'
  | 'dns_failed'
  | 'connect_refused'
  | 'connect_timeout'
  | 'connect_failed'
  | 'tls_failed'
  | 'connection_reset'
  | 'headers_too_large'
  | 'response_too_large'
  | 'invalid_response'
  | 'aborted'

export interface EgressError {
  readonly code: EgressErrorCode
  /**
   * What went wrong and how to mend it, for the owner of the target. Holds no header value, path or query.
   */
  readonly message: string
  /** False: the same call would end the same way. */
  readonly retryable: boolean
  /** As much of the response as had come, if its head had. */
  readonly response?: EgressResponse
}

export type EgressOutcome =
  | { readonly ok: true; readonly response: EgressResponse }
  | { readonly ok: false; readonly error: EgressError }

export interface EgressAgent {
  /** Makes one call. Never throws and never rejects. */
  request(request: EgressRequest): Promise<EgressOutcome>
  /** Why this URL may not be stored as a target, as far as that shows without resolving its name. */
  checkTargetUrl(url: string): EgressFault | undefined
  /** Headers that a job may not send, each with a pointer below `/handler/headers`. */
  checkTargetHeaders(headers: Readonly<Record<string, string>>): readonly EgressFault[]
  /** Ends every call that still runs and closes all connections. */
  close(): Promise<void>
}

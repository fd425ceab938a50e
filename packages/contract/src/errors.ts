/**
 * The one table of errors: code, HTTP status, title, whether trying again can help. A code is never reused
 * for another meaning. Every surface (API problem, CLI, SDK) shows the same code; `docs/reference/errors.md`
 * is generated from here.
 */

type ErrorRow = { readonly status: number; readonly title: string; readonly retryable: boolean }

export const errorTable = {
  malformed_json: { status: 400, title: 'The body is not valid JSON', retryable: false },
  invalid_request: { status: 400, title: 'The request does not fit its schema', retryable: false },
  invalid_schedule: { status: 400, title: 'The schedule is not valid', retryable: false },
  invalid_calendar: { status: 400, title: 'The calendar is not valid', retryable: false },
  invalid_cursor: { status: 400, title: 'The cursor does not belong to this list', retryable: false },
  invalid_target: { status: 400, title: 'The target is not allowed', retryable: false },
  invalid_config: { status: 400, title: 'The configuration is not valid', retryable: false },
  beyond_quota: { status: 400, title: 'A quota of the tenant allows less', retryable: false },
  unauthenticated: { status: 401, title: 'No valid API key was given', retryable: false },
  sign_in_failed: { status: 401, title: 'The sign-in was refused', retryable: false },
  forbidden: { status: 403, title: 'The API key may not do this', retryable: false },
  cross_origin: { status: 403, title: 'The request came from another site', retryable: false },
  not_found: { status: 404, title: 'There is no such thing here', retryable: false },
  method_not_allowed: { status: 405, title: 'This path does not take that method', retryable: false },
  name_taken: { status: 409, title: 'The name is already in use', retryable: false },
  in_use: { status: 409, title: 'Something else still needs this', retryable: false },
  sign_in_off: {
    status: 409,
    title: 'This server is not set up for that way to sign in',
    retryable: false,
  },
  last_owner: { status: 409, title: 'A tenant keeps at least one active owner', retryable: false },
  invalid_state: { status: 409, title: 'Not possible in the present state', retryable: false },
  idempotency_key_busy: {
    status: 409,
    title: 'The first request with this Idempotency-Key is still running',
    retryable: true,
  },
  lease_lost: { status: 409, title: 'The lease of this run is held by another attempt', retryable: false },
  callback_over: { status: 409, title: 'The attempt that this reports on is over', retryable: false },
  session_lost: {
    status: 409,
    title: 'The session of this worker has ended; open a new one',
    retryable: false,
  },
  precondition_failed: { status: 412, title: 'It was changed since you read it', retryable: false },
  body_too_large: { status: 413, title: 'The body is too large', retryable: false },
  unsupported_media_type: { status: 415, title: 'Send application/json', retryable: false },
  idempotency_key_reused: {
    status: 422,
    title: 'The Idempotency-Key was used with another request',
    retryable: false,
  },
  quota_exceeded: { status: 429, title: 'A quota of the tenant is used up', retryable: true },
  too_many_requests: { status: 429, title: 'Too many requests', retryable: true },
  internal: { status: 500, title: 'Belfry failed to answer', retryable: true },
  database_unavailable: { status: 503, title: 'The database cannot be reached', retryable: true },
  database_read_only: { status: 503, title: 'The database takes no writes now', retryable: true },
  database_full: { status: 503, title: 'The database has no space left', retryable: true },
  database_timeout: { status: 503, title: 'The database did not answer in time', retryable: true },
  serialization_conflict: { status: 503, title: 'Another change got in the way', retryable: true },
  sign_in_unavailable: { status: 503, title: 'The OpenID provider cannot be asked', retryable: true },
  secrets_unavailable: {
    status: 503,
    title: 'Secrets can be neither sealed nor opened now',
    retryable: true,
  },
  schema_mismatch: { status: 503, title: 'The database schema does not fit this version', retryable: false },
  shutting_down: { status: 503, title: 'This server is shutting down', retryable: true },
  // Made by clients (SDK, CLI) where no answer of a server says more; the API never answers these.
  server_unreachable: { status: 503, title: 'The Belfry server cannot be reached', retryable: true },
  invalid_response: { status: 502, title: 'The answer is not that of a Belfry server', retryable: false },
  wait_timeout: { status: 504, title: 'The run has not ended in the time given', retryable: false },
} as const satisfies Record<string, ErrorRow>

export type ErrorCode = keyof typeof errorTable

/**
 * One fault in what was sent: `pointer` is an RFC 6901 JSON pointer into the body, or `/query/…`,
 * `/headers/…`, `/params/…`.
 */
export type ErrorDetail = { readonly pointer: string; readonly message: string }

/** The error that crosses every border inside Belfry. `message` says what is wrong and how to mend it. */
export class BelfryError extends Error {
  readonly code: ErrorCode
  readonly errors: readonly ErrorDetail[]
  /** Name of the quota that refused it. */
  readonly quota: string | undefined
  /** When another try can help, where that is known. */
  readonly retryAfterSeconds: number | undefined

  constructor(
    code: ErrorCode,
    message: string,
    options: {
      cause?: unknown
      errors?: readonly ErrorDetail[]
      quota?: string
      retryAfterSeconds?: number
    } = {},
  ) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause })
    this.name = 'BelfryError'
    this.code = code
    this.errors = options.errors ?? []
    this.quota = options.quota
    this.retryAfterSeconds = options.retryAfterSeconds
  }

  get status(): number {
    return errorTable[this.code].status
  }

  get retryable(): boolean {
    return errorTable[this.code].retryable
  }
}

/** RFC 9457 problem document, as every failed request answers it. */
export type Problem = {
  readonly type: string
  readonly title: string
  readonly status: number
  readonly detail: string
  readonly instance: string
  readonly code: ErrorCode
  readonly retryable: boolean
  readonly errors: readonly ErrorDetail[]
  /** Of a refusal by a quota: its name. */
  readonly quota?: string
}

/** Builds the problem document of an error; `requestId` becomes `instance`. */
export function toProblem(error: BelfryError, requestId: string): Problem {
  const row = errorTable[error.code]
  return {
    type: `https://belfry.dev/errors#${error.code}`,
    title: row.title,
    status: row.status,
    detail: error.message,
    instance: requestId,
    code: error.code,
    retryable: row.retryable,
    errors: error.errors,
    ...(error.quota === undefined ? {} : { quota: error.quota }),
  }
}

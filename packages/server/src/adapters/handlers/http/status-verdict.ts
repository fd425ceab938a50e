/**
 * What a status code of a target means for its run. 2xx is success. Everything else is tried again, except
 * for answers by which the target says that this very request can never be accepted: repeating it would only
 * be noise.
 *
 *   2xx                              succeeded
 *   3xx                              failed `http_redirect`, for good: redirects are never followed
 *   the permanent statuses below     failed `http_status`, for good
 *   any other, among them 401 403    failed `http_status`, tried again: they come and go with deployments,
 *   404 408 409 425 429 and 5xx      rotated credentials, locks and load
 */

const permanentStatuses: ReadonlySet<number> = new Set([
  400, 405, 406, 410, 411, 413, 414, 415, 416, 417, 422, 426, 428, 431, 451, 501, 505,
])

export type StatusVerdict =
  | { readonly succeeded: true }
  | { readonly succeeded: false; readonly code: 'http_status' | 'http_redirect'; readonly retryable: boolean }

export function judgeStatus(status: number): StatusVerdict {
  if (status >= 200 && status < 300) return { succeeded: true }
  if (status >= 300 && status < 400) return { succeeded: false, code: 'http_redirect', retryable: false }
  return { succeeded: false, code: 'http_status', retryable: !permanentStatuses.has(status) }
}

/**
 * What a retry policy says of one failure: whether it may be tried again, and how long the pause is at most.
 * Pure. Safe for 1,000 attempts and more: the exponent is bounded before the power is taken, so no delay is
 * ever infinite, negative or NaN.
 */
import type { RetryPolicy } from './retry-policy.ts'

/** 2^53 ms is beyond every cap. */
const largestExponent = 53

/** `base × 2^(n−1)`, at most `capMs`; `n` counts from 1. */
export function doubledMs(n: number, baseMs: number, capMs: number): number {
  const exponent = Math.min(Math.max(n - 1, 0), largestExponent)
  return Math.min(capMs, baseMs * 2 ** exponent)
}

/** So many failures may follow each other at once, where a policy says so; then a pause has a least limit. */
export const quickRetries = 10
export const leastPauseMs = 100

/**
 * The pause before jitter, in ms: `failures` counts from 1; a list repeats its last delay. A policy without
 * pauses gets short ones in the long run, so that no run keeps a worker and its target busy by failing.
 */
export function retryLimitMs(policy: RetryPolicy, failures: number): number {
  const saidMs = saidLimitMs(policy, failures)
  return failures > quickRetries ? Math.max(saidMs, leastPauseMs) : saidMs
}

function saidLimitMs(policy: RetryPolicy, failures: number): number {
  const { backoff, baseMs, capMs, delaysMs } = policy
  switch (backoff) {
    case 'list':
      return delaysMs[Math.min(Math.max(failures, 1), delaysMs.length) - 1] ?? baseMs
    case 'fixed':
      return Math.min(baseMs, capMs)
    case 'exponential':
      return doubledMs(failures, baseMs, capMs)
    default:
      return backoff satisfies never
  }
}

/**
 * What an attempt may be known by in `retryOn` and `neverRetryOn`: its error code, and for an answer over
 * HTTP the status (`http_503`) and its hundred (`http_5xx`).
 */
export function retryCodesOf(errorCode: string | null, httpStatus: number | null): readonly string[] {
  const codes = errorCode === null ? [] : [errorCode]
  if (httpStatus === null) return codes
  return [...codes, `http_${httpStatus}`, `http_${Math.floor(httpStatus / 100)}xx`]
}

/** Whether one of the codes stands in a list, exactly or under a beginning with a trailing `*`. */
function isListed(list: readonly string[], codes: readonly string[]): boolean {
  return list.some((listed) =>
    listed.endsWith('*')
      ? codes.some((code) => code.startsWith(listed.slice(0, -1)))
      : codes.includes(listed),
  )
}

/**
 * Whether a failure with these codes may be tried again: `neverRetryOn` wins over all, then `retryOn` where
 * it names any, then what the handler said.
 */
export function mayRetry(policy: RetryPolicy, codes: readonly string[], retryable: boolean): boolean {
  if (isListed(policy.neverRetryOn, codes)) return false
  return policy.retryOn.length > 0 ? isListed(policy.retryOn, codes) : retryable
}

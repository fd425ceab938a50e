/**
 * When the next attempt may start. Pure: chance comes in as a number in [0, 1). The limit of a
 * pause, and which failures are tried again at all, stand in the contract (retry-rules.ts): inline tests of
 * users' jobs go by the same.
 *
 * What counts against `maxAttempts` are attempts that failed or timed out. Attempts that a worker's death cut
 * short are counted apart (`crashCount`, at most 3), attempts that were handed back are not counted at all.
 */
import { doubledMs, type RetryPolicy, retryLimitMs } from '@belfry/contract'

/** A target may ask for at most this long a pause (`Retry-After`). */
export const longestRetryAfterMs = 86_400_000
/** After this many crashes a run is quarantined. */
export const maxCrashes = 3

const firstCrashDelayMs = 1_000
const longestCrashDelayMs = 60_000
/**
 * Whether another attempt may follow after `failures` attempts (this one among them) that failed or timed
 * out.
 */
export function hasAttemptsLeft(policy: RetryPolicy, failures: number): boolean {
  return failures < policy.maxAttempts
}

/**
 * The pause before the next attempt, in whole ms. `failures` counts from 1. `retryAfterMs` is what the target
 * asked for: a lower bound, itself at most a day.
 */
export function retryDelayMs(
  policy: RetryPolicy,
  failures: number,
  random: number,
  retryAfterMs: number = 0,
): number {
  const limitMs = retryLimitMs(policy, failures)
  const delayMs = policy.jitter === 'full' ? limitMs * random : limitMs
  const askedMs = Number.isFinite(retryAfterMs) ? Math.min(Math.max(retryAfterMs, 0), longestRetryAfterMs) : 0
  return Math.ceil(Math.max(delayMs, askedMs))
}

/** The pause after a crash: full jitter up to 1 s, doubling, at most a minute. `crashCount` counts from 1. */
export function crashDelayMs(crashCount: number, random: number): number {
  return Math.ceil(doubledMs(crashCount, firstCrashDelayMs, longestCrashDelayMs) * random)
}

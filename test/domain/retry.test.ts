// When a failed attempt may be followed by another: caps, jitter, Retry-After, and no arithmetic accident at
// any count.
import { leastPauseMs, mayRetry, quickRetries, retryCodesOf, retryPolicySchema } from '@belfry/contract'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  crashDelayMs,
  hasAttemptsLeft,
  longestRetryAfterMs,
  retryDelayMs,
} from '../../packages/server/src/domain/retry.ts'

const policy = (more: object = {}) => retryPolicySchema.parse(more)
const random = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true })

describe('exponential backoff', () => {
  test.each([
    [1, 1_000],
    [2, 2_000],
    [5, 16_000],
    [9, 256_000],
    [10, 300_000],
    [1_000, 300_000],
    [Number.MAX_SAFE_INTEGER, 300_000],
  ])('after %i failures the pause is at most %i ms', (failures, ms) => {
    expect(retryDelayMs(policy({ jitter: 'none' }), failures, 0.5)).toBe(ms)
  })

  test('full jitter draws between nothing and the limit, for any policy and count', () => {
    const policies = fc.record({
      baseMs: fc.integer({ min: 0, max: 86_400_000 }),
      capMs: fc.integer({ min: 0, max: 86_400_000 }),
      backoff: fc.constantFrom('exponential', 'fixed'),
      jitter: fc.constantFrom('full', 'none'),
    })
    fc.assert(
      fc.property(policies, fc.integer({ min: 1, max: 100_000 }), random, (fields, failures, chance) => {
        const delayMs = retryDelayMs(policy(fields), failures, chance)
        expect(Number.isSafeInteger(delayMs)).toBe(true)
        expect(delayMs).toBeGreaterThanOrEqual(0)
        expect(delayMs).toBeLessThanOrEqual(
          Math.max(fields.capMs, failures > quickRetries ? leastPauseMs : 0),
        )
      }),
    )
  })

  test('the limit never shrinks from one failure to the next', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 2_000 }), (failures) => {
        const flat = policy({ jitter: 'none' })
        expect(retryDelayMs(flat, failures + 1, 0)).toBeGreaterThanOrEqual(retryDelayMs(flat, failures, 0))
      }),
    )
  })

  test('a policy without pauses has some in the long run (case limit.backoff_zero)', () => {
    const none = policy({ baseMs: 0, jitter: 'none' })
    expect(
      [1, quickRetries, quickRetries + 1, 1_000].map((failures) => retryDelayMs(none, failures, 0)),
    ).toEqual([0, 0, leastPauseMs, leastPauseMs])
  })

  test('fixed backoff keeps the base, under the cap', () => {
    const fixed = policy({ backoff: 'fixed', baseMs: 7_000, jitter: 'none' })
    expect([1, 2, 500].map((failures) => retryDelayMs(fixed, failures, 0.3))).toEqual([7_000, 7_000, 7_000])
    const capped = policy({ backoff: 'fixed', baseMs: 7_000, capMs: 5_000, jitter: 'none' })
    expect(retryDelayMs(capped, 1, 0.3)).toBe(5_000)
  })
})

describe('a list of delays', () => {
  test('is gone through in turn, and its last repeats, at any count', () => {
    const list = policy({ backoff: 'list', delaysMs: [10_000, 60_000, 600_000], jitter: 'none' })
    expect([1, 2, 3, 4, 999, 1_000].map((failures) => retryDelayMs(list, failures, 0.3))).toEqual([
      10_000, 60_000, 600_000, 600_000, 600_000, 600_000,
    ])
  })

  test('full jitter draws between nothing and the delay of that turn', () => {
    const delays = fc.array(fc.integer({ min: 0, max: 86_400_000 }), { minLength: 1, maxLength: 100 })
    fc.assert(
      fc.property(delays, fc.integer({ min: 1, max: 1_000 }), random, (delaysMs, failures, chance) => {
        const list = policy({ backoff: 'list', delaysMs })
        const delayMs = retryDelayMs(list, failures, chance)
        expect(Number.isSafeInteger(delayMs)).toBe(true)
        expect(delayMs).toBeGreaterThanOrEqual(0)
        const saidMs = delaysMs[failures - 1] ?? delaysMs.at(-1) ?? -1
        expect(delayMs).toBeLessThanOrEqual(Math.max(saidMs, failures > quickRetries ? leastPauseMs : 0))
      }),
    )
  })

  test.each([
    [{ backoff: 'list' }, 'delaysMs', 'is needed with the backoff "list"'],
    [{ delaysMs: [1] }, 'delaysMs', 'has no meaning with the backoff "exponential"'],
    [{ backoff: 'fixed', delaysMs: [1] }, 'delaysMs', 'has no meaning with the backoff "fixed"'],
    [{ retryOn: ['a'], neverRetryOn: ['b', 'a'] }, 'neverRetryOn.1', 'stands in retryOn too'],
    [{ retryOn: ['*'] }, 'retryOn.0', 'is not an error code'],
    [{ retryOn: ['a b'] }, 'retryOn.0', 'is not an error code'],
    [{ maxAttempts: 1_001 }, 'maxAttempts', 'Too big'],
  ])('%j is refused at %s', (fields, path, words) => {
    const { error } = retryPolicySchema.safeParse(fields)
    expect(error?.issues).toHaveLength(1)
    expect(error?.issues[0]?.message).toContain(words)
    expect(error?.issues[0]?.path.join('.')).toBe(path)
  })
})

test.each([
  [['http_503'], true],
  [['http_5xx'], true],
  [['http_5*'], true],
  [['http_status'], true],
  [['http_*'], true],
  [['http_50'], false],
  [['http_4xx', 'http_502'], false],
  [['HTTP_503'], false],
])('an answer 503 is among %j: %s', (retryOn, expected) => {
  expect(mayRetry(policy({ retryOn }), retryCodesOf('http_status', 503), false)).toBe(expected)
  expect(mayRetry(policy({ neverRetryOn: retryOn }), retryCodesOf('http_status', 503), true)).toBe(!expected)
})

describe('Retry-After', () => {
  test('is a lower bound, also above the cap', () => {
    expect(retryDelayMs(policy(), 1, 0.5, 600_000)).toBe(600_000)
    expect(retryDelayMs(policy({ jitter: 'none' }), 9, 0, 1_000)).toBe(256_000)
  })

  test.each([
    [Number.MAX_SAFE_INTEGER, longestRetryAfterMs],
    [Number.POSITIVE_INFINITY, 0],
    [Number.NaN, 0],
    [-5, 0],
  ])('%d is taken as %d', (asked, ms) => {
    expect(retryDelayMs(policy(), 1, 0, asked)).toBe(ms)
  })
})

test('the budget counts failures, the last one included', () => {
  expect([1, 2, 3].map((failures) => hasAttemptsLeft(policy({ maxAttempts: 3 }), failures))).toEqual([
    true,
    true,
    false,
  ])
  expect(hasAttemptsLeft(policy({ maxAttempts: 1_000 }), 999)).toBe(true)
})

test('a crash is followed by a short pause that doubles, at most a minute', () => {
  expect([1, 2, 3, 7, 1_000].map((count) => crashDelayMs(count, 1))).toEqual([
    1_000, 2_000, 4_000, 60_000, 60_000,
  ])
  expect(crashDelayMs(1, 0)).toBe(0)
})

// When a failed attempt may be followed by another: caps, jitter, Retry-After, and no arithmetic accident at
// any count.
import { retryPolicySchema } from '@belfry/contract'
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
        expect(delayMs).toBeLessThanOrEqual(fields.capMs)
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

  test('fixed backoff keeps the base, under the cap', () => {
    const fixed = policy({ backoff: 'fixed', baseMs: 7_000, jitter: 'none' })
    expect([1, 2, 500].map((failures) => retryDelayMs(fixed, failures, 0.3))).toEqual([7_000, 7_000, 7_000])
    const capped = policy({ backoff: 'fixed', baseMs: 7_000, capMs: 5_000, jitter: 'none' })
    expect(retryDelayMs(capped, 1, 0.3)).toBe(5_000)
  })
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

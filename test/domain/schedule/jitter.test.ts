// Jitter is the same everywhere and for ever, later only, inside the window and below the next planned time.

import fc from 'fast-check'
import { expect, test } from 'vitest'
import { jitterMs } from '../../../packages/server/src/domain/schedule/jitter.ts'

const HOUR_MS = 3_600_000

test('stays inside the window and below the next planned time', () => {
  const input = fc.tuple(
    fc.string(),
    fc.integer({ min: 0, max: 4e12 }),
    fc.nat(1e9),
    fc.integer({ min: 1, max: 1e9 }),
  )
  fc.assert(
    fc.property(input, ([id, atMs, windowMs, gapMs]) => {
      const delayMs = jitterMs(id, atMs, windowMs, atMs + gapMs)
      expect(Number.isInteger(delayMs)).toBe(true)
      expect(delayMs).toBeGreaterThanOrEqual(0)
      expect(delayMs).toBeLessThanOrEqual(windowMs)
      expect(delayMs).toBeLessThan(gapMs)
      expect(jitterMs(id, atMs, windowMs, atMs + gapMs)).toBe(delayMs)
    }),
  )
})

test('no window, no delay', () => {
  expect(jitterMs('s', 1_000, 0, null)).toBe(0)
  expect(jitterMs('s', 1_000, 5_000, 1_000)).toBe(0)
})

test('the hash is pinned: a change would move every jittered start', () => {
  const id = '01981d2e-7c3a-7000-8000-000000000001'
  expect([0, 1, 2].map((k) => jitterMs(id, k * HOUR_MS, HOUR_MS, null))).toEqual([1770699, 1140172, 772377])
})

test('spreads schedules and times evenly', () => {
  const buckets = Array.from({ length: 10 }, () => 0)
  for (let i = 0; i < 20_000; i++) {
    const delayMs = jitterMs(`schedule-${i % 200}`, Math.floor(i / 200) * HOUR_MS, 1_000, null)
    const bucket = Math.floor(delayMs / 100)
    buckets[bucket] = (buckets[bucket] ?? 0) + 1
  }
  for (const count of buckets) expect(Math.abs(count - 2_000)).toBeLessThan(200)
})

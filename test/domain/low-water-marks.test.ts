// The low-water mark of claims: old enough, never in the way of a row for long, and reset by what a full scan
// finds.
import { describe, expect, test } from 'vitest'
import { createLowWaterMarks } from '../../packages/server/src/engine/low-water-marks.ts'

/** A claim of queue `q` that took runs up to `highestTag`, at `atMs`. */
function harness() {
  const marks = createLowWaterMarks()
  return {
    minTag: (atMs: number) => marks.minTag('q', atMs),
    claim(atMs: number, highestTag: number | null, more: { durationMs?: number; filled?: boolean } = {}) {
      const minTag = marks.minTag('q', atMs)
      const report = {
        queue: 'q',
        minTag,
        highestTag,
        filled: more.filled ?? true,
        durationMs: more.durationMs ?? 1_000,
      }
      marks.report(report, atMs)
      return minTag
    },
  }
}

describe('low-water marks', () => {
  test('the first claim looks from the beginning', () => {
    expect(harness().minTag(0)).toBe(-Infinity)
  })

  test('a mark is a second old: rows that were numbered before it may still be on their way', () => {
    const queue = harness()
    queue.claim(0, 10)
    queue.claim(500, 20)
    expect(queue.minTag(900)).toBe(-Infinity)
    expect(queue.minTag(1_000)).toBe(10)
    expect(queue.minTag(1_499)).toBe(10)
    expect(queue.minTag(1_500)).toBe(20)
  })

  test('looks from the beginning again after 10 s, however expensive that is', () => {
    const queue = harness()
    queue.claim(0, 10, { durationMs: 60_000 })
    expect(queue.minTag(9_999)).toBe(10)
    expect(queue.minTag(10_000)).toBe(-Infinity)
  })

  test('and as often as it costs little: a twentieth of the time', () => {
    const queue = harness()
    queue.claim(0, 10, { durationMs: 100 })
    queue.claim(1_500, 20, { durationMs: 1 })
    expect(queue.minTag(1_999)).toBe(10)
    expect(queue.minTag(2_000)).toBe(-Infinity)
  })

  test('a full scan that found more than it could take moves the mark back to there', () => {
    const queue = harness()
    queue.claim(0, 1_000)
    expect(queue.claim(5_000, 2_000)).toBe(1_000)
    expect(queue.claim(10_000, 7)).toBe(-Infinity)
    expect(queue.minTag(11_500)).toBe(7)
  })

  test('a full scan that took all there was behind the mark leaves the mark', () => {
    const queue = harness()
    queue.claim(0, 1_000)
    queue.claim(10_000, 7, { filled: false })
    expect(queue.minTag(11_500)).toBe(1_000)
  })

  test('an empty claim leaves the mark', () => {
    const queue = harness()
    queue.claim(0, 10)
    expect(queue.claim(2_000, null, { filled: false })).toBe(10)
    expect(queue.minTag(4_000)).toBe(10)
  })

  test('queues do not share marks', () => {
    const marks = createLowWaterMarks()
    marks.report({ queue: 'a', minTag: -Infinity, highestTag: 9, filled: true, durationMs: 1_000 }, 0)
    expect(marks.minTag('a', 2_000)).toBe(9)
    expect(marks.minTag('b', 2_000)).toBe(-Infinity)
  })

  test('of ten thousand queues are kept, and the least recently used goes first', () => {
    const marks = createLowWaterMarks()
    const report = (queue: string, nowMs: number): void =>
      marks.report({ queue, minTag: -Infinity, highestTag: 9, filled: true, durationMs: 60_000 }, nowMs)
    for (let n = 0; n < 10_000; n++) report(`q${n}`, 0)
    expect(marks.minTag('q0', 2_000)).toBe(9)
    report('one more', 2_000)
    expect(marks.minTag('q0', 2_000)).toBe(9)
    expect(marks.minTag('q2', 2_000)).toBe(9)
    expect(marks.minTag('q1', 2_000)).toBe(-Infinity)
  })

  test('follow a busy queue at a distance of a second, and of an eighth of one more at most', () => {
    const queue = harness()
    queue.claim(0, 0, { durationMs: 60_000 })
    for (let atMs = 1; atMs < 9_000; atMs++) {
      const mark = queue.claim(atMs, atMs)
      if (atMs < 1_500) continue
      expect(mark).toBeLessThanOrEqual(atMs - 1_000)
      expect(mark).toBeGreaterThanOrEqual(atMs - 1_130)
    }
  })
})

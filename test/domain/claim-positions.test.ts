// Where claims of a busy queue begin: where the last one ended, and behind it often enough.
import { describe, expect, test } from 'vitest'
import { createClaimPositions } from '../../packages/server/src/engine/claim-positions.ts'
import { createLowWaterMarks } from '../../packages/server/src/engine/low-water-marks.ts'

/** A claim of queue `q` at `atMs` that took runs up to `highestTag`; answers where it began. */
function harness() {
  const positions = createClaimPositions(createLowWaterMarks())
  return (atMs: number, highestTag: number | null, filled = true): number => {
    const { minTag, maxTag } = positions.range('q', atMs)
    positions.report({ queue: 'q', minTag, maxTag, highestTag, filled, durationMs: 90 }, atMs)
    return minTag
  }
}

describe('claim positions', () => {
  test('a claim that was filled is followed by one that goes on from there', () => {
    const claim = harness()
    expect(claim(0, 500)).toBe(-Infinity)
    expect(claim(10, 1_000)).toBe(500)
    expect(claim(20, 1_500)).toBe(1_000)
  })

  test('ten times a second it looks behind, from the low-water mark on', () => {
    const claim = harness()
    claim(0, 0)
    for (let atMs = 10; atMs < 2_000; atMs += 10) claim(atMs, atMs)
    const behind = Array.from({ length: 100 }, (_, n) => 2_000 + n * 10).filter(
      (atMs) => claim(atMs, atMs) <= atMs - 1_000,
    )
    expect(behind).toHaveLength(10)
  })

  test('goes back to what it found behind, until that is taken', () => {
    const claim = harness()
    claim(0, 5_000)
    expect(claim(100, 3)).toBe(-Infinity)
    expect(claim(110, 6_000)).toBe(3)
  })

  test('a claim that took all there was is followed by one from the mark on', () => {
    const claim = harness()
    claim(0, 500)
    claim(10, 700, false)
    expect(claim(20, 710)).toBe(-Infinity)
  })

  test('so is an empty one', () => {
    const claim = harness()
    claim(0, 500)
    claim(10, null, false)
    expect(claim(20, null, false)).toBe(-Infinity)
  })
})

// The low-water mark of claims: old enough, never in the way of a row for long, reset by what a full scan
// finds, and in slices where a full scan would take too long.
import { describe, expect, test } from 'vitest'
import { createLowWaterMarks } from '../../packages/server/src/engine/low-water-marks.ts'

/** A claim of queue `q` that took runs up to `highestTag`, at `atMs`. */
function harness() {
  const marks = createLowWaterMarks()
  return {
    minTag: (atMs: number) => marks.range('q', atMs).minTag,
    claim(atMs: number, highestTag: number | null, more: { durationMs?: number; filled?: boolean } = {}) {
      const range = marks.range('q', atMs)
      const { filled = true, durationMs = 90 } = more
      marks.report({ queue: 'q', ...range, highestTag, filled, durationMs }, atMs)
      return range.minTag
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

  test('looks from the beginning as often as it costs little: a twentieth of the time', () => {
    const queue = harness()
    queue.claim(0, 10, { durationMs: 99 })
    queue.claim(1_500, 20, { durationMs: 1 })
    expect(queue.minTag(1_979)).toBe(10)
    expect(queue.minTag(1_980)).toBe(-Infinity)
  })

  test('one scan that took long is not believed: it may have waited for a connection', () => {
    const queue = harness()
    queue.claim(0, 10, { durationMs: 5_000 })
    queue.claim(2_000, 20, { durationMs: 1 })
    queue.claim(4_000, 30, { durationMs: 4_000 })
    expect(queue.minTag(4_100)).toBe(-Infinity)
  })

  test('a claim that failed for another reason than its length says nothing of how long one takes', () => {
    const marks = createLowWaterMarks()
    const all = { queue: 'q', minTag: -Infinity, maxTag: Infinity }
    marks.failed(all, undefined, 5_000)
    expect(marks.range('q', 5_001).minTag).toBe(-Infinity)
    marks.failed(all, 5_000, 10_000)
    expect(marks.range('q', 10_001).maxTag, 'a slice').toBeLessThan(Infinity)
  })

  test('a full scan that found more than it could take moves the mark back to there', () => {
    const queue = harness()
    queue.claim(0, 1_000)
    expect(queue.claim(1_500, 2_000)).toBe(1_000)
    expect(queue.claim(1_800, 7)).toBe(-Infinity)
    expect(queue.minTag(3_000)).toBe(7)
  })

  test('a full scan that took all there was behind the mark leaves the mark', () => {
    const queue = harness()
    queue.claim(0, 1_000)
    queue.claim(1_500, 1_000)
    queue.claim(1_800, 7, { filled: false })
    expect(queue.minTag(3_000)).toBe(1_000)
  })

  test('an empty claim leaves the mark', () => {
    const queue = harness()
    queue.claim(0, 10)
    expect(queue.claim(1_500, null, { filled: false })).toBe(10)
    expect(queue.minTag(1_700)).toBe(10)
  })

  test('queues do not share marks', () => {
    const marks = createLowWaterMarks()
    const from = { minTag: -Infinity, maxTag: Infinity }
    marks.report({ queue: 'a', ...from, highestTag: 9, filled: true, durationMs: 90 }, 0)
    expect(marks.range('a', 1_500).minTag).toBe(9)
    expect(marks.range('b', 1_500).minTag).toBe(-Infinity)
  })

  test('of ten thousand queues are kept, and the least recently used goes first', () => {
    const marks = createLowWaterMarks()
    const report = (queue: string, nowMs: number): void => {
      const from = { minTag: -Infinity, maxTag: Infinity }
      marks.report({ queue, ...from, highestTag: 9, filled: true, durationMs: 90 }, nowMs)
    }
    for (let n = 0; n < 10_000; n++) report(`q${n}`, 0)
    expect(marks.range('q0', 1_200).minTag).toBe(9)
    report('one more', 1_200)
    expect(marks.range('q0', 1_200).minTag).toBe(9)
    expect(marks.range('q2', 1_200).minTag).toBe(9)
    expect(marks.range('q1', 1_200).minTag).toBe(-Infinity)
  })

  test('follow a busy queue at a distance of a second, and of an eighth of one more at most', () => {
    const queue = harness()
    for (let atMs = 0; atMs < 9_000; atMs++) {
      const mark = queue.claim(atMs, atMs)
      if (atMs < 1_500 || mark === -Infinity) continue
      expect(mark).toBeLessThanOrEqual(atMs - 1_000)
      expect(mark).toBeGreaterThanOrEqual(atMs - 1_130)
    }
  })
})

const claimMs = 10
const limit = 500
const entriesPerMs = 3_000
const timeoutMs = 5_000

/**
 * A queue whose claimed rows stay in the index: 20 tags a millisecond are claimed, and each that lies in the
 * way of a claim costs time. `alive` are rows that are still to be claimed.
 */
function crowdedQueue(deadUpTo: number) {
  const marks = createLowWaterMarks()
  const alive = new Set<number>()
  let nowMs = 0
  let front = deadUpTo
  let behindMs = 0
  let longestMs = 0
  function claim(): readonly number[] {
    const { minTag, maxTag } = marks.range('q', nowMs)
    const reaches = maxTag > front
    const found = [...alive].filter((tag) => tag >= minTag && tag < maxTag).sort((a, b) => a - b)
    const taken = found.slice(0, limit)
    const room = reaches ? limit - taken.length : 0
    const walkedTo = taken.length === limit ? (taken.at(-1) ?? front) : Math.min(maxTag, front)
    const overMs = Math.max(0, walkedTo - Math.max(0, minTag)) / entriesPerMs
    const isBehind = minTag < front - 75_000
    nowMs += claimMs + Math.min(overMs, timeoutMs)
    if (isBehind) behindMs += Math.min(overMs, timeoutMs)
    longestMs = Math.max(longestMs, overMs)
    const durationMs = 1 + overMs
    if (overMs > timeoutMs) {
      marks.failed({ queue: 'q', minTag, maxTag }, timeoutMs, nowMs)
      return []
    }
    for (const tag of taken) alive.delete(tag)
    const highestTag = room > 0 ? front + room : (taken.at(-1) ?? null)
    if (room > 0) front += room
    const filled = taken.length + room >= limit
    marks.report({ queue: 'q', minTag, maxTag, highestTag, filled, durationMs }, nowMs)
    return room > 0 ? [...taken, front] : taken
  }
  return {
    claim,
    add: (tag: number) => alive.add(tag),
    front: () => front,
    nowMs: () => nowMs,
    forget: () => {
      behindMs = 0
      longestMs = 0
    },
    costs: () => ({ behindMs, longestMs }),
  }
}

describe('behind the mark of a queue in which rows that are gone stay', () => {
  test('a worker that comes new finds what there is, though a look over all is cut off', () => {
    const queue = crowdedQueue(60_000_000)
    let claims = 0
    while (queue.claim().length === 0) claims += 1
    expect(claims).toBeLessThan(2_000)
    expect(queue.nowMs()).toBeLessThan(60_000)
  })

  test('looking behind costs a tenth of the time at most, and no claim waits long for it', () => {
    const queue = crowdedQueue(10_000_000)
    while (queue.nowMs() < 20_000) queue.claim()
    queue.forget()
    const startedMs = queue.nowMs()
    while (queue.nowMs() < startedMs + 300_000) queue.claim()
    const { behindMs, longestMs } = queue.costs()
    expect(behindMs / (queue.nowMs() - startedMs)).toBeLessThan(0.11)
    expect(longestMs).toBeLessThan(250)
  })

  test.each([
    { name: 'a row that came back lately is found within seconds', back: 20_000, withinMs: 15_000 },
    { name: 'the oldest row is found when the walk comes by', back: 9_999_990, withinMs: 200_000 },
  ])('$name', ({ back, withinMs }) => {
    const queue = crowdedQueue(10_000_000)
    while (queue.nowMs() < 30_000) queue.claim()
    const tag = queue.front() - back
    queue.add(tag)
    const addedMs = queue.nowMs()
    while (!queue.claim().includes(tag)) expect(queue.nowMs() - addedMs).toBeLessThan(withinMs)
  })

  test('more rows than one claim takes all come, from wherever they are', () => {
    const queue = crowdedQueue(10_000_000)
    while (queue.nowMs() < 20_000) queue.claim()
    const tags = Array.from({ length: 3_000 }, (_, n) => n * 1_000 + 0.5)
    for (const tag of tags) queue.add(tag)
    const found = new Set<number>()
    while (found.size < tags.length && queue.nowMs() < 400_000)
      for (const tag of queue.claim()) if (!Number.isInteger(tag)) found.add(tag)
    expect(found.size).toBe(tags.length)
  })

  test('once the rows are gone, full scans are quick again, and come back', () => {
    const marks = createLowWaterMarks()
    const full = { minTag: -Infinity, maxTag: Infinity }
    marks.report({ queue: 'q', ...full, highestTag: 50_000, filled: true, durationMs: 400 }, 0)
    const seen = new Set<number>()
    for (let nowMs = 10_000; nowMs < 20_000; nowMs += 10) {
      const range = marks.range('q', nowMs)
      if (range.maxTag === Infinity) seen.add(range.minTag)
      marks.report({ queue: 'q', ...range, highestTag: null, filled: false, durationMs: 1 }, nowMs)
    }
    expect(seen).toContain(-Infinity)
  })
})

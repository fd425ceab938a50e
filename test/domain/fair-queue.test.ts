// Fair order: tags, virtual time, weight and priority.
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { createTagClock, placesPerPriority, tagOfPlace } from '../../packages/server/src/domain/fair-queue.ts'

const run = (tenantId: string, more: { weight?: number; priority?: number; queue?: string } = {}) => ({
  queue: 'default',
  tenantId,
  weight: 1,
  priority: 0,
  ...more,
})

/** One that knows of its queues that nothing was served yet. */
function clockOf(queues: readonly string[] = ['default']) {
  const clock = createTagClock()
  for (const queue of queues) clock.observeClaimed(queue, 0)
  return clock
}

/** Serves a queue lowest tag first, telling the clock about each claim, and answers who was served. */
function serve(
  clock: ReturnType<typeof createTagClock>,
  waiting: { who: string; tag: number }[],
  count: number,
) {
  const served: string[] = []
  for (let turn = 0; turn < count; turn++) {
    waiting.sort((a, b) => a.tag - b.tag)
    const next = waiting.shift()
    if (next === undefined) break
    clock.observeClaimed('default', next.tag)
    served.push(next.who)
  }
  return served
}

describe('tags of one process', () => {
  test('a flood of one tenant delays the next run of another by about one', () => {
    const clock = clockOf()
    const waiting = Array.from({ length: 10_000 }, () => ({ who: 'a', tag: clock.next(run('a')) }))
    serve(clock, waiting, 500)
    waiting.push({ who: 'b', tag: clock.next(run('b')) })
    expect(serve(clock, waiting, 3)).toContain('b')
  })

  test('tenants that always have something waiting are served by weight', () => {
    const clock = clockOf()
    const waiting: { who: string; tag: number }[] = []
    for (let i = 0; i < 900; i++) waiting.push({ who: 'light', tag: clock.next(run('light')) })
    for (let i = 0; i < 900; i++) waiting.push({ who: 'heavy', tag: clock.next(run('heavy', { weight: 2 })) })
    const served = serve(clock, waiting, 900)
    const heavy = served.filter((who) => who === 'heavy').length
    expect(heavy).toBeGreaterThanOrEqual(598)
    expect(heavy).toBeLessThanOrEqual(602)
  })

  test('a tenant that was idle saves up nothing', () => {
    const clock = clockOf()
    const early = clock.next(run('b'))
    clock.observeClaimed('default', 5_000)
    expect(clock.next(run('b'))).toBe(5_001)
    expect(early).toBe(1)
  })

  test('queues have each their own time', () => {
    const clock = clockOf(['fast', 'slow'])
    clock.observeClaimed('fast', 1_000_000)
    expect(clock.next(run('a', { queue: 'slow' }))).toBe(1)
    expect(clock.virtualTime('fast')).toBe(1_000_000)
    expect(clock.virtualTime('slow')).toBe(0)
  })

  test('virtual time only grows', () => {
    const clock = clockOf()
    clock.observeClaimed('default', 10)
    clock.observeClaimed('default', 3)
    expect(clock.virtualTime('default')).toBe(10)
  })

  test('forgets tenants that were served, and stays bounded', () => {
    const clock = clockOf()
    for (let i = 0; i < 30_000; i++) {
      clock.next(run(`tenant-${i}`))
      clock.observeClaimed('default', i)
    }
    expect(clock.next(run('tenant-1'))).toBe(30_000)
  })
})

describe('priority', () => {
  test('a high one overtakes the own backlog and nobody else', () => {
    const clock = clockOf()
    const waiting = Array.from({ length: 1_000 }, () => ({ who: 'a', tag: clock.next(run('a')) }))
    waiting.push({ who: 'urgent', tag: clock.next(run('a', { priority: 100 })) })
    waiting.push({ who: 'b', tag: clock.next(run('b')) })
    const served = serve(clock, waiting, 1_002)
    expect(served.indexOf('b')).toBeLessThanOrEqual(1)
    expect(served.indexOf('urgent')).toBeGreaterThan(served.indexOf('b'))
    expect(served.indexOf('urgent')).toBeLessThan(950)
  })

  test('a tenant that gives everything the highest priority gains a bounded lead', () => {
    const clock = clockOf()
    const waiting: { who: string; tag: number }[] = []
    for (let i = 0; i < 2_000; i++)
      waiting.push({ who: 'loud', tag: clock.next(run('loud', { priority: 100 })) })
    for (let i = 0; i < 2_000; i++) waiting.push({ who: 'calm', tag: clock.next(run('calm')) })
    const served = serve(clock, waiting, 3_000)
    const loud = served.filter((who) => who === 'loud').length
    expect(loud - (served.length - loud)).toBeLessThanOrEqual(100 * placesPerPriority)
  })

  test('a low one is served in the end, however many come after it', () => {
    const clock = clockOf()
    const waiting = [{ who: 'low', tag: clock.next(run('a', { priority: -100 })) }]
    const served: string[] = []
    for (let i = 0; i < 300; i++) {
      waiting.push({ who: 'normal', tag: clock.next(run('a')) })
      served.push(...serve(clock, waiting, 1))
    }
    expect(served).toContain('low')
    expect(served.indexOf('low')).toBeGreaterThan(50)
  })

  test('never before the service, never out of order among equals', () => {
    const place = fc.double({ min: 0, max: 1e6, noNaN: true })
    const weight = fc.double({ min: 0.01, max: 100, noNaN: true })
    fc.assert(
      fc.property(
        place,
        place,
        place,
        weight,
        fc.integer({ min: -100, max: 100 }),
        (now, a, b, w, priority) => {
          const step = 1 / w
          const [first, second] = [Math.min(a, b), Math.max(a, b)].map((lead) => now + step + lead)
          const tags = [first, second].map((each) => tagOfPlace(now, each ?? 0, w, priority))
          expect(tags[0]).toBeGreaterThanOrEqual(now)
          expect(tags[1]).toBeGreaterThanOrEqual(tags[0] ?? 0)
          // Nor when the service went on meanwhile, by less than brings it to the second one.
          const later = tagOfPlace(now + (second ?? 0) / 4, second ?? 0, w, priority)
          expect(later).toBeGreaterThanOrEqual((tags[0] ?? 0) * (1 - 1e-9))
        },
      ),
    )
  })
})

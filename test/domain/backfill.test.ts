// What a backfill does with a planned time, as a table; and which times a step looks at, over real schedules.
import { readFileSync } from 'node:fs'
import { backfillReprocesses, terminalRunStates } from '@belfry/contract'
import { describe, expect, test } from 'vitest'
import type { RemainingTimes, TimeFacts, TimeVerdict } from '../../packages/server/src/domain/backfill.ts'
import {
  countedAs,
  decideTime,
  firstOfRange,
  takeTimes,
  upcomingTimes,
} from '../../packages/server/src/domain/backfill.ts'
import { compileStored } from '../../packages/server/src/domain/stored-schedule.ts'
import { zones } from '../support/scheduling.ts'

const hourMs = 3_600_000
const start = Date.UTC(2026, 2, 10)

const none: TimeFacts = {
  excluded: false,
  leftToSchedule: false,
  alive: false,
  hasRun: false,
  endedAs: null,
}

describe('what becomes of a planned time', () => {
  const rows: [
    what: string,
    facts: Partial<TimeFacts>,
    ...verdicts: [TimeVerdict, TimeVerdict, TimeVerdict],
  ][] = [
    ['nothing on record', {}, 'run', 'run', 'run'],
    ['succeeded', { hasRun: true, endedAs: 'succeeded' }, 'has_run', 'has_run', 'run'],
    ['failed', { hasRun: true, endedAs: 'failed' }, 'has_run', 'run', 'run'],
    ['upstream failed', { hasRun: true, endedAs: 'upstream_failed' }, 'has_run', 'run', 'run'],
    ['canceled', { hasRun: true, endedAs: 'canceled' }, 'has_run', 'run', 'run'],
    ['skipped by its rule', { hasRun: true, endedAs: 'skipped' }, 'has_run', 'has_run', 'run'],
    ['an end that is no longer on record', { hasRun: true }, 'has_run', 'has_run', 'run'],
    ['alive', { hasRun: true, alive: true }, 'alive', 'alive', 'alive'],
    [
      'alive after one that failed',
      { hasRun: true, alive: true, endedAs: 'failed' },
      'alive',
      'alive',
      'alive',
    ],
    ['excluded', { excluded: true }, 'excluded', 'excluded', 'excluded'],
    [
      'excluded, and failed',
      { excluded: true, hasRun: true, endedAs: 'failed' },
      'excluded',
      'excluded',
      'excluded',
    ],
    ['yet to be fired', { leftToSchedule: true }, 'left_to_schedule', 'left_to_schedule', 'left_to_schedule'],
  ]
  test('the table of docs/reference/schedules.md says the same', () => {
    const header = '| the planned time | `none` | `failed` | `all` |'
    const page = readFileSync(new URL('../../docs/reference/schedules.md', import.meta.url), 'utf8')
    const lines = page.slice(page.indexOf(header)).split('\n')
    const shown = lines.slice(2, lines.indexOf('')).map((line) => line.slice(2, -2).split(' | '))
    const factsOf: Readonly<Record<string, Partial<TimeFacts>>> = {
      'has no run on record': {},
      'has a run whose end is no longer on record': { hasRun: true },
      'has a run that waits or runs': { hasRun: true, alive: true },
      'is excluded by a calendar': { excluded: true },
      'is yet to be fired by the schedule': { leftToSchedule: true },
      ...Object.fromEntries(
        terminalRunStates.map((state) => [`\`${state}\``, { hasRun: true, endedAs: state }]),
      ),
    }
    expect(shown.map(([what = '']) => what).toSorted((a, b) => (a < b ? -1 : 1))).toEqual(
      Object.keys(factsOf).toSorted(),
    )
    for (const [what = '', ...cells] of shown) {
      const facts = { ...none, ...factsOf[what] }
      const decided = backfillReprocesses.map((reprocess) => decideTime(facts, reprocess))
      expect([what, ...cells]).toEqual([
        what,
        ...decided.map((verdict) => (verdict === 'run' ? 'runs' : '-')),
      ])
    }
  })

  test.each(rows)('%s', (_what, facts, ...verdicts) => {
    const decided = backfillReprocesses.map((reprocess) => decideTime({ ...none, ...facts }, reprocess))
    expect(decided).toEqual(verdicts)
  })

  test('an end counts as one of three; what ended out of sight as failed', () => {
    expect(countedAs('succeeded')).toBe('succeeded')
    expect(['failed', 'upstream_failed', 'unknown'].map((end) => countedAs(end as 'failed'))).toEqual([
      'failed',
      'failed',
      'failed',
    ])
    expect([countedAs('canceled'), countedAs('skipped')]).toEqual(['canceled', 'canceled'])
  })
})

describe('which times a step looks at', () => {
  const hourly = compiled({ every: '1h', everyMs: hourMs, anchorMs: start })
  const day: Omit<RemainingTimes, 'order' | 'nextAtMs'> = { fromMs: start, toMs: start + 24 * hourMs }

  /** All of them, step by step. */
  function walk(times: typeof hourly, range: Omit<RemainingTimes, 'nextAtMs'>, limit: number): number[] {
    const all: number[] = []
    let nextAtMs = firstOfRange(times, range)
    while (nextAtMs !== null) {
      const { timesMs, behindMs } = upcomingTimes(times, { ...range, nextAtMs }, limit)
      expect(timesMs.length).toBeGreaterThan(0)
      expect(timesMs.length).toBeLessThanOrEqual(limit)
      expect(timesMs[0]).toBe(nextAtMs)
      all.push(...timesMs)
      nextAtMs = behindMs
    }
    return all
  }

  test.each([1, 7, 24, 100])('the whole range once, in either order, %i at a time', (limit) => {
    const forward = walk(hourly, { ...day, order: 'oldest_first' }, limit)
    expect(forward).toEqual(Array.from({ length: 24 }, (_, hour) => start + hour * hourMs))
    expect(walk(hourly, { ...day, order: 'newest_first' }, limit)).toEqual(forward.toReversed())
  })

  test('the start belongs to the range, the end does not', () => {
    const twoHours = { fromMs: start + hourMs, toMs: start + 3 * hourMs }
    expect(walk(hourly, { ...twoHours, order: 'oldest_first' }, 10)).toEqual([
      start + hourMs,
      start + 2 * hourMs,
    ])
    const between = { fromMs: start + 1, toMs: start + hourMs }
    expect(firstOfRange(hourly, { ...between, order: 'oldest_first' })).toBeNull()
    expect(firstOfRange(hourly, { ...between, order: 'newest_first' })).toBeNull()
  })

  test('a next time that is none any more gives its place to the one behind it', () => {
    const nextAtMs = start + hourMs + 60_000
    const forward = upcomingTimes(hourly, { ...day, order: 'oldest_first', nextAtMs }, 1)
    expect(forward).toEqual({ timesMs: [start + 2 * hourMs], behindMs: start + 3 * hourMs })
    const back = upcomingTimes(hourly, { ...day, order: 'newest_first', nextAtMs }, 1)
    expect(back).toEqual({ timesMs: [start + hourMs], behindMs: start })
  })

  test('a clock that is set back gives both of its times, and each is a time of its own', () => {
    // 2026-10-25 in Berlin: 02:30 comes twice
    const zone = 'Europe/Berlin'
    const twice = compiled({ cron: '30 2 * * *', dialect: 'unix', dst: { overlap: 'both' } }, zone)
    const range = { fromMs: Date.UTC(2026, 9, 24), toMs: Date.UTC(2026, 9, 27) }
    const times = walk(twice, { ...range, order: 'oldest_first' }, 2)
    expect(times.map((atMs) => new Date(atMs).toISOString())).toEqual([
      '2026-10-24T00:30:00.000Z',
      '2026-10-25T00:30:00.000Z',
      '2026-10-25T01:30:00.000Z',
      '2026-10-26T01:30:00.000Z',
    ])
    expect(walk(twice, { ...range, order: 'newest_first' }, 3)).toEqual(times.toReversed())
  })
})

describe('what a step takes of the times it looked at', () => {
  const judged = (...verdicts: TimeVerdict[]) =>
    verdicts.map((verdict, index) => ({ scheduledForMs: start + index * hourMs, verdict }))

  test('as many as there are free places; the cursor stays at the one that has to wait', () => {
    const times = judged('run', 'has_run', 'run', 'alive', 'run', 'run')
    expect(takeTimes(times, 2, start + 6 * hourMs)).toEqual({
      startMs: [start, start + 2 * hourMs],
      skipped: 2,
      nextAtMs: start + 4 * hourMs,
    })
  })

  test('all of them where there is room, and on to the one behind', () => {
    const times = judged('excluded', 'run', 'left_to_schedule')
    expect(takeTimes(times, 5, null)).toEqual({ startMs: [start + hourMs], skipped: 2, nextAtMs: null })
    expect(takeTimes([], 5, null)).toEqual({ startMs: [], skipped: 0, nextAtMs: null })
  })

  test('what is passed over takes no place', () => {
    const { startMs, skipped, nextAtMs } = takeTimes(judged('has_run', 'has_run', 'run'), 1, 1)
    expect([startMs.length, skipped, nextAtMs]).toEqual([1, 2, 1])
  })
})

function compiled(spec: object, zone = 'UTC') {
  const stored = { scheduleId: '', spec, zone, startAtMs: null, endAtMs: null }
  const result = compileStored(stored, zones)
  if (!result.ok) throw new Error(result.error)
  return result.value
}

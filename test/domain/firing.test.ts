// What a fire decides: catch-up, overlap, bounds, the chain of planned times.
import type { OverlapPolicy } from '@belfry/contract'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { openZoneSource } from '../../packages/server/src/adapters/zones/zone-source.ts'
import { catchUpGraceMs, type FirePolicy } from '../../packages/server/src/domain/fire-policy.ts'
import {
  type DecidedFire,
  maxCounted,
  maxLookedAt,
  maxMissedRows,
  planFire,
  plannedTimeAfter,
} from '../../packages/server/src/domain/firing.ts'
import { compileStored } from '../../packages/server/src/domain/stored-schedule.ts'

const minuteMs = 60_000
const hourMs = 60 * minuteMs
const dayMs = 24 * hourMs
const t0 = Date.UTC(2026, 0, 5)
const zones = openZoneSource()
const scheduleId = '019ad0c1-7f3e-7c63-9a52-6e4d8c1b2a3f'

function policy(more: Partial<FirePolicy> = {}): FirePolicy {
  return {
    scheduleId,
    jitterMs: 0,
    flexibleWindowMs: 0,
    sleepUntilMs: null,
    sleepReason: null,
    catchUp: { policy: 'latest', windowMs: 365 * dayMs, maxRuns: 100 },
    overlap: 'allow',
    ...more,
  }
}

function times(spec: object, bounds: { startAtMs?: number; endAtMs?: number } = {}, zone = 'UTC') {
  const compiled = compileStored({ scheduleId, spec, zone, startAtMs: null, endAtMs: null, ...bounds }, zones)
  if (!compiled.ok) throw new Error(compiled.error)
  return compiled.value
}

const every = (everyMs: number) => times({ every: 'x', everyMs, anchorMs: t0 })
const cron = (expression: string) => times({ cron: expression, dialect: 'unix' })
const at = (ms: number) => ({ scheduledForMs: ms, dueAtMs: ms })

/** `ran@60 missed@0x3`: outcome, seconds after t0, and the count where it is not 1. */
function brief(fire: DecidedFire): string {
  const parts = fire.occurrences.map(({ outcome, reason, scheduledForMs, missedCount }) => {
    const many = missedCount === 1 ? '' : `x${missedCount}`
    return `${reason ?? outcome}@${(scheduledForMs - t0) / 1_000}${many}`
  })
  const next = fire.next === null ? 'end' : String((fire.next.scheduledForMs - t0) / 1_000)
  return `${parts.join(' ')} -> ${next}`
}

describe('catch-up and overlap', () => {
  const all = (windowMs: number, maxRuns = 100) => ({ policy: 'all' as const, windowMs, maxRuns })
  const none = { policy: 'none' as const, windowMs: dayMs, maxRuns: 100 }
  const every10s = every(10_000)
  test.each<[string, Partial<FirePolicy>, number, string]>([
    ['on time', {}, 0, 'ran@0 -> 10'],
    ['a little late', {}, 9_999, 'ran@0 -> 10'],
    [
      'latest: the last due one runs',
      {},
      35_000,
      'catch_up_latest@0 catch_up_latest@10 catch_up_latest@20 ran@30 -> 40',
    ],
    ['due at this very instant counts', {}, 10_000, 'catch_up_latest@0 ran@10 -> 20'],
    ['all', { catchUp: all(dayMs) }, 35_000, 'ran@0 ran@10 ran@20 ran@30 -> 40'],
    [
      'all, within the window only',
      { catchUp: all(15_000) },
      35_000,
      'catch_up_window@0 catch_up_window@10 ran@20 ran@30 -> 40',
    ],
    [
      'all, the newest maxRuns',
      { catchUp: all(dayMs, 2) },
      35_000,
      'catch_up_window@0 catch_up_window@10 ran@20 ran@30 -> 40',
    ],
    [
      'all, overlap skip: the newest runs',
      { catchUp: all(dayMs), overlap: 'skip' },
      25_000,
      'overlap@0 overlap@10 ran@20 -> 30',
    ],
    ['none: within the grace all run', { catchUp: none }, 25_000, 'ran@0 ran@10 ran@20 -> 30'],
    [
      'none: beyond the grace they are missed',
      { catchUp: none },
      75_000,
      'catch_up_none@0 catch_up_none@10 ran@20 ran@30 ran@40 ran@50 ran@60 ran@70 -> 80',
    ],
  ])('%s', (_title, more, lateMs, expected) => {
    expect(brief(planFire(policy(more), every10s, at(t0), t0 + lateMs))).toBe(expected)
  })

  test('a single planned time that is late is simply late, within the window', () => {
    const weekly = every(7 * dayMs)
    const next = 7 * 86_400
    const latest = (windowMs: number) => ({ policy: 'latest' as const, windowMs, maxRuns: 1 })
    for (const late of [policy().catchUp, all(3 * dayMs), latest(3 * dayMs)]) {
      const fire = planFire(policy({ catchUp: late }), weekly, at(t0), t0 + 3 * dayMs)
      expect(brief(fire)).toBe(`ran@0 -> ${next}`)
    }
    for (const late of [all(3 * dayMs - 1), latest(3 * dayMs - 1)]) {
      const fire = planFire(policy({ catchUp: late }), weekly, at(t0), t0 + 3 * dayMs)
      expect(brief(fire)).toBe(`catch_up_window@0 -> ${next}`)
    }
    const { catchUp } = policy({ catchUp: none })
    expect(brief(planFire(policy({ catchUp }), weekly, at(t0), t0 + catchUpGraceMs))).toMatch(/^ran@0/)
    expect(brief(planFire(policy({ catchUp }), weekly, at(t0), t0 + catchUpGraceMs + 1))).toMatch(
      /^catch_up_none@0/,
    )
  })
})

describe('the chain of planned times', () => {
  test('incident 5: a clock that is behind does not break it', () => {
    expect(brief(planFire(policy(), every(10_000), at(t0), t0 - 3))).toBe('ran@0 -> 10')
    expect(brief(planFire(policy(), every(10_000), at(t0), t0 - dayMs))).toBe('ran@0 -> 10')
  })

  test('`at` is spent after its time, also when it is fired late on purpose', () => {
    const once = times({ at: new Date(t0).toISOString() })
    expect(brief(planFire(policy(), once, at(t0), t0))).toBe('ran@0 -> end')
    const runNow = { scheduledForMs: t0, dueAtMs: t0 + 9 * dayMs }
    const none = { policy: 'none' as const, windowMs: dayMs, maxRuns: 1 }
    expect(brief(planFire(policy({ catchUp: none }), once, runNow, t0 + 9 * dayMs))).toBe('ran@0 -> end')
  })

  test('ends at the end bound', () => {
    const bounded = times({ every: 'x', everyMs: 10_000, anchorMs: t0 }, { endAtMs: t0 + 20_000 })
    expect(brief(planFire(policy(), bounded, at(t0 + 10_000), t0 + 10_000))).toBe('ran@10 -> end')
    expect(brief(planFire(policy(), bounded, at(t0), t0 + dayMs))).toBe('catch_up_latest@0 ran@10 -> end')
  })

  test('jitter delays the due instant, keeps the nominal time, and may leave the latest for later', () => {
    const jittered = policy({ jitterMs: 8_000 })
    const tens = every(10_000)
    const first = plannedTimeAfter(jittered, tens, t0 - 1)
    const second = plannedTimeAfter(jittered, tens, t0)
    if (first === null || second === null) throw new Error('a rate never ends')
    expect(second.dueAtMs).toBeGreaterThan(second.scheduledForMs)
    const before = planFire(jittered, tens, first, second.dueAtMs - 1)
    expect(brief(before)).toBe('ran@0 -> 10')
    expect(before.next).toEqual(second)
    expect(brief(planFire(jittered, tens, first, second.dueAtMs))).toBe('catch_up_latest@0 ran@10 -> 20')
  })
})

describe('after a long outage', () => {
  test('a rate of a second over a year: some rows and one that sums the rest', () => {
    const count = (365 * dayMs) / 1_000
    const yearLong = policy({ catchUp: { ...policy().catchUp, windowMs: 366 * dayMs } })
    const { occurrences, next } = planFire(yearLong, every(1_000), at(t0), t0 + 365 * dayMs)
    expect(occurrences).toHaveLength(maxMissedRows + 2)
    expect(occurrences[0]).toMatchObject({
      scheduledForMs: t0,
      outcome: 'missed',
      missedCount: count - maxMissedRows,
    })
    expect(occurrences.at(-1)).toMatchObject({ scheduledForMs: t0 + 365 * dayMs, outcome: 'ran' })
    expect(next?.scheduledForMs).toBe(t0 + 365 * dayMs + 1_000)
  })

  test('everything missed under `none`', () => {
    const none = { policy: 'none' as const, windowMs: dayMs, maxRuns: 100 }
    const hourly = planFire(policy({ catchUp: none }), every(hourMs), at(t0), t0 + 2_000.5 * hourMs)
    expect(hourly.occurrences).toHaveLength(maxMissedRows + 1)
    expect(hourly.occurrences.reduce((sum, { missedCount }) => sum + missedCount, 0)).toBe(2_001)
  })

  test('`all` keeps the newest runs', () => {
    const all = { policy: 'all' as const, windowMs: 365 * dayMs, maxRuns: 1_000 }
    const { occurrences } = planFire(policy({ catchUp: all }), cron('* * * * *'), at(t0), t0 + 10 * dayMs)
    expect(occurrences.filter(({ outcome }) => outcome === 'ran')).toHaveLength(1_000)
    expect(occurrences).toHaveLength(1_000 + maxMissedRows + 1)
    expect(occurrences.reduce((sum, { missedCount }) => sum + missedCount, 0)).toBe(10 * 1_440 + 1)
    expect(occurrences.at(-1)).toMatchObject({ scheduledForMs: t0 + 10 * dayMs, outcome: 'ran' })
  })

  test.each(['* * 29 2 *', '* * * 1 *', '*/7 3-5 * * 1-5', '* * * * *', '0 0 1 1 *'])(
    'work stays bounded for %s over twelve years',
    (expression) => {
      const calendar = cron(expression)
      let steps = 0
      const counted: typeof calendar = {
        ...calendar,
        next: (afterMs) => {
          steps++
          return calendar.next(afterMs)
        },
        missedBetween: (afterMs, untilMs, cap) => {
          const missed = calendar.missedBetween(afterMs, untilMs, cap)
          steps += missed.count
          return missed
        },
      }
      const first = calendar.next(t0) ?? 0
      const { occurrences, next } = planFire(policy(), counted, at(first), t0 + 12 * 365 * dayMs)
      expect(occurrences.length).toBeLessThanOrEqual(maxMissedRows + 2)
      expect(occurrences[0]?.scheduledForMs).toBe(first)
      expect(next?.scheduledForMs).toBe(calendar.next(t0 + 12 * 365 * dayMs))
      expect(steps).toBeLessThan(maxCounted + 50_000)
    },
  )
})

describe('for any schedule, delay and policy', () => {
  const schedules = [
    every(1_000),
    every(7_000),
    every(hourMs),
    cron('* * * * *'),
    cron('*/13 2-4 * * 0'),
    cron('30 2 31 * *'),
  ]
  const anyPolicy = fc.record({
    policy: fc.constantFrom('latest' as const, 'all' as const, 'none' as const),
    windowMs: fc.integer({ min: minuteMs, max: 30 * dayMs }),
    maxRuns: fc.integer({ min: 1, max: 1_000 }),
  })
  const delay = fc.oneof(fc.integer({ min: -5_000, max: 200_000 }), fc.integer({ min: 0, max: 200 * dayMs }))
  const input = fc.record({
    schedule: fc.constantFrom(...schedules),
    catchUp: anyPolicy,
    overlap: fc.constantFrom('skip', 'allow', 'buffer_one') satisfies fc.Arbitrary<OverlapPolicy>,
    jitterMs: fc.constantFrom(0, 500, 90_000),
    delayMs: delay,
  })

  test('each due planned time is accounted for once, in order; the next is later and not yet due', () => {
    fc.assert(
      fc.property(input, ({ schedule, catchUp, overlap, jitterMs, delayMs }) => {
        const with_ = policy({ catchUp, overlap, jitterMs })
        const first = plannedTimeAfter(with_, schedule, t0)
        if (first === null) throw new Error('none of these ends')
        const nowMs = first.dueAtMs + delayMs
        const { occurrences, next } = planFire(with_, schedule, first, nowMs)
        const nominal = occurrences.map(({ scheduledForMs }) => scheduledForMs)
        expect(nominal[0]).toBe(first.scheduledForMs)
        expect([...new Set(nominal)].sort((a, b) => a - b)).toEqual(nominal)
        expect(next?.scheduledForMs).toBeGreaterThan(nominal.at(-1) ?? Infinity)
        expect(next?.dueAtMs).toBeGreaterThan(Math.max(nowMs, first.dueAtMs))
        const lastMs = nominal.at(-1) ?? 0
        const { count, capped } = schedule.missedBetween(first.scheduledForMs, lastMs, maxCounted)
        const accounted = occurrences.reduce((sum, { missedCount }) => sum + missedCount, 0)
        // A count that is capped is a lower bound.
        const all = capped ? accounted : count + 1
        expect(accounted).toBe(all)
        expect(accounted).toBeGreaterThanOrEqual(Math.min(count, maxCounted))
        expect(next).toEqual(plannedTimeAfter(with_, schedule, lastMs))
        const ran = occurrences.filter(({ outcome }) => outcome === 'ran').length
        const most = { latest: 1, all: catchUp.maxRuns, none: 61 }[catchUp.policy]
        const atMs = Math.max(nowMs, first.dueAtMs)
        const newestMs = plannedTimeAfter(with_, schedule, lastMs - 1)?.dueAtMs ?? 0
        const inTime = catchUp.policy !== 'none' && atMs - newestMs <= catchUp.windowMs
        expect(ran).toBeGreaterThanOrEqual(inTime ? 1 : 0)
        const together = overlap === 'skip' ? 1 : overlap === 'buffer_one' ? 2 : most
        expect(ran).toBeLessThanOrEqual(Math.min(most, together))
      }),
      { numRuns: 300 },
    )
  })
})

describe('work under calendars', () => {
  test('fewer older times are looked at where a look is dear; all are accounted for', () => {
    const minutely = every(minuteMs)
    for (const [mostLooks, most] of [
      [10, 50],
      [300, 300],
      [1e9, maxLookedAt],
    ] as const) {
      let looked = 0
      const exclusionOf = () => (looked++, { detail: 'left out' })
      const fire = planFire(
        policy(),
        { ...minutely, exclusionOf, search: { mostLooks } },
        at(t0),
        t0 + 30 * dayMs,
      )
      expect(looked).toBeLessThanOrEqual(most + 2 * maxMissedRows + 2)
      expect(fire.occurrences.reduce((sum, { missedCount }) => sum + missedCount, 0)).toBe(30 * 1_440 + 1)
    }
  })

  test('a count that stays capped ends the search for the newest times', () => {
    const tens = every(10_000)
    let counts = 0
    const missedBetween: typeof tens.missedBetween = (afterMs, untilMs, cap) => {
      if (counts++ > 1_000) throw new Error('it goes on for ever')
      return { ...tens.missedBetween(afterMs, untilMs, cap), capped: true }
    }
    const { occurrences } = planFire(policy(), { ...tens, missedBetween }, at(t0), t0 + dayMs)
    expect(occurrences.at(-1)).toMatchObject({ scheduledForMs: t0 + dayMs, outcome: 'ran' })
  })
})

describe('stored schedules', () => {
  test('faults come back as words', () => {
    const stored = { scheduleId, zone: 'UTC', startAtMs: null, endAtMs: null }
    expect(compileStored({ ...stored, spec: { cron: '99 * * * *', dialect: 'unix' } }, zones)).toMatchObject({
      ok: false,
    })
    expect(compileStored({ ...stored, spec: { never: true } }, zones)).toMatchObject({ ok: false })
    expect(compileStored({ ...stored, spec: null }, zones)).toMatchObject({ ok: false })
    const daily = { cron: '0 2 * * *', dialect: 'unix' }
    expect(compileStored({ ...stored, spec: daily }, zones).ok).toBe(true)
    const newer = [{ dialect: 'cronie' }, { dayMatch: 'xor' }, { dst: { gap: 'leap' } }, { dst: 'skip' }]
    for (const part of newer) {
      expect(compileStored({ ...stored, spec: { ...daily, ...part } }, zones).ok).toBe(false)
    }
    const lost = compileStored(
      { ...stored, zone: 'Atlantis/Poseidon', spec: { cron: '* * * * *', dialect: 'unix' } },
      zones,
    )
    expect(lost.ok ? '' : lost.error).toContain('Atlantis/Poseidon')
  })
})

// Properties of the evaluator on random expressions, zones and instants, checked against a plain model: walk
// minute by minute around a change of the clock and ask the zone what the wall clock shows.

import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { ZoneRules } from '../../../packages/server/src/domain/zone/zone-rules.ts'
import { compiled, cronSpec, zone } from './schedule-fixtures.ts'

const MINUTE_MS = 60_000
const DAY_MS = 86_400_000
const MAX_DST_GAP_MS = 3 * 3_600_000

const ZONES = [
  'UTC',
  'Europe/Berlin',
  'America/New_York',
  'Australia/Lord_Howe',
  'Antarctica/Troll',
  'America/Nuuk',
  'America/Sao_Paulo',
  'Africa/Casablanca',
  'Asia/Amman',
  'Asia/Gaza',
  'Europe/Dublin',
  'Pacific/Apia',
  'Pacific/Chatham',
  'America/Scoresbysund',
]

type Field = {
  readonly text: string
  readonly values: ReadonlySet<number>
  readonly wild: boolean
  readonly any: boolean
}

const span = (from: number, to: number, step = 1): number[] => {
  const values: number[] = []
  for (let value = from; value <= to; value += step) values.push(value)
  return values
}

/**
 * A field with the values it stands for, so that the model needs no parser; single values stay at or below
 * `max`, so that no day is drawn that some months lack.
 */
function fieldOf(min: number, last: number, max = last): fc.Arbitrary<Field> {
  const value = fc.integer({ min, max })
  const whole = span(min, last)
  return fc.oneof(
    fc.constant({ text: '*', values: new Set(whole), wild: true, any: true }),
    fc.integer({ min: 2, max: last }).map((step) => ({
      text: `*/${step}`,
      values: new Set(span(min, last, step)),
      wild: true,
      any: false,
    })),
    fc.tuple(value, value).map(([a, b]) => {
      const [from, to] = [Math.min(a, b), Math.max(a, b)]
      return { text: `${from}-${to}`, values: new Set(span(from, to)), wild: false, any: false }
    }),
    fc.uniqueArray(value, { minLength: 1, maxLength: 4 }).map((list) => ({
      text: list.join(','),
      values: new Set(list),
      wild: false,
      any: false,
    })),
  )
}

const cronArbitrary = fc.record({
  minute: fieldOf(0, 59),
  hour: fieldOf(0, 23),
  day: fieldOf(1, 31, 28),
  month: fieldOf(1, 12),
  weekday: fieldOf(0, 6),
})
type Cron = typeof cronArbitrary extends fc.Arbitrary<infer T> ? T : never

const textOf = (cron: Cron): string =>
  [cron.minute, cron.hour, cron.day, cron.month, cron.weekday].map((field) => field.text).join(' ')

const zoneArbitrary = fc.constantFrom(...ZONES)
const instantArbitrary = fc
  .integer({ min: 0, max: Date.parse('2199-01-01T00:00:00Z') / 1000 })
  .map((s) => s * 1000)

/** An instant within a day of some change of the clock in the zone. */
function nearChange(rules: ZoneRules, pick: number, offsetMs: number): number {
  const changes = [...rules.timeline.startsMs].filter((ms) => ms > 0 && ms < 7e12)
  const change = changes.length === 0 ? 1.7e12 : (changes[pick % changes.length] ?? 0)
  return change + offsetMs
}

function matches(cron: Cron, localMs: number): boolean {
  const date = new Date(localMs)
  if (!cron.month.values.has(date.getUTCMonth() + 1)) return false
  if (!cron.hour.values.has(date.getUTCHours()) || !cron.minute.values.has(date.getUTCMinutes())) return false
  const day = cron.day.values.has(date.getUTCDate())
  const weekday = cron.weekday.values.has(date.getUTCDay())
  if (cron.day.any || cron.weekday.any) return (cron.day.any || day) && (cron.weekday.any || weekday)
  return day || weekday
}

/** All planned times in (afterMs, untilMs] by the rules as written down, slowly. */
function model(cron: Cron, rules: ZoneRules, afterMs: number, untilMs: number): number[] {
  const fixed = !cron.minute.wild && !cron.hour.wild
  const found = new Set<number>()
  if (fixed) {
    for (let localMs = afterMs - DAY_MS; localMs <= untilMs + DAY_MS; localMs += MINUTE_MS) {
      if (!matches(cron, localMs)) continue
      const resolved = rules.resolveLocal(localMs)
      if (resolved.kind !== 'gap' || resolved.gapMs <= MAX_DST_GAP_MS) found.add(resolved.instantMs)
    }
  } else {
    for (let ms = afterMs; ms <= untilMs; ms += MINUTE_MS) {
      if (matches(cron, ms + rules.offsetAt(ms))) found.add(ms)
    }
  }
  return [...found].filter((ms) => ms > afterMs && ms <= untilMs).sort((a, b) => a - b)
}

describe('cron properties', () => {
  test('agrees with the slow model around changes of the clock', () => {
    const input = fc.tuple(cronArbitrary, zoneArbitrary, fc.nat(), fc.integer({ min: -1440, max: 1440 }))
    fc.assert(
      fc.property(input, ([cron, zoneName, pick, minutes]) => {
        const rules = zone(zoneName)
        const startMs = nearChange(rules, pick, minutes * MINUTE_MS)
        const afterMs = startMs - (startMs % MINUTE_MS)
        const untilMs = afterMs + 2 * DAY_MS
        const schedule = compiled(cronSpec(textOf(cron), zoneName))
        const actual: number[] = []
        for (let ms = schedule.next(afterMs); ms !== null && ms <= untilMs; ms = schedule.next(ms))
          actual.push(ms)
        expect(actual).toEqual(model(cron, rules, afterMs, untilMs))
      }),
      { numRuns: 300 },
    )
  })

  test('strictly increasing, and nothing lies between an answer and the instant before it', () => {
    fc.assert(
      fc.property(cronArbitrary, zoneArbitrary, instantArbitrary, (cron, zoneName, fromMs) => {
        const schedule = compiled(cronSpec(textOf(cron), zoneName))
        let afterMs = fromMs
        for (let i = 0; i < 20; i++) {
          const nextMs = schedule.next(afterMs)
          if (nextMs === null) return
          expect(nextMs).toBeGreaterThan(afterMs)
          expect(schedule.next(nextMs - 1)).toBe(nextMs)
          expect(schedule.next(afterMs + Math.floor((nextMs - 1 - afterMs) / 2))).toBe(nextMs)
          afterMs = nextMs
        }
      }),
      { numRuns: 500 },
    )
  })

  test('the order and repetition of list items are irrelevant', () => {
    const list = fc.array(fc.integer({ min: 0, max: 59 }), { minLength: 1, maxLength: 8 })
    const shuffled = list.chain((items) =>
      fc.tuple(fc.constant(items), fc.shuffledSubarray(items, { minLength: items.length })),
    )
    fc.assert(
      fc.property(shuffled, zoneArbitrary, instantArbitrary, ([items, other], zoneName, fromMs) => {
        const one = compiled(cronSpec(`${items.join(',')} * * * *`, zoneName))
        const two = compiled(cronSpec(`${[...other, ...items].join(',')} * * * *`, zoneName))
        expect(two.next(fromMs)).toBe(one.next(fromMs))
      }),
    )
  })

  test('bounds cut the unbounded answers and change none of them', () => {
    const input = fc.tuple(cronArbitrary, zoneArbitrary, instantArbitrary, fc.nat(1e10), fc.nat(1e11))
    fc.assert(
      fc.property(input, ([cron, zoneName, fromMs, before, length]) => {
        const free = compiled(cronSpec(textOf(cron), zoneName))
        const firstMs = free.next(fromMs + before)
        if (firstMs === null) return
        const bounds = { startAtMs: firstMs, endAtMs: firstMs + length + 1 }
        const schedule = compiled(cronSpec(textOf(cron), zoneName), bounds)
        expect(schedule.next(fromMs)).toBe(firstMs)
        const secondMs = free.next(firstMs)
        expect(schedule.next(firstMs)).toBe(secondMs !== null && secondMs < bounds.endAtMs ? secondMs : null)
        expect(schedule.next(bounds.endAtMs)).toBe(null)
      }),
    )
  })

  test('missed times: count and latest are what stepping through gives', () => {
    fc.assert(
      fc.property(
        cronArbitrary,
        zoneArbitrary,
        instantArbitrary,
        fc.nat(5e9),
        (cron, zoneName, afterMs, length) => {
          const schedule = compiled(cronSpec(textOf(cron), zoneName))
          const untilMs = afterMs + length
          let count = 0
          let latestMs: number | null = null
          for (
            let ms = schedule.next(afterMs);
            ms !== null && ms <= untilMs && count < 2000;
            ms = schedule.next(ms)
          ) {
            count++
            latestMs = ms
          }
          fc.pre(count < 2000)
          expect(schedule.missedBetween(afterMs, untilMs, 2000)).toEqual({ count, capped: false, latestMs })
          const capped = schedule.missedBetween(afterMs, untilMs, 1)
          expect(capped).toEqual({ count: Math.min(count, 1), capped: count > 1, latestMs })
        },
      ),
    )
  })
})

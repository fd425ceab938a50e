// A schedule under calendars against a slow and obvious reading: every time of the schedule in a wide range
// is looked at one by one, moved day by day, and put into a set.

import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  type CalendarDefinition,
  compileCalendar,
} from '../../../packages/server/src/domain/calendar/calendar-definition.ts'
import { withCalendars } from '../../../packages/server/src/domain/calendar/calendar-schedule.ts'
import type {
  ExclusionRules,
  OnExcluded,
} from '../../../packages/server/src/domain/calendar/occurrence-exclusion.ts'
import {
  type CompiledSchedule,
  compileScheduleIn,
  type ScheduleBounds,
  type ScheduleSpec,
} from '../../../packages/server/src/domain/schedule/schedule-spec.ts'
import type { ZoneRules } from '../../../packages/server/src/domain/zone/zone-rules.ts'
import { compiled, cronSpec, instant, iso, nextTimes, zone, zones } from '../schedule/schedule-fixtures.ts'

const DAY = 86_400_000
type Definition = Omit<CalendarDefinition, 'name'>
type Lists = { readonly skipOn?: readonly Definition[]; readonly onlyOn?: readonly Definition[] }

function rulesOf(
  zoneRules: ZoneRules,
  { skipOn = [], onlyOn = [] }: Lists,
  onExcluded: OnExcluded,
): ExclusionRules {
  const compile = (definition: Definition, name: string) => {
    const result = compileCalendar({ name, ...definition }, zones, zoneRules)
    if (!result.ok) throw new Error(JSON.stringify(result.error))
    return result.value
  }
  return {
    skipOn: skipOn.map((each, i) => compile(each, `skip-${i}`)),
    onlyOn: onlyOn.map((each, i) => compile(each, `only-${i}`)),
    onExcluded,
  }
}

function under(
  spec: ScheduleSpec,
  lists: Lists,
  onExcluded: OnExcluded = 'skip',
  bounds?: ScheduleBounds,
): CompiledSchedule {
  const base = compiled(spec, bounds)
  const rules = zone(base.zoneName)
  const result = withCalendars(base, rules, rulesOf(rules, lists, onExcluded))
  if (!result.ok) throw new Error(JSON.stringify(result.error))
  return result.value
}

const weekend: Definition = { weekdays: ['sat', 'sun'] }
const christmas: Definition = { yearly: ['12-25', '12-26'] }
const berlin = (expression: string): ScheduleSpec => cronSpec(expression, 'Europe/Berlin')

describe('planned times under calendars', () => {
  test('skipped ones stay planned, with the calendar and the reason', () => {
    const schedule = under(berlin('0 9 * * *'), { skipOn: [christmas] })
    expect(nextTimes(schedule, '2026-12-24T12:00:00Z', 3)).toEqual([
      '2026-12-25T08:00:00Z',
      '2026-12-26T08:00:00Z',
      '2026-12-27T08:00:00Z',
    ])
    expect(schedule.exclusionOf?.(instant('2026-12-25T08:00:00Z'))).toEqual({
      by: 'skipOn',
      calendar: 'skip-0',
      reason: 'the calendar skip-0 excludes it: every 12-25',
      detail: 'the calendar skip-0 excludes it: every 12-25',
      movedToMs: null,
      untilMs: instant('2026-12-25T23:00:00Z'),
    })
    expect(schedule.exclusionOf?.(instant('2026-12-27T08:00:00Z'))).toBe(null)
  })

  test('a move forward is a planned time of its own, the same as one that is there anyway', () => {
    const schedule = under(berlin('0 9 * * *'), { skipOn: [weekend] }, 'next_business_day')
    expect(nextTimes(schedule, '2026-01-02T12:00:00Z', 3)).toEqual([
      '2026-01-03T08:00:00Z',
      '2026-01-04T08:00:00Z',
      '2026-01-05T08:00:00Z',
    ])
    expect(schedule.exclusionOf?.(instant('2026-01-03T08:00:00Z'))?.detail).toBe(
      'the calendar skip-0 excludes it: Saturday; moved to 2026-01-05T08:00:00Z',
    )
  })

  test('payroll on the 25th is known on the Friday before, and Saturday still has a row', () => {
    const schedule = under(berlin('0 9 25 * *'), { skipOn: [weekend] }, 'previous_business_day')
    expect(nextTimes(schedule, '2026-04-01T00:00:00Z', 3)).toEqual([
      '2026-04-24T07:00:00Z',
      '2026-04-25T07:00:00Z',
      '2026-05-25T07:00:00Z',
    ])
    expect(schedule.previous(instant('2026-04-25T07:00:00Z'))).toBe(instant('2026-04-24T07:00:00Z'))
  })

  test('two times that fall together run once', () => {
    const spec = berlin('0 9 5,6 * *')
    const schedule = under(spec, { skipOn: [weekend] }, 'previous_business_day')
    // 5 and 6 September 2026 are Saturday and Sunday.
    const times = nextTimes(schedule, '2026-09-01T00:00:00Z', 4)
    expect(times).toEqual([
      '2026-09-04T07:00:00Z',
      '2026-09-05T07:00:00Z',
      '2026-09-06T07:00:00Z',
      '2026-10-05T07:00:00Z',
    ])
    const range = [instant('2026-09-01T00:00:00Z'), instant('2026-10-01T00:00:00Z')] as const
    expect(schedule.countBetween(...range)).toEqual({ count: 3, capped: false })
  })

  test('bounds hold for the time before the move', () => {
    const bounds = { startAtMs: instant('2026-04-20T00:00:00Z'), endAtMs: instant('2026-04-26T00:00:00Z') }
    const later = under(berlin('0 9 25 * *'), { skipOn: [weekend] }, 'next_business_day', bounds)
    expect(nextTimes(later, '2026-04-01T00:00:00Z', 5)).toEqual([
      '2026-04-25T07:00:00Z',
      '2026-04-27T07:00:00Z',
    ])
    const outside = { startAtMs: instant('2026-04-25T12:00:00Z') }
    const none = under(berlin('0 9 25 * *'), { skipOn: [weekend] }, 'previous_business_day', outside)
    expect(nextTimes(none, '2026-04-01T00:00:00Z', 1)).toEqual(['2026-05-25T07:00:00Z'])
  })

  test('a single time can be moved too', () => {
    const at: ScheduleSpec = { kind: 'at', at: '2026-04-25T09:00:00', zone: 'Europe/Berlin' }
    const schedule = under(at, { skipOn: [weekend] }, 'next_business_day')
    expect(nextTimes(schedule, '2026-01-01T00:00:00Z', 3)).toEqual([
      '2026-04-25T07:00:00Z',
      '2026-04-27T07:00:00Z',
    ])
  })

  test('what fires more than 24 times a day is not moved, and says so', () => {
    const base = compiled(cronSpec('*/30 * * * *'))
    const rules = rulesOf(zone('UTC'), { skipOn: [weekend] }, 'next_business_day')
    expect(withCalendars(base, zone('UTC'), rules)).toMatchObject({
      ok: false,
      error: [{ pointer: '/onExcluded', message: expect.stringContaining('fires 48 times') as string }],
    })
    const rate = compiled({ kind: 'rate', everyMs: 3_599_000 })
    expect(withCalendars(rate, zone('UTC'), rules).ok).toBe(false)
    expect(withCalendars(compiled({ kind: 'rate', everyMs: 3_600_000 }), zone('UTC'), rules).ok).toBe(true)
  })

  test('a move finds no free day: the time stays, and says so', () => {
    const shut: Definition = { ranges: [{ from: '2026-01-01', to: '2026-12-31' }] }
    const schedule = under(berlin('0 9 1 * *'), { skipOn: [shut] }, 'next_business_day')
    expect(nextTimes(schedule, '2026-01-31T12:00:00Z', 1)).toEqual(['2026-02-01T08:00:00Z'])
    expect(schedule.exclusionOf?.(instant('2026-02-01T08:00:00Z'))).toMatchObject({
      detail:
        'the calendar skip-0 excludes it: 2026-01-01 to 2026-12-31; no business day within 62 days is free',
      movedToMs: null,
    })
    expect(nextTimes(schedule, '2026-12-31T08:00:00Z', 1)).toEqual(['2027-01-01T08:00:00Z'])
  })

  test('without calendars it is the schedule itself', () => {
    const base = compiled(cronSpec('0 9 * * *'))
    const rules = { skipOn: [], onlyOn: [], onExcluded: 'skip' } as const
    expect(withCalendars(base, zone('UTC'), rules)).toEqual({ ok: true, value: base })
  })
})

/** Up to 24 times a day, of every kind, some on changes of the clock. */
const SPECS: readonly ScheduleSpec[] = [
  ...['0 9 * * *', '30 2 * * *', '15 0,8-17 * * *', '0 9 25 * *', '0 0 1,15 * *', '0 12 * * 6'].map(
    (expression): ScheduleSpec => cronSpec(expression),
  ),
  ...['59 23 * * 0,6', '0 9 LW * *', '0 */4 * * *', '30 1-3 * * *', '15 2 * * *', '0,30 2,3 * * 0'].map(
    (expression): ScheduleSpec => cronSpec(expression),
  ),
  { kind: 'cron', dialect: 'unix', expression: '30 1 * * *', dst: { overlap: 'both' } },
  { kind: 'calendar', every: 'every 2 weeks on sat at 09:00', anchor: '2018-01-06' },
  { kind: 'rate', everyMs: 7 * 3_600_000, anchorMs: instant('2018-01-01T00:30:00Z') },
  { kind: 'at', at: '2020-03-29T02:30:00' },
  { kind: 'at', at: '2011-12-30T09:00:00' },
]
/** Among them days that begin late, end early, come twice in part or not at all. */
const ZONES = [
  'UTC',
  'Europe/Berlin',
  'America/Sao_Paulo',
  'Asia/Amman',
  'America/Nuuk',
  'Pacific/Apia',
  'America/Havana',
  'Asia/Beirut',
  'Australia/Lord_Howe',
]

const dateFrom = (year: number, day: number): string =>
  new Date(Date.UTC(year, 0, 1) + day * DAY).toISOString().slice(0, 10)

const definitionArbitrary: fc.Arbitrary<Definition> = fc.oneof(
  fc.constant(weekend),
  fc.constant(christmas),
  fc.constant<Definition>({ weekdays: ['business_days'] }),
  fc.constant<Definition>({ windows: [{ cron: '0 8 * * 1-5', minutes: 300 }] }),
  fc.constant<Definition>({ windows: [{ cron: '30 22 * * *', minutes: 240 }], zone: 'America/New_York' }),
  fc.constant<Definition>({ ranges: [{ from: '2010-01-01', to: '2030-01-01' }] }),
  fc.constant<Definition>({ yearly: ['03-29'], zone: 'Asia/Tokyo' }),
  fc
    .uniqueArray(fc.nat(500), { minLength: 1, maxLength: 80 })
    .map((days) => ({ dates: days.map((day) => dateFrom(2020, day)) })),
  fc.tuple(fc.nat(500), fc.integer({ min: 0, max: 90 })).map(([day, length]) => ({
    ranges: [{ from: dateFrom(2020, day), to: dateFrom(2020, day + length) }],
  })),
  fc.nat(300).map((day) => ({
    ranges: [{ from: `${dateFrom(2020, day)}T11:30`, to: `${dateFrom(2020, day + 20)}T09:00` }],
  })),
)

const caseArbitrary = fc.record({
  spec: fc.constantFrom(...SPECS),
  zoneName: fc.constantFrom(...ZONES),
  skipOn: fc.array(definitionArbitrary, { maxLength: 3 }),
  onlyOn: fc.array(definitionArbitrary, { maxLength: 2 }),
  onExcluded: fc.constantFrom<OnExcluded>('skip', 'next_business_day', 'previous_business_day'),
  /** Apia lost a Friday at the end of 2011; elsewhere 2020 is as good as any year. */
  fromDay: fc.oneof(
    fc.integer({ min: 0, max: 420 }),
    // The clocks change at the ends of March and October, and at Lord Howe a week later or three earlier.
    fc.integer({ min: 55, max: 95 }),
    fc.integer({ min: 245, max: 298 }),
  ),
  bounded: fc.boolean(),
})

/** The wall time that a planned one is meant for: on a clock that is never changed it is planned too. */
function meantFor(spec: ScheduleSpec, localMs: number): number {
  const unchanged = compiled({ ...spec, zone: 'UTC' })
  if (spec.kind === 'rate' || unchanged.next(localMs - 1) === localMs) return localMs
  return unchanged.previous(localMs) ?? localMs
}

/** The set of planned times in (fromMs - 100 days, toMs + 100 days), in order, and which of them run. */
function slowly(
  spec: ScheduleSpec,
  base: CompiledSchedule,
  rules: ExclusionRules,
  fromMs: number,
  toMs: number,
): number[] {
  const zoneRules = zone(base.zoneName)
  const covers = (timeMs: number): boolean =>
    rules.skipOn.some((calendar) => calendar.covers(timeMs) !== null) ||
    (rules.onlyOn.length > 0 && rules.onlyOn.every((calendar) => calendar.covers(timeMs) === null))
  const planned = new Set<number>()
  const endMs = toMs + 100 * DAY
  for (
    let timeMs = base.next(fromMs - 100 * DAY);
    timeMs !== null && timeMs < endMs;
    timeMs = base.next(timeMs)
  ) {
    planned.add(timeMs)
    if (rules.onExcluded === 'skip' || !covers(timeMs)) continue
    const localMs = meantFor(spec, timeMs + zoneRules.offsetAt(timeMs))
    for (let days = 1; days <= 62; days++) {
      const wantedMs = localMs + (rules.onExcluded === 'next_business_day' ? days : -days) * DAY
      const toMs = zoneRules.resolveLocal(wantedMs).instantMs
      const found = new Date(toMs + zoneRules.offsetAt(toMs))
      const sameDay = found.toISOString().slice(0, 10) === new Date(wantedMs).toISOString().slice(0, 10)
      if (!sameDay || found.getUTCDay() % 6 === 0 || covers(toMs)) continue
      planned.add(toMs)
      break
    }
  }
  return [...planned].sort((a, b) => a - b)
}

describe('against a slow and obvious reading', () => {
  test('next, previous, count, missed and list agree', () => {
    fc.assert(
      fc.property(caseArbitrary, ({ spec, zoneName, skipOn, onlyOn, onExcluded, fromDay, bounded }) => {
        const year = zoneName === 'Pacific/Apia' ? 2011 : 2020
        const fromMs = Date.UTC(year, 0, 1) + fromDay * DAY
        const toMs = fromMs + 40 * DAY
        const bounds = bounded ? { startAtMs: fromMs + 5 * DAY, endAtMs: fromMs + 30 * DAY } : {}
        const plain = compileScheduleIn({ ...spec, zone: zoneName }, zones, bounds)
        fc.pre(plain.ok)
        const base = plain.value
        const rules = rulesOf(zone(zoneName), { skipOn, onlyOn }, onExcluded)
        const result = withCalendars(base, zone(zoneName), rules)
        if (!result.ok) throw new Error(JSON.stringify(result.error))
        const schedule = result.value
        const all = slowly(spec, base, rules, fromMs, toMs)
        const expected = all.filter((timeMs) => timeMs > fromMs && timeMs <= toMs)

        const found = schedule.between(fromMs, toMs, 2_000)
        expect(found.map(iso)).toEqual(expected.map(iso))
        const before = all.findLast((timeMs) => timeMs <= fromMs)
        expect([undefined, schedule.previous(fromMs + 1)]).toContain(before)
        const back = found.map((timeMs) => schedule.previous(timeMs))
        expect(back).toEqual(found.map((_, i) => found[i - 1] ?? schedule.previous(fromMs + 1)))
        const targets = found.flatMap((timeMs) => schedule.exclusionOf?.(timeMs)?.movedToMs ?? [])
        expect(targets.map((toMs) => schedule.next(toMs - 1))).toEqual(targets)
        expect(schedule.countBetween(fromMs, toMs)).toEqual({ count: expected.length, capped: false })
        const { count, latestMs } = schedule.missedBetween(fromMs, toMs, 5)
        expect(latestMs).toBe(expected.at(-1) ?? null)
        expect(spec.kind === 'rate' || count <= 5).toBe(true)
      }),
      { numRuns: 80 },
    )
  })

  test('what is said to be steady is steady', () => {
    fc.assert(
      fc.property(
        definitionArbitrary,
        fc.constantFrom(...ZONES),
        fc.nat(400),
        (definition, zoneName, day) => {
          const result = compileCalendar({ name: 'c', ...definition }, zones, zone(zoneName))
          if (!result.ok) throw new Error(JSON.stringify(result.error))
          const calendar = result.value
          const atMs = Date.UTC(2020, 0, 1) + day * DAY + 1_234_000
          const covered = calendar.covers(atMs) !== null
          const untilMs = Math.min(calendar.steadyUntil(atMs), atMs + 3 * DAY)
          expect(untilMs).toBeGreaterThan(atMs)
          for (let timeMs = atMs; timeMs < untilMs; timeMs += 60_000)
            expect([iso(timeMs), calendar.covers(timeMs) !== null]).toEqual([iso(timeMs), covered])
        },
      ),
      { numRuns: 120 },
    )
  })
})

// What a fire decides under every policy, held against a second account of the rules: one that lists all
// planned times and says of each what becomes of it, without any of the arithmetic.
import type { OverlapPolicy } from '@belfry/contract'
import { overlapPolicies } from '@belfry/contract'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { FirePolicy, FireTimes, PlannedTime } from '../../packages/server/src/domain/fire-policy.ts'
import type { DecidedFire } from '../../packages/server/src/domain/firing.ts'
import {
  maxLookedAt,
  maxMissedRows,
  planFire,
  plannedTimeAfter,
} from '../../packages/server/src/domain/firing.ts'
import { flexibleDelayMs } from '../../packages/server/src/domain/schedule/jitter.ts'
import { compileSchedule } from '../../packages/server/src/domain/schedule/schedule-spec.ts'
import { openZoneSource } from '../../packages/server/src/adapters/zones/zone-source.ts'

const t0 = Date.UTC(2026, 0, 5)
const minuteMs = 60_000
const dayMs = 86_400_000
const scheduleId = '019ad0c1-7f3e-7c63-9a52-6e4d8c1b2a3f'
const utc = openZoneSource().get('UTC')

type Excluded = (timeMs: number) => boolean

/** Planned times each `everyMs`; those that `excluded` names do not run. */
function every(everyMs: number, excluded?: Excluded): FireTimes {
  if (utc === undefined) throw new Error('no UTC')
  const compiled = compileSchedule({ kind: 'rate', everyMs, anchorMs: t0 }, utc)
  if (!compiled.ok) throw new Error('not a rate')
  if (excluded === undefined) return compiled.value
  return {
    ...compiled.value,
    exclusionOf: (timeMs) => (excluded(timeMs) ? { detail: `closed at ${timeMs}` } : null),
  }
}

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

const at = (ms: number): PlannedTime => ({ scheduledForMs: ms, dueAtMs: ms })

/** `ran@60 missed@0x3`: outcome, seconds after t0, and the count where it is not 1. */
function brief(fire: DecidedFire): string {
  const parts = fire.occurrences.map(({ outcome, reason, scheduledForMs, missedCount }) => {
    const many = missedCount === 1 ? '' : `x${missedCount}`
    return `${reason ?? outcome}@${(scheduledForMs - t0) / 1_000}${many}`
  })
  return `${parts.join(' ')} -> ${fire.next === null ? 'end' : (fire.next.scheduledForMs - t0) / 1_000}`
}

describe('several times that are due at once', () => {
  const all = { policy: 'all' as const, windowMs: dayMs, maxRuns: 100 }
  test.each<[OverlapPolicy, string]>([
    ['skip', 'overlap@0 overlap@10 overlap@20 ran@30 -> 40'],
    ['cancel_other', 'overlap@0 overlap@10 overlap@20 ran@30 -> 40'],
    ['terminate_other', 'overlap@0 overlap@10 overlap@20 ran@30 -> 40'],
    ['buffer_one', 'overlap@0 overlap@10 ran@20 ran@30 -> 40'],
    ['buffer_all', 'ran@0 ran@10 ran@20 ran@30 -> 40'],
    ['allow', 'ran@0 ran@10 ran@20 ran@30 -> 40'],
  ])('%s', (overlap, expected) => {
    expect(brief(planFire(policy({ catchUp: all, overlap }), every(10_000), at(t0), t0 + 35_000))).toBe(
      expected,
    )
  })
})

describe('sleep', () => {
  const asleep = policy({ sleepUntilMs: t0 + 20_000, sleepReason: 'moving house' })

  test('planned times before its end are skipped, with the reason; at its end they run again', () => {
    const fire = planFire(asleep, every(10_000), at(t0 + 10_000), t0 + 10_000)
    expect(brief(fire)).toBe('asleep@10 -> 20')
    expect(fire.occurrences[0]).toMatchObject({ outcome: 'skipped', detail: 'moving house' })
    expect(brief(planFire(asleep, every(10_000), at(t0 + 20_000), t0 + 20_000))).toBe('ran@20 -> 30')
  })

  test('what slept is neither caught up with nor counted as missed', () => {
    const late = planFire(asleep, every(10_000), at(t0), t0 + 45_000)
    expect(brief(late)).toBe('asleep@0 asleep@10 catch_up_latest@20 catch_up_latest@30 ran@40 -> 50')
    const longAsleep = policy({ sleepUntilMs: t0 + dayMs })
    expect(brief(planFire(longAsleep, every(10_000), at(t0), t0 + 25_000))).toBe(
      'asleep@0 asleep@10 asleep@20 -> 30',
    )
  })

  test('a sleep within a long outage has a sum of its own', () => {
    const fire = planFire(policy({ sleepUntilMs: t0 + 1_000_500 }), every(1_000), at(t0), t0 + 5_000_000)
    const [slept, missed] = fire.occurrences
    expect(slept).toMatchObject({ scheduledForMs: t0, reason: 'asleep', missedCount: 1_001 })
    expect(missed).toMatchObject({ scheduledForMs: t0 + 1_001_000, reason: 'catch_up_latest' })
    expect(total(fire)).toBe(5_001)
  })
})

describe('times that a calendar excludes', () => {
  const evenMinutes: Excluded = (timeMs) => (timeMs / minuteMs) % 2 === 0

  test('are skipped with its words, and the newest that is not excluded runs', () => {
    const fire = planFire(policy(), every(minuteMs, evenMinutes), at(t0), t0 + 4 * minuteMs)
    expect(brief(fire)).toBe('calendar@0 catch_up_latest@60 calendar@120 ran@180 calendar@240 -> 300')
    expect(fire.occurrences[0]?.detail).toBe(`closed at ${t0}`)
  })

  test('also where it lies behind more excluded times than get a row each', () => {
    const closed: Excluded = (timeMs) => timeMs >= t0 + 3 * minuteMs
    const fire = planFire(policy(), every(minuteMs, closed), at(t0), t0 + 1_000 * minuteMs)
    expect(brief(fire)).toMatch(/^catch_up_latest@0x2 ran@120 calendar@180x948 calendar@57060 /)
    expect(total(fire)).toBe(1_001)
  })

  test('do not use up the runs of `all`', () => {
    const all = { policy: 'all' as const, windowMs: dayMs, maxRuns: 2 }
    const fire = planFire(policy({ catchUp: all }), every(minuteMs, evenMinutes), at(t0), t0 + 6 * minuteMs)
    expect(brief(fire)).toBe(
      'calendar@0 catch_up_window@60 calendar@120 ran@180 calendar@240 ran@300 calendar@360 -> 420',
    )
  })

  test('nobody looks back further than so many: then nothing runs, and all are accounted for', () => {
    const count = 3 * maxLookedAt
    const closed: Excluded = (timeMs) => timeMs > t0
    let looked = 0
    const times = every(1_000, (timeMs) => (looked++, closed(timeMs)))
    const fire = planFire(policy(), times, at(t0), t0 + count * 1_000)
    expect(fire.occurrences.some(({ outcome }) => outcome === 'ran')).toBe(false)
    expect(total(fire)).toBe(count + 1)
    expect(fire.occurrences[0]).toMatchObject({ scheduledForMs: t0, outcome: 'missed' })
    expect(looked).toBeLessThan(maxLookedAt + 2 * maxMissedRows)
  })
})

describe('the flexible window', () => {
  test('is one delay for all planned times of a schedule, below the window and the gap', () => {
    const windowMs = 30 * minuteMs
    const flexible = policy({ flexibleWindowMs: windowMs })
    const hourly = every(60 * minuteMs)
    const delays = new Set<number>()
    let timer = plannedTimeAfter(flexible, hourly, t0 - 1)
    for (let i = 0; i < 50 && timer !== null; i++) {
      delays.add(timer.dueAtMs - timer.scheduledForMs)
      timer = planFire(flexible, hourly, timer, timer.dueAtMs).next
    }
    expect(delays.size).toBe(1)
    const [delayMs = -1] = delays
    expect(delayMs).toBe(flexibleDelayMs(scheduleId, t0, windowMs, null))
    expect(delayMs).toBeGreaterThan(0)
    expect(delayMs).toBeLessThan(windowMs)
    const tens = plannedTimeAfter(flexible, every(10_000), t0 - 1)
    expect(tens).toEqual({ scheduledForMs: t0, dueAtMs: t0 + 9_999 })
  })

  test('spreads schedules over the window', () => {
    const ids = Array.from(
      { length: 4_000 },
      (_, n) => `019ad0c1-7f3e-7c63-9a52-${String(n).padStart(12, '0')}`,
    )
    const quarters = [0, 0, 0, 0]
    for (const id of ids) {
      const quarter = Math.floor((flexibleDelayMs(id, t0, dayMs, null) / dayMs) * 4)
      quarters[quarter] = (quarters[quarter] ?? 0) + 1
    }
    for (const count of quarters) expect(Math.abs(count - 1_000)).toBeLessThan(150)
  })
})

describe('for any schedule, delay, sleep, calendar and policy', () => {
  const input = fc.record({
    everyMs: fc.constantFrom(1_000, 7_000, minuteMs, 3_600_000),
    periodsLate: fc.oneof(fc.integer({ min: 0, max: 80 }), fc.integer({ min: 0, max: 2_000 })),
    restMs: fc.integer({ min: 0, max: 999 }),
    catchUp: fc.record({
      policy: fc.constantFrom('latest', 'all', 'none') satisfies fc.Arbitrary<
        FirePolicy['catchUp']['policy']
      >,
      windowMs: fc.integer({ min: minuteMs, max: dayMs }),
      maxRuns: fc.integer({ min: 1, max: 200 }),
    }),
    overlap: fc.constantFrom(...overlapPolicies),
    sleepPeriods: fc.option(fc.integer({ min: 0, max: 2_000 })),
    closed: fc.option(
      fc.record({ cycle: fc.integer({ min: 1, max: 400 }), open: fc.integer({ min: 0, max: 200 }) }),
    ),
    delay: fc.constantFrom<Partial<FirePolicy>>({}, { jitterMs: 5_000 }, { flexibleWindowMs: 90_000 }),
  })

  test('planFire agrees with the plain account of the rules', () => {
    let compared = 0
    fc.assert(
      fc.property(input, (given) => {
        const { everyMs, catchUp, overlap, closed, sleepPeriods, delay } = given
        const excluded =
          closed === null ? undefined : (ms: number) => ((ms - t0) / everyMs) % closed.cycle >= closed.open
        const times = every(everyMs, excluded)
        const sleepUntilMs = sleepPeriods === null ? null : t0 + sleepPeriods * everyMs + 1
        const with_ = policy({ catchUp, overlap, sleepUntilMs, sleepReason: 'zzz', ...delay })
        const timer = plannedTimeAfter(with_, times, t0 - 1)
        if (timer === null) throw new Error('a rate never ends')
        const nowMs = timer.dueAtMs + given.periodsLate * everyMs + given.restMs
        const fire = planFire(with_, times, timer, nowMs)
        const plain = plainAccount(with_, times, timer, nowMs)
        expect(summary(fire.occurrences)).toEqual(summary(plain.rows))
        expect(fire.next).toEqual(plain.next)
        compared++
      }),
      { numRuns: 300 },
    )
    expect(compared).toBeGreaterThanOrEqual(300)
  })
})

type Row = DecidedFire['occurrences'][number]

const total = ({ occurrences }: DecidedFire): number =>
  occurrences.reduce((sum, { missedCount }) => sum + missedCount, 0)

const summary = (rows: readonly Row[]): string[] =>
  rows.map(
    ({ scheduledForMs, dueAtMs, outcome, reason, detail, missedCount }) =>
      `${scheduledForMs} ${dueAtMs} ${outcome} ${reason} ${detail} x${missedCount}`,
  )

/** The rules, one planned time after the other, and nothing else. */
function plainAccount(
  policy: FirePolicy,
  times: FireTimes,
  timer: PlannedTime,
  nowMs: number,
): { rows: Row[]; next: PlannedTime | null } {
  const due = [timer]
  let next = plannedTimeAfter(policy, times, timer.scheduledForMs)
  while (next !== null && next.dueAtMs <= nowMs) {
    due.push(next)
    next = plannedTimeAfter(policy, times, next.scheduledForMs)
  }
  const { catchUp, overlap } = policy
  const open = due.filter(
    ({ scheduledForMs }) =>
      (times.exclusionOf?.(scheduledForMs) ?? null) === null && scheduledForMs >= (policy.sleepUntilMs ?? 0),
  )
  const limitMs = catchUp.policy === 'none' ? minuteMs : catchUp.windowMs
  const inTime = open.filter(({ dueAtMs }) => nowMs - dueAtMs <= limitMs)
  const newest =
    catchUp.policy === 'latest'
      ? open.slice(-1)
      : catchUp.policy === 'all'
        ? open.slice(-catchUp.maxRuns)
        : open
  const caughtUp = newest.filter((time) => inTime.includes(time))
  const together = {
    skip: 1,
    cancel_other: 1,
    terminate_other: 1,
    buffer_one: 2,
    buffer_all: Infinity,
    allow: Infinity,
  }
  const running = together[overlap] === Infinity ? caughtUp : caughtUp.slice(-together[overlap])
  const rows = due.map((time): Row => {
    const closed = times.exclusionOf?.(time.scheduledForMs) ?? null
    const row = { ...time, missedCount: 1, detail: null }
    if (closed !== null) return { ...row, outcome: 'skipped', reason: 'calendar', detail: closed.detail }
    if (!open.includes(time))
      return { ...row, outcome: 'skipped', reason: 'asleep', detail: policy.sleepReason }
    if (running.includes(time)) return { ...row, outcome: 'ran', reason: null }
    if (caughtUp.includes(time)) return { ...row, outcome: 'skipped', reason: 'overlap' }
    if (catchUp.policy === 'none') return { ...row, outcome: 'missed', reason: 'catch_up_none' }
    const beaten = catchUp.policy === 'latest' && time !== open.at(-1)
    return { ...row, outcome: 'missed', reason: beaten ? 'catch_up_latest' : 'catch_up_window' }
  })
  return { rows: added(rows), next }
}

/** Of those without a run, the newest have a row each; the others share one a kind, at the first of them. */
function added(rows: readonly Row[]): Row[] {
  const quiet = rows.filter(
    ({ outcome, reason }) => outcome === 'missed' || reason === 'asleep' || reason === 'calendar',
  )
  const old = new Set(quiet.slice(0, Math.max(0, quiet.length - maxMissedRows)))
  const kind = ({ outcome, reason }: Row) => (outcome === 'missed' ? 'missed' : reason)
  return rows.flatMap((row) => {
    if (!old.has(row)) return [row]
    const same = [...old].filter((other) => kind(other) === kind(row))
    return same[0] === row ? [{ ...row, missedCount: same.length }] : []
  })
}

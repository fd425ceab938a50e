// What must hold for every schedule, whatever its kind, dialect and daylight-saving choice: forwards and
// backwards agree, lists are repeated next, counts are lengths, and the process's own zone changes nothing.

import { spawnSync } from 'node:child_process'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { ScheduleSpec } from '../../../packages/server/src/domain/schedule/schedule-spec.ts'
import { compiled, instant, zone } from './schedule-fixtures.ts'

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
  'Europe/Dublin',
  'Pacific/Apia',
  'Asia/Kolkata',
]

const cron = (
  dialect: 'unix' | 'kubernetes' | 'github' | 'quartz' | 'eventbridge' | 'jenkins' | 'systemd',
  ...expressions: readonly string[]
): ScheduleSpec[] => expressions.map((expression) => ({ kind: 'cron', dialect, expression, seed: 's1' }))

const SPECS: readonly ScheduleSpec[] = [
  ...cron('unix', '* * * * *', '*/7 * * * *', '30 2 * * *', '0,30 1-3 * * *', '59 23 31 12 *', '0 0 29 2 *'),
  ...cron('unix', '0 0 13 * 5', '15 10 L * *', '0 9 LW * *', '0 9 * * MON#5', '*/20 5 4 * * *', '0 0 * * 7'),
  ...cron('unix', '* * 2 * * *', '0 22-2 * * *', '0 0 31 * *', '*/13 */5 */3 */2 *', '59 59 23 L-3 * *'),
  ...cron('kubernetes', '0 0 ? * 1-5', '5/15 * * * *', '@every 37m', '@weekly'),
  ...cron('github', '*/15 * * * *', '30 5 * * 2,4'),
  ...cron('quartz', '0 0 12 ? * 6#3', '0/30 * * * * ?', '0 0 0 15W * ?', '0 0 0 1 1 ? 2020/4'),
  ...cron('quartz', '0 15 10 L-1W,L-1 * ?', '0 0 3 ? * L 2000-2050', '0 30 2 * * ? 1999,2031'),
  ...cron('eventbridge', 'cron(0/10 * ? * MON-FRI *)', 'cron(0 9 ? * 3#2 2000-2090)', 'rate(5 minutes)'),
  ...cron('jenkins', 'H H(0-7) * * *', 'H/15 * * * *', '@midnight', '0 0 1 * 7'),
  ...cron(
    'systemd',
    'Mon..Fri *-*-* 02:30',
    '*-*~01 00:00:00',
    '*-*-* 02:00/20:00',
    '2000..2060/3-*~07..09 1:30',
  ),
  ...['every 10 days at 06:30', 'every 2 weeks on fri at 09:00', 'every other week on mon, thu at 02:30'].map(
    (every): ScheduleSpec => ({ kind: 'calendar', every, anchor: '1990-01-05' }),
  ),
  ...['every 3 months on the last business day', 'every month on the 31st and the 2nd to last day'].map(
    (every): ScheduleSpec => ({ kind: 'calendar', every, anchor: '2001-02-05' }),
  ),
  { kind: 'calendar', every: 'every 4 years on feb 29 at 12:00, 00:30', anchor: '2000-01-01' },
  { kind: 'rate', everyMs: 5_400_000, anchorMs: 1_234_567_000 },
  { kind: 'at', at: '2026-05-29T02:30:00' },
]

const specArbitrary = fc
  .tuple(fc.constantFrom(...SPECS), fc.constantFrom(...ZONES))
  .chain(([spec, name]) =>
    fc.constantFrom<ScheduleSpec>(
      { ...spec, zone: name },
      { ...spec, zone: name, dst: { gap: 'skip', overlap: 'both' } },
      { ...spec, zone: name, dst: { gap: 'next_valid', overlap: 'first' } },
      { ...spec, zone: name, dst: { overlap: 'both' } },
    ),
  )

/** An instant anywhere in 1975-2195, half of the time near a change of the clock. */
function instantNear(zoneName: string, pick: number, jitterMs: number): number {
  const changes = [...zone(zoneName).timeline.startsMs].filter((ms) => ms > 2e11 && ms < 7e12)
  const change = pick % 2 === 0 ? changes[(pick >>> 1) % Math.max(1, changes.length)] : undefined
  return (change ?? instant('1975-01-01T00:00:00Z') + (pick % 220) * 31_557_600_000) + jitterMs
}

const caseArbitrary = fc
  .tuple(specArbitrary, fc.nat(), fc.integer({ min: -90_000_000, max: 90_000_000 }))
  .map(([spec, pick, jitterMs]) => ({
    spec,
    fromMs: instantNear(spec.zone ?? 'UTC', pick, jitterMs),
  }))

describe('every schedule', () => {
  test('forwards and backwards meet: previous(next(t)) and next(previous(t))', () => {
    fc.assert(
      fc.property(caseArbitrary, ({ spec, fromMs }) => {
        const schedule = compiled(spec)
        const nextMs = schedule.next(fromMs)
        const latestMs = schedule.previous(fromMs + 1)
        fc.pre(nextMs !== null && latestMs !== null)
        expect(nextMs).toBeGreaterThan(fromMs)
        expect(latestMs).toBeLessThanOrEqual(fromMs)
        expect(schedule.previous(nextMs)).toBe(latestMs)
        expect(schedule.next(latestMs)).toBe(nextMs)
        expect(schedule.next(latestMs - 1)).toBe(latestMs)
        expect(schedule.previous(nextMs + 1)).toBe(nextMs)
      }),
      { numRuns: 3_000 },
    )
  })

  test('between is repeated next, strictly increasing, and its length is the count', () => {
    const input = fc.tuple(caseArbitrary, fc.nat(60), fc.integer({ min: 0, max: 999 }))
    fc.assert(
      fc.property(input, ([{ spec, fromMs }, steps, odd]) => {
        const schedule = compiled(spec)
        const listed = schedule.between(fromMs, fromMs + 500 * 31_557_600_000, steps)
        let afterMs: number | null = fromMs
        for (const time of listed) {
          expect(time).toBeGreaterThan(afterMs ?? Infinity)
          afterMs = schedule.next(afterMs ?? Infinity)
          expect(afterMs).toBe(time)
        }
        const untilMs = (listed.at(-1) ?? fromMs) + odd
        const whole = schedule.between(fromMs, untilMs, 5_000)
        expect(whole.length).toBeGreaterThanOrEqual(listed.length)
        expect(schedule.countBetween(fromMs, untilMs)).toEqual({ count: whole.length, capped: false })
        expect(schedule.missedBetween(fromMs, untilMs, 5_000).latestMs).toBe(whole.at(-1) ?? null)
      }),
      { numRuns: 2_000 },
    )
  })

  test('counts add up over any cut', () => {
    fc.assert(
      fc.property(caseArbitrary, fc.nat(2e11), fc.nat(2e11), ({ spec, fromMs }, first, second) => {
        const schedule = compiled(spec)
        const [cutMs, untilMs] = [fromMs + first, fromMs + first + second]
        const parts = schedule.countBetween(fromMs, cutMs).count + schedule.countBetween(cutMs, untilMs).count
        expect(schedule.countBetween(fromMs, untilMs).count).toBe(parts)
      }),
      { numRuns: 2_000 },
    )
  })

  test('a range of centuries is counted whole, one beyond 500 years is capped', () => {
    const daily = compiled({ kind: 'cron', dialect: 'unix', expression: '0 0 * * *' })
    const until = instant('2400-01-01T00:00:00Z')
    expect(daily.countBetween(0, until)).toEqual({ count: until / 86_400_000, capped: false })
    expect(daily.countBetween(0, instant('9000-01-01T00:00:00Z')).capped).toBe(true)
    const seconds = compiled({
      kind: 'cron',
      dialect: 'unix',
      expression: '* * * * * *',
      zone: 'Europe/Berlin',
    })
    expect(seconds.countBetween(0, until)).toEqual({ count: until / 1_000, capped: false })
  })
})

test('the zone of the process changes nothing', () => {
  const script = new URL('./times-of-process.ts', import.meta.url).pathname
  const answers = ['UTC', 'Pacific/Apia', 'America/St_Johns'].map((TZ) => {
    const run = spawnSync(process.execPath, ['--conditions=source', script], {
      env: { ...process.env, TZ, NODE_OPTIONS: '' },
      encoding: 'utf8',
      timeout: 20_000,
    })
    const printed = JSON.parse(run.stdout) as { readonly zone: string; readonly times: readonly string[] }
    return { status: run.status, ...printed }
  })
  expect(new Set(answers.map((answer) => answer.zone)).size).toBe(3)
  expect(answers[0]?.times.length).toBeGreaterThan(20)
  for (const answer of answers) expect(answer).toMatchObject({ status: 0, times: answers[0]?.times })
})

// Differential fuzz of the dialect `quartz` against real Quartz 2.5: random expressions, zones and instants.
// The seed is printed; SEED=… replays a run. Known faults and differences of Quartz, each kept apart:
//
// - Changes of the clock: Quartz takes the second of two passes, skips gaps and goes silent for an hour with
//   intervals. Questions within a day of a change are not compared (their number is printed).
// - nW and LW: the search moves on from the unshifted day, so a shift forwards over the asked day loses a
//   month, and a time of the shifted day that is over hides the next month's. Each of its answers must be one
//   of ours, but it may leave some out.
// - It accepts what can only be a mistake: steps of 0 in `5/0`, steps wider than a range, names followed by
//   other letters or by a step that it ignores, years it never reaches. Those are refused here.
// - Its last year is the present one plus 100; the instants asked for lie long before.

import { afterAll, beforeAll, expect, test } from 'vitest'
import { describeNeeding } from '../../support/needs.ts'
import { buildQuartzPeer, type QuartzPeer, type QuartzQuestion } from '../../support/quartz-peer.ts'
import { type Draw, drawer, pick, seedOf } from '../../support/random-draws.ts'
import { compiled, faultsOf, instant, iso, zone } from './schedule-fixtures.ts'

const EXPRESSIONS = 4_000
const STEPS = 3
const FIRST_MS = instant('1990-01-01T00:00:00Z')
const LAST_MS = instant('2024-01-01T00:00:00Z')
const NEAR_CHANGE_MS = 30 * 3_600_000
const ZONES = ['UTC', 'Asia/Kolkata', 'Europe/Berlin', 'America/New_York', 'Australia/Lord_Howe']
const WEEKDAYS = ['SUN', 'MON', 'TUE', 'WED', 'THU', 'FRI', 'SAT']
const MONTHS = ['JAN', 'FEB', 'MAR', 'APR', 'MAY', 'JUN', 'JUL', 'AUG', 'SEP', 'OCT', 'NOV', 'DEC']

function numbers(draw: Draw, min: number, max: number): string {
  const value = (): number => min + draw(max - min + 1)
  const range = (): string => `${value()}-${value()}`
  switch (draw(8)) {
    case 0:
      return '*'
    case 1:
      return `*/${1 + draw(max - 1)}`
    case 2:
      return `${value()}/${1 + draw(max - 1)}`
    case 3:
      return range()
    case 4:
      return `${range()}/${1 + draw(4)}`
    case 5:
      return `${value()},${range()},${value()}`
    default:
      return String(value())
  }
}

function daysOfMonth(draw: Draw): string {
  switch (draw(10)) {
    case 0:
      return 'L'
    case 1:
      return `L-${draw(28)}`
    case 2:
      return pick(draw, ['LW', 'L-3W', `${1 + draw(31)}W`])
    case 3:
      return `${1 + draw(31)},L`
    default:
      return numbers(draw, 1, 31)
  }
}

function daysOfWeek(draw: Draw): string {
  switch (draw(9)) {
    case 0:
      return `${1 + draw(7)}#${1 + draw(5)}`
    case 1:
      return `${pick(draw, WEEKDAYS)}L`
    case 2:
      return 'L'
    case 3:
      return `${pick(draw, WEEKDAYS)}-${pick(draw, WEEKDAYS)}`
    case 4:
      return `${pick(draw, WEEKDAYS)},${pick(draw, WEEKDAYS)}`
    default:
      return numbers(draw, 1, 7)
  }
}

function randomExpression(draw: Draw): string {
  const byDay = draw(2) === 0
  const month = draw(4) === 0 ? `${pick(draw, MONTHS)}-${pick(draw, MONTHS)}` : numbers(draw, 1, 12)
  const fields = [
    draw(2) === 0 ? '0' : numbers(draw, 0, 59),
    numbers(draw, 0, 59),
    numbers(draw, 0, 23),
    byDay ? daysOfMonth(draw) : '?',
    draw(3) === 0 ? '*' : month,
    byDay ? '?' : daysOfWeek(draw),
  ]
  const from = 1990 + draw(40)
  if (draw(6) === 0) fields.push(pick(draw, [`${from}/${1 + draw(6)}`, `${from}-${from + draw(20)}`, '*']))
  return fields.join(' ')
}

type Asked = { readonly question: QuartzQuestion; readonly ours: number | null }

function questionsOf(draw: Draw): Asked[] {
  const expression = randomExpression(draw)
  const zoneName = pick(draw, ZONES)
  const spec = { kind: 'cron', dialect: 'quartz', expression, zone: zoneName } as const
  const asked: Asked[] = []
  let afterMs = FIRST_MS + draw((LAST_MS - FIRST_MS) / 1_000) * 1_000
  const refused = faultsOf(spec).length > 0
  for (let step = 0; step < STEPS; step++) {
    const ours = refused ? null : compiled(spec).next(afterMs)
    asked.push({ question: { expression, zone: zoneName, afterMs, count: 1 }, ours })
    if (ours === null || ours > LAST_MS + 20 * 31_557_600_000) break
    afterMs = ours
  }
  return asked
}

function nearChange(zoneName: string, times: readonly (number | null | undefined)[]): boolean {
  const starts = zone(zoneName).timeline.startsMs
  return times.some(
    (time) => typeof time === 'number' && starts.some((start) => Math.abs(start - time) < NEAR_CHANGE_MS),
  )
}

describeNeeding('maven', 'real Quartz', () => {
  let peer: QuartzPeer | string = 'not built'
  beforeAll(() => {
    peer = buildQuartzPeer()
  }, 150_000)
  afterAll(() => {
    if (typeof peer !== 'string') peer.close()
  })

  test('agrees on thousands of expressions, zones and instants', (context) => {
    if (typeof peer === 'string') return context.skip(peer)
    const seed = seedOf('quartz fuzz')
    const draw = drawer(seed)
    const asked = Array.from({ length: EXPRESSIONS }, () => questionsOf(draw)).flat()
    const answers = peer.ask(asked.map(({ question }) => question))
    const counts = { compared: 0, nearChange: 0, nearestWeekday: 0, never: 0, bothRefuse: 0 }
    const wrong: string[] = []
    for (const [i, { question, ours }] of asked.entries()) {
      const answer = answers[i] ?? []
      const spec = { kind: 'cron', dialect: 'quartz', ...question } as const
      const faults = faultsOf(spec)
      const theirs = 'refused' in answer ? undefined : (answer[0] ?? null)
      const where = `SEED=${seed}: ${question.expression} in ${question.zone} after ${iso(question.afterMs)}`
      if (faults.some((fault) => fault.message.includes('never fires'))) {
        counts.never++
        if (theirs !== null) wrong.push(`${where}: ours never fires, Quartz ${String(theirs)}`)
      } else if (faults.length > 0 || theirs === undefined) {
        counts.bothRefuse++
        if (faults.length === 0 || theirs !== undefined) wrong.push(`${where}: refused by one only`)
      } else if (nearChange(question.zone, [question.afterMs, ours, theirs])) counts.nearChange++
      else if (question.expression.includes('W')) {
        counts.nearestWeekday++
        if (theirs !== null && compiled(spec).next(theirs - 1) !== theirs) wrong.push(`${where}: not ours`)
      } else {
        counts.compared++
        if (ours !== theirs)
          wrong.push(`${where}: ours ${String(ours && iso(ours))}, Quartz ${String(theirs && iso(theirs))}`)
      }
    }
    process.stdout.write(`quartz fuzz: ${JSON.stringify(counts)}\n`)
    expect(wrong.slice(0, 10)).toEqual([])
    expect(counts.compared).toBeGreaterThan(EXPRESSIONS)
  }, 150_000)
})

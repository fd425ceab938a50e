// Differential fuzz of the dialect `systemd` against `systemd-analyze calendar` of this machine: random
// OnCalendar expressions (some of them broken), zones and instants. The seed is printed; SEED=… replays.
//
// Known differences, kept apart:
//
// - intervals near a clock that goes back: systemd goes silent for the repeated time, Belfry serves it;
// - fractions of a second: refused here, so not drawn;
// - a date without any day: systemd accepts it and answers "never", here it is refused;
// - lists of days from the end of the month, where systemd allows 28 for the first item, but only 25 for the
//   second and 22 for the third; a range of one second, which it refuses, although it takes one of a minute;
// - steps of days or months without an end over the turn of the year: systemd lets them run on into January
//   and so misses the first days of it;
// - dates that it gives up with "Resource deadlock avoided".

import { spawnSync } from 'node:child_process'
import { expect, test } from 'vitest'
import { describeNeeding } from '../../support/needs.ts'
import { type Draw, drawer, pick, seedOf } from '../../support/random-draws.ts'
import { compiled, faultsOf, instant, iso, zone } from './schedule-fixtures.ts'

const ROUNDS = 60
const PER_ROUND = 50
const STEPS = 3
const FIRST_MS = instant('1990-01-01T00:00:00Z')
const LAST_MS = instant('2024-01-01T00:00:00Z')
const NEAR_CHANGE_MS = 30 * 3_600_000
const ZONES = ['UTC', 'Asia/Kolkata', 'Europe/Berlin', 'America/New_York', 'Australia/Lord_Howe']
const WEEKDAYS = ['Mon', 'Tue', 'Wed', 'Thursday', 'fri', 'SAT', 'Sun']

function component(draw: Draw, min: number, max: number): string {
  const value = (): number => min + draw(max - min + 1)
  const range = (): string => {
    const [a, b] = [value(), value()]
    return draw(8) === 0 ? `${a}..${b}` : `${Math.min(a, b)}..${Math.max(a, b)}`
  }
  switch (draw(8)) {
    case 0:
    case 1:
      return '*'
    case 2:
      return `${value()}/${1 + draw(6)}`
    case 3:
      return range()
    case 4:
      return `${range()}/${1 + draw(4)}`
    case 5:
      return `${value()},${value()}`
    default:
      return String(value())
  }
}

function weekdays(draw: Draw): string {
  const one = (): string => pick(draw, WEEKDAYS)
  return pick(draw, [one(), `${one()},${one()}`, `${one()}..${one()}`, `${one()}-${one()},`])
}

function randomExpression(draw: Draw): string {
  if (draw(30) === 0) return pick(draw, ['hourly', 'Weekly', 'quarterly', 'semi-annually', 'daily UTC'])
  const parts: string[] = []
  if (draw(3) === 0) parts.push(weekdays(draw))
  if (draw(3) > 0) {
    const year = draw(4) === 0 ? component(draw, 1990, 2030) : '*'
    const month = draw(2) === 0 ? '*' : component(draw, 1, 12)
    const fromEnd = draw(4) === 0
    parts.push(`${year}-${month}${fromEnd ? '~' : '-'}${component(draw, 1, fromEnd ? 28 : 31)}`)
  }
  if (parts.length === 0 || draw(5) > 0) {
    const second = draw(3) === 0 ? `:${component(draw, 0, 59)}` : ''
    parts.push(`${component(draw, 0, 23)}:${component(draw, 0, 59)}${second}`)
  }
  const text = parts.join(' ').trim()
  if (draw(20) > 0) return text
  // A slip of the pen: one character more, less or other.
  const at = 1 + draw(text.length - 1)
  const slip = pick(draw, ['', '/', '*', '9', ',', '..', '~', ' '])
  return (text.slice(0, at) + slip + text.slice(at + draw(2))).trim()
}

/** What systemd refuses for no reason that a person could guess. */
const laxHere = /~\S*,|:(?:\S*,)?(\d+)\.\.\1\b/

type Theirs = 'refused' | 'gave up' | readonly number[]

function askSystemd(expressions: readonly string[], zoneName: string, afterMs: number): readonly Theirs[] {
  const base = `--base-time=${iso(afterMs).replace('T', ' ').replace('Z', ' UTC')}`
  const run = spawnSync(
    'systemd-analyze',
    ['calendar', `--iterations=${STEPS}`, base, '--', ...expressions],
    {
      env: { PATH: process.env['PATH'], TZ: zoneName, LC_ALL: 'C' },
      encoding: 'utf8',
      timeout: 60_000,
    },
  )
  const answers = new Map<string, Theirs>()
  for (const [, expression = ''] of run.stderr.matchAll(/calendar specification '(.*)': /g))
    answers.set(expression, 'refused')
  for (const block of run.stdout.split(/\n\n+/)) {
    const form = /Original form: (.*)/.exec(block) ?? /Normalized form: (.*)/.exec(block)
    const times = [...block.matchAll(/(?:elapse|Iter\. #\d+|\(in UTC\)): \w{3} ([\d-]+) ([\d:]+) UTC/g)]
    answers.set(
      form?.[1] ?? '',
      times.map((m) => instant(`${m[1] ?? ''}T${m[2] ?? ''}Z`)),
    )
  }
  for (const [, expression = ''] of run.stderr.matchAll(/next elapse for '(.*)': /g))
    answers.set(expression, 'gave up')
  return expressions.map((expression) => answers.get(expression) ?? 'gave up')
}

/** `1/4` in a date, which may run beyond its month. */
const endlessStep = /(?:^|[-~, ])\d+\/\d+/

function isJanuary(time: number): boolean {
  const date = new Date(time)
  return date.getUTCMonth() === 0 || (date.getUTCMonth() === 11 && date.getUTCDate() === 31)
}

type Counts = {
  compared: number
  refused: number
  never: number
  gaveUp: number
  turnOfYear: number
  intervalNearChange: number
}

/** What is wrong with our answer, or undefined. */
function compare(
  expression: string,
  zoneName: string,
  afterMs: number,
  theirs: Theirs,
  counts: Counts,
): string | undefined {
  const spec = { kind: 'cron', dialect: 'systemd', expression, zone: zoneName } as const
  const named = expression.endsWith(' UTC') ? { ...spec, zone: 'UTC' } : spec
  if (theirs === 'gave up') {
    counts.gaveUp++
    return undefined
  }
  const faults = faultsOf(named)
  if (faults.some((fault) => fault.message.includes('whole seconds'))) return undefined
  if (faults.some((fault) => fault.message.startsWith('never fires'))) {
    counts.never++
    const none = theirs === 'refused' ? laxHere.test(expression) : theirs.length === 0
    return none ? undefined : `ours never fires, theirs ${theirs.toString()}`
  }
  if (theirs === 'refused' || faults.length > 0) {
    counts.refused++
    if (theirs === 'refused' && (faults.length > 0 || laxHere.test(expression))) return undefined
    return `refused by one only: ${JSON.stringify(faults)}`
  }
  const schedule = compiled(named)
  const ours = schedule.between(afterMs, Number.MAX_SAFE_INTEGER, STEPS)
  const fixed = schedule.timing.kind !== 'plan' || schedule.timing.plan.fixedTime
  const starts = [...zone(zoneName).timeline.startsMs].filter((start) =>
    [afterMs, ...ours, ...theirs].some((time) => Math.abs(start - time) < NEAR_CHANGE_MS),
  )
  if (!fixed && starts.length > 0) {
    counts.intervalNearChange++
    return undefined
  }
  if (ours.some((time, i) => time !== theirs[i] && isJanuary(time)) && endlessStep.test(expression)) {
    counts.turnOfYear++
    return undefined
  }
  counts.compared++
  const [a, b] = [ours.map(iso).join(' '), theirs.map(iso).join(' ')]
  return a === b ? undefined : `ours ${a}, theirs ${b}`
}

describeNeeding('systemd-analyze', 'real systemd', () => {
  test('agrees on thousands of expressions, zones and instants', { timeout: 120_000 }, () => {
    const seed = seedOf('systemd fuzz')
    const draw = drawer(seed)
    const counts: Counts = {
      compared: 0,
      refused: 0,
      never: 0,
      gaveUp: 0,
      turnOfYear: 0,
      intervalNearChange: 0,
    }
    const wrong: string[] = []
    for (let round = 0; round < ROUNDS; round++) {
      const zoneName = pick(draw, ZONES)
      const changes = [...zone(zoneName).timeline.startsMs].filter((ms) => ms > FIRST_MS && ms < LAST_MS)
      const anywhere = FIRST_MS + draw((LAST_MS - FIRST_MS) / 1_000) * 1_000
      const near = (changes[draw(Math.max(1, changes.length))] ?? anywhere) - draw(86_400) * 1_000
      const afterMs = draw(2) === 0 ? anywhere : near
      const expressions = Array.from({ length: PER_ROUND }, () => randomExpression(draw))
      const answers = askSystemd(expressions, zoneName, afterMs)
      for (const [i, expression] of expressions.entries()) {
        const trouble = compare(expression, zoneName, afterMs, answers[i] ?? [], counts)
        if (trouble === undefined) continue
        wrong.push(
          `SEED=${seed}: ${JSON.stringify(expression)} in ${zoneName} after ${iso(afterMs)}: ${trouble}`,
        )
      }
    }
    process.stdout.write(`systemd fuzz: ${JSON.stringify(counts)}\n`)
    expect(wrong.slice(0, 10)).toEqual([])
    expect(counts.compared).toBeGreaterThan(1_000)
  })
})

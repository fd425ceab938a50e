// Whatever people send, the evaluator answers within 50 ms of processor time: compiled, asked forwards and
// backwards, counted, listed, put into words and warned about. Expressions are made to be as dear as 256
// characters allow, in the forms that their dialect has, so that most are taken; a few are refused, which
// costs time too. Time of the processor and not of the clock counts, and the best of three tries, so that a
// busy machine fails nothing. The seed is printed; SEED=… replays.
import { expect, test } from 'vitest'
import type { CronDialect } from '../../../packages/server/src/domain/schedule/cron-dialect.ts'
import { compile, openZoneSource, type ScheduleSpec } from '../../../packages/server/src/schedule.ts'
import { type Draw, drawer, pick, seedOf } from '../../support/random-draws.ts'

/** Of each dialect: so many are taken, and no more are tried than so many. */
const TAKEN = 500
const TRIED = 2_000
const MOST_MS = 50
const MAX_LENGTH = 256
const YEAR_MS = 366 * 86_400_000
const ZONES = [
  'UTC',
  'America/New_York',
  'Africa/Casablanca',
  'Asia/Gaza',
  'Antarctica/Troll',
  'Pacific/Apia',
]
const DIALECTS: readonly CronDialect[] = [
  'unix',
  'kubernetes',
  'github',
  'quartz',
  'eventbridge',
  'jenkins',
  'systemd',
]

const zones = openZoneSource({ directories: [] })

/** A list that is as long as fits. */
function listOf(item: (i: number) => string, room: number): string {
  let text = item(0)
  for (let i = 1; text.length + item(i).length < room; i++) text += `,${item(i)}`
  return text
}

/** What a dialect has beyond lists, steps and ranges. */
const LAST_AND_NEAREST: readonly CronDialect[] = ['unix', 'quartz', 'eventbridge']

function field(draw: Draw, min: number, max: number): string {
  const value = (): number => min + draw(max - min + 1)
  const range = (): string => {
    const [one, other] = [value(), value()]
    return `${Math.min(one, other)}-${Math.max(one, other)}/1`
  }
  const room = 20 + draw(140)
  switch (draw(6)) {
    case 0:
      return listOf(range, room)
    case 1:
      return listOf(() => `*/${1 + draw(max)}`, room)
    case 2:
      return listOf(() => String(value()), room)
    case 3:
      return '*'
    default:
      return String(value())
  }
}

/** One dialect takes no shorter steps than five minutes. */
function minutes(draw: Draw, dialect: CronDialect): string {
  if (dialect !== 'github') return field(draw, 0, 59)
  const everyFive = (): string => String(5 * draw(12))
  return pick(draw, [listOf(everyFive, 20 + draw(140)), `*/${5 * (1 + draw(6))}`, String(draw(60))])
}

function day(draw: Draw, dialect: CronDialect): string {
  const plain = ['29', '28-29', field(draw, 1, 31)]
  if (!LAST_AND_NEAREST.includes(dialect)) return pick(draw, plain)
  const room = 20 + draw(140)
  return pick(draw, [
    ...plain,
    listOf((i) => `L-${i % 31}`, room),
    `L-${draw(29)}W`,
    `${1 + draw(29)}W`,
    '31W',
  ])
}

function weekday(draw: Draw, dialect: CronDialect, first: number): string {
  const plain = [field(draw, first, first + 6), '*']
  if (!LAST_AND_NEAREST.includes(dialect)) return pick(draw, plain)
  const room = 20 + draw(140)
  return pick(draw, [
    ...plain,
    listOf((i) => `${first + (i % 7)}#${1 + (i % 5)}`, room),
    listOf((i) => `${first + (i % 7)}L`, room),
    `${first + 1}#5`,
  ])
}

function onCalendar(draw: Draw): string {
  const part = (min: number, max: number): string =>
    pick(draw, ['*', listOf(() => `${min}..${max}/1`, 60), `${min}/1`, String(min + draw(max - min + 1))])
  const date = pick(draw, ['*-02-29', '1970,2199-12-31', '*-*~28', '2196-02~1', `*-*~${listOf(String, 60)}`])
  const week = pick(draw, ['', 'Mon ', `${listOf(() => 'Mon..Sun', 80)} `])
  return `${week}${date} ${part(0, 23)}:${part(0, 59)}:${part(0, 59)}`
}

function randomExpression(draw: Draw, dialect: CronDialect): string {
  if (dialect === 'systemd') return onCalendar(draw).slice(0, MAX_LENGTH)
  const fromOne = dialect === 'quartz' || dialect === 'eventbridge'
  const month = pick(draw, ['*', '2', '12', '1-12/11'])
  const byDay = draw(2) === 0
  const days = fromOne
    ? [byDay ? day(draw, dialect) : '?', month, byDay ? '?' : weekday(draw, dialect, 1)]
    : [day(draw, dialect), month, weekday(draw, dialect, 0)]
  const year = pick(draw, [
    '*',
    '2199',
    '1970,2199',
    '1972/100',
    '2000,2196',
    listOf((i) => String(1970 + i), 80),
  ])
  const seconds = dialect === 'quartz' || (dialect === 'unix' && draw(2) === 0) ? [field(draw, 0, 59)] : []
  const years = fromOne ? [year] : []
  const fields = [...seconds, minutes(draw, dialect), field(draw, 0, 23), ...days, ...years]
  return dialect === 'eventbridge' ? `cron(${fitted(fields, MAX_LENGTH - 6)})` : fitted(fields, MAX_LENGTH)
}

/** Fields that do not fit together give up items from the end of the longest list. */
function fitted(fields: readonly string[], room: number): string {
  const parts = [...fields]
  while (parts.join(' ').length > room) {
    const lengths = parts.map((part) => part.length)
    const longest = lengths.indexOf(Math.max(...lengths))
    const part = parts[longest] ?? ''
    parts[longest] = part.slice(0, part.lastIndexOf(','))
  }
  return parts.join(' ')
}

/** Everything that a preview, a create, a fire and an explanation ask. */
function askAll(spec: ScheduleSpec, fromMs: number, nowMs: number | undefined): boolean {
  const compiled = compile(spec, { zones, ...(nowMs === undefined ? {} : { nowMs }) })
  if (!compiled.ok) return false
  const schedule = compiled.value
  schedule.next(fromMs)
  schedule.previous(fromMs)
  schedule.between(fromMs, fromMs + 100 * YEAR_MS, 100)
  schedule.countBetween(fromMs, fromMs + 40 * YEAR_MS)
  schedule.describe()
  schedule.warnings(fromMs)
  return true
}

function processorMs(work: () => unknown): number {
  const before = process.cpuUsage()
  work()
  const { user, system } = process.cpuUsage(before)
  return (user + system) / 1_000
}

test.each(DIALECTS)('%s: dear expressions, each within 50 ms of work', { timeout: 120_000 }, (dialect) => {
  const seed = seedOf(`hostile work, ${dialect}`)
  const draw = drawer(seed)
  for (const name of ZONES) zones.get(name)
  let taken = 0
  let tried = 0
  for (; taken < TAKEN && tried < TRIED; tried++) {
    const expression = randomExpression(draw, dialect)
    const spec: ScheduleSpec = { kind: 'cron', dialect, expression, zone: pick(draw, ZONES) }
    const fromMs = pick(draw, [-5e12, 0, Date.UTC(2026, 0, 1), Date.UTC(2197, 0, 1), 2e14])
    const nowMs = draw(2) === 0 ? undefined : Date.UTC(2026, 0, 1)
    if (askAll(spec, fromMs, nowMs)) taken++
    const once = (): number => processorMs(() => askAll(spec, fromMs, nowMs))
    const bestMs = Math.min(once(), once(), once())
    expect(bestMs, `SEED=${seed}: ${dialect} ${expression}`).toBeLessThan(MOST_MS)
  }
  expect(taken, `SEED=${seed}: ${dialect}, of ${tried}`).toBe(TAKEN)
})

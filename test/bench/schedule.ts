// `npm run bench:schedule [-- --seconds 20]`: how fast the evaluator is against croner 11 in one process, and
// what a schedule weighs. Both sides answer the same questions in turns, so that the machine's load falls on
// both alike; ratios count (the median of the rounds), times do not. The last line is one JSON object.

import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { Cron } from 'croner'
import { openZoneSource } from '../../packages/server/src/adapters/zones/zone-source.ts'
import {
  type CompiledSchedule,
  compileScheduleIn,
} from '../../packages/server/src/domain/schedule/schedule-spec.ts'

const ZONE = 'America/New_York'
const EXPRESSIONS = ['*/5 * * * *', '30 2 * * *', '0 9 * * 1-5', '0 0 29 2 *', '0 0 L * *'] as const
const LEAP_DAY = '0 0 29 2 *'
const FROM_MS = Date.parse('2024-01-01T00:00:00Z')
const UNTIL_MS = Date.parse('2080-01-01T00:00:00Z')
const ROUNDS = 5
const WEIGHED = 20_000
const BATCH = 1_000_000

const zones = openZoneSource({ directories: [] })
const at = process.argv.indexOf('--seconds')
const seconds = at > 0 ? Number(process.argv[at + 1]) : 20
if (!(seconds >= 1 && seconds <= 600)) throw new Error('--seconds takes 1 to 600')
const sliceMs = (seconds * 1_000 * 0.8) / (EXPRESSIONS.length * 4 * ROUNDS)

function compile(expression: string): CompiledSchedule {
  const result = compileScheduleIn({ kind: 'cron', dialect: 'unix', expression, zone: ZONE }, zones)
  if (!result.ok) throw new Error(JSON.stringify(result.error))
  return result.value
}

function cronerOf(expression: string): Cron {
  return new Cron(expression, { timezone: ZONE, paused: true, fixedTimeRule: 'no-wildcard' })
}

/** Calls a second, over about one slice of time; `turn` makes `count` calls. */
function rateOf(turn: (count: number) => void): number {
  let calls = 0
  let count = 1
  const startedAt = performance.now()
  for (;;) {
    turn(count)
    calls += count
    const elapsedMs = performance.now() - startedAt
    if (elapsedMs >= sliceMs) return (calls / elapsedMs) * 1_000
    count = Math.max(1, Math.min(100_000, Math.floor((calls / Math.max(elapsedMs, 0.01)) * (sliceMs / 8))))
  }
}

function stepper(next: (afterMs: number) => number | null): (count: number) => void {
  let afterMs = FROM_MS
  return (count) => {
    for (let i = 0; i < count; i++) {
      const timeMs = next(afterMs)
      afterMs = timeMs === null || timeMs > UNTIL_MS ? FROM_MS : timeMs
    }
  }
}

function parser(parse: () => (afterMs: number) => number | null): (count: number) => void {
  return (count) => {
    for (let i = 0; i < count; i++) parse()(FROM_MS)
  }
}

function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b)
  const middle = sorted.length >> 1
  const high = sorted[middle] ?? 0
  return sorted.length % 2 === 1 ? high : ((sorted[middle - 1] ?? 0) + high) / 2
}

function measure(expression: string): { next: number; parse: number } {
  const made = compile(expression)
  const theirs = cronerOf(expression)
  const cronerNext = (cron: Cron) => (afterMs: number) => cron.nextRun(new Date(afterMs))?.getTime() ?? null
  const turns = {
    ours: stepper((afterMs) => made.next(afterMs)),
    croner: stepper(cronerNext(theirs)),
    oursParse: parser(() => {
      const made = compile(expression)
      return (afterMs) => made.next(afterMs)
    }),
    cronerParse: parser(() => cronerNext(cronerOf(expression))),
  }
  const rounds = Array.from({ length: ROUNDS }, () => ({
    ours: rateOf(turns.ours),
    croner: rateOf(turns.croner),
    oursParse: rateOf(turns.oursParse),
    cronerParse: rateOf(turns.cronerParse),
  }))
  const next = median(rounds.map((round) => round.ours / round.croner))
  const parse = median(rounds.map((round) => round.oursParse / round.cronerParse))
  const shown = rounds.map((round) => Object.values(round))
  const [ours, croner, oursParse, cronerParse] = [0, 1, 2, 3].map((i) =>
    Math.round(median(shown.map((rates) => rates[i] ?? 0))).toLocaleString('en'),
  )
  console.log(`${expression.padEnd(14)} next() ${ours}/s, croner ${croner}/s: ${next.toFixed(0)} ×`)
  console.log(`${''.padEnd(14)} parse+next ${oursParse}/s, croner ${cronerParse}/s: ${parse.toFixed(0)} ×`)
  return { next, parse }
}

/** Bytes of heap for one compiled schedule, its zone not counted: zones are shared. */
function weigh(): number {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as () => void
  compile('0 0 * * *')
  collect()
  const before = process.memoryUsage().heapUsed
  const kept = Array.from({ length: WEIGHED }, (_, i) => compile(`${i % 60} ${i % 24} * * ${i % 7}`))
  collect()
  const bytes = (process.memoryUsage().heapUsed - before) / kept.length
  return Math.round(bytes)
}

/** A million next times over a mix of schedules, as after a change of the zone data. */
function batchPerSecond(): number {
  const schedules = Array.from({ length: 1_000 }, (_, i) =>
    compile(EXPRESSIONS[i % EXPRESSIONS.length] ?? ''),
  )
  const startedAt = performance.now()
  let sum = 0
  for (let i = 0; i < BATCH; i++) {
    sum += schedules[i % schedules.length]?.next(FROM_MS + i * 60_000) ?? 0
  }
  if (sum === 0) throw new Error('nothing was computed')
  return Math.round(BATCH / ((performance.now() - startedAt) / 1_000))
}

const results = new Map(EXPRESSIONS.map((expression) => [expression, measure(expression)]))
const bytesPerSchedule = weigh()
const nextPerSecond = batchPerSecond()
const rounded = (value: number): number => Number(value.toFixed(1))
console.log(
  `${bytesPerSchedule} bytes a compiled schedule, ${nextPerSecond.toLocaleString('en')} next() a second`,
)
console.log(
  JSON.stringify({
    ratio: {
      croner: rounded(median([...results.values()].map(({ next }) => next))),
      cronerParse: rounded(median([...results.values()].map(({ parse }) => parse))),
      cronerLeapDay: rounded(results.get(LEAP_DAY)?.next ?? 0),
    },
    byExpression: Object.fromEntries(
      [...results].map(([name, { next, parse }]) => [name, { next: rounded(next), parse: rounded(parse) }]),
    ),
    bytesPerSchedule,
    nextPerSecond,
    zone: ZONE,
  }),
)

/**
 * Flags that say when a schedule fires and what it does
 * about lateness and overlap, and what they mean.
 */
import type { Schedule } from '@belfry/contract'
import type { BodyOf } from '@belfry/sdk'
import type { Call, FlagSpec } from '../command.ts'
import { UsageError } from '../exit-codes.ts'
import { durationMs, instant } from '../values.ts'
import { given, refuseTogether } from './shared.ts'

const dialects = {
  unix: 'unix',
  kubernetes: 'kubernetes',
  k8s: 'kubernetes',
  github: 'github',
  quartz: 'quartz',
  eventbridge: 'eventbridge',
  jenkins: 'jenkins',
  systemd: 'systemd',
  'systemd-like': 'systemd',
} as const
const dialectNames = Object.keys(dialects) as (keyof typeof dialects)[]
const matches = ['or', 'and'] as const
const gaps = ['next_valid', 'skip'] as const
const overlaps = ['first', 'both'] as const

export const timingFlags: readonly FlagSpec[] = [
  {
    name: 'every',
    value: 'rate',
    summary: "Again and again: 90s, 5m, 1h, 1d, or 'every 2 weeks on fri at 09:00'",
  },
  { name: 'cron', value: 'expression', summary: "By the calendar: '0 2 * * *'" },
  { name: 'dialect', value: 'name', choices: dialectNames, summary: 'How --cron is read; unix if left out' },
  { name: 'day-match', value: 'rule', choices: matches, summary: 'When both day fields of --cron are set' },
  {
    name: 'at',
    value: 'time',
    summary: 'Once: 2026-12-01T02:30:00Z, or without offset in --zone, or +10m from now',
  },
  { name: 'zone', value: 'name', summary: 'Time zone, such as Europe/Berlin; UTC if left out' },
  { name: 'dst-gap', value: 'policy', choices: gaps, summary: 'A time that the clock leaps over' },
  { name: 'dst-overlap', value: 'policy', choices: overlaps, summary: 'A time that comes twice' },
  { name: 'start', value: 'time', summary: 'No planned time before this; a rate counts from here' },
  { name: 'end', value: 'time', summary: 'No planned time at or after this' },
]

export const ifPastFlag: FlagSpec = {
  name: 'if-past',
  value: 'policy',
  choices: ['reject', 'runNow'],
  summary: 'What to do with an --at that is over',
}

export const lateFlags: readonly FlagSpec[] = [
  { name: 'jitter', value: 'duration', summary: 'Spread the start over this long' },
  {
    name: 'catch-up',
    value: 'policy',
    choices: ['latest', 'all', 'none'],
    summary: 'What runs of the times that fell due while Belfry was down',
  },
  { name: 'catch-up-window', value: 'duration', summary: 'How far back to catch up; 1d if left out' },
  { name: 'catch-up-max', value: 'count', summary: 'Most runs to catch up; 100 if left out' },
  {
    name: 'overlap',
    value: 'policy',
    choices: ['skip', 'allow'],
    summary: 'When the run before has not ended',
  },
  { name: 'description', value: 'text', summary: 'What it is for' },
]

export const scheduleFieldFlags: Readonly<Record<string, string>> = {
  '/at': '--at',
  '/every': '--every',
  '/cron': '--cron',
  '/dialect': '--dialect',
  '/dayMatch': '--day-match',
  '/dst/gap': '--dst-gap',
  '/dst/overlap': '--dst-overlap',
  '/zone': '--zone',
  '/startAt': '--start',
  '/endAt': '--end',
  '/ifPast': '--if-past',
  '/jitterMs': '--jitter',
  '/catchUp': '--catch-up',
  '/catchUp/windowMs': '--catch-up-window',
  '/catchUp/maxRuns': '--catch-up-max',
  '/overlap': '--overlap',
  '/description': '--description',
  '/input': '--input',
}

type Timing = Pick<
  BodyOf<'scheduleCreate'>,
  'at' | 'every' | 'cron' | 'dialect' | 'dayMatch' | 'zone' | 'dst'
>
type CatchUp = NonNullable<BodyOf<'scheduleCreate'>['catchUp']>

/**
 * One of at, every, cron, and how it is read. `+10m` and `now` are worked out here; all other forms are the
 * server's to read.
 */
export function timingFromFlags(call: Call): Timing {
  refuseTogether(call, 'every', 'cron', 'at')
  const at = call.flags.text('at')
  const counted = at !== undefined && (at.startsWith('+') || at === 'now')
  const dialect = call.flags.choice('dialect', dialectNames)
  const dst = given({
    gap: call.flags.choice('dst-gap', gaps),
    overlap: call.flags.choice('dst-overlap', overlaps),
  })
  return given({
    at: counted ? instant(at, '--at', call.io.now()) : at,
    every: call.flags.text('every'),
    cron: call.flags.text('cron'),
    dialect: dialect === undefined ? undefined : dialects[dialect],
    dayMatch: call.flags.choice('day-match', matches),
    zone: call.flags.text('zone'),
    dst: Object.keys(dst).length === 0 ? undefined : dst,
  })
}

/** Catch-up as given; undefined when none of its flags is. */
export function catchUpFromFlags(call: Call): CatchUp | undefined {
  const catchUp = given({
    policy: call.flags.choice('catch-up', ['latest', 'all', 'none']),
    windowMs: call.flags.durationMs('catch-up-window'),
    maxRuns: call.flags.whole('catch-up-max', 1, 1000),
  })
  return Object.keys(catchUp).length === 0 ? undefined : catchUp
}

/** Overlap, jitter and description, as far as they are given. */
export const otherPolicies = (call: Call): Partial<Pick<Schedule, 'jitterMs' | 'overlap' | 'description'>> =>
  given({
    jitterMs: call.flags.durationMs('jitter'),
    overlap: call.flags.choice('overlap', ['skip', 'allow']),
    description: call.flags.text('description'),
  })

/** A bound of an update: an instant, or `none` to take it away. */
export function boundForUpdate(call: Call, name: 'start' | 'end'): string | null | undefined {
  return call.flags.text(name) === 'none' ? null : call.flags.instant(name)
}

/** Refuses a rate that is plainly none before the server is asked; the server's own forms pass. */
export function checkRate(every: string | undefined): void {
  if (every === undefined || /^\s*(?:rate\(|every\b)/i.test(every)) return
  if (durationMs(every, '--every') === 0) throw new UsageError('--every must be longer than 0')
}

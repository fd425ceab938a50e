/**
 * Flags that say when a schedule fires, and what they mean.
 * What it does about lateness and overlap: schedule-policies.ts.
 */
import type { BodyOf } from '@belfry/sdk'
import type { Call, FlagSpec } from '../command.ts'
import { UsageError } from '../exit-codes.ts'
import { durationMs, instant } from '../values.ts'
import { calendarUseFieldFlags } from './schedule-calendars.ts'
import { policyFieldFlags } from './schedule-policies.ts'
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
const matches = ['or', 'and', 'none'] as const
const gaps = ['next_valid', 'skip', 'none'] as const
const overlaps = ['first', 'both', 'none'] as const

export const timingFlags: readonly FlagSpec[] = [
  {
    name: 'every',
    value: 'rate',
    summary: "Again and again: 90s, 5m, 1h, 1d, or 'every 2 weeks on fri at 09:00'",
  },
  { name: 'cron', value: 'expression', summary: "By the calendar: '0 2 * * *'" },
  { name: 'dialect', value: 'name', choices: dialectNames, summary: 'How --cron is read; unix if left out' },
  {
    name: 'day-match',
    value: 'rule',
    choices: matches,
    summary: 'When both day fields of --cron are set; `none`: as in the dialect',
  },
  {
    name: 'at',
    value: 'time',
    summary: 'Once: 2026-12-01T02:30:00Z, or without offset in --zone, or +10m from now',
  },
  { name: 'zone', value: 'name', summary: 'Time zone, such as Europe/Berlin; UTC if left out' },
  {
    name: 'dst-gap',
    value: 'policy',
    choices: gaps,
    summary: 'A time that the clock leaps over; `none`: by the rule of the reference',
  },
  {
    name: 'dst-overlap',
    value: 'policy',
    choices: overlaps,
    summary: 'A time that comes twice; `none`: by the rule of the reference',
  },
  { name: 'start', value: 'time', summary: 'No planned time before this; a rate counts from here' },
  { name: 'end', value: 'time', summary: 'No planned time at or after this' },
]

export const ifPastFlag: FlagSpec = {
  name: 'if-past',
  value: 'policy',
  choices: ['reject', 'runNow'],
  summary: 'What to do with an --at that is over',
}

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
  '/input': '--input',
  ...calendarUseFieldFlags,
  ...policyFieldFlags,
}

type Timing = Pick<
  BodyOf<'scheduleUpdate'>,
  'at' | 'every' | 'cron' | 'dialect' | 'dayMatch' | 'zone' | 'dst'
>
type NewTiming = Pick<BodyOf<'scheduleCreate'>, keyof Timing>

/**
 * One of at, every, cron, and how it is read; null for what is `none`. `+10m` and `now` are worked out here;
 * all other forms are the server's to read.
 */
export function timingFromFlags(call: Call): Timing {
  refuseTogether(call, 'every', 'cron', 'at')
  const at = call.flags.text('at')
  const counted = at !== undefined && (at.startsWith('+') || at === 'now')
  const dialect = call.flags.choice('dialect', dialectNames)
  const dst = given({
    gap: orNull(call.flags.choice('dst-gap', gaps)),
    overlap: orNull(call.flags.choice('dst-overlap', overlaps)),
  })
  return given({
    at: counted ? instant(at, '--at', call.io.now()) : at,
    every: call.flags.text('every'),
    cron: call.flags.text('cron'),
    dialect: dialect === undefined ? undefined : dialects[dialect],
    dayMatch: orNull(call.flags.choice('day-match', matches)),
    zone: call.flags.text('zone'),
    dst: Object.keys(dst).length === 0 ? undefined : dst,
  })
}

/** The same of a new schedule, which has nothing that could be taken away. */
export function newTimingFromFlags(call: Call): NewTiming {
  const { dayMatch, dst, ...rest } = timingFromFlags(call)
  const chosen = given({ gap: dst?.gap ?? undefined, overlap: dst?.overlap ?? undefined })
  return {
    ...rest,
    ...given({
      dayMatch: dayMatch ?? undefined,
      dst: Object.keys(chosen).length === 0 ? undefined : chosen,
    }),
  }
}

const orNull = <T extends string>(choice: T | undefined): Exclude<T, 'none'> | null | undefined =>
  choice === 'none' ? null : (choice as Exclude<T, 'none'> | undefined)

/** A bound of an update: an instant, or `none` to take it away. */
export function boundForUpdate(call: Call, name: 'start' | 'end'): string | null | undefined {
  return call.flags.text(name) === 'none' ? null : call.flags.instant(name)
}

/** Refuses a rate that is plainly none before the server is asked; the server's own forms pass. */
export function checkRate(every: string | undefined): void {
  if (every === undefined || /^\s*(?:rate\(|every\b)/i.test(every)) return
  if (!/^\s*(?:\d+[dhms])+\s*$/.test(every) && every !== '0')
    throw new UsageError(
      `--every ${JSON.stringify(every)} is not a rate; write whole seconds or more: 30s, 5m, 1h30m, 1d`,
    )
  if (durationMs(every.trim(), '--every') === 0) throw new UsageError('--every must be longer than 0')
}

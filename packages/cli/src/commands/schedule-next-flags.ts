/**
 * Flags of `belfry schedule next`, and what they ask for: a schedule, its bounds, and from where to look.
 * What is wrong with a value is an `InputError` that points at the field, in the words of the evaluator.
 */
import type {
  CompileOptions,
  DayMatch,
  DstChoice,
  ScheduleFault,
  ScheduleSpec,
} from '@belfry/server/schedule'
import { onExcludedPolicies } from '@belfry/contract'
import type { Call, FlagSpec } from '../command.ts'
import { InputError, UsageError } from '../exit-codes.ts'
import { instant } from '../values.ts'
import type { Evaluator } from './schedule-evaluator.ts'
import { scheduleInput } from './schedule-evaluator.ts'
import { given, refuseTogether } from './shared.ts'

const gaps = ['next_valid', 'skip'] as const
const overlaps = ['first', 'both'] as const
const matches = ['or', 'and'] as const

export const nextFlags: readonly FlagSpec[] = [
  { name: 'cron', value: 'expression', summary: "By the calendar: '0 2 * * *'" },
  {
    name: 'dialect',
    value: 'name',
    summary:
      'Dialect of --cron: unix (if left out), kubernetes, github, quartz, eventbridge, jenkins, systemd',
  },
  { name: 'at', value: 'time', summary: 'Once: 2026-12-01T02:30:00Z, or without offset in --tz' },
  { name: 'rate', value: 'rate', summary: "Again and again: 90s, 1h30m, 'rate(5 minutes)'" },
  {
    name: 'every',
    value: 'interval',
    summary: "A rate, or calendar words: 'every 2 weeks on fri at 09:00'",
  },
  { name: 'tz', value: 'name', summary: 'Time zone, such as Europe/Berlin; UTC if left out' },
  { name: 'zone', value: 'name', summary: 'The same as --tz' },
  { name: 'from', value: 'time', summary: 'Times after this; now if left out' },
  { name: 'before', value: 'time', summary: 'Times before this instead, latest first' },
  { name: 'count', value: 'count', summary: 'How many, 1 to 1000; 5 if left out' },
  { name: 'start', value: 'time', summary: 'No planned time before this; a rate counts from here' },
  { name: 'end', value: 'time', summary: 'No planned time at or after this' },
  {
    name: 'dst-gap',
    value: 'policy',
    choices: gaps,
    summary: 'A time that the clock leaps over',
  },
  { name: 'dst-overlap', value: 'policy', choices: overlaps, summary: 'A time that comes twice' },
  { name: 'day-match', value: 'rule', choices: matches, summary: 'When both day fields of --cron are set' },
  { name: 'seed', value: 'text', summary: 'What H draws from: the id of the schedule' },
  {
    name: 'calendar',
    value: 'file',
    repeat: true,
    summary: 'Leave out what this calendar covers: YAML, JSON or iCalendar',
  },
  { name: 'only-on', value: 'file', repeat: true, summary: 'Keep only what this calendar covers' },
  {
    name: 'on-excluded',
    value: 'policy',
    choices: onExcludedPolicies,
    summary: 'What becomes of a time that is left out; skip if not given',
  },
  {
    name: 'batch',
    value: 'file',
    summary: 'Answer every case of a JSON file, one JSON line each; see the reference of schedules',
  },
]

/** Which flag fills which field; two words for one field are told apart by what was given. */
export const nextFieldFlags: Readonly<Record<string, string>> = {
  '/cron': '--cron',
  '/dialect': '--dialect',
  '/at': '--at',
  '/rate': '--rate',
  '/every': '--every',
  '/zone': '--tz',
  '/from': '--from',
  '/before': '--before',
  '/startAt': '--start',
  '/endAt': '--end',
  '/dayMatch': '--day-match',
  '/dst/gap': '--dst-gap',
  '/dst/overlap': '--dst-overlap',
  '/skipOn': '--calendar',
  '/onlyOn': '--only-on',
  '/onExcluded': '--on-excluded',
}

export type Asked = {
  readonly spec: ScheduleSpec
  readonly bounds: CompileOptions
  readonly direction: 'next' | 'previous'
  readonly fromMs: number
  readonly count: number
}

/** Everything but the calendars. */
export function askedByFlags(call: Call, evaluator: Evaluator): Asked {
  const { flags } = call
  refuseTogether(call, 'cron', 'at', 'rate', 'every')
  refuseTogether(call, 'tz', 'zone')
  refuseTogether(call, 'from', 'before')
  if (flags.text('cron') === undefined) {
    const [lone] = flags.given(['dialect', 'seed', 'day-match'])
    if (lone !== undefined) throw new UsageError(`--${lone} says how --cron is read; give --cron too`)
  }
  const zone = flags.text('tz') ?? flags.text('zone')
  const time = (name: string, pointer: string): number | undefined =>
    timeOf(call, evaluator, name, pointer, zone)
  const startAtMs = time('start', '/startAt')
  const endAtMs = time('end', '/endAt')
  const beforeMs = time('before', '/before')
  return {
    spec: { ...timingOf(call, evaluator), ...given({ zone, dst: dstOf(call) }) },
    bounds: given({ startAtMs, endAtMs }),
    direction: beforeMs === undefined ? 'next' : 'previous',
    fromMs: beforeMs ?? time('from', '/from') ?? call.io.now(),
    count: flags.whole('count', 1, 1000) ?? 5,
  }
}

function timingOf(call: Call, evaluator: Evaluator): ScheduleSpec {
  const { flags } = call
  const cron = flags.text('cron')
  const at = flags.text('at')
  const rate = flags.text('rate')
  const every = flags.text('every')
  if (at !== undefined) return { kind: 'at', at: counted(call, '--at', at, atFault) }
  if (rate !== undefined) return orThrow(scheduleInput(evaluator, 'rate', rate), '/rate')
  if (every !== undefined) return orThrow(scheduleInput(evaluator, 'every', every), '/every')
  if (cron === undefined)
    throw new UsageError(`say when: --cron '0 2 * * *', --every 5m, --at 2026-12-01T02:30:00Z, or --batch`)
  const read = orThrow(scheduleInput(evaluator, flags.text('dialect') ?? 'unix', cron), '/cron')
  const seed = flags.text('seed')
  const dayMatch: DayMatch | undefined = flags.choice('day-match', matches)
  return { ...read, ...given({ seed, dayMatch }) }
}

function dstOf(call: Call): DstChoice | undefined {
  const dst = given({
    gap: call.flags.choice('dst-gap', gaps),
    overlap: call.flags.choice('dst-overlap', overlaps),
  })
  return Object.keys(dst).length === 0 ? undefined : dst
}

/** An instant, or a wall time of the schedule's zone. */
function timeOf(
  call: Call,
  { zones, parseAt, parseInstant, resolveZone }: Evaluator,
  name: string,
  pointer: string,
  zoneName = 'UTC',
): number | undefined {
  const text = call.flags.text(name)
  if (text === undefined) return undefined
  const zone = resolveZone(zones, zoneName)
  if (!zone.ok) throw invalid([{ pointer: '/zone', message: zone.error }])
  const bound = name === 'start' || name === 'end'
  const fault = (message: string): InputError => {
    const faults = [{ pointer, message }]
    return bound ? invalid(faults) : new InputError('invalid_request', `--${name} is not a time.`, faults)
  }
  const read = bound ? parseAt : parseInstant
  const parsed = read(counted(call, `--${name}`, text, fault), zone.value)
  if (parsed.ok) return parsed.value.instantMs
  throw fault(parsed.error.message)
}

const atFault = (message: string): InputError => invalid([{ pointer: '/at', message }])

/** `now` and `+10m` as instants; everything else as it is. What counts from now and cannot is a fault too. */
function counted(call: Call, flag: string, text: string, fault: (message: string) => InputError): string {
  if (text !== 'now' && !text.startsWith('+')) return text
  try {
    return instant(text, flag, call.io.now())
  } catch (error) {
    throw error instanceof UsageError ? fault(error.message) : error
  }
}

type Read<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly error: ScheduleFault }

function orThrow<T>(read: Read<T>, pointer: string): T {
  if (read.ok) return read.value
  const { error } = read
  throw invalid([error.pointer === '/dialect' ? error : { ...error, pointer }])
}

/** The refusal of a schedule, all faults in one. */
export const invalid = (faults: readonly ScheduleFault[]): InputError =>
  new InputError('invalid_schedule', 'The schedule is not valid; see the errors.', faults)

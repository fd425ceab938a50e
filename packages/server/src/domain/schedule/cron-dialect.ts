// What a cron dialect allows, as data: its fields for each field count, its macros and its extras. The parser
// reads such a table (dialect-tables.ts holds them) and knows no dialect by name, so a further dialect is a
// further table. A dialect is stored with the schedule and never guessed from the text.

/** The dialects written in fields; `systemd` (OnCalendar) has a grammar of its own. */
export type FieldDialect = 'unix' | 'kubernetes' | 'github' | 'quartz' | 'eventbridge' | 'jenkins'
export type CronDialect = FieldDialect | 'systemd'

export const CRON_DIALECT_NAMES: readonly CronDialect[] = [
  'unix',
  'kubernetes',
  'github',
  'quartz',
  'eventbridge',
  'jenkins',
  'systemd',
]

/** Names that people use for a dialect besides its own. */
const DIALECT_ALIASES: Readonly<Record<string, CronDialect>> = {
  k8s: 'kubernetes',
  'systemd-like': 'systemd',
}

/** The dialect of a name or alias. */
export function findDialect(name: string): CronDialect | undefined {
  return CRON_DIALECT_NAMES.find((known) => known === name) ?? aliased(name)
}

function aliased(name: string): CronDialect | undefined {
  return Object.hasOwn(DIALECT_ALIASES, name) ? DIALECT_ALIASES[name] : undefined
}

export type CronFieldName = 'second' | 'minute' | 'hour' | 'dayOfMonth' | 'month' | 'dayOfWeek' | 'year'

export type DayMatch = 'or' | 'and'

export const FIRST_YEAR = 1_970
export const LAST_YEAR = 2_199

/**
 * `*`, steps and wrapped ranges cover `min` to `last`; single values and range ends may be written up to
 * `max`. A value above `last` stands for the one a full turn lower (weekday 7 is weekday 0, Sunday). `shift`
 * is taken off a value to get its bit: weekdays that count from 1 = Sunday have 1.
 */
export type CronFieldRule = {
  readonly name: CronFieldName
  readonly label: string
  readonly min: number
  readonly last: number
  readonly max: number
  readonly shift: number
  readonly names: Readonly<Record<string, number>>
  readonly steps: boolean
}

export type CronDialectRules = {
  readonly dialect: FieldDialect
  /** The fields in order, by how many there are. */
  readonly layouts: Readonly<Record<number, readonly CronFieldRule[]>>
  readonly layoutHint: string
  /** Lower-case macro to expression. */
  readonly macros: Readonly<Record<string, string>>
  /** Whether macros are known in any case; where they are not, only small letters are. */
  readonly macrosInAnyCase: boolean
  /** `@every 1h30m` is a rate. */
  readonly everyMacro: boolean
  /** `cron(…)` around the fields, with `at(…)` and `rate(…)` beside it. */
  readonly wrapped: boolean
  /** `22-2` goes on through the end of the range. */
  readonly wrapRanges: boolean
  /** `5/15` means from 5 to the end of the range in steps of 15. */
  readonly startWithStep: boolean
  /** `/15` means the same as a star with that step. */
  readonly leadingSlash: boolean
  /** Names pair with names only, and take no step. */
  readonly plainNames: boolean
  /** `?`: not known; the same as `*`, also with a step; or "no matter", in exactly one of the day fields. */
  readonly questionMark: 'none' | 'star' | 'other_day'
  /** `H`, `H(a-b)`, `H/n`: values drawn from the seed. */
  readonly hash: boolean
  /** `L`, `L-3`, `LW`, `15W` in the day of month; whether those with W may stand in a list. */
  readonly monthDays: 'none' | 'lone_w' | 'listed_w'
  /** `5L`, `5#2` in the day of week; whether they may stand in a list. */
  readonly weekdays: 'none' | 'listed' | 'lone'
  /** A bare `L` in the day of week is the last day of the week, Saturday. */
  readonly bareLastWeekday: boolean
  /** Refused when two times lie nearer together; 0 for no limit. */
  readonly minGapMinutes: number
  /** What it means when both day fields are restricted. */
  readonly dayMatch: DayMatch
}

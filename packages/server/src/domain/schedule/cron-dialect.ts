// What a cron dialect allows, as data: its fields for each field count, its macros and its extras. The parser
// reads these tables and knows no dialect by name, so a further dialect is a further table. A dialect is
// stored with the schedule and never guessed from the text.

export type CronDialect = 'unix'

export type CronFieldName = 'second' | 'minute' | 'hour' | 'dayOfMonth' | 'month' | 'dayOfWeek'

/**
 * `*`, steps and wrapped ranges cover `min` to `last`; single values and range ends may be written up to
 * `max`. A value above `last` stands for the one a full turn lower (weekday 7 is weekday 0, Sunday).
 */
export type CronFieldRule = {
  readonly name: CronFieldName
  readonly label: string
  readonly min: number
  readonly last: number
  readonly max: number
  readonly names: Readonly<Record<string, number>>
}

export type CronDialectRules = {
  readonly dialect: CronDialect
  /** The fields in order, by how many there are. */
  readonly layouts: Readonly<Record<number, readonly CronFieldRule[]>>
  readonly layoutHint: string
  /** Lower-case macro to expression; macros are compared without regard to case. */
  readonly macros: Readonly<Record<string, string>>
  /** `22-2` goes on through the end of the range. */
  readonly wrapRanges: boolean
  /** `5/15` means from 5 to the end of the range in steps of 15. */
  readonly startWithStep: boolean
  /** `L`, `L-3`, `LW`, `15W` in the day of month; `5L`, `5#2` in the day of week. */
  readonly specialDays: boolean
  /** What it means when both day fields are restricted. */
  readonly dayMatch: 'or' | 'and'
}

const MONTH_NAMES = numbered('JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC', 1)
const WEEKDAY_NAMES = numbered('SUN MON TUE WED THU FRI SAT', 0)

const SECOND = field('second', 'second', 0, 59)
const MINUTE = field('minute', 'minute', 0, 59)
const HOUR = field('hour', 'hour', 0, 23)
const DAY_OF_MONTH = field('dayOfMonth', 'day of month', 1, 31)
const MONTH: CronFieldRule = { ...field('month', 'month', 1, 12), names: MONTH_NAMES }
const DAY_OF_WEEK: CronFieldRule = {
  ...field('dayOfWeek', 'day of week', 0, 6),
  max: 7,
  names: WEEKDAY_NAMES,
}

const FIVE_FIELDS = [MINUTE, HOUR, DAY_OF_MONTH, MONTH, DAY_OF_WEEK]

const UNIX: CronDialectRules = {
  dialect: 'unix',
  layouts: { 5: FIVE_FIELDS, 6: [SECOND, ...FIVE_FIELDS] },
  layoutHint: '5 fields (minute, hour, day of month, month, day of week), or 6 with the second first',
  macros: {
    '@yearly': '0 0 1 1 *',
    '@annually': '0 0 1 1 *',
    '@monthly': '0 0 1 * *',
    '@weekly': '0 0 * * 0',
    '@daily': '0 0 * * *',
    '@midnight': '0 0 * * *',
    '@hourly': '0 * * * *',
  },
  wrapRanges: true,
  startWithStep: true,
  specialDays: true,
  dayMatch: 'or',
}

export const CRON_DIALECTS: Readonly<Record<CronDialect, CronDialectRules>> = { unix: UNIX }

function field(name: CronFieldName, label: string, min: number, last: number): CronFieldRule {
  return { name, label, min, last, max: last, names: {} }
}

function numbered(names: string, first: number): Readonly<Record<string, number>> {
  return Object.fromEntries(names.split(' ').map((name, i) => [name, first + i]))
}

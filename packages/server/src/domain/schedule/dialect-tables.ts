// The tables of the dialects that are written in fields, each with its own rules and no others. Where a
// dialect accepts what can only be a mistake (a step wider than its field, an empty list item, a name of more
// than three letters) it is refused here all the same.

import {
  type CronDialectRules,
  type CronFieldName,
  type CronFieldRule,
  type FieldDialect,
  FIRST_YEAR,
  LAST_YEAR,
} from './cron-dialect.ts'

const MONTH_NAMES = numbered('JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC', 1)
const WEEKDAY_LIST = 'SUN MON TUE WED THU FRI SAT'

const SECOND = field('second', 'second', 0, 59)
const MINUTE = field('minute', 'minute', 0, 59)
const HOUR = field('hour', 'hour', 0, 23)
const DAY_OF_MONTH = field('dayOfMonth', 'day of month', 1, 31)
const PLAIN_MONTH = field('month', 'month', 1, 12)
const MONTH: CronFieldRule = { ...PLAIN_MONTH, names: MONTH_NAMES }
const YEAR = field('year', 'year', FIRST_YEAR, LAST_YEAR)
const STRICT_WEEKDAY: CronFieldRule = {
  ...field('dayOfWeek', 'day of week', 0, 6),
  names: numbered(WEEKDAY_LIST, 0),
}
/** Sunday is 0 or 7. */
const WEEKDAY: CronFieldRule = { ...STRICT_WEEKDAY, max: 7 }
/** Sunday is 1, Saturday 7. */
const WEEKDAY_FROM_1: CronFieldRule = {
  ...field('dayOfWeek', 'day of week', 1, 7),
  shift: 1,
  names: numbered(WEEKDAY_LIST, 1),
}

const FIVE_FIELDS = [MINUTE, HOUR, DAY_OF_MONTH, MONTH, WEEKDAY]
const STRICT_FIVE = [MINUTE, HOUR, DAY_OF_MONTH, MONTH, STRICT_WEEKDAY]
const FIVE_HINT = '5 fields (minute, hour, day of month, month, day of week)'

const USUAL_MACROS = {
  '@yearly': '0 0 1 1 *',
  '@annually': '0 0 1 1 *',
  '@monthly': '0 0 1 * *',
  '@weekly': '0 0 * * 0',
  '@daily': '0 0 * * *',
  '@midnight': '0 0 * * *',
  '@hourly': '0 * * * *',
}

const PLAIN = {
  macros: {},
  macrosInAnyCase: false,
  everyMacro: false,
  wrapped: false,
  wrapRanges: false,
  startWithStep: false,
  leadingSlash: false,
  plainNames: false,
  questionMark: 'none',
  hash: false,
  monthDays: 'none',
  weekdays: 'none',
  bareLastWeekday: false,
  minGapMinutes: 0,
  dayMatch: 'or',
} as const

const UNIX: CronDialectRules = {
  ...PLAIN,
  dialect: 'unix',
  layouts: { 5: FIVE_FIELDS, 6: [SECOND, ...FIVE_FIELDS] },
  layoutHint: `${FIVE_HINT}, or 6 with the second first`,
  macros: USUAL_MACROS,
  macrosInAnyCase: true,
  wrapRanges: true,
  startWithStep: true,
  monthDays: 'lone_w',
  weekdays: 'listed',
}

const KUBERNETES: CronDialectRules = {
  ...PLAIN,
  dialect: 'kubernetes',
  layouts: { 5: STRICT_FIVE },
  layoutHint: FIVE_HINT,
  macros: USUAL_MACROS,
  everyMacro: true,
  startWithStep: true,
  questionMark: 'star',
}

const GITHUB: CronDialectRules = {
  ...PLAIN,
  dialect: 'github',
  layouts: { 5: STRICT_FIVE },
  layoutHint: FIVE_HINT,
  startWithStep: true,
  minGapMinutes: 5,
}

const SIX_QUARTZ = [SECOND, MINUTE, HOUR, DAY_OF_MONTH, MONTH, WEEKDAY_FROM_1]

const QUARTZ: CronDialectRules = {
  ...PLAIN,
  dialect: 'quartz',
  layouts: { 6: SIX_QUARTZ, 7: [...SIX_QUARTZ, YEAR] },
  layoutHint: '6 fields (second, minute, hour, day of month, month, day of week), or 7 with the year last',
  wrapRanges: true,
  startWithStep: true,
  leadingSlash: true,
  plainNames: true,
  questionMark: 'other_day',
  monthDays: 'listed_w',
  weekdays: 'lone',
  bareLastWeekday: true,
  dayMatch: 'and',
}

const EVENTBRIDGE: CronDialectRules = {
  ...PLAIN,
  dialect: 'eventbridge',
  layouts: { 6: [MINUTE, HOUR, DAY_OF_MONTH, MONTH, { ...WEEKDAY_FROM_1, steps: false }, YEAR] },
  layoutHint: '6 fields inside cron(…): minute, hour, day of month, month, day of week, year',
  wrapped: true,
  wrapRanges: true,
  startWithStep: true,
  questionMark: 'other_day',
  monthDays: 'lone_w',
  weekdays: 'lone',
  bareLastWeekday: true,
  dayMatch: 'and',
}

const JENKINS: CronDialectRules = {
  ...PLAIN,
  dialect: 'jenkins',
  layouts: {
    5: [MINUTE, HOUR, DAY_OF_MONTH, PLAIN_MONTH, { ...WEEKDAY, names: {} }],
  },
  layoutHint: FIVE_HINT,
  macros: {
    '@yearly': 'H H H H *',
    '@annually': 'H H H H *',
    '@monthly': 'H H H * *',
    '@weekly': 'H H * * H',
    '@daily': 'H H * * *',
    '@midnight': 'H H(0-2) * * *',
    '@hourly': 'H * * * *',
  },
  hash: true,
  dayMatch: 'and',
}

export const DIALECT_TABLES: Readonly<Record<FieldDialect, CronDialectRules>> = {
  unix: UNIX,
  kubernetes: KUBERNETES,
  github: GITHUB,
  quartz: QUARTZ,
  eventbridge: EVENTBRIDGE,
  jenkins: JENKINS,
}

function field(name: CronFieldName, label: string, min: number, last: number): CronFieldRule {
  return { name, label, min, last, max: last, shift: 0, names: {}, steps: true }
}

function numbered(names: string, first: number): Readonly<Record<string, number>> {
  return Object.fromEntries(names.split(' ').map((name, i) => [name, first + i]))
}

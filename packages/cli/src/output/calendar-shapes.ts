/**
 * How calendars look to people: columns of their list, fields of one in full, and the days that one covers.
 * Of long lists the first entries are shown.
 */
import type { Calendar, CalendarDays, CalendarSummary } from '@belfry/contract'
import type { Shape } from './printer.ts'
import { timeWithDistance } from './times.ts'

/** As many entries of a list are shown. */
const shownEntries = 12

export const calendarSummaryShape: Shape<CalendarSummary> = {
  name: (calendar) => calendar.name,
  columns: [
    { title: 'NAME', cell: (calendar) => calendar.name, flexible: true },
    { title: 'COVERS', cell: (calendar) => calendar.words, flexible: true },
    { title: 'ZONE', cell: (calendar) => calendar.zone ?? '-' },
    { title: 'VERSION', cell: (calendar) => String(calendar.version), align: 'right' },
    { title: 'CHANGED', cell: (calendar, clock) => timeWithDistance(calendar.updatedAt, clock) },
  ],
  fields: () => [],
}

export const calendarShape: Shape<Calendar> = {
  ...calendarSummaryShape,
  fields: (calendar, clock) => [
    ['Name', calendar.name],
    ['Id', calendar.id],
    ['Description', calendar.description],
    ['Covers', calendar.words],
    ['Zone', calendar.zone ?? 'that of each schedule'],
    ...listed('Dates', calendar.dates),
    ...listed('Yearly', calendar.yearly),
    ...listed('Weekdays', calendar.weekdays),
    ...listed(
      'Ranges',
      calendar.ranges.map(({ from, to }) => `${from} to ${to}`),
    ),
    ...listed('Windows', calendar.windows.map(windowWords)),
    ...(calendar.ics === null ? [] : [['File', `iCalendar, ${calendar.ics.length} characters`] as const]),
    ['Ends', calendar.endsAt === null ? '-' : timeWithDistance(calendar.endsAt, clock)],
    ['Used by', usersWords(calendar)],
    ...(calendar.replan === null ? [] : [['Last change', replanWords(calendar.replan)] as const]),
    ['Version', String(calendar.version)],
    ['Changed', timeWithDistance(calendar.updatedAt, clock)],
  ],
}

function listed(title: string, entries: readonly string[]): (readonly [string, string])[] {
  if (entries.length === 0) return []
  const more = entries.length - shownEntries
  const shown = entries.slice(0, shownEntries).join(', ')
  return [[title, more > 0 ? `${shown} and ${more} more` : shown]]
}

function windowWords({ cron, dialect, minutes }: Calendar['windows'][number]): string {
  return `${minutes} minutes from ${dialect === 'unix' ? '' : `${dialect} `}${cron}`
}

function usersWords({ usedBy: { count, schedules } }: Calendar): string {
  if (count === 0) return 'no schedule'
  const more = count - schedules.length
  return more > 0 ? `${schedules.join(', ')} and ${more} more` : schedules.join(', ')
}

function replanWords({ state, done, total, moved }: NonNullable<Calendar['replan']>): string {
  const of = total === null ? '' : ` of ${total}`
  return `${state}: ${done}${of} schedules looked at, ${moved} with another next time`
}

type Covered = CalendarDays['covered'][number]

export const coveredShape: Shape<Covered> = {
  name: (covered) => covered.date,
  columns: [
    { title: 'DATE', cell: (covered) => `${covered.weekday.slice(0, 3)} ${covered.date}` },
    { title: 'COVERED', cell: spanWords },
    { title: 'WHY', cell: (covered) => covered.reason, flexible: true },
  ],
  fields: () => [],
}

function spanWords({ wholeDay, from, to }: Covered): string {
  const clock = (instant: string): string => instant.slice(11, 16)
  return wholeDay ? 'all day' : `${clock(from)} to ${clock(to)} UTC`
}

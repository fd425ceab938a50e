/**
 * Calendars as the contract describes them: parts that are not there are empty lists, and a few words say
 * what there is.
 */
import type { Calendar, CalendarDays, CalendarSummary } from '@belfry/contract'
import { latestInstantMs } from '@belfry/contract'
import type { CompiledCalendar } from '../domain/calendar/calendar-definition.ts'
import type { CoveredSpan, CoveredSpans } from '../domain/calendar/covered-spans.ts'
import type { CalendarRecord, CalendarSummaryRecord, CalendarUsers } from '../ports/calendars.ts'
import type { ReplanRecord } from '../ports/replans.ts'

const iso = (instantMs: number): string => new Date(instantMs).toISOString()
const isoOrNull = (instantMs: number | null): string | null => (instantMs === null ? null : iso(instantMs))

/** The parts of a stored definition; the schema was checked when it was written. */
function partsOf({ definition }: CalendarSummaryRecord) {
  const list = <T>(part: string): T[] => (definition[part] ?? []) as T[]
  return {
    dates: list<string>('dates'),
    ranges: list<Calendar['ranges'][number]>('ranges').map(({ from, to }) => ({ from, to })),
    yearly: list<string>('yearly'),
    weekdays: list<string>('weekdays'),
    windows: list<{ cron: string; dialect?: string; minutes: number }>('windows').map(
      ({ cron, dialect, minutes }) => ({ cron, dialect: dialect ?? 'unix', minutes }),
    ),
  }
}

export function calendarSummaryView(calendar: CalendarSummaryRecord): CalendarSummary {
  return {
    id: calendar.id,
    name: calendar.name,
    description: calendar.description,
    version: calendar.version,
    zone: typeof calendar.definition['zone'] === 'string' ? calendar.definition['zone'] : null,
    words: wordsOf(calendar),
    createdAt: iso(calendar.createdAtMs),
    updatedAt: iso(calendar.updatedAtMs),
  }
}

/** "12 dates, 2 ranges, sat and sun, an iCalendar file". */
function wordsOf(calendar: CalendarSummaryRecord): string {
  const { dates, ranges, yearly, weekdays, windows } = partsOf(calendar)
  const some = (count: number, noun: string): string[] =>
    count === 0 ? [] : [`${count} ${noun}${count === 1 ? '' : 's'}`]
  return [
    ...some(dates.length, 'date'),
    ...some(yearly.length, 'yearly date'),
    ...some(ranges.length, 'range'),
    ...(weekdays.length === 0 ? [] : [weekdays.join(' and ')]),
    ...some(windows.length, 'window'),
    ...(calendar.definition['ics'] === undefined ? [] : ['an iCalendar file']),
  ].join(', ')
}

/** `compiled` is undefined for one that this version cannot read. */
export function calendarView(
  calendar: CalendarRecord,
  compiled: CompiledCalendar | undefined,
  users: CalendarUsers,
  replan: ReplanRecord | undefined,
): Calendar {
  const { ics } = calendar.definition
  const endMs = compiled?.endMs ?? Infinity
  return {
    ...calendarSummaryView(calendar),
    ...partsOf(calendar),
    ics: typeof ics === 'string' ? ics : null,
    endsAt: endMs > latestInstantMs ? null : iso(endMs),
    usedBy: { count: users.count, schedules: [...users.names] },
    replan: replan === undefined ? null : replanView(replan),
  }
}

function replanView(replan: ReplanRecord): NonNullable<Calendar['replan']> {
  const { state, total, done, moved } = replan
  return {
    state,
    total,
    done,
    moved,
    requestedAt: iso(replan.requestedAtMs),
    endedAt: isoOrNull(replan.endedAtMs),
  }
}

const weekdays = ['Sunday', 'Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday']

export function calendarDaysView(
  zoneName: string,
  range: { readonly fromMs: number; readonly toMs: number },
  { spans, nextMs }: CoveredSpans,
): CalendarDays {
  return {
    zone: zoneName,
    from: iso(range.fromMs),
    to: iso(range.toMs),
    covered: spans.map(coveredView),
    next: isoOrNull(nextMs),
  }
}

function coveredView({
  dayNo,
  fromMs,
  toMs,
  wholeDay,
  reason,
}: CoveredSpan): CalendarDays['covered'][number] {
  const day = new Date(dayNo * 86_400_000)
  const date = day.toISOString().slice(0, 10)
  const weekday = weekdays[day.getUTCDay()] ?? ''
  return { date, weekday, from: iso(fromMs), to: iso(toMs), wholeDay, reason }
}

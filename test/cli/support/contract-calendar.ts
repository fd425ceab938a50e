// A calendar as the test server of the contract answers it, and the days that it covers.
import type { Calendar, CalendarDays } from '@belfry/contract'

type Parts = Pick<Calendar, 'id' | 'name'> & { readonly [part: string]: unknown }

/** The parts of a request are those of the answer, but that absent ones are empty lists. */
export const newCalendar = ({ id, name, ...parts }: Parts): Calendar => ({
  id,
  name,
  description: '',
  version: 1,
  zone: null,
  words: 'sat and sun',
  dates: [],
  ranges: [],
  yearly: [],
  weekdays: [],
  windows: [],
  ics: null,
  endsAt: null,
  usedBy: { count: 0, schedules: [] },
  replan: null,
  createdAt: '2026-11-29T12:00:00.000Z',
  updatedAt: '2026-11-29T12:00:00.000Z',
  ...Object.fromEntries(Object.entries(parts).filter(([, part]) => part !== undefined)),
})

/** As a list shows it. */
export const calendarSummary = (calendar: Calendar) => {
  const { id, name, description, version, zone, words, createdAt, updatedAt } = calendar
  return { id, name, description, version, zone, words, createdAt, updatedAt }
}

/** What an update leaves: null takes a part away. */
export const changedCalendar = (before: Calendar, fields: Readonly<Record<string, unknown>>): Calendar => {
  const parts = Object.entries(fields).flatMap(([part, value]) => {
    if (value === undefined) return []
    if (value !== null || part === 'zone' || part === 'ics') return [[part, value] as const]
    return [[part, []] as const]
  })
  return { ...before, ...Object.fromEntries(parts), version: before.version + 1 }
}

export const someDays: CalendarDays = {
  zone: 'Europe/Berlin',
  from: '2026-11-28T23:00:00.000Z',
  to: '2027-11-29T23:00:00.000Z',
  covered: [
    {
      date: '2026-12-25',
      weekday: 'Friday',
      from: '2026-12-24T23:00:00.000Z',
      to: '2026-12-25T23:00:00.000Z',
      wholeDay: true,
      reason: 'Christmas Day',
    },
    {
      date: '2026-12-31',
      weekday: 'Thursday',
      from: '2026-12-31T11:00:00.000Z',
      to: '2026-12-31T23:00:00.000Z',
      wholeDay: false,
      reason: '2026-12-31T12:00 to 2027-01-01T00:00',
    },
  ],
  next: null,
}

/**
 * Calendars: days and times that schedules leave out (`skipOn`) or keep to (`onlyOn`). Holidays, blackout
 * windows, business days; written here, or taken from an iCalendar file. What the dates themselves say is
 * checked by the server, which points at the entry that is wrong.
 */
import { z } from 'zod'
import {
  givenInstantSchema,
  idSchema,
  instantSchema,
  nameSchema,
  pageOf,
  pageQuery,
  safeText,
} from './common.ts'

/** Characters of the text of an iCalendar file. */
export const maxIcsLength = 262_144
/** Dates, ranges and yearly dates of a calendar, together. */
export const maxCalendarEntries = 5_000
/** Calendars in each of the two lists of a schedule. */
export const maxCalendarsUsed = 10

const dateText = safeText(32, 1)

const parts = {
  zone: safeText(64, 1).meta({
    description: 'IANA zone of its days and times; the zone of each schedule that uses it if left out',
    examples: ['Europe/Berlin'],
  }),
  dates: z
    .array(dateText)
    .max(maxCalendarEntries)
    .meta({ description: 'Whole days', examples: [['2026-12-24']] }),
  ranges: z
    .array(z.strictObject({ from: dateText, to: dateText }))
    .max(maxCalendarEntries)
    .meta({
      description: 'Of dates: both are in. Of wall times (2026-12-24T12:00): up to the end, which is not in',
    }),
  yearly: z
    .array(dateText)
    .max(maxCalendarEntries)
    .meta({ description: 'Month and day of every year', examples: [['12-25', '01-01']] }),
  weekdays: z
    .array(safeText(32, 1))
    .max(16)
    .meta({ description: 'Whole weekdays: `sat`, `sunday`; or `business_days`, Monday to Friday' }),
  windows: z
    .array(
      z.strictObject({
        cron: safeText(256, 1).meta({ description: 'Begins at each of these times' }),
        dialect: safeText(32, 1).optional().meta({ description: 'Of `cron`; unix if left out' }),
        minutes: z.int().meta({ description: 'How long each lasts, at most 366 days' }),
      }),
    )
    .max(50),
  ics: safeText(maxIcsLength, 1).meta({ description: 'Text of an iCalendar file: each event is covered' }),
}

/** The optional form of each part: left out of a create, or kept as it is by an update. */
const partsLeftOut = {
  zone: parts.zone.optional(),
  dates: parts.dates.optional(),
  ranges: parts.ranges.optional(),
  yearly: parts.yearly.optional(),
  weekdays: parts.weekdays.optional(),
  windows: parts.windows.optional(),
  ics: parts.ics.optional(),
}

export const calendarCreateSchema = z
  .strictObject({ name: nameSchema, description: safeText(1024).default(''), ...partsLeftOut })
  .meta({ id: 'CalendarCreate' })
export type CalendarCreate = z.infer<typeof calendarCreateSchema>

/** Each part that is given replaces the one before as a whole; null takes it away. */
export const calendarUpdateSchema = z
  .strictObject({
    description: safeText(1024).optional(),
    zone: parts.zone.nullable().optional(),
    dates: parts.dates.nullable().optional(),
    ranges: parts.ranges.nullable().optional(),
    yearly: parts.yearly.nullable().optional(),
    weekdays: parts.weekdays.nullable().optional(),
    windows: parts.windows.nullable().optional(),
    ics: parts.ics.nullable().optional(),
  })
  .meta({ id: 'CalendarUpdate' })
export type CalendarUpdate = z.infer<typeof calendarUpdateSchema>

const replanStates = ['pending', 'running', 'done', 'superseded'] as const

export const calendarSummarySchema = z
  .strictObject({
    id: idSchema,
    name: nameSchema,
    description: z.string(),
    version: z.int().meta({ description: 'Grows with every change' }),
    zone: z.string().nullable(),
    words: z.string().meta({ description: 'What it is made of, in a few words' }),
    createdAt: instantSchema,
    updatedAt: instantSchema,
  })
  .meta({ id: 'CalendarSummary' })
export type CalendarSummary = z.infer<typeof calendarSummarySchema>

export const calendarSchema = z
  .strictObject({
    ...calendarSummarySchema.shape,
    dates: z.array(z.string()),
    ranges: z.array(z.strictObject({ from: z.string(), to: z.string() })),
    yearly: z.array(z.string()),
    weekdays: z.array(z.string()),
    windows: z.array(z.strictObject({ cron: z.string(), dialect: z.string(), minutes: z.int() })),
    ics: z.string().nullable(),
    endsAt: instantSchema
      .nullable()
      .meta({ description: 'When the last thing that it covers ends; null where something comes again' }),
    usedBy: z
      .strictObject({
        count: z.int(),
        schedules: z.array(nameSchema).meta({ description: 'Names of them, at most ten' }),
      })
      .meta({ description: 'The schedules that use it' }),
    replan: z
      .strictObject({
        state: z.enum(replanStates),
        total: z.int().nullable().meta({ description: 'About how many schedules there are to look at' }),
        done: z.int(),
        moved: z.int().meta({ description: 'Schedules that have another next time by the change' }),
        requestedAt: instantSchema,
        endedAt: instantSchema.nullable(),
      })
      .nullable()
      .meta({
        description: 'How far its last change has reached the schedules; null where none had to be told',
      }),
  })
  .meta({ id: 'Calendar' })
export type Calendar = z.infer<typeof calendarSchema>

export const calendarListQuery = z.strictObject({ ...pageQuery, name: nameSchema.optional() })
export const calendarPageSchema = pageOf(calendarSummarySchema)

const dayQuery = z.string().superRefine((text, context) => {
  const date = /^\d{4}-\d\d-\d\d$/.test(text)
  const checked = givenInstantSchema.safeParse(date ? `${text}T00:00:00Z` : text)
  if (checked.success) return
  const message = checked.error.issues[0]?.message ?? 'is not an instant'
  context.addIssue({ code: 'custom', message: `${message}; or write a date, like 2026-12-01` })
})

export const calendarDaysQuery = z.strictObject({
  from: dayQuery.optional().meta({ description: 'A date of its zone, or an instant; today if left out' }),
  to: dayQuery.optional().meta({ description: 'The same; not in; 366 days after `from` if left out' }),
  zone: parts.zone.optional().meta({ description: 'For a calendar that names none; UTC if left out' }),
})

export const calendarDaysSchema = z
  .strictObject({
    zone: z.string(),
    from: instantSchema,
    to: instantSchema,
    covered: z
      .array(
        z.strictObject({
          date: z
            .string()
            .meta({ description: 'The day in `zone` that it begins on', examples: ['2026-12-25'] }),
          weekday: z.string(),
          from: instantSchema,
          to: instantSchema.meta({ description: 'Not in' }),
          wholeDay: z.boolean(),
          reason: z.string().meta({ description: 'The part of the calendar, or the name of the event' }),
        }),
      )
      .meta({ description: 'What is covered, day by day, at most 1,000 of them' }),
    next: instantSchema.nullable().meta({ description: '`from` of the rest; null where this is all' }),
  })
  .meta({ id: 'CalendarDays' })
export type CalendarDays = z.infer<typeof calendarDaysSchema>

/** What becomes of a planned time that a calendar leaves out. */
export const onExcludedPolicies = ['skip', 'next_business_day', 'previous_business_day'] as const
export type OnExcludedPolicy = (typeof onExcludedPolicies)[number]

const usedNames = z
  .array(nameSchema)
  .max(maxCalendarsUsed)
  .refine((list) => new Set(list).size === list.length, { error: 'name each calendar once' })

/** What a schedule says of calendars, each without a default. */
export const calendarUse = {
  skipOn: usedNames.meta({ description: 'Calendars whose days and times are left out' }),
  onlyOn: usedNames.meta({ description: 'Calendars outside of whose days and times nothing runs' }),
  onExcluded: z
    .enum(onExcludedPolicies)
    .meta({ description: 'An excluded time is skipped, or runs at the same time of day on a business day' }),
}

/**
 * `belfry calendar …`: holidays, blackout windows and business days, which schedules leave out or keep to.
 * A file is read here (calendar-file.ts); what its entries say is checked by the server.
 */
import { basename } from 'node:path'
import type { CalendarCreate } from '@belfry/contract'
import type { BodyOf } from '@belfry/sdk'
import type { Call, Command, FlagSpec } from '../command.ts'
import { required } from '../command.ts'
import { UsageError } from '../exit-codes.ts'
import { readText } from '../flags.ts'
import { calendarShape, calendarSummaryShape, coveredShape } from '../output/calendar-shapes.ts'
import { findCalendar, isId } from '../resolve-name.ts'
import { calendarValue } from './calendar-file.ts'
import { given, listFlags, pageQuery, printList, sayChange } from './shared.ts'

const calendarArgument = { name: 'calendar', summary: 'Name or id of the calendar' }

const partFlags: readonly FlagSpec[] = [
  {
    name: 'file',
    value: 'file',
    summary: 'What it covers: YAML or JSON (see the reference of schedules), or iCalendar; `-` for stdin',
  },
  {
    name: 'dates',
    value: 'dates',
    repeat: true,
    summary: 'Whole days, separated by commas: 2026-12-24,2026-12-31',
  },
  { name: 'yearly', value: 'days', repeat: true, summary: 'Month and day of every year: 12-25,01-01' },
  { name: 'weekdays', value: 'days', repeat: true, summary: 'Whole weekdays: sat,sun; or business_days' },
  {
    name: 'zone',
    value: 'name',
    summary: 'Zone of its days, such as Europe/Berlin; that of each schedule if left out',
  },
  { name: 'description', value: 'text', summary: 'What it is for' },
]

const fieldFlags: Readonly<Record<string, string>> = {
  '/name': '<name>',
  '/ics': '--file',
  '/ranges': '--file',
  '/windows': '--file',
  '/dates': '--dates',
  '/yearly': '--yearly',
  '/weekdays': '--weekdays',
  '/zone': '--zone',
  '/description': '--description',
}

const listParts = ['dates', 'yearly', 'weekdays'] as const
const answered = ['id', 'words', 'version', 'createdAt', 'updatedAt', 'endsAt', 'usedBy', 'replan']
const otherParts = ['zone', 'ranges', 'windows', 'ics'] as const

/** What a file says; its fields are the server's to check. */
async function partsInFile(call: Call): Promise<Record<string, unknown> | undefined> {
  const file = call.flags.text('file')
  if (file === undefined) return undefined
  const value = calendarValue(await readText(file, '--file', call.io), file, '--file')
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return withoutAnswers(value)
  throw new UsageError(`--file ${file} holds no calendar: write an object with dates, ranges or another part`)
}

/** Without what an answer tells besides, so that one that was written to a file can be given back. */
function withoutAnswers(value: object): Record<string, unknown> {
  return Object.fromEntries(Object.entries(value).filter(([part]) => !answered.includes(part)))
}

/** The parts that flags name, which go before those of a file. */
function partsInFlags(call: Call): Partial<Record<string, unknown>> {
  const lists = listParts.map((part) => [part, entriesOf(call, part)] as const)
  return given({
    ...Object.fromEntries(lists),
    zone: call.flags.text('zone') === 'none' ? null : call.flags.text('zone'),
    description: call.flags.text('description'),
  })
}

/** Null for `none`, which takes the part away. */
function entriesOf(call: Call, flag: string): readonly string[] | null | undefined {
  const entries = call.flags.list(flag).flatMap((text) => text.split(',').map((entry) => entry.trim()))
  if (entries.length === 0) return undefined
  return entries.length === 1 && entries[0] === 'none' ? null : entries
}

async function create(call: Call): Promise<undefined> {
  const inFile = await partsInFile(call)
  const inFlags = partsInFlags(call)
  const file = call.flags.text('file')
  if (inFile === undefined && Object.keys(inFlags).every((part) => part === 'zone' || part === 'description'))
    throw new UsageError('say what it covers: --file holidays.ics, --dates 2026-12-24 or --weekdays sat,sun')
  const ofFile = file === undefined || file === '-' ? undefined : basename(file).replace(/\.\w+$/, '')
  const name = call.argument('name') ?? inFile?.['name'] ?? ofFile
  if (name === undefined) throw new UsageError('give the calendar a name: belfry calendar create holidays …')
  const parts = Object.entries({ ...inFile, ...inFlags }).filter(([, part]) => part !== null)
  const body = { ...Object.fromEntries(parts), name } as CalendarCreate
  const client = await call.client()
  const calendar = await client.calendars.create(body, { dryRun: call.dryRun })
  call.printer.row(calendar, calendarSummaryShape)
  sayChange(
    call,
    `Created the calendar ${calendar.name}: ${calendar.words}.`,
    `belfry calendar days ${calendar.name}`,
    `belfry schedule update SCHEDULE --skip-on ${calendar.name}`,
  )
}

async function update(call: Call): Promise<undefined> {
  if (call.flags.given(partFlags.map((flag) => flag.name)).length === 0)
    throw new UsageError('nothing to change: give at least one flag of what should change')
  const inFile = await partsInFile(call)
  // A file says all that the calendar covers: what it does not name goes.
  const said = Object.entries(inFile ?? {}).filter(([part]) => part !== 'name')
  const gone = inFile === undefined ? [] : [...listParts, ...otherParts].map((part) => [part, null] as const)
  const parts = Object.fromEntries([...gone, ...said])
  const body = { ...parts, ...partsInFlags(call) } as BodyOf<'calendarUpdate'>
  const client = await call.client()
  const found = await findCalendar(client, required(call, 'calendar'))
  const calendar = await client.calendars.update(found.id, body, { dryRun: call.dryRun })
  call.printer.row(calendar, calendarSummaryShape)
  const { count } = calendar.usedBy
  const users =
    count === 1 ? 'the schedule that uses it follows' : `the ${count} schedules that use it follow`
  sayChange(
    call,
    `Changed the calendar ${calendar.name}: ${calendar.words}${count === 0 ? '' : `; ${users}`}.`,
    `belfry calendar get ${calendar.name}`,
  )
}

async function list(call: Call): Promise<undefined> {
  const client = await call.client()
  await printList(
    call,
    client.calendars.list(pageQuery(call)),
    calendarSummaryShape,
    'No calendars yet. Make one: belfry calendar create holidays --file holidays.ics',
  )
}

async function get(call: Call): Promise<undefined> {
  const client = await call.client()
  const id = await idOf(call)
  call.printer.one(await client.calendars.get(id), calendarShape)
}

const idOf = async (call: Call): Promise<string> => {
  const wanted = required(call, 'calendar')
  return isId(wanted) ? wanted : (await findCalendar(await call.client(), wanted)).id
}

async function days(call: Call): Promise<undefined> {
  const client = await call.client()
  const query = given({
    from: call.flags.text('from'),
    to: call.flags.text('to'),
    zone: call.flags.text('zone'),
  })
  const { covered, next, zone, to } = await client.calendars.days(await idOf(call), query)
  const empty = `Nothing is covered up to ${to}.`
  call.printer.list({ items: covered }, coveredShape, empty)
  if (next !== null) call.printer.say(`There is more: --from ${next}`)
  call.printer.say(`Days of ${zone}.`)
}

async function remove(call: Call): Promise<undefined> {
  const client = await call.client()
  const calendar = await findCalendar(client, required(call, 'calendar'))
  await client.calendars.delete(calendar.id, { dryRun: call.dryRun })
  sayChange(call, `Deleted the calendar ${calendar.name}.`, 'belfry calendar list')
}

export const calendarCommands: readonly Command[] = [
  {
    noun: 'calendar',
    verb: 'create',
    summary: 'Make a calendar of holidays, blackout windows or business days',
    details: 'The name may be left out where the file has one. Flags go before what the file says.',
    arguments: [
      { name: 'name', summary: 'Name of the calendar: letters, digits, ".", "_", "-"', optional: true },
    ],
    flags: partFlags,
    effect: 'change',
    fieldFlags,
    examples: [
      {
        words: 'Public holidays, from a file of a calendar program',
        command: 'belfry calendar create holidays --file holidays.ics --zone Europe/Berlin',
      },
      {
        words: 'Weekends and two days of every year',
        command: 'belfry calendar create closed --weekdays sat,sun --yearly 12-25,01-01',
      },
    ],
    run: create,
  },
  {
    noun: 'calendar',
    verb: 'list',
    summary: 'List calendars',
    flags: listFlags,
    effect: 'read',
    examples: [{ words: 'All calendars', command: 'belfry calendar list --all' }],
    run: list,
  },
  {
    noun: 'calendar',
    verb: 'get',
    summary: 'Show a calendar and the schedules that use it',
    arguments: [calendarArgument],
    effect: 'read',
    examples: [
      { words: 'One calendar in full', command: 'belfry calendar get holidays' },
      { words: 'As it could be written to a file', command: 'belfry calendar get holidays -o yaml' },
    ],
    run: get,
  },
  {
    noun: 'calendar',
    verb: 'days',
    summary: 'Show which days and times a calendar covers, and why',
    arguments: [calendarArgument],
    flags: [
      { name: 'from', value: 'date', summary: 'From this day (or instant) on; today if left out' },
      { name: 'to', value: 'date', summary: 'Before this day (or instant); a year later if left out' },
      { name: 'zone', value: 'name', summary: 'For a calendar that names no zone; UTC if left out' },
    ],
    effect: 'read',
    fieldFlags: { '/query/from': '--from', '/query/to': '--to', '/query/zone': '--zone' },
    examples: [
      { words: 'The year to come', command: 'belfry calendar days holidays' },
      {
        words: 'One December',
        command: 'belfry calendar days holidays --from 2026-12-01 --to 2027-01-01 -o json',
      },
    ],
    run: days,
  },
  {
    noun: 'calendar',
    verb: 'update',
    summary: 'Change a calendar; the schedules that use it follow',
    details:
      'A file replaces all that the calendar covers. Without one each part that is given replaces the part ' +
      'before, and `none` takes it away.',
    arguments: [calendarArgument],
    flags: partFlags,
    effect: 'change',
    fieldFlags,
    examples: [
      { words: 'The file of the next year', command: 'belfry calendar update holidays --file holidays.ics' },
      { words: 'No weekdays any more', command: 'belfry calendar update closed --weekdays none' },
    ],
    run: update,
  },
  {
    noun: 'calendar',
    verb: 'delete',
    summary: 'Delete a calendar that no schedule uses',
    arguments: [calendarArgument],
    effect: 'change',
    examples: [
      {
        words: 'See first whether it can be deleted',
        command: 'belfry calendar delete holidays --dry-run',
      },
    ],
    run: remove,
  },
]

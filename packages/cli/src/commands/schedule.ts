/**
 * `belfry schedule …`: look at schedules,
 * change, pause, resume and trigger them.
 */
import { occurrenceOutcomes, scheduleStates } from '@belfry/contract'
import type { BodyOf } from '@belfry/sdk'
import type { Call, Command, FlagSpec } from '../command.ts'
import { required } from '../command.ts'
import { UsageError } from '../exit-codes.ts'
import {
  cautionLines,
  occurrenceShape,
  runShape,
  scheduleShape,
  scheduleSummaryShape,
  whenWords,
} from '../output/shapes.ts'
import { plain } from '../output/text.ts'
import { timeWithDistance } from '../output/times.ts'
import { findJob, findSchedule, isId } from '../resolve-name.ts'
import { scheduleCreateCommand } from './schedule-create.ts'
import { scheduleNextCommand } from './schedule-next.ts'
import {
  boundForUpdate,
  catchUpFromFlags,
  checkRate,
  ifPastFlag,
  lateFlags,
  otherPolicies,
  scheduleFieldFlags,
  timingFlags,
  timingFromFlags,
} from './schedule-timing.ts'
import {
  given,
  inputFlag,
  listFlags,
  pageQuery,
  printList,
  sayChange,
  waitAndPrint,
  waitFlags,
} from './shared.ts'

const scheduleArgument = { name: 'schedule', summary: 'Name or id of the schedule' }
const updateFlags: readonly FlagSpec[] = [...timingFlags, ifPastFlag, ...lateFlags, inputFlag]

const nextWords = (call: Call, nextAt: string | null): string =>
  nextAt === null ? 'it has no planned time left' : `next ${timeWithDistance(nextAt, call.printer.clock)}`

async function list(call: Call): Promise<undefined> {
  const client = await call.client()
  const job = call.flags.text('job')
  const query = {
    ...pageQuery(call),
    ...given({
      state: call.flags.choice('state', scheduleStates),
      jobId: job === undefined ? undefined : (await findJob(client, job)).id,
    }),
  }
  const empty =
    'No schedules here. Make one: belfry schedule create --every 5m --http POST https://example.com/hook'
  await printList(call, client.schedules.list(query), scheduleSummaryShape, empty)
}

async function get(call: Call): Promise<undefined> {
  const client = await call.client()
  const wanted = required(call, 'schedule')
  const id = isId(wanted) ? wanted : (await findSchedule(client, wanted)).id
  call.printer.one(await client.schedules.get(id), scheduleShape)
}

async function update(call: Call): Promise<undefined> {
  const asked = call.flags.given(updateFlags.map((flag) => flag.name))
  if (asked.length === 0)
    throw new UsageError('nothing to change: give at least one flag of what should change')
  const timing = timingFromFlags(call)
  checkRate(timing.every)
  const client = await call.client()
  const found = await findSchedule(client, required(call, 'schedule'))
  const body: BodyOf<'scheduleUpdate'> = {
    ...timing,
    ...otherPolicies(call),
    ...given({
      startAt: boundForUpdate(call, 'start'),
      endAt: boundForUpdate(call, 'end'),
      ifPast: call.flags.choice('if-past', ['reject', 'runNow']),
      catchUp: catchUpFromFlags(call),
      input: (await call.flags.json('input')) as BodyOf<'scheduleUpdate'>['input'],
    }),
  }
  const schedule = await client.schedules.update(found.id, body, { dryRun: call.dryRun })
  call.printer.row(schedule, scheduleShape)
  const next = nextWords(call, schedule.nextAt)
  call.printer.say(...cautionLines(schedule).map(plain))
  const words = `Changed the schedule ${schedule.name}: ${whenWords(schedule)}, ${next}.` as const
  sayChange(call, words, `belfry schedule get ${schedule.name}`)
}

async function remove(call: Call): Promise<undefined> {
  const client = await call.client()
  const schedule = await findSchedule(client, required(call, 'schedule'))
  await client.schedules.delete(schedule.id, { dryRun: call.dryRun })
  sayChange(
    call,
    `Deleted the schedule ${schedule.name}; the job ${schedule.job} stays, and the history by its id.`,
    `belfry schedule occurrences ${schedule.id}`,
    `belfry job get ${schedule.job}`,
  )
}

async function pause(call: Call): Promise<undefined> {
  const client = await call.client()
  const { id } = await findSchedule(client, required(call, 'schedule'))
  const body = given({ reason: call.flags.text('reason') })
  const schedule = await client.schedules.pause(id, body, { dryRun: call.dryRun })
  call.printer.row(schedule, scheduleShape)
  sayChange(
    call,
    `Paused the schedule ${schedule.name}; what falls due meanwhile does not run.`,
    `belfry schedule resume ${schedule.name}`,
  )
}

async function resume(call: Call): Promise<undefined> {
  const client = await call.client()
  const { id } = await findSchedule(client, required(call, 'schedule'))
  const schedule = await client.schedules.resume(id, { dryRun: call.dryRun })
  call.printer.row(schedule, scheduleShape)
  const words = `Resumed the schedule ${schedule.name}; ${nextWords(call, schedule.nextAt)}.` as const
  sayChange(call, words, `belfry schedule get ${schedule.name}`)
}

async function trigger(call: Call): Promise<number | undefined> {
  const client = await call.client()
  const schedule = await findSchedule(client, required(call, 'schedule'))
  const body = given({ input: (await call.flags.json('input')) as BodyOf<'scheduleTrigger'>['input'] })
  const run = await client.schedules.trigger(schedule.id, body, { dryRun: call.dryRun })
  const words = `Started a run of ${schedule.name}: ${run.id}. Its planned times do not move.` as const
  if (call.flags.on('wait') && !call.dryRun) {
    call.printer.say(words)
    return waitAndPrint(call, client, run.id)
  }
  call.printer.row(run, runShape)
  sayChange(call, words, `belfry run wait ${run.id}`)
  return undefined
}

async function occurrences(call: Call): Promise<undefined> {
  const client = await call.client()
  const wanted = required(call, 'schedule')
  const schedule = isId(wanted) ? undefined : await findSchedule(client, wanted)
  const query = {
    ...pageQuery(call),
    ...given({
      outcome: call.flags.choice('outcome', occurrenceOutcomes),
      from: call.flags.pastInstant('since'),
      to: call.flags.pastInstant('until'),
    }),
  }
  const next = schedule === undefined ? '' : `; ${nextWords(call, schedule.nextAt)}`
  const empty = `Nothing fell due${next}. See: belfry schedule get ${schedule?.name ?? wanted}`
  const items = client.schedules.occurrences(schedule?.id ?? wanted, query)
  await printList(call, items, occurrenceShape, empty)
}

const lookCommands: readonly Command[] = [
  {
    noun: 'schedule',
    verb: 'list',
    summary: 'List schedules',
    flags: [
      { name: 'state', value: 'state', choices: scheduleStates, summary: 'Only those in this state' },
      { name: 'job', value: 'job', summary: 'Only those of this job (name or id)' },
      ...listFlags,
    ],
    effect: 'read',
    examples: [
      { words: 'All schedules and when each fires next', command: 'belfry schedule list' },
      { words: 'What is paused', command: 'belfry schedule list --state paused' },
    ],
    run: list,
  },
  {
    noun: 'schedule',
    verb: 'get',
    summary: 'Show a schedule',
    arguments: [scheduleArgument],
    effect: 'read',
    examples: [
      { words: 'One schedule in full', command: 'belfry schedule get nightly' },
      { words: 'As JSON', command: 'belfry schedule get nightly -o json' },
    ],
    run: get,
  },
  {
    noun: 'schedule',
    verb: 'occurrences',
    summary: 'What became of each planned time, newest first',
    details: 'Also of a deleted schedule, by its id.',
    arguments: [scheduleArgument],
    flags: [
      {
        name: 'outcome',
        value: 'outcome',
        choices: occurrenceOutcomes,
        summary: 'Only those that ended like this',
      },
      { name: 'since', value: 'time', summary: 'From this time on: 1d (ago), or 2026-12-01T00:00:00Z' },
      { name: 'until', value: 'time', summary: 'Before this time' },
      ...listFlags,
    ],
    effect: 'read',
    examples: [
      { words: 'The latest', command: 'belfry schedule occurrences nightly' },
      {
        words: 'What was missed this week',
        command: 'belfry schedule occurrences nightly --outcome missed --since 7d',
      },
    ],
    run: occurrences,
  },
]

const changeCommands: readonly Command[] = [
  {
    noun: 'schedule',
    verb: 'update',
    summary: 'Change a schedule; what is not given stays',
    details: 'What it calls belongs to its job: see `belfry job update`. `--start none` removes a bound.',
    arguments: [scheduleArgument],
    flags: updateFlags,
    effect: 'change',
    fieldFlags: scheduleFieldFlags,
    examples: [
      { words: 'Less often', command: 'belfry schedule update nightly --every 1h' },
      { words: 'In another zone', command: 'belfry schedule update report --zone America/New_York' },
    ],
    run: update,
  },
  {
    noun: 'schedule',
    verb: 'pause',
    summary: 'Pause a schedule',
    arguments: [scheduleArgument],
    flags: [{ name: 'reason', value: 'text', summary: 'Why; shown to everybody' }],
    effect: 'change',
    fieldFlags: { '/reason': '--reason' },
    examples: [
      { words: 'Until further notice', command: "belfry schedule pause nightly --reason 'target is moving'" },
    ],
    run: pause,
  },
  {
    noun: 'schedule',
    verb: 'resume',
    summary: 'Resume a schedule from now on',
    arguments: [scheduleArgument],
    effect: 'change',
    examples: [{ words: 'Go on', command: 'belfry schedule resume nightly' }],
    run: resume,
  },
  {
    noun: 'schedule',
    verb: 'trigger',
    summary: 'Run the job of a schedule now',
    arguments: [scheduleArgument],
    flags: [inputFlag, ...waitFlags],
    effect: 'change',
    fieldFlags: { '/input': '--input' },
    examples: [
      {
        words: 'Run it now and see how it ends',
        command: 'belfry schedule trigger nightly --wait --timeout 60s',
      },
      { words: 'With another input', command: 'belfry schedule trigger report --input @november.json' },
    ],
    run: trigger,
  },
  {
    noun: 'schedule',
    verb: 'delete',
    summary: 'Delete a schedule; its history stays',
    details:
      'Its runs and occurrences are found by its id: belfry run list --schedule ID, belfry schedule ' +
      'occurrences ID. Runs that wait or run go on.',
    arguments: [scheduleArgument],
    effect: 'change',
    examples: [{ words: 'Delete it', command: 'belfry schedule delete nightly' }],
    run: remove,
  },
]

export const scheduleCommands: readonly Command[] = [
  scheduleCreateCommand,
  scheduleNextCommand,
  ...lookCommands,
  ...changeCommands,
]

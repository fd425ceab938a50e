/**
 * `belfry schedule …`: look at schedules, change and delete them.
 * Pause, resume, skip and the like stand in schedule-actions.ts.
 */
import { scheduleStates } from '@belfry/contract'
import type { BodyOf } from '@belfry/sdk'
import type { Call, Command, FlagSpec } from '../command.ts'
import { required } from '../command.ts'
import { UsageError } from '../exit-codes.ts'
import { cautionLines, scheduleShape, scheduleSummaryShape, whenWords } from '../output/shapes.ts'
import { plain } from '../output/text.ts'
import { findJob, findSchedule, findWorkflow, isId } from '../resolve-name.ts'
import { occurrenceFlags, printOccurrences } from './occurrence.ts'
import { nextWords, scheduleActionCommands, scheduleArgument } from './schedule-actions.ts'
import { calendarUseFlags, calendarUseFromFlags } from './schedule-calendars.ts'
import { scheduleCreateCommand } from './schedule-create.ts'
import { scheduleExplainCommand } from './schedule-explain.ts'
import { scheduleNextCommand } from './schedule-next.ts'
import { policiesFromScheduleFlags, schedulePolicyFlags } from './schedule-policies.ts'
import {
  boundForUpdate,
  checkRate,
  ifPastFlag,
  scheduleFieldFlags,
  timingFlags,
  timingFromFlags,
} from './schedule-timing.ts'
import { given, inputFlag, listFlags, pageQuery, printList, sayChange } from './shared.ts'

const updateFlags: readonly FlagSpec[] = [
  ...timingFlags,
  ifPastFlag,
  ...calendarUseFlags,
  ...schedulePolicyFlags,
  inputFlag,
]

async function list(call: Call): Promise<undefined> {
  const client = await call.client()
  const job = call.flags.text('job')
  const workflow = call.flags.text('workflow')
  const query = {
    ...pageQuery(call),
    ...given({
      state: call.flags.choice('state', scheduleStates),
      jobId: job === undefined ? undefined : (await findJob(client, job)).id,
      workflowId: workflow === undefined ? undefined : (await findWorkflow(client, workflow)).id,
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
    ...calendarUseFromFlags(call),
    ...policiesFromScheduleFlags(call),
    ...given({
      startAt: boundForUpdate(call, 'start'),
      endAt: boundForUpdate(call, 'end'),
      ifPast: call.flags.choice('if-past', ['reject', 'runNow']),
      input: (await call.flags.json('input')) as BodyOf<'scheduleUpdate'>['input'],
    }),
  }
  const schedule = await client.schedules.update(found.id, body, { dryRun: call.dryRun })
  call.printer.row(schedule, scheduleShape)
  const next = nextWords(call, schedule)
  call.printer.say(...cautionLines(schedule).map(plain))
  const words = `Changed the schedule ${schedule.name}: ${whenWords(schedule)}, ${next}.` as const
  sayChange(call, words, `belfry schedule get ${schedule.name}`)
}

async function remove(call: Call): Promise<undefined> {
  const client = await call.client()
  const schedule = await findSchedule(client, required(call, 'schedule'))
  await client.schedules.delete(schedule.id, { dryRun: call.dryRun })
  const what = schedule.job === null ? `the workflow ${schedule.workflow}` : `the job ${schedule.job}`
  sayChange(
    call,
    `Deleted the schedule ${schedule.name}; ${what} stays, and the history by its id.`,
    `belfry schedule occurrences ${schedule.id}`,
    schedule.job === null ? `belfry workflow get ${schedule.workflow}` : `belfry job get ${schedule.job}`,
  )
}

const occurrences = (call: Call): Promise<undefined> => printOccurrences(call, required(call, 'schedule'))

const lookCommands: readonly Command[] = [
  {
    noun: 'schedule',
    verb: 'list',
    summary: 'List schedules',
    flags: [
      { name: 'state', value: 'state', choices: scheduleStates, summary: 'Only those in this state' },
      { name: 'job', value: 'job', summary: 'Only those of this job (name or id)' },
      { name: 'workflow', value: 'workflow', summary: 'Only those of this workflow (name or id)' },
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
    flags: occurrenceFlags,
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
    details:
      'What it calls belongs to its job: see `belfry job update`. `none` takes away: --start, --end, ' +
      '--day-match, --dst-gap, --dst-overlap, --run-limit, --pause-after-failures. Another --run-limit ' +
      'counts from 0.',
    arguments: [scheduleArgument],
    flags: updateFlags,
    effect: 'change',
    fieldFlags: scheduleFieldFlags,
    examples: [
      { words: 'Less often', command: 'belfry schedule update nightly --every 1h' },
      {
        words: 'Let runs wait for each other, and take the limit away',
        command: 'belfry schedule update probe --overlap buffer_all --run-limit none',
      },
      { words: 'In another zone', command: 'belfry schedule update report --zone America/New_York' },
    ],
    run: update,
  },
  {
    noun: 'schedule',
    verb: 'delete',
    summary: 'Delete a schedule; its history stays',
    details:
      'No planned time of it fires any more, and a backfill of it ends. What it has started goes on, also ' +
      'what waits for its turn. Its history is found by its id: belfry run list --schedule ID (of a ' +
      'workflow: belfry workflow-run list --schedule ID), belfry schedule occurrences ID. The name is free ' +
      'for another one.',
    arguments: [scheduleArgument],
    effect: 'change',
    examples: [{ words: 'Delete it', command: 'belfry schedule delete nightly' }],
    run: remove,
  },
]

export const scheduleCommands: readonly Command[] = [
  scheduleCreateCommand,
  scheduleNextCommand,
  scheduleExplainCommand,
  ...lookCommands,
  ...changeCommands,
  ...scheduleActionCommands,
]

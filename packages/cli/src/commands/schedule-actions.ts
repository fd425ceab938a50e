/**
 * `belfry schedule …`: pause, resume, skip, sleep, wake and trigger.
 * Each says what it did, or would do, and what to type next.
 */
import type { Schedule } from '@belfry/contract'
import type { BodyOf, Client } from '@belfry/sdk'
import type { Call, Command, FlagSpec } from '../command.ts'
import { required } from '../command.ts'
import { UsageError } from '../exit-codes.ts'
import { runShape, scheduleShape } from '../output/shapes.ts'
import { timeWithDistance } from '../output/times.ts'
import { workflowRunShape } from '../output/workflow-run-shapes.ts'
import { findSchedule } from '../resolve-name.ts'
import { given, inputFlag, sayChange, waitAndPrint, waitFlags } from './shared.ts'
import { waitForEnd } from './workflow-run-wait.ts'

export const scheduleArgument = { name: 'schedule', summary: 'Name or id of the schedule' }
const reasonFlag: FlagSpec = { name: 'reason', value: 'text', summary: 'Why; shown to everybody' }

type Standing = Pick<Schedule, 'state' | 'nextAt'>

export function nextWords(call: Call, { state, nextAt }: Standing): string {
  if (nextAt !== null) return `next ${timeWithDistance(nextAt, call.printer.clock)}`
  return state === 'paused' ? 'it is paused' : 'it has no planned time left'
}

async function found(call: Call) {
  const client = await call.client()
  return { client, id: (await findSchedule(client, required(call, 'schedule'))).id }
}

async function pause(call: Call): Promise<undefined> {
  const { client, id } = await found(call)
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
  const { client, id } = await found(call)
  const body = given({ backfillFrom: call.flags.pastInstant('backfill-from') })
  const schedule = await client.schedules.resume(id, body, { dryRun: call.dryRun })
  call.printer.row(schedule, scheduleShape)
  const from = body.backfillFrom
  const rest = from === undefined ? '' : await backfillWords(call, client, id, from)
  const words = `Resumed the schedule ${schedule.name}; ${nextWords(call, schedule)}${rest}.` as const
  sayChange(call, words, `belfry schedule get ${schedule.name}`)
}

/** How many planned times there are is the timing's of today to say, whatever it was then. */
async function backfillWords(call: Call, client: Client, id: string, from: string): Promise<string> {
  const backfill = call.dryRun
    ? await client.schedules.backfill(id, { from }, { dryRun: true })
    : (await client.backfills.list({ scheduleId: id, limit: 1 }).page()).items[0]
  const since = timeWithDistance(from, call.printer.clock)
  const times = backfill === undefined ? 'planned times' : `${backfill.total} planned times`
  return `; a backfill goes through the ${times} since ${since}, by its timing of today`
}

async function skip(call: Call): Promise<undefined> {
  const { client, id } = await found(call)
  const body = given({ count: call.flags.whole('count', 1, 100), reason: call.flags.text('reason') })
  const schedule = await client.schedules.skip(id, body, { dryRun: call.dryRun })
  call.printer.row(schedule, scheduleShape)
  const until = timeWithDistance(schedule.sleepUntil ?? '', call.printer.clock)
  const words = `Set the schedule ${schedule.name} to skip what is planned up to ${until}.` as const
  sayChange(call, words, `belfry schedule wake ${schedule.name}`)
}

async function sleep(call: Call): Promise<undefined> {
  const until = call.flags.instant('until')
  if (until === undefined) {
    throw new UsageError('say until when: --until +2h or --until 2026-12-27T00:00:00Z')
  }
  const { client, id } = await found(call)
  const body = { until, ...given({ reason: call.flags.text('reason') }) }
  const schedule = await client.schedules.sleep(id, body, { dryRun: call.dryRun })
  call.printer.row(schedule, scheduleShape)
  const shown = timeWithDistance(until, call.printer.clock)
  const words =
    `Put the schedule ${schedule.name} to sleep until ${shown}; what is planned before is skipped.` as const
  sayChange(call, words, `belfry schedule wake ${schedule.name}`)
}

async function wake(call: Call): Promise<undefined> {
  const { client, id } = await found(call)
  const schedule = await client.schedules.wake(id, { dryRun: call.dryRun })
  call.printer.row(schedule, scheduleShape)
  const words = `Woke the schedule ${schedule.name}; ${nextWords(call, schedule)}.` as const
  sayChange(call, words, `belfry schedule get ${schedule.name}`)
}

async function trigger(call: Call): Promise<number | undefined> {
  const scheduledFor = call.flags.instant('for')
  const client = await call.client()
  const schedule = await findSchedule(client, required(call, 'schedule'))
  const body = given({
    input: (await call.flags.json('input')) as BodyOf<'scheduleTrigger'>['input'],
    scheduledFor,
  })
  const run = await client.schedules.trigger(schedule.id, body, { dryRun: call.dryRun })
  const time = scheduledFor === undefined ? '' : `, for ${timeWithDistance(scheduledFor, call.printer.clock)}`
  const words = `Started a run of ${schedule.name}${time}: ${run.id}. Its planned times do not move.` as const
  if ('workflow' in run && call.flags.on('wait') && !call.dryRun) {
    call.printer.say(words)
    return waitForEnd(call, client, run.id)
  }
  if ('workflow' in run) {
    call.printer.row(run, workflowRunShape)
    sayChange(call, words, `belfry workflow-run get ${run.id} --watch`)
    return undefined
  }
  if (call.flags.on('wait') && !call.dryRun) {
    call.printer.say(words)
    return waitAndPrint(call, client, run.id)
  }
  call.printer.row(run, runShape)
  sayChange(call, words, `belfry run wait ${run.id}`)
  return undefined
}

const common = { noun: 'schedule', arguments: [scheduleArgument], effect: 'change' } as const

export const scheduleActionCommands: readonly Command[] = [
  {
    ...common,
    verb: 'pause',
    summary: 'Pause a schedule',
    flags: [reasonFlag],
    fieldFlags: { '/reason': '--reason' },
    examples: [
      { words: 'Until further notice', command: "belfry schedule pause nightly --reason 'target is moving'" },
    ],
    run: pause,
  },
  {
    ...common,
    verb: 'resume',
    summary: 'Resume a schedule from now on',
    details:
      'What fell due while it was paused does not run; it is on record as skipped. --backfill-from runs it ' +
      'after all, behind fresh runs: see `belfry backfill list`.',
    flags: [
      {
        name: 'backfill-from',
        value: 'time',
        summary: 'Also run what was planned from here until now: 2d (ago), or 2026-12-01T00:00:00Z',
      },
    ],
    fieldFlags: { '/backfillFrom': '--backfill-from' },
    examples: [
      { words: 'Go on', command: 'belfry schedule resume nightly' },
      { words: 'And make up for two days', command: 'belfry schedule resume nightly --backfill-from 2d' },
    ],
    run: resume,
  },
  {
    ...common,
    verb: 'skip',
    summary: 'Skip the next planned times of a schedule',
    details: 'Counted from the next planned time, so that the same command twice skips no more.',
    flags: [{ name: 'count', value: 'count', summary: 'How many; 1 if left out' }, reasonFlag],
    fieldFlags: { '/count': '--count', '/reason': '--reason' },
    examples: [
      { words: 'Not tonight', command: "belfry schedule skip nightly --reason 'stock-taking'" },
      { words: 'Not the next three times', command: 'belfry schedule skip nightly --count 3' },
    ],
    run: skip,
  },
  {
    ...common,
    verb: 'sleep',
    summary: 'Skip what a schedule plans until an instant',
    flags: [
      {
        name: 'until',
        value: 'time',
        summary: 'What is planned from here on runs again: +2h, or an instant',
      },
      reasonFlag,
    ],
    fieldFlags: { '/until': '--until', '/reason': '--reason' },
    examples: [
      {
        words: 'Over the holidays',
        command: "belfry schedule sleep nightly --until 2026-12-27T00:00:00Z --reason 'plant is closed'",
      },
      { words: 'For two hours', command: 'belfry schedule sleep probe --until +2h' },
    ],
    run: sleep,
  },
  {
    ...common,
    verb: 'wake',
    summary: 'End a skip or a sleep of a schedule',
    details: 'What was skipped meanwhile does not run.',
    examples: [{ words: 'Run again as planned', command: 'belfry schedule wake nightly' }],
    run: wake,
  },
  {
    ...common,
    verb: 'trigger',
    summary: 'Run the job of a schedule now',
    flags: [
      {
        name: 'for',
        value: 'time',
        summary: 'The planned time that the run stands for, as its handler sees it',
      },
      inputFlag,
      ...waitFlags,
    ],
    fieldFlags: { '/input': '--input', '/scheduledFor': '--for' },
    examples: [
      {
        words: 'Run it now and see how it ends',
        command: 'belfry schedule trigger nightly --wait --timeout 60s',
      },
      { words: 'With another input', command: 'belfry schedule trigger report --input @november.json' },
      {
        words: 'As if it were the first of December',
        command: 'belfry schedule trigger report --for 2026-12-01T02:30:00Z',
      },
    ],
    run: trigger,
  },
]

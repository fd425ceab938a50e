/**
 * `belfry schedule backfill` and `belfry backfill …`: run planned times that are over, look how far that has
 * come, pause, resume and cancel it.
 */
import { backfillOrders, backfillReprocesses, backfillStates, maxBackfillConcurrency } from '@belfry/contract'
import type { Backfill } from '@belfry/contract'
import type { BodyOf, Client } from '@belfry/sdk'
import type { Call, Command, FlagSpec } from '../command.ts'
import { required } from '../command.ts'
import { exitCodes, UsageError } from '../exit-codes.ts'
import {
  backfillPreviewShape,
  backfillShape,
  backfillSummaryShape,
  endsWords,
  progressWords,
} from '../output/backfill-shapes.ts'
import { backfillId, findSchedule, findScheduleId } from '../resolve-name.ts'
import { given, inputFlag, listFlags, pageQuery, printList, sayChange } from './shared.ts'

const backfillArgument = { name: 'backfill', summary: 'Id of the backfill' }
const exampleId = '019ad0c1-7f3e-7c63-9a52-6e4d8c1b2a3f'

const waitFlags: readonly FlagSpec[] = [
  {
    name: 'wait',
    summary: 'Wait until it is over; exit code 5 if a run did not succeed, 6 if time ran out',
  },
  { name: 'timeout', value: 'duration', summary: 'Longest wait, such as 10m; no limit if left out' },
]

async function create(call: Call): Promise<number | undefined> {
  const from = call.flags.pastInstant('from')
  if (from === undefined)
    throw new UsageError('say from when: --from 7d (ago) or --from 2026-11-01T00:00:00Z')
  const client = await call.client()
  const schedule = await findSchedule(client, required(call, 'schedule'))
  const body: BodyOf<'backfillCreate'> = {
    from,
    ...given({
      to: call.flags.pastInstant('to'),
      order: call.flags.choice('order', backfillOrders),
      concurrency: call.flags.whole('concurrency', 1, maxBackfillConcurrency),
      reprocess: call.flags.choice('reprocess', backfillReprocesses),
      input: (await call.flags.json('input')) as BodyOf<'backfillCreate'>['input'],
    }),
  }
  const dryRun = call.dryRun || call.flags.on('preview')
  const backfill = await client.schedules.backfill(schedule.id, body, { dryRun })
  if (dryRun) {
    call.printer.one(backfill, backfillPreviewShape)
    const all = `a backfill of ${schedule.name}, of ${backfill.total} planned times`
    call.printer.say(`Dry run, nothing was stored: would start ${all}`)
    return undefined
  }
  const words =
    `Started a backfill of ${schedule.name}: ${backfill.total} planned times, ${backfill.id}.` as const
  if (call.flags.on('wait')) {
    call.printer.say(words)
    return waitAndPrint(call, client, backfill.id)
  }
  call.printer.row(backfill, backfillShape)
  sayChange(call, words, `belfry backfill get ${backfill.id}`)
  return undefined
}

async function waitAndPrint(call: Call, client: Client, id: string): Promise<number> {
  const backfill = await client.waitForBackfill(id, {
    timeoutMs: call.flags.durationMs('timeout'),
    onChange: (changed) =>
      call.printer.say(`${changed.state}: ${progressWords(changed)}; ${endsWords(changed)}`),
  })
  call.printer.row(backfill, backfillShape)
  const { state, failed, canceled } = backfill
  if (state === 'completed' && failed + canceled === 0) return exitCodes.ok
  if (failed > 0) call.printer.say(`Next: belfry run list --backfill ${id} --state failed`)
  return exitCodes.runDidNotSucceed
}

async function list(call: Call): Promise<undefined> {
  const client = await call.client()
  const schedule = call.flags.text('schedule')
  const query = {
    ...pageQuery(call),
    ...given({
      state: call.flags.choice('state', backfillStates),
      scheduleId: schedule === undefined ? undefined : await findScheduleId(client, schedule),
    }),
  }
  const filtered = call.flags.given(['state', 'schedule']).length > 0
  const empty = filtered
    ? 'No backfills match. See all: belfry backfill list'
    : 'No backfills yet. See what one would do: belfry schedule backfill SCHEDULE --from 7d --preview'
  await printList(call, client.backfills.list(query), backfillSummaryShape, empty)
}

const idOf = (call: Call): string => backfillId(required(call, 'backfill'))

async function get(call: Call): Promise<undefined> {
  call.printer.one(await (await call.client()).backfills.get(idOf(call)), backfillShape)
}

async function wait(call: Call): Promise<number> {
  return waitAndPrint(call, await call.client(), idOf(call))
}

async function pause(call: Call): Promise<undefined> {
  const body = given({ reason: call.flags.text('reason') })
  const backfill = await (await call.client()).backfills.pause(idOf(call), body, { dryRun: call.dryRun })
  call.printer.row(backfill, backfillShape)
  const words = `Paused the backfill of ${backfill.schedule}${aliveWords(backfill)}.` as const
  sayChange(call, words, `belfry backfill resume ${backfill.id}`)
}

async function resume(call: Call): Promise<undefined> {
  const backfill = await (await call.client()).backfills.resume(idOf(call), { dryRun: call.dryRun })
  call.printer.row(backfill, backfillShape)
  const words = `Resumed the backfill of ${backfill.schedule}: ${progressWords(backfill)}.` as const
  sayChange(call, words, `belfry backfill get ${backfill.id}`)
}

async function cancel(call: Call): Promise<undefined> {
  const cancelRuns = call.flags.on('cancel-runs')
  const body = { ...given({ reason: call.flags.text('reason') }), cancelRuns }
  const backfill = await (await call.client()).backfills.cancel(idOf(call), body, { dryRun: call.dryRun })
  call.printer.row(backfill, backfillShape)
  const rest = cancelRuns && backfill.alive > 0 ? '; its workers were asked to stop' : aliveWords(backfill)
  sayChange(
    call,
    `Canceled the backfill of ${backfill.schedule}${rest}.`,
    `belfry backfill get ${backfill.id}`,
  )
}

const aliveWords = ({ alive }: Backfill): string =>
  alive === 0 ? '' : `; ${alive === 1 ? 'one run goes on' : `${alive} runs go on`}`

export const scheduleBackfillCommand: Command = {
  noun: 'schedule',
  verb: 'backfill',
  summary: 'Run planned times that are over',
  details:
    'Fresh runs never wait for those of a backfill. A planned time that has run does not run again unless ' +
    '--reprocess says so, and never while a run of it is alive.',
  arguments: [{ name: 'schedule', summary: 'Name or id of the schedule' }],
  flags: [
    { name: 'from', value: 'time', summary: 'Planned times from here on: 7d (ago), or 2026-11-01T00:00:00Z' },
    { name: 'to', value: 'time', summary: 'Planned times before this; now if left out' },
    { name: 'order', value: 'order', choices: backfillOrders, summary: 'oldest_first if left out' },
    { name: 'concurrency', value: 'count', summary: 'Runs at the same time, 1 to 100; 4 if left out' },
    {
      name: 'reprocess',
      value: 'which',
      choices: backfillReprocesses,
      summary: 'Which planned times run again: none that have a run (the default), failed ones, or all',
    },
    inputFlag,
    { name: 'preview', summary: 'Show which times would run, and start nothing; as --dry-run' },
    ...waitFlags,
  ],
  effect: 'change',
  fieldFlags: {
    '/from': '--from',
    '/to': '--to',
    '/order': '--order',
    '/concurrency': '--concurrency',
    '/reprocess': '--reprocess',
    '/input': '--input',
  },
  examples: [
    {
      words: 'What would run of the last week',
      command: 'belfry schedule backfill nightly --from 7d --preview',
    },
    {
      words: 'Run what failed or never ran in November, two at a time, and wait for it',
      command:
        'belfry schedule backfill nightly --from 2026-11-01T00:00:00Z --to 2026-12-01T00:00:00Z ' +
        '--reprocess failed --concurrency 2 --wait',
    },
  ],
  run: create,
}

const reasonFlag: FlagSpec = { name: 'reason', value: 'text', summary: 'Why; shown to everybody' }

export const backfillCommands: readonly Command[] = [
  {
    noun: 'backfill',
    verb: 'list',
    summary: 'List backfills, newest first',
    flags: [
      {
        name: 'schedule',
        value: 'schedule',
        summary: 'Only of this schedule (name, or id also of a deleted one)',
      },
      { name: 'state', value: 'state', choices: backfillStates, summary: 'Only those in this state' },
      ...listFlags,
    ],
    effect: 'read',
    examples: [{ words: 'What is under way', command: 'belfry backfill list --state running' }],
    run: list,
  },
  {
    noun: 'backfill',
    verb: 'get',
    summary: 'Show how far a backfill has come',
    arguments: [backfillArgument],
    effect: 'read',
    examples: [{ words: 'One backfill in full', command: `belfry backfill get ${exampleId}` }],
    run: get,
  },
  {
    noun: 'backfill',
    verb: 'wait',
    summary: 'Wait until a backfill is over',
    details:
      'Exit code 0 if all its runs succeeded, 5 if one did not or it was canceled, 6 if the time ran out.',
    arguments: [backfillArgument],
    flags: [
      { name: 'timeout', value: 'duration', summary: 'Longest wait, such as 10m; no limit if left out' },
    ],
    effect: 'read',
    examples: [{ words: 'At most an hour', command: `belfry backfill wait ${exampleId} --timeout 1h` }],
    run: wait,
  },
  {
    noun: 'backfill',
    verb: 'pause',
    summary: 'Pause a backfill; its runs that wait or run go on',
    arguments: [backfillArgument],
    flags: [reasonFlag],
    effect: 'change',
    fieldFlags: { '/reason': '--reason' },
    examples: [
      { words: 'Until the night', command: `belfry backfill pause ${exampleId} --reason 'peak hours'` },
    ],
    run: pause,
  },
  {
    noun: 'backfill',
    verb: 'resume',
    summary: 'Resume a backfill where it stopped',
    arguments: [backfillArgument],
    effect: 'change',
    examples: [{ words: 'Go on', command: `belfry backfill resume ${exampleId}` }],
    run: resume,
  },
  {
    noun: 'backfill',
    verb: 'cancel',
    summary: 'End a backfill; no further planned times run',
    arguments: [backfillArgument],
    flags: [{ name: 'cancel-runs', summary: 'Cancel its runs that wait or run as well' }, reasonFlag],
    effect: 'change',
    fieldFlags: { '/reason': '--reason', '/cancelRuns': '--cancel-runs' },
    examples: [
      { words: 'Stop it, but let its runs end', command: `belfry backfill cancel ${exampleId}` },
      { words: 'Stop everything of it', command: `belfry backfill cancel ${exampleId} --cancel-runs` },
    ],
    run: cancel,
  },
]

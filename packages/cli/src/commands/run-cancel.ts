/**
 * `belfry run cancel`: one run by its id, or those that flags mean, with a preview. What is not over yet can
 * be canceled; the server decides how, by where each run stands.
 */
import type { CancelableState, RunSelection } from '@belfry/contract'
import { cancelableStates } from '@belfry/contract'
import type { BodyOf } from '@belfry/sdk'
import type { Call, Command } from '../command.ts'
import { UsageError } from '../exit-codes.ts'
import { runSelectionShape } from '../output/dead-letter-shapes.ts'
import { runShape } from '../output/shapes.ts'
import { backfillId, findJobId, findScheduleId, runId } from '../resolve-name.ts'
import { afterPreview, yesFlag } from './bulk.ts'
import { given, madeFlags, sayChange } from './shared.ts'

const filterFlags = ['job', 'state', 'queue', 'schedule', 'backfill', 'since', 'until'] as const

async function cancel(call: Call): Promise<number | undefined> {
  const id = call.argument('run')
  const filtered = call.flags.given(filterFlags)
  if (id !== undefined && filtered.length > 0)
    throw new UsageError(
      `give the id of a run or ${filtered.map((name) => `--${name}`).join(', ')}, not both`,
    )
  if (id === undefined && filtered.length === 0)
    throw new UsageError('say which: the id of a run, or --job, --state, --queue, --schedule, --since …')
  return id === undefined ? cancelMany(call) : cancelOne(call, id)
}

async function cancelOne(call: Call, id: string): Promise<undefined> {
  const client = await call.client()
  const body = given({ reason: call.flags.text('reason') })
  const run = await client.runs.cancel(runId(id), body, { dryRun: call.dryRun })
  call.printer.row(run, runShape)
  const what = `run ${run.id} of ${run.job}` as const
  const words =
    run.state === 'canceled'
      ? (`Canceled the ${what}.` as const)
      : (`Asked the worker to stop the ${what}, which is ${run.state}.` as const)
  sayChange(call, words, `belfry run get ${run.id}`)
  return undefined
}

async function cancelMany(call: Call): Promise<number | undefined> {
  const client = await call.client()
  const filter = await filterOf(call)
  const { preview } = await client.runs.cancelMany({ filter }, { dryRun: true })
  const found: RunSelection = preview ?? noRuns
  const next = afterPreview(call, found, runSelectionShape, 'cancel them')
  if ('exitCode' in next) return next.exitCode
  const body = { filter, ...given({ reason: call.flags.text('reason'), expectedCount: next.expectedCount }) }
  const done = await client.runs.cancelMany(body)
  call.printer.value({ ...done, preview: undefined }, [])
  const { canceled, asked, ended } = done
  const rest = ended === 0 ? '' : `, ${ended} ended by themselves`
  call.printer.say(`Canceled ${canceled} that waited, asked workers to stop ${asked} that run${rest}.`)
  return undefined
}

const noRuns: RunSelection = {
  count: 0,
  exact: true,
  byState: { waiting_for_dependencies: 0, pending: 0, running: 0 },
  byJob: [],
  sample: [],
}

async function filterOf(call: Call): Promise<BodyOf<'runCancelMany'>['filter']> {
  const client = await call.client()
  const job = call.flags.text('job')
  const schedule = call.flags.text('schedule')
  const backfill = call.flags.text('backfill')
  return given({
    state: statesOf(call),
    jobId: job === undefined ? undefined : await findJobId(client, job),
    queue: call.flags.text('queue'),
    scheduleId: schedule === undefined ? undefined : await findScheduleId(client, schedule),
    backfillId: backfill === undefined ? undefined : backfillId(backfill),
    createdAfter: call.flags.pastInstant('since'),
    createdBefore: call.flags.pastInstant('until'),
  })
}

function statesOf(call: Call): CancelableState[] | undefined {
  const named = call.flags.list('state').flatMap((text) => text.split(','))
  const wrong = named.find((name) => !(cancelableStates as readonly string[]).includes(name))
  if (wrong !== undefined)
    throw new UsageError(
      `--state "${wrong}" is not one of ${cancelableStates.join(', ')}: the rest has ended`,
    )
  return named.length === 0 ? undefined : cancelableStates.filter((state) => named.includes(state))
}

export const runCancelCommand: Command = {
  noun: 'run',
  verb: 'cancel',
  summary: 'Cancel a run, or all that match',
  details:
    'One that waits ends at once. One that runs gets its signal; if its handler ignores that, it is left ' +
    'behind after a grace, and nothing that it reports later counts.',
  arguments: [{ name: 'run', summary: 'Id of the run; left out where flags say which', optional: true }],
  flags: [
    { name: 'job', value: 'job', summary: 'All of this job (name or id)' },
    {
      name: 'state',
      value: 'states',
      repeat: true,
      summary: `Only in these: ${cancelableStates.join(', ')}`,
    },
    { name: 'queue', value: 'name', summary: 'All in this queue' },
    { name: 'schedule', value: 'schedule', summary: 'All of this schedule (name or id)' },
    { name: 'backfill', value: 'id', summary: 'All of this backfill' },
    ...madeFlags,
    { name: 'reason', value: 'words', summary: 'Why; kept with the runs and shown' },
    yesFlag,
  ],
  effect: 'change',
  fieldFlags: {
    '/reason': '--reason',
    '/filter/state': '--state',
    '/filter/queue': '--queue',
    '/filter/jobId': '--job',
    '/filter/scheduleId': '--schedule',
    '/filter/backfillId': '--backfill',
    '/filter/createdAfter': '--since',
    '/filter/createdBefore': '--until',
  },
  examples: [
    { words: 'Stop it', command: 'belfry run cancel 019ad0c1-7f3e-7c63-9a52-6e4d8c1b2a3f' },
    { words: 'What would go', command: 'belfry run cancel --job report --state pending' },
    {
      words: 'Cancel all of a job, and say why',
      command: 'belfry run cancel --job report --reason "wrong month" --yes',
    },
  ],
  run: cancel,
}

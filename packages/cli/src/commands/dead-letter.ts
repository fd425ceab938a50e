/**
 * `belfry dead-letter …`: runs that failed, by error; what each was; replayed as new runs, or deleted, one or
 * all that match, with a preview.
 */
import type { DeadLetterSelection, DeadLetterState } from '@belfry/contract'
import { deadLetterStates } from '@belfry/contract'
import type { BodyOf, QueryOf } from '@belfry/sdk'
import type { Call, Command, FlagSpec } from '../command.ts'
import { required } from '../command.ts'
import { exitCodes, UsageError } from '../exit-codes.ts'
import {
  deadLetterDetailShape,
  deadLetterGroupShape,
  deadLetterSelectionShape,
  deadLetterShape,
  replayedShape,
} from '../output/dead-letter-shapes.ts'
import { findJobId, runId } from '../resolve-name.ts'
import { afterPreview, yesFlag } from './bulk.ts'
import { given, inputFlag, listFlags, pageQuery, printList, sayChange } from './shared.ts'

const exampleId = '019ad0c1-7f3e-7c63-9a52-6e4d8c1b2a3f'
const filterFlags = ['job', 'queue', 'error', 'fingerprint', 'since', 'until'] as const

const flagsOfFilter: readonly FlagSpec[] = [
  { name: 'job', value: 'job', summary: 'Only of this job (name, or id also of a deleted one)' },
  { name: 'queue', value: 'name', summary: 'Only of this queue' },
  { name: 'error', value: 'code', summary: 'Only with this error code, such as http_500' },
  { name: 'fingerprint', value: 'hex', summary: 'Only of this group (belfry dead-letter groups)' },
  { name: 'since', value: 'time', summary: 'Failed from this time on: 1h (ago), or 2026-12-01T00:00:00Z' },
  { name: 'until', value: 'time', summary: 'Failed before this time' },
]
const stateFlag: FlagSpec = {
  name: 'state',
  value: 'states',
  repeat: true,
  summary: `In these states: ${deadLetterStates.join(', ')}; open if left out`,
}

/** Without the fingerprint, by which groups are not asked for. */
async function toldBy(call: Call) {
  const job = call.flags.text('job')
  return given({
    jobId: job === undefined ? undefined : await findJobId(await call.client(), job),
    queue: call.flags.text('queue'),
    errorCode: call.flags.text('error'),
    failedAfter: call.flags.pastInstant('since'),
    failedBefore: call.flags.pastInstant('until'),
  })
}

function statesOf(call: Call): { state?: DeadLetterState[] } {
  const named = call.flags.list('state').flatMap((text) => text.split(','))
  const wrong = named.find((name) => !(deadLetterStates as readonly string[]).includes(name))
  if (wrong !== undefined)
    throw new UsageError(`--state "${wrong}" is not one of ${deadLetterStates.join(', ')}`)
  return named.length === 0 ? {} : { state: deadLetterStates.filter((state) => named.includes(state)) }
}

async function list(call: Call): Promise<undefined> {
  const client = await call.client()
  const told = { ...(await toldBy(call)), ...given({ fingerprint: call.flags.text('fingerprint') }) }
  const query: QueryOf<'deadLetterList'> = { ...pageQuery(call), ...statesOf(call), ...told }
  const empty = 'No dead letters. Runs that fail for good are listed here until they are replayed or deleted'
  await printList(call, client.deadLetters.list(query), deadLetterShape, empty)
}

async function groups(call: Call): Promise<undefined> {
  const client = await call.client()
  const limit = call.flags.whole('limit', 1, 200)
  const found = await client.deadLetters.groups({
    ...given({ limit }),
    ...statesOf(call),
    ...(await toldBy(call)),
  })
  call.printer.list({ items: found.items, nextCursor: null }, deadLetterGroupShape, 'No dead letters.')
  if (!found.exact) call.printer.say(`Of the newest ${found.looked}; there are more. Narrow: --job, --until`)
  const more = found.groupsTotal - found.items.length
  if (more > 0) call.printer.say(`${more} smaller groups are not shown: --limit`)
}

async function show(call: Call): Promise<undefined> {
  const client = await call.client()
  const letter = await client.deadLetters.get(runId(required(call, 'run')))
  call.printer.one(letter, deadLetterDetailShape)
  if (letter.state === 'open') call.printer.say(`Next: belfry dead-letter replay ${letter.runId}`)
}

/** The id, or undefined where flags say which; throws where both do or none. */
function oneOrMany(call: Call): string | undefined {
  const id = call.argument('run')
  const filtered = call.flags.given(filterFlags)
  if (id !== undefined && filtered.length > 0)
    throw new UsageError(
      `give the id of a run or ${filtered.map((name) => `--${name}`).join(', ')}, not both`,
    )
  if (id === undefined && filtered.length === 0 && !call.flags.on('all'))
    throw new UsageError('say which: the id of a run, or --job, --error, --fingerprint …, or --all')
  return id === undefined ? undefined : runId(id)
}

async function openFilter(call: Call) {
  const told = { ...(await toldBy(call)), ...given({ fingerprint: call.flags.text('fingerprint') }) }
  return Object.keys(told).length === 0 ? { state: 'open' as const } : told
}

const nothing: DeadLetterSelection = { count: 0, exact: true, byJob: [], byError: [], sample: [] }

async function replay(call: Call): Promise<number | undefined> {
  const client = await call.client()
  const id = oneOrMany(call)
  const input = (await call.flags.json('input')) as BodyOf<'deadLetterReplay'>['input']
  if (id !== undefined) {
    const done = await client.deadLetters.replay(id, given({ input }), { dryRun: call.dryRun })
    call.printer.row(done, replayedShape)
    const { run } = done
    if (done.created) sayChange(call, `Made run ${run.id} of ${run.job} of it.`, `belfry run wait ${run.id}`)
    else call.printer.say(`It was replayed before, as ${run.id}, which is ${run.state}.`)
    return undefined
  }
  const filter = await openFilter(call)
  const { preview } = await client.deadLetters.replayMany({ filter }, { dryRun: true })
  const next = afterPreview(call, preview ?? nothing, deadLetterSelectionShape, 'replay them')
  if ('exitCode' in next) return next.exitCode
  const { expectedCount } = next
  const done = await client.deadLetters.replayMany({ filter, ...given({ input, expectedCount }) })
  call.printer.value({ replayed: done.replayed, refused: done.refused }, [])
  call.printer.say(
    `Replayed ${done.replayed}.`,
    ...done.refused.map((each) => `${each.runId}: ${each.message}`),
  )
  return done.refused.length === 0 ? undefined : exitCodes.failed
}

async function remove(call: Call): Promise<number | undefined> {
  const client = await call.client()
  const id = oneOrMany(call)
  if (id !== undefined) {
    const letter = await client.deadLetters.delete(id, { dryRun: call.dryRun })
    call.printer.row(letter, deadLetterShape)
    sayChange(call, `Deleted the dead letter ${letter.runId} of ${letter.job}; the run stays.`)
    return undefined
  }
  const filter = await openFilter(call)
  const { preview } = await client.deadLetters.deleteMany({ filter }, { dryRun: true })
  const next = afterPreview(call, preview ?? nothing, deadLetterSelectionShape, 'delete them')
  if ('exitCode' in next) return next.exitCode
  const { expectedCount } = next
  const done = await client.deadLetters.deleteMany({ filter, ...given({ expectedCount }) })
  call.printer.value({ deleted: done.deleted }, [])
  call.printer.say(`Deleted ${done.deleted}; the runs stay in the history.`)
  return undefined
}

const runArgument = { name: 'run', summary: 'Id of the run that failed' }
const optionalRun = {
  ...runArgument,
  summary: `${runArgument.summary}; left out where flags say which`,
  optional: true,
}
const bulkFlags: readonly FlagSpec[] = [
  ...flagsOfFilter,
  { name: 'all', summary: 'All that are open' },
  yesFlag,
]
const queryFlags = {
  '/query/queue': '--queue',
  '/query/errorCode': '--error',
}
const fieldFlags = {
  '/filter/queue': '--queue',
  '/filter/errorCode': '--error',
  '/filter/fingerprint': '--fingerprint',
}

export const deadLetterCommands: readonly Command[] = [
  {
    noun: 'dead-letter',
    verb: 'list',
    summary: 'List runs that failed and were not dealt with, the latest failure first',
    flags: [...flagsOfFilter, stateFlag, ...listFlags],
    effect: 'read',
    fieldFlags: { ...queryFlags, '/query/fingerprint': '--fingerprint' },
    examples: [
      { words: 'What failed for good', command: 'belfry dead-letter list' },
      { words: 'Of one job, in the last hour', command: 'belfry dead-letter list --job report --since 1h' },
    ],
    run: list,
  },
  {
    noun: 'dead-letter',
    verb: 'groups',
    summary: 'Count dead letters by error, those with the most first',
    details: 'Errors are told apart by code and words, without numbers, ids, times and quoted values.',
    flags: [
      ...flagsOfFilter.filter(({ name }) => name !== 'fingerprint'),
      stateFlag,
      { name: 'limit', value: 'count', summary: 'Groups to show, 1 to 200; 50 if left out' },
    ],
    effect: 'read',
    fieldFlags: queryFlags,
    examples: [{ words: 'What goes wrong most', command: 'belfry dead-letter groups' }],
    run: groups,
  },
  {
    noun: 'dead-letter',
    verb: 'show',
    summary: 'Show a dead letter with its run',
    arguments: [runArgument],
    effect: 'read',
    examples: [{ words: 'Why did it fail', command: `belfry dead-letter show ${exampleId}` }],
    run: show,
  },
  {
    noun: 'dead-letter',
    verb: 'replay',
    summary: 'Replay a dead letter, or all that match, as new runs',
    details: 'With the job as it is now, and the input of the run that failed, or another.',
    arguments: [optionalRun],
    flags: [inputFlag, ...bulkFlags],
    effect: 'change',
    fieldFlags: { ...fieldFlags, '/input': '--input' },
    examples: [
      { words: 'One, again', command: `belfry dead-letter replay ${exampleId}` },
      {
        words: 'With another input',
        command: `belfry dead-letter replay ${exampleId} --input '{"month": "2026-11"}'`,
      },
      {
        words: 'A group, after the cause is mended',
        command: 'belfry dead-letter replay --fingerprint 9c1f0c2ad07f2b41 --yes',
      },
    ],
    run: replay,
  },
  {
    noun: 'dead-letter',
    verb: 'delete',
    summary: 'Delete (acknowledge) a dead letter, or all that match; runs stay in the history',
    arguments: [optionalRun],
    flags: bulkFlags,
    effect: 'change',
    fieldFlags,
    examples: [
      { words: 'One that is dealt with', command: `belfry dead-letter delete ${exampleId}` },
      { words: 'What failed before yesterday', command: 'belfry dead-letter delete --until 1d --yes' },
    ],
    run: remove,
  },
]

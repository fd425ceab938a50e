/**
 * `belfry job …`: define what
 * runs.
 */
import type { Command, FlagSpec } from '../command.ts'
import { required } from '../command.ts'
import { UsageError } from '../exit-codes.ts'
import { jobShape, jobSummaryShape, targetWords } from '../output/shapes.ts'
import { findJob, isId } from '../resolve-name.ts'
import type { Call } from '../command.ts'
import { gatheringFieldFlags, gatheringFlags, gatheringFromFlags } from './gathering-flags.ts'
import { handlerFlags, handlerForUpdate, handlerFromFlags } from './handler-flags.ts'
import { jobFieldFlags, policiesFromFlags, policyFlags, retryFromFlags } from './job-flags.ts'
import { limitFieldFlags, limitFlags, limitsFromFlags, textOrNone } from './limit-flags.ts'
import { given, listFlags, pageQuery, printList, sayChange } from './shared.ts'

const jobArgument = { name: 'job', summary: 'Name or id of the job' }
const ownFlags: readonly FlagSpec[] = [
  ...handlerFlags,
  ...policyFlags,
  ...gatheringFlags,
  ...limitFlags,
  { name: 'priority', value: 'number', summary: 'Higher runs earlier; -100 to 100, 0 if left out' },
  {
    name: 'run-as',
    value: 'account',
    summary: 'Service account that it runs as, or `none`; needs the right to act as it',
  },
  { name: 'description', value: 'text', summary: 'What it is for' },
]

const ownFieldFlags: Readonly<Record<string, string>> = {
  ...jobFieldFlags,
  ...gatheringFieldFlags,
  ...limitFieldFlags,
  '/priority': '--priority',
  '/runAs': '--run-as',
  '/description': '--description',
}

async function create(call: Call): Promise<undefined> {
  const handler = await handlerFromFlags(call)
  if (handler === undefined)
    throw new UsageError(
      'say what to run: --http POST https://example.com/hook, --function NAME, --container IMAGE, --lambda ARN',
    )
  const client = await call.client()
  const body = {
    name: required(call, 'name'),
    handler,
    ...policiesFromFlags(call),
    ...gatheringFromFlags(call),
    ...limitsFromFlags(call, undefined),
    ...given({
      retry: retryFromFlags(call),
      priority: priority(call),
      runAs: textOrNone(call, 'run-as'),
      description: call.flags.text('description'),
    }),
  }
  const job = await client.jobs.create(body, { dryRun: call.dryRun })
  call.printer.row(job, jobShape)
  sayChange(call, `Created the job ${job.name}.`, `belfry schedule create --job ${job.name} --every 5m`)
}

const priority = (call: Call): number | undefined => call.flags.whole('priority', -100, 100)

async function update(call: Call): Promise<undefined> {
  const names = ownFlags.map((flag) => flag.name)
  const asked = call.flags.given(names)
  if (asked.length === 0)
    throw new UsageError('nothing to change: give at least one flag of what should change')
  const client = await call.client()
  const found = await findJob(client, required(call, 'job'))
  // A handler is replaced as a whole: parts given are laid over the one that is there, and only over that
  // one.
  const touchesHandler = call.flags.given(handlerFlags.map((flag) => flag.name)).length > 0
  const read = touchesHandler ? await client.call('jobGet', { params: { id: found.id } }) : undefined
  const body = {
    ...policiesFromFlags(call),
    ...gatheringFromFlags(call),
    ...limitsFromFlags(call, found),
    ...given({
      handler: read === undefined ? undefined : await handlerForUpdate(call, read.data.handler),
      retry: retryFromFlags(call),
      priority: priority(call),
      runAs: textOrNone(call, 'run-as'),
      description: call.flags.text('description'),
    }),
  }
  const options = { dryRun: call.dryRun, ifMatch: read?.etag ?? undefined }
  const job = await client.jobs.update(found.id, body, options)
  call.printer.row(job, jobShape)
  const version =
    job.version === found.version ? 'the definition stays as it was' : `the new version is ${job.version}`
  sayChange(call, `Changed the job ${job.name}; ${version}.`, `belfry job get ${job.name}`)
}

async function list(call: Call): Promise<undefined> {
  const client = await call.client()
  await printList(
    call,
    client.jobs.list(pageQuery(call)),
    jobSummaryShape,
    'No jobs yet. Make one: belfry job create report --http POST https://example.com/report',
  )
}

async function get(call: Call): Promise<undefined> {
  const client = await call.client()
  const wanted = required(call, 'job')
  const id = isId(wanted) ? wanted : (await findJob(client, wanted)).id
  call.printer.one(await client.jobs.get(id), jobShape)
}

async function remove(call: Call): Promise<undefined> {
  const client = await call.client()
  const job = await findJob(client, required(call, 'job'))
  await client.jobs.delete(job.id, { dryRun: call.dryRun })
  sayChange(
    call,
    `Deleted the job ${job.name} (${targetWords(job)}); its runs that wait or run go on, unless canceled.`,
    `belfry run list --job ${job.id} --state pending,running`,
  )
}

async function pause(call: Call): Promise<undefined> {
  const client = await call.client()
  const found = await findJob(client, required(call, 'job'))
  const reason = call.flags.text('reason')
  const job = await client.jobs.pause(found.id, given({ reason }), { dryRun: call.dryRun })
  call.printer.row(job, jobShape)
  sayChange(call, `Paused the job ${job.name}; what runs goes on.`, `belfry job resume ${job.name}`)
}

async function resume(call: Call): Promise<undefined> {
  const client = await call.client()
  const found = await findJob(client, required(call, 'job'))
  const job = await client.jobs.resume(found.id, { dryRun: call.dryRun })
  call.printer.row(job, jobShape)
  sayChange(call, `Resumed the job ${job.name}.`, `belfry run list --job ${job.name}`)
}

export const jobCommands: readonly Command[] = [
  {
    noun: 'job',
    verb: 'create',
    summary: 'Define a job: what to call, and how often to try',
    arguments: [{ name: 'name', summary: 'Name of the job: letters, digits, ".", "_", "-"' }],
    flags: ownFlags,
    effect: 'change',
    fieldFlags: { ...ownFieldFlags, '/name': '<name>' },
    examples: [
      {
        words: 'A job that posts its input to a URL',
        command: 'belfry job create report --http POST https://example.com/report',
      },
      {
        words: 'Five tries of at most 30 seconds, with a header',
        command:
          "belfry job create report --http https://example.com/report --header 'X-Team: billing' --max-attempts 5 --timeout 30s",
      },
      {
        words: 'Wait 10 s, then 1 m, then 10 m between tries; give up after an hour in all',
        command:
          'belfry job create sync --http https://example.com/sync --retry-delays 10s,1m,10m --max-attempts 20 --run-deadline 1h',
      },
      {
        words: 'Only try again where the target is busy, and drop runs that nobody starts within a minute',
        command:
          'belfry job create quote --http https://example.com/quote --retry-on http_429,http_5xx --start-within 1m',
      },
      {
        words: 'Five at once, one at a time for each customer',
        command:
          'belfry job create sync --http https://example.com/sync --concurrency 5 --concurrency-key customerId',
      },
      {
        words: 'Run a function that workers of the SDK have',
        command: 'belfry job create welcome --function mail.send --queue mail',
      },
      {
        words: 'Run a container, without a network, with a secret in its environment',
        command:
          'belfry job create nightly --container registry.example.com/reports:2.1 --env PW=@secret:reports',
      },
    ],
    run: create,
  },
  {
    noun: 'job',
    verb: 'list',
    summary: 'List jobs',
    flags: listFlags,
    effect: 'read',
    examples: [
      { words: 'All jobs', command: 'belfry job list --all' },
      { words: 'Their names, one a line', command: 'belfry job list -o name' },
    ],
    run: list,
  },
  {
    noun: 'job',
    verb: 'get',
    summary: 'Show a job',
    arguments: [jobArgument],
    effect: 'read',
    examples: [{ words: 'One job in full', command: 'belfry job get report' }],
    run: get,
  },
  {
    noun: 'job',
    verb: 'update',
    summary: 'Change a job; what is not given stays',
    details:
      'A changed definition becomes a new version. Runs that exist keep the version they were made with.',
    arguments: [jobArgument],
    flags: ownFlags,
    effect: 'change',
    fieldFlags: ownFieldFlags,
    examples: [
      { words: 'Try more often', command: 'belfry job update report --max-attempts 10' },
      {
        words: 'Call another URL',
        command: 'belfry job update report --http PUT https://example.com/v2/report',
      },
    ],
    run: update,
  },
  {
    noun: 'job',
    verb: 'pause',
    summary: 'Start no more runs of a job; what runs goes on, what is asked for waits',
    arguments: [jobArgument],
    flags: [{ name: 'reason', value: 'text', summary: 'Why; shown wherever a run is held by it' }],
    effect: 'change',
    fieldFlags: { '/reason': '--reason' },
    examples: [
      {
        words: 'While the target is repaired',
        command: "belfry job pause report --reason 'the report server moves'",
      },
    ],
    run: pause,
  },
  {
    noun: 'job',
    verb: 'resume',
    summary: 'Go on with the runs of a job',
    arguments: [jobArgument],
    effect: 'change',
    examples: [{ words: 'Go on', command: 'belfry job resume report' }],
    run: resume,
  },
  {
    noun: 'job',
    verb: 'delete',
    summary: 'Delete a job that no schedule uses',
    details:
      'Runs of it that wait or run go on with the version they were made with: cancel those that ' +
      'should not. Its runs stay, to be found by its id: belfry run list --job ID.',
    arguments: [jobArgument],
    effect: 'change',
    examples: [
      { words: 'See first whether it can be deleted', command: 'belfry job delete report --dry-run' },
      { words: 'Delete it', command: 'belfry job delete report' },
    ],
    run: remove,
  },
]

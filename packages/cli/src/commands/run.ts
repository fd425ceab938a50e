/**
 * `belfry run …`: run on demand, see what
 * ran and why, wait, cancel.
 */
import type { Attempt, Run, RunCreated } from '@belfry/contract'
import { defaultTriggerRule, runStates, triggerRules, utf8Bytes } from '@belfry/contract'
import type { BodyOf } from '@belfry/sdk'
import type { Call, Command } from '../command.ts'
import { required } from '../command.ts'
import { UsageError } from '../exit-codes.ts'
import { backfillRunShape } from '../output/backfill-shapes.ts'
import { attemptWords, olderAttempts, runShape, runSummaryShape } from '../output/shapes.ts'
import { plain, plainLines } from '../output/text.ts'
import { timeWithDistance } from '../output/times.ts'
import { backfillId, findJob, findJobId, findScheduleId, isId, runId } from '../resolve-name.ts'
import { runLimitFieldFlags, runLimitFlags, runLimitsFromFlags } from './job-flags.ts'
import { timelineLines } from '../output/timeline.ts'
import { runBatchCommand } from './run-batch.ts'
import { runInsightCommands } from './run-insight.ts'
import { runCancelCommand } from './run-cancel.ts'
import { printLines } from './run-lines.ts'
import {
  given,
  inputFlag,
  listFlags,
  madeFlags,
  pageQuery,
  printList,
  sayChange,
  statesFromFlag,
  waitAndPrint,
  waitFlags,
} from './shared.ts'

const runArgument = { name: 'run', summary: 'Id of the run' }

async function create(call: Call): Promise<number | undefined> {
  const client = await call.client()
  const job = required(call, 'job')
  const body = {
    job: isId(job) ? (await findJob(client, job)).name : job,
    ...given({
      input: (await call.flags.json('input')) as BodyOf<'runCreate'>['input'],
      runAt: call.flags.instant('at'),
      queue: call.flags.text('queue'),
      priority: call.flags.whole('priority', -100, 100),
    }),
    ...runLimitsFromFlags(call),
    ...dependenciesFromFlags(call),
    ...dedupeFromFlags(call),
  }
  const run = await client.runs.create(body, { dryRun: call.dryRun })
  const due = timeWithDistance(run.dueAt, call.printer.clock)
  const words = run.duplicate
    ? (`Kept the run ${run.id} of ${run.job}, which holds this dedupe key.` as const)
    : (`Asked for a run of ${run.job}: ${run.id}, due ${due}${gatheredWords(run)}.` as const)
  if (call.flags.on('wait') && !call.dryRun) {
    call.printer.say(words)
    return waitAndPrint(call, client, run.id)
  }
  call.printer.row(run, runShape)
  sayChange(call, words, `belfry run wait ${run.id}`)
  return undefined
}

const gatheredWords = ({ gathered }: RunCreated): string => {
  if (gathered === null) return ''
  return gathered.kind === 'collect'
    ? `, which has collected ${gathered.position} inputs`
    : `, after ${gathered.position} requests`
}

/** The runs that have to end first, and how. */
function dependenciesFromFlags(call: Call): Pick<BodyOf<'runCreate'>, 'dependsOn' | 'rule'> {
  const named = call.flags.list('depends-on').flatMap((text) => text.split(','))
  const asked = call.flags.text('rule')
  const rule = triggerRules.find((each) => each === asked)
  if (asked !== undefined && rule === undefined)
    throw new UsageError(`--rule "${asked}" is not one of ${triggerRules.join(', ')}`)
  return given({ dependsOn: named.length === 0 ? undefined : named.map(runId), rule })
}

/** The key that keeps a second run from being made, and for how long. */
function dedupeFromFlags(call: Call): Pick<BodyOf<'runCreate'>, 'dedupeKey' | 'dedupe'> {
  const windowMs = call.flags.durationMs('dedupe-window')
  return given({
    dedupeKey: call.flags.text('dedupe-key'),
    dedupe: windowMs === undefined ? undefined : { windowMs },
  })
}

const filterFlags = ['state', 'job', 'schedule', 'backfill', 'workflow-run', 'task', 'since', 'until']

async function list(call: Call): Promise<undefined> {
  const client = await call.client()
  const state = statesFromFlag(call, runStates)
  const job = call.flags.text('job')
  const schedule = call.flags.text('schedule')
  const backfill = call.flags.text('backfill')
  const query = {
    ...pageQuery(call),
    ...given({
      state,
      jobId: job === undefined ? undefined : await findJobId(client, job),
      scheduleId: schedule === undefined ? undefined : await findScheduleId(client, schedule),
      backfillId: backfill === undefined ? undefined : backfillId(backfill),
      workflowRunId: call.flags.text('workflow-run'),
      task: call.flags.text('task'),
      createdAfter: call.flags.pastInstant('since'),
      createdBefore: call.flags.pastInstant('until'),
    }),
  }
  const filtered = call.flags.given(filterFlags).length > 0
  const empty = filtered
    ? 'No runs match. See all: belfry run list'
    : 'No runs yet. Run a job now: belfry run create JOB, or a schedule: belfry schedule trigger SCHEDULE'
  const shape = backfill === undefined ? runSummaryShape : backfillRunShape
  await printList(call, client.runs.list(query), shape, empty)
}

async function get(call: Call): Promise<undefined> {
  const run = await (await call.client()).runs.get(runId(required(call, 'run')))
  call.printer.one(run, runShape)
  if (call.printer.format === 'table') call.printer.value(run, timelineLines(run, call.printer))
}

function attemptLines(attempt: Attempt, call: Call): string[] {
  const { clock } = call.printer
  const title = attempt.number === 0 ? 'Without an attempt' : `Attempt ${attempt.number}`
  const lines = [`${title}: ${plain(attemptWords(attempt, clock))}`]
  if (attempt.error !== null)
    lines.push(`  error: ${plain(attempt.error.message)} (${plain(attempt.error.code)})`)
  for (const [name, value] of Object.entries(attempt.responseHeaders ?? {}))
    lines.push(`  ${plain(name)}: ${plain(value)}`)
  if (attempt.response !== null) {
    const capped = attempt.responseTruncated ? `, the first ${utf8Bytes(attempt.response)} bytes` : ''
    lines.push(`  response${capped}:`)
    lines.push(
      ...plainLines(attempt.response)
        .split('\n')
        .map((line) => `    ${line}`),
    )
  }
  if (attempt.result !== null) lines.push(`  result: ${plain(JSON.stringify(attempt.result))}`)
  if (attempt.retryAt !== null) lines.push(`  next attempt due ${timeWithDistance(attempt.retryAt, clock)}`)
  return lines
}

function noAttempt(run: Run, call: Call): string {
  const due = timeWithDistance(run.nextAttemptAt ?? run.dueAt, call.printer.clock)
  return `No attempt yet: the run is ${run.state}, due ${due}. Wait for it: belfry run wait ${run.id}`
}

async function logs(call: Call): Promise<undefined> {
  const client = await call.client()
  const id = runId(required(call, 'run'))
  if (call.flags.given(['lines', 'attempt', 'follow']).length > 0) return printLines(call, client, id)
  const run = await client.runs.get(id)
  const older = olderAttempts(run)
  const all = call.flags.on('all') && older > 0
  const attempts = all
    ? (await client.runs.attempts(run.id, { limit: 100 }).take(Infinity)).reverse()
    : run.attemptList
  call.printer.value(
    attempts,
    attempts.flatMap((attempt) => attemptLines(attempt, call)),
  )
  if (older > 0 && !all) call.printer.say(`${older} older attempts are not shown: add --all`)
  if (run.attemptList.length === 0) call.printer.say(noAttempt(run, call))
}

const lookCommands: readonly Command[] = [
  {
    noun: 'run',
    verb: 'list',
    summary: 'List runs, newest first',
    flags: [
      {
        name: 'state',
        value: 'states',
        repeat: true,
        summary: `Only in these states: ${runStates.join(', ')}`,
      },
      { name: 'job', value: 'job', summary: 'Only of this job (name, or id also of a deleted one)' },
      {
        name: 'schedule',
        value: 'schedule',
        summary: 'Only of this schedule (name, or id also of a deleted one)',
      },
      { name: 'backfill', value: 'id', summary: 'Only of this backfill; shows what each was planned for' },
      { name: 'workflow-run', value: 'id', summary: 'Only of its tasks, those before a rerun too' },
      { name: 'task', value: 'id', summary: 'Only of this task; with --workflow-run' },
      ...madeFlags,
      ...listFlags,
    ],
    effect: 'read',
    examples: [
      { words: 'What ran lately', command: 'belfry run list' },
      { words: 'What failed in the last hour', command: 'belfry run list --state failed --since 1h' },
    ],
    run: list,
  },
  {
    noun: 'run',
    verb: 'get',
    summary: 'Show a run: how it stands, and what happened to it step by step',
    arguments: [runArgument],
    effect: 'read',
    examples: [{ words: 'One run in full', command: 'belfry run get 019ad0c1-7f3e-7c63-9a52-6e4d8c1b2a3f' }],
    run: get,
  },
  {
    noun: 'run',
    verb: 'logs',
    summary: 'Show the attempts of a run with what each answered',
    details: 'The newest 100. Responses are kept up to a limit; where one was cut, that is said.',
    arguments: [runArgument],
    flags: [
      { name: 'all', summary: 'All attempts, however many' },
      { name: 'lines', summary: 'Instead, what its function or container logged, line by line' },
      { name: 'attempt', value: 'number', summary: 'Lines of this attempt; of the newest if left out' },
      { name: 'follow', short: 'f', summary: 'Lines as they come, until the run has ended' },
    ],
    effect: 'read',
    examples: [
      { words: 'Why did it fail', command: 'belfry run logs 019ad0c1-7f3e-7c63-9a52-6e4d8c1b2a3f' },
      {
        words: 'Watch a function at work',
        command: 'belfry run logs 019ad0c1-7f3e-7c63-9a52-6e4d8c1b2a3f -f',
      },
    ],
    run: logs,
  },
]

export const runCommands: readonly Command[] = [
  {
    noun: 'run',
    verb: 'create',
    summary: 'Run a job on demand, now or later',
    arguments: [{ name: 'job', summary: 'Name or id of the job' }],
    flags: [
      inputFlag,
      {
        name: 'at',
        value: 'time',
        summary: 'Not before this: +10m, or 2026-12-01T02:30:00Z; now if left out, refused if over',
      },
      { name: 'queue', value: 'name', summary: 'Another queue than that of the job' },
      { name: 'priority', value: 'number', summary: 'Higher runs earlier; -100 to 100' },
      ...runLimitFlags,
      {
        name: 'depends-on',
        value: 'id',
        repeat: true,
        summary: 'Not before this run has ended; can be given several times',
      },
      {
        name: 'rule',
        value: 'rule',
        summary: `How those have to end: ${triggerRules.join(', ')}; ${defaultTriggerRule} if left out`,
      },
      {
        name: 'dedupe-key',
        value: 'text',
        summary: 'While a run of the job holds this key, no other is made',
      },
      {
        name: 'dedupe-window',
        value: 'duration',
        summary: 'The key is held for so long; while the run waits or runs if left out',
      },
      ...waitFlags,
    ],
    effect: 'change',
    fieldFlags: {
      '/job': '<job>',
      '/input': '--input',
      '/runAt': '--at',
      '/queue': '--queue',
      '/priority': '--priority',
      ...runLimitFieldFlags,
      '/dependsOn': '--depends-on',
      '/rule': '--rule',
      '/dedupeKey': '--dedupe-key',
      '/dedupe': '--dedupe-window',
      '/dedupe/windowMs': '--dedupe-window',
    },
    examples: [
      { words: 'Run a job and wait for its end', command: 'belfry run create report --wait' },
      {
        words: 'In ten minutes, with an input',
        command: `belfry run create report --at +10m --input '{"month": "2026-11"}'`,
      },
      {
        words: 'Once another run has succeeded',
        command: 'belfry run create mail --depends-on 019ad0c1-7f3e-7c63-9a52-6e4d8c1b2a3f',
      },
    ],
    run: create,
  },
  runBatchCommand,
  ...lookCommands,
  ...runInsightCommands,
  runCancelCommand,
]

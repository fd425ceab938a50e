/**
 * `belfry workflow run` and `belfry workflow-run list|get|tasks|cancel`: runs of workflows, and how their
 * tasks stand.
 */
import { workflowRunStates } from '@belfry/contract'
import type { BodyOf } from '@belfry/sdk'
import type { Call, Command } from '../command.ts'
import { required } from '../command.ts'
import {
  workflowRunShape,
  workflowRunSummaryShape,
  workflowRunTaskShape,
} from '../output/workflow-run-shapes.ts'
import { findScheduleId } from '../resolve-name.ts'
import {
  given,
  inputFlag,
  listFlags,
  madeFlags,
  pageQuery,
  printList,
  sayChange,
  statesFromFlag,
  waitFlags,
} from './shared.ts'
import { listOf, waitForEnd, workflowRunId } from './workflow-run-wait.ts'
import { watchRun } from './workflow-run-watch.ts'

const runArgument = { name: 'run', summary: 'Id of the workflow run' }

async function run(call: Call): Promise<number | undefined> {
  const workflow = required(call, 'workflow')
  const input = (await call.flags.json('input')) as BodyOf<'workflowRunCreate'>['input']
  const client = await call.client()
  const body = {
    workflow,
    ...given({
      input,
      priority: call.flags.whole('priority', -100, 100),
      skip: listOf(call.flags.text('skip')),
    }),
  }
  const made = await client.workflowRuns.create(body, { dryRun: call.dryRun })
  if (!call.flags.on('wait') || call.dryRun) {
    call.printer.row(made, workflowRunShape)
    sayChange(
      call,
      `Asked for a run of the workflow ${workflow}.`,
      `belfry workflow-run get ${made.id} --watch`,
    )
    return undefined
  }
  return waitForEnd(call, client, made.id)
}

async function list(call: Call): Promise<undefined> {
  const client = await call.client()
  const schedule = call.flags.text('schedule')
  const scheduleId = schedule === undefined ? undefined : await findScheduleId(client, schedule)
  const query = {
    ...pageQuery(call),
    ...given({
      workflow: call.flags.text('workflow'),
      scheduleId,
      state: statesFromFlag(call, workflowRunStates),
      createdAfter: call.flags.pastInstant('since'),
      createdBefore: call.flags.pastInstant('until'),
    }),
  }
  const filtered = call.flags.given(['workflow', 'schedule', 'state', 'since', 'until']).length > 0
  const empty = filtered
    ? 'No workflow runs match. See all: belfry workflow-run list'
    : 'No workflow runs here. Ask for one: belfry workflow run NAME'
  await printList(call, client.workflowRuns.list(query), workflowRunSummaryShape, empty)
}

async function get(call: Call): Promise<number | undefined> {
  const client = await call.client()
  const id = workflowRunId(call)
  if (call.flags.on('watch')) return watchRun(call, client, id)
  call.printer.one(await client.workflowRuns.get(id), workflowRunShape)
  return undefined
}

async function tasks(call: Call): Promise<undefined> {
  const client = await call.client()
  const found = await client.workflowRuns.tasks(workflowRunId(call))
  call.printer.list({ items: found.tasks }, workflowRunTaskShape, 'There are no tasks.')
}

async function cancel(call: Call): Promise<undefined> {
  const client = await call.client()
  const id = workflowRunId(call)
  const found = await client.workflowRuns.cancel(id, {}, { dryRun: call.dryRun })
  call.printer.row(found, workflowRunShape)
  sayChange(call, `Asked for the end of the workflow run ${id}.`, `belfry workflow-run tasks ${id}`)
}

export const workflowRunCommands: readonly Command[] = [
  {
    noun: 'workflow',
    verb: 'run',
    summary: 'Run a workflow now',
    arguments: [{ name: 'workflow', summary: 'Name of the workflow' }],
    flags: [
      inputFlag,
      { name: 'priority', value: 'number', summary: 'From -100 to 100; higher goes first' },
      { name: 'skip', value: 'tasks', summary: 'Skip these tasks this once; a,b for several' },
      ...waitFlags,
    ],
    effect: 'change',
    fieldFlags: {
      '/workflow': '<workflow>',
      '/input': '--input',
      '/priority': '--priority',
      '/skip': '--skip',
    },
    examples: [
      { words: 'Run it and wait', command: 'belfry workflow run nightly --wait' },
      { words: 'With an input', command: `belfry workflow run nightly --input '{"day": "2026-12-01"}'` },
    ],
    run,
  },
  {
    noun: 'workflow-run',
    verb: 'list',
    summary: 'List workflow runs, newest first',
    flags: [
      { name: 'workflow', value: 'name', summary: 'Of this workflow' },
      {
        name: 'schedule',
        value: 'schedule',
        summary: 'Of this schedule (name, or id also of a deleted one)',
      },
      {
        name: 'state',
        value: 'states',
        repeat: true,
        summary: `Only in these states: ${workflowRunStates.join(', ')}`,
      },
      ...madeFlags,
      ...listFlags,
    ],
    effect: 'read',
    fieldFlags: { '/query/workflow': '--workflow', '/query/scheduleId': '--schedule' },
    examples: [
      { words: 'Of one workflow', command: 'belfry workflow-run list --workflow nightly' },
      { words: 'What failed since yesterday', command: 'belfry workflow-run list --state failed --since 1d' },
    ],
    run: list,
  },
  {
    noun: 'workflow-run',
    verb: 'get',
    summary: 'Show a workflow run',
    details:
      'With --watch it shows the tasks as they change, until the run has ended, and ends with code 5 if it ' +
      'did not succeed.',
    arguments: [runArgument],
    flags: [{ name: 'watch', summary: 'Go on until the run has ended' }],
    effect: 'read',
    examples: [
      { words: 'One run', command: 'belfry workflow-run get 019ad0c1-7f3e-7c63-9a52-6e4d8c1b2a3f' },
      {
        words: 'Task by task, until it has ended',
        command: 'belfry workflow-run get 019ad0c1-7f3e-7c63-9a52-6e4d8c1b2a3f --watch',
      },
    ],
    run: get,
  },
  {
    noun: 'workflow-run',
    verb: 'tasks',
    summary: 'Show how the tasks of a workflow run stand',
    arguments: [runArgument],
    effect: 'read',
    examples: [
      { words: 'All tasks', command: 'belfry workflow-run tasks 019ad0c1-7f3e-7c63-9a52-6e4d8c1b2a3f' },
    ],
    run: tasks,
  },
  {
    noun: 'workflow-run',
    verb: 'cancel',
    summary: 'Cancel a workflow run: what waits ends, what runs is asked to, clean-up runs',
    arguments: [runArgument],
    effect: 'change',
    examples: [
      { words: 'One run', command: 'belfry workflow-run cancel 019ad0c1-7f3e-7c63-9a52-6e4d8c1b2a3f' },
    ],
    run: cancel,
  },
]

/**
 * `belfry workflow run` and `belfry workflow-run list|get|tasks|cancel`: runs of workflows, and how their
 * tasks stand.
 */
import type { WorkflowRun } from '@belfry/contract'
import type { BodyOf, Client } from '@belfry/sdk'
import type { Call, Command } from '../command.ts'
import { required } from '../command.ts'
import { exitCodes, UsageError } from '../exit-codes.ts'
import {
  workflowRunShape,
  workflowRunSummaryShape,
  workflowRunTaskShape,
} from '../output/workflow-run-shapes.ts'
import { isId } from '../resolve-name.ts'
import { given, inputFlag, listFlags, pageQuery, printList, sayChange, waitFlags } from './shared.ts'

const runArgument = { name: 'run', summary: 'Id of the workflow run' }
const lookAgainMs = 500

async function run(call: Call): Promise<number | undefined> {
  const workflow = required(call, 'workflow')
  const input = (await call.flags.json('input')) as BodyOf<'workflowRunCreate'>['input']
  const client = await call.client()
  const made = await client.workflowRuns.create({ workflow, ...given({ input }) }, { dryRun: call.dryRun })
  if (!call.flags.on('wait') || call.dryRun) {
    call.printer.row(made, workflowRunShape)
    sayChange(call, `Asked for a run of the workflow ${workflow}.`, `belfry workflow-run tasks ${made.id}`)
    return undefined
  }
  const ended = await waitFor(client, made.id, call.flags.durationMs('timeout'))
  call.printer.row(ended, workflowRunShape)
  if (ended.state === 'running') {
    call.printer.say(`The workflow run has not ended in the time given: belfry workflow-run get ${made.id}`)
    return exitCodes.waitTimedOut
  }
  if (ended.state === 'succeeded') return undefined
  call.printer.say(`The workflow run ended ${ended.state}.`, `Next: belfry workflow-run tasks ${made.id}`)
  return exitCodes.runDidNotSucceed
}

/** The run when it has ended, or as it is when the time is over. */
async function waitFor(client: Client, id: string, limitMs: number | undefined): Promise<WorkflowRun> {
  const untilMs = performance.now() + (limitMs ?? Infinity)
  for (;;) {
    const found = await client.workflowRuns.get(id)
    if (found.state !== 'running' || performance.now() >= untilMs) return found
    await new Promise((resolve) => setTimeout(resolve, Math.min(lookAgainMs, untilMs - performance.now())))
  }
}

async function list(call: Call): Promise<undefined> {
  const client = await call.client()
  const query = { ...pageQuery(call), ...given({ workflow: call.flags.text('workflow') }) }
  await printList(
    call,
    client.workflowRuns.list(query),
    workflowRunSummaryShape,
    'No workflow runs here. Ask for one: belfry workflow run NAME',
  )
}

function idOf(call: Call): string {
  const id = required(call, 'run')
  if (!isId(id)) throw new UsageError(`"${id}" is no id of a workflow run; see belfry workflow-run list`)
  return id
}

async function get(call: Call): Promise<undefined> {
  const client = await call.client()
  call.printer.one(await client.workflowRuns.get(idOf(call)), workflowRunShape)
}

async function tasks(call: Call): Promise<undefined> {
  const client = await call.client()
  const found = await client.workflowRuns.tasks(idOf(call))
  call.printer.list({ items: found.tasks }, workflowRunTaskShape, 'There are no tasks.')
}

async function cancel(call: Call): Promise<undefined> {
  const client = await call.client()
  const id = idOf(call)
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
    flags: [inputFlag, ...waitFlags],
    effect: 'change',
    fieldFlags: { '/workflow': '<workflow>', '/input': '--input' },
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
    flags: [{ name: 'workflow', value: 'name', summary: 'Of this workflow' }, ...listFlags],
    effect: 'read',
    fieldFlags: { '/query/workflow': '--workflow' },
    examples: [{ words: 'Of one workflow', command: 'belfry workflow-run list --workflow nightly' }],
    run: list,
  },
  {
    noun: 'workflow-run',
    verb: 'get',
    summary: 'Show a workflow run',
    arguments: [runArgument],
    effect: 'read',
    examples: [{ words: 'One run', command: 'belfry workflow-run get 019ad0c1-7f3e-7c63-9a52-6e4d8c1b2a3f' }],
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

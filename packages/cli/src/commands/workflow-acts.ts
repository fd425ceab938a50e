/**
 * `belfry workflow-run rerun|mark|skip|history`: what people do to a workflow run by hand. As a dry run each
 * shows what would become of every task.
 */
import type { MarkState, WorkflowRunActed } from '@belfry/contract'
import { markStates } from '@belfry/contract'
import type { BodyOf } from '@belfry/sdk'
import type { Call, Command, FlagSpec } from '../command.ts'
import { UsageError } from '../exit-codes.ts'
import { actedTaskShape, workflowActShape } from '../output/workflow-act-shapes.ts'
import { given, inputFlag, sayChange, waitFlags } from './shared.ts'
import { listOf, waitForEnd, workflowRunId } from './workflow-run-wait.ts'

const run = '019ad0c1-7f3e-7c63-9a52-6e4d8c1b2a3f'
const runArgument = { name: 'run', summary: 'Id of the workflow run' }
const tasksArgument = { name: 'task', summary: 'Id of the task; of several, one after the other', many: true }
const reasonFlag: FlagSpec = {
  name: 'reason',
  value: 'words',
  summary: 'Why; it stays with the workflow run',
}
const allFlag: FlagSpec = { name: 'show-all', summary: 'Show also the tasks that are kept as they are' }

type Rerun = BodyOf<'workflowRunRerun'>

async function rerun(call: Call): Promise<number | undefined> {
  const id = workflowRunId(call)
  const { flags } = call
  const input = (await flags.json('input')) as Rerun['input']
  const body = {
    ...selectionOf(call),
    ...given({ input, reason: flags.text('reason'), skip: listOf(flags.text('skip')) }),
    ...(flags.on('newest') ? { version: 'newest' as const } : {}),
  }
  const client = await call.client()
  const acted = await client.workflowRuns.rerun(id, body, { dryRun: call.dryRun })
  show(call, acted)
  if (acted.moved !== null) call.printer.say(...movedLines(acted.moved))
  if (acted.done) sayChange(call, `Put ${putWords(acted)} back.`, `belfry workflow-run tasks ${id}`)
  else sayNothingDone(call, 'The same rerun is under way')
  return flags.on('wait') && !call.dryRun ? waitForEnd(call, client, id) : undefined
}

function selectionOf({ flags }: Call): Pick<Rerun, 'what' | 'tasks'> {
  const named = flags.given(['from', 'only', 'all'])
  if (named.length > 1)
    throw new UsageError(`give only one of ${named.map((name) => `--${name}`).join(', ')}`)
  if (flags.on('all')) return { what: 'all' }
  for (const what of ['from', 'only'] as const) {
    const tasks = listOf(flags.text(what))
    if (tasks !== undefined) return { what, tasks }
  }
  return { what: 'failed' }
}

async function mark(call: Call): Promise<undefined> {
  const id = workflowRunId(call)
  const { flags } = call
  const state = flags.text('as')
  if (state === undefined) throw new UsageError(`say which state: --as ${markStates.join('|')}`)
  const reason = flags.text('reason')
  if (reason === undefined) throw new UsageError('say why, for who looks at it later: --reason "…"')
  const output = (await flags.json('output-value')) as BodyOf<'workflowRunMark'>['output']
  const body = { tasks: [...call.many('task')], state: state as MarkState, reason, ...given({ output }) }
  const client = await call.client()
  const acted = await client.workflowRuns.mark(id, body, { dryRun: call.dryRun })
  show(call, acted)
  if (acted.done)
    sayChange(call, `Set ${body.tasks.join(', ')} to ${state}.`, `belfry workflow-run tasks ${id}`)
  else sayNothingDone(call, `They are ${state} already`)
}

async function skip(call: Call): Promise<undefined> {
  const id = workflowRunId(call)
  const body = { tasks: [...call.many('task')], ...given({ reason: call.flags.text('reason') }) }
  const client = await call.client()
  const acted = await client.workflowRuns.skip(id, body, { dryRun: call.dryRun })
  show(call, acted)
  const named = body.tasks.join(', ')
  if (acted.done) sayChange(call, `Set ${named} to skipped, this once.`, `belfry workflow-run tasks ${id}`)
  else sayNothingDone(call, 'They are skipped already')
}

async function history(call: Call): Promise<undefined> {
  const id = workflowRunId(call)
  const client = await call.client()
  const { acts } = await client.workflowRuns.history(id)
  call.printer.list({ items: acts }, workflowActShape, 'Nothing was done to this workflow run by hand.')
}

/** People see what changes, unless they want all. */
function show(call: Call, acted: WorkflowRunActed): void {
  const { format } = call.printer
  if (format !== 'table') {
    call.printer.value(acted, [])
    return
  }
  const tasks = acted.tasks.filter(({ effect }) => effect !== 'kept' || call.flags.on('show-all'))
  call.printer.list({ items: tasks }, actedTaskShape, 'No task changes.')
  const kept = acted.tasks.length - tasks.length
  if (kept > 0) {
    const words = kept === 1 ? 'task is kept as it is' : 'tasks are kept as they are'
    call.printer.say(`${kept} more ${words} (--show-all).`)
  }
}

function putWords({ tasks }: WorkflowRunActed): string {
  const put = tasks.filter(({ effect }) => effect !== 'kept').length
  return `${put} ${put === 1 ? 'task' : 'tasks'}`
}

function sayNothingDone(call: Call, why: string): void {
  const words = `${why}; nothing was done this time.`
  if (call.dryRun) call.printer.say(`Dry run, nothing was stored: would change nothing. ${words}`)
  else call.printer.say(words)
}

function movedLines(moved: NonNullable<WorkflowRunActed['moved']>): string[] {
  const { from, to, added, changed, removed } = moved
  const part = (words: string, ids: readonly string[]): string[] =>
    ids.length === 0 ? [] : [`  ${words}: ${ids.join(', ')}`]
  return [
    `It moves from version ${from} to version ${to}:`,
    ...part('new', added),
    ...part('changed', changed),
    ...part('gone', removed),
  ]
}

export const workflowActCommands: readonly Command[] = [
  {
    noun: 'workflow-run',
    verb: 'rerun',
    summary: 'Run parts of a workflow run again: what failed and what depends on it, or what you name',
    details:
      'In the same workflow run: old runs, outputs and logs stay, and what is kept is not run again. The ' +
      'same rerun, asked for again while it is under way, does nothing. See what comes of it first with ' +
      '--dry-run.',
    arguments: [runArgument],
    flags: [
      { name: 'from', value: 'tasks', summary: 'These tasks and all that depends on them; a,b for several' },
      { name: 'only', value: 'tasks', summary: 'These tasks, and below them only what never ran' },
      { name: 'all', summary: 'Every task' },
      { name: 'skip', value: 'tasks', summary: 'Skip these tasks this once instead of running them' },
      { ...inputFlag, summary: 'Another input from now on, as JSON, or @file, or @- for stdin' },
      { name: 'newest', summary: 'Move to the newest version of the workflow' },
      reasonFlag,
      allFlag,
      ...waitFlags,
    ],
    effect: 'change',
    fieldFlags: {
      '/params/id': '<run>',
      '/tasks': '--from',
      '/what': '--from',
      '/skip': '--skip',
      '/input': '--input',
      '/version': '--newest',
      '/reason': '--reason',
    },
    examples: [
      { words: 'What would run again', command: `belfry workflow-run rerun ${run} --dry-run` },
      { words: 'What failed, and what depends on it', command: `belfry workflow-run rerun ${run} --wait` },
      { words: 'From one task on', command: `belfry workflow-run rerun ${run} --from load` },
      { words: 'With what was fixed in the workflow', command: `belfry workflow-run rerun ${run} --newest` },
    ],
    run: rerun,
  },
  {
    noun: 'workflow-run',
    verb: 'mark',
    summary: 'Set tasks to a state by hand; what could not run because of them comes back to life',
    details: 'A task that is at work is canceled. The reason and who gave it stay with the workflow run.',
    arguments: [runArgument, tasksArgument],
    flags: [
      { name: 'as', value: 'state', choices: markStates, summary: 'The state' },
      reasonFlag,
      {
        name: 'output-value',
        value: 'json',
        summary: 'What tasks below take as its output (one task, succeeded), as JSON, or @file, or @-',
      },
      allFlag,
    ],
    effect: 'change',
    fieldFlags: {
      '/params/id': '<run>',
      '/tasks': '<task>',
      '/state': '--as',
      '/reason': '--reason',
      '/output': '--output-value',
    },
    examples: [
      {
        words: 'It was done by hand',
        command: `belfry workflow-run mark ${run} load --as succeeded --reason "loaded by hand"`,
      },
    ],
    run: mark,
  },
  {
    noun: 'workflow-run',
    verb: 'skip',
    summary: 'Skip tasks that wait, this once',
    details:
      'What depends on them is decided by its rule, as after any skipped task. A rerun runs them again.',
    arguments: [runArgument, tasksArgument],
    flags: [reasonFlag, allFlag],
    effect: 'change',
    fieldFlags: { '/params/id': '<run>', '/tasks': '<task>', '/reason': '--reason' },
    examples: [
      { words: 'No mail today', command: `belfry workflow-run skip ${run} mail --reason "stock-taking"` },
    ],
    run: skip,
  },
  {
    noun: 'workflow-run',
    verb: 'history',
    summary: 'What was done to a workflow run by hand: who, when, why',
    arguments: [runArgument],
    effect: 'read',
    examples: [{ words: 'Who marked what', command: `belfry workflow-run history ${run}` }],
    run: history,
  },
]

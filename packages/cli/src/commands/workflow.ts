/**
 * `belfry workflow`: what can be said of workflows without a server: whether a file is sound, how it looks,
 * how it would run; with those of workflow-stored.ts, which ask a server.
 */
import type { WorkflowDefinition } from '@belfry/contract'
import type { Call, Command } from '../command.ts'
import { UsageError } from '../exit-codes.ts'
import { drawWorkflow, graphFormats, graphOf } from '../output/workflow-graph.ts'
import { findWorkflow } from '../resolve-name.ts'
import { answerWorkflowBatch } from './workflow-cases.ts'
import { invalidWorkflow, loadRules, readWorkflow, type Rules, workflowFileFlag } from './workflow-file.ts'
import { showGraph, showRun } from './workflow-run-watch.ts'
import { storedWorkflowCommands } from './workflow-stored.ts'

async function validate(call: Call): Promise<undefined> {
  const rules = await loadRules()
  const file = await readWorkflow(call, rules)
  const warnings = rules.definitionWarnings(file)
  const tasks = file.tasks.length + file.onFailure.length + file.finally.length
  call.printer.value({ name: file.name, valid: true, tasks, warnings }, [
    `${file.name} is sound: ${tasks === 1 ? '1 task' : `${tasks} tasks`}.`,
    ...warnings.map(({ pointer, message }) => `Warning: ${pointer} ${message}.`),
  ])
  return undefined
}

/** Of a file, or of what is stored under a name. */
async function wantedDefinition(call: Call, rules: Rules): Promise<WorkflowDefinition> {
  const name = call.argument('workflow')
  if (name === undefined) return readWorkflow(call, rules)
  if (call.flags.text('file') !== undefined) throw new UsageError('give either a name or --file, not both')
  const client = await call.client()
  const version = call.flags.whole('version', 1, 2_147_483_647)
  return client.workflows.get((await findWorkflow(client, name)).id, version === undefined ? {} : { version })
}

async function graph(call: Call): Promise<undefined> {
  const rules = await loadRules()
  const as = call.flags.choice('as', graphFormats)
  if (as !== undefined && call.printer.format !== 'table')
    throw new UsageError(`--as ${as} is a picture, -o ${call.printer.format} for programs: give only one`)
  const format = as ?? 'text'
  const run = call.flags.text('run')
  if (run !== undefined) {
    if (['file', 'version'].some((flag) => call.flags.text(flag) !== undefined) || call.argument('workflow'))
      throw new UsageError('--run says which workflow and version; leave the name, --file and --version out')
    await showRun(call, run, format)
    return undefined
  }
  const file = await wantedDefinition(call, rules)
  const opened = rules.openWorkflow(rules.shapesOf(file), file.failFast)
  if (!opened.ok) throw invalidWorkflow(opened.error)
  showGraph(call, graphOf(opened.value), drawWorkflow(opened.value, rules.layersOf(opened.value), format))
  return undefined
}

async function simulate(call: Call): Promise<undefined> {
  const text = await call.flags.file('batch')
  if (text === undefined) throw new UsageError('Name the file with the cases: --batch cases.json')
  answerWorkflowBatch(text, await loadRules(), call.io.stdout)
  return undefined
}

export const workflowCommands: readonly Command[] = [
  ...storedWorkflowCommands,
  {
    noun: 'workflow',
    verb: 'validate',
    summary: 'Check the file of a workflow, without a server',
    details: 'Names every fault with its place: unknown tasks, circles, rules that never hold.',
    effect: 'local',
    flags: [workflowFileFlag],
    examples: [{ words: 'A file', command: 'belfry workflow validate -f nightly.yaml' }],
    run: validate,
  },
  {
    noun: 'workflow',
    verb: 'graph',
    summary: 'Draw the tasks of a workflow and what they need',
    effect: 'read',
    arguments: [
      { name: 'workflow', summary: 'Name or id of a stored one, in place of a file', optional: true },
    ],
    flags: [
      workflowFileFlag,
      { name: 'version', value: 'number', summary: 'Of a stored one; the newest if left out' },
      { name: 'run', value: 'id', summary: 'Of a workflow run, with how its tasks stand' },
      { name: 'as', value: 'format', choices: graphFormats, summary: 'How it is drawn; `text` if left out' },
    ],
    examples: [
      { words: 'In the terminal', command: 'belfry workflow graph -f nightly.yaml' },
      { words: 'What is stored', command: 'belfry workflow graph nightly' },
      {
        words: 'With the states of a run',
        command: 'belfry workflow graph --run 019ad0c1-7f3e-7c63-9a52-6e4d8c1b2a3f',
      },
      { words: 'For a web page', command: 'belfry workflow graph -f nightly.yaml --as svg' },
      { words: 'Nodes and edges, for programs', command: 'belfry workflow graph nightly -o json' },
    ],
    run: graph,
  },
  {
    noun: 'workflow',
    verb: 'simulate',
    summary: 'Play workflow runs with given outcomes, without a server',
    details:
      'Decides by the same rules as the engine. The file holds graphs and the outcome of each attempt; one ' +
      'JSON line comes out for each case.',
    effect: 'local',
    flags: [{ name: 'batch', value: 'file', summary: 'File with the cases, `-` for standard input' }],
    examples: [{ words: 'Every case of a file', command: 'belfry workflow simulate --batch cases.json' }],
    run: simulate,
  },
]

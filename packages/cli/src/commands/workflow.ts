/**
 * `belfry workflow`: what can be said of workflows without a server: whether a file is sound, how it looks,
 * how it would run. The rules are loaded only when a command needs them.
 */
import { BelfryError, type WorkflowFile, workflowFileSchema } from '@belfry/contract'
import type * as Workflow from '@belfry/server/workflow'
import { parse, YAMLParseError } from 'yaml'
import type { Call, Command, FlagSpec } from '../command.ts'
import { UsageError } from '../exit-codes.ts'
import { drawWorkflow, graphFormats } from '../output/workflow-graph.ts'
import { answerWorkflowBatch } from './workflow-cases.ts'

type Rules = typeof Workflow
type Fault = { readonly pointer: string; readonly message: string }

const loadRules = (): Promise<Rules> => import('@belfry/server/workflow')

const fileFlag: FlagSpec = {
  name: 'file',
  short: 'f',
  value: 'file',
  summary: 'YAML or JSON file with the workflow, `-` for standard input',
}

/** What a file says, checked field by field and as a whole. Throws with every fault and its place. */
async function readWorkflow(call: Call, rules: Rules): Promise<WorkflowFile> {
  const text = await call.flags.file('file')
  if (text === undefined) throw new UsageError('Name the file of the workflow: --file workflow.yaml')
  const parsed = workflowFileSchema.safeParse(valueOf(text))
  if (!parsed.success) {
    throw invalid(
      parsed.error.issues.map(({ path, message }) => ({
        pointer: path.map((part) => `/${String(part).replaceAll('~', '~0').replaceAll('/', '~1')}`).join(''),
        message,
      })),
    )
  }
  const faults = rules.definitionFaults(parsed.data)
  if (faults.length > 0) throw invalid(faults)
  return parsed.data
}

function valueOf(text: string): unknown {
  try {
    // a file that names anchors of anchors does not grow without bound
    return parse(text, { maxAliasCount: 100 }) as unknown
  } catch (cause) {
    const why = cause instanceof YAMLParseError ? (cause.message.split('\n')[0] ?? '') : 'it cannot be read'
    throw new UsageError(`--file is not valid YAML (${why.replace(/:$/, '')}); mend the file`, { cause })
  }
}

const invalid = (faults: readonly Fault[]): BelfryError =>
  new BelfryError('invalid_request', 'The workflow cannot be taken as it is.', {
    errors: faults.map(({ pointer, message }) => ({ pointer, message })),
  })

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

async function graph(call: Call): Promise<undefined> {
  const rules = await loadRules()
  const file = await readWorkflow(call, rules)
  const opened = rules.openWorkflow(rules.shapesOf(file), file.failFast)
  if (!opened.ok) throw invalid(opened.error)
  const format = call.flags.choice('as', graphFormats) ?? 'text'
  call.io.stdout.write(`${drawWorkflow(opened.value, rules.layersOf(opened.value), format)}\n`)
  return undefined
}

async function simulate(call: Call): Promise<undefined> {
  const text = await call.flags.file('batch')
  if (text === undefined) throw new UsageError('Name the file with the cases: --batch cases.json')
  answerWorkflowBatch(text, await loadRules(), call.io.stdout)
  return undefined
}

export const workflowCommands: readonly Command[] = [
  {
    noun: 'workflow',
    verb: 'validate',
    summary: 'Check the file of a workflow, without a server',
    details: 'Names every fault with its place: unknown tasks, circles, rules that never hold.',
    effect: 'local',
    flags: [fileFlag],
    examples: [{ words: 'A file', command: 'belfry workflow validate -f nightly.yaml' }],
    run: validate,
  },
  {
    noun: 'workflow',
    verb: 'graph',
    summary: 'Draw the tasks of a workflow and what they need',
    effect: 'local',
    flags: [
      fileFlag,
      { name: 'as', value: 'format', choices: graphFormats, summary: 'How it is drawn; `text` if left out' },
    ],
    examples: [
      { words: 'In the terminal', command: 'belfry workflow graph -f nightly.yaml' },
      { words: 'For a web page', command: 'belfry workflow graph -f nightly.yaml --as svg' },
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

/**
 * `belfry workflow apply|list|get|versions|diff|delete`: workflows on the server. A file is checked here
 * first, by the same rules, so that its faults are told all at once and without a server too.
 */
import { maxShownChanges } from '@belfry/contract'
import type { Call, Command } from '../command.ts'
import { required } from '../command.ts'
import { UsageError } from '../exit-codes.ts'
import { workflowShape, workflowSummaryShape, workflowVersionShape } from '../output/workflow-shapes.ts'
import { findWorkflow, isId } from '../resolve-name.ts'
import { given, listFlags, pageQuery, printList, sayChange } from './shared.ts'
import { loadRules, readWorkflow, workflowFileFlag } from './workflow-file.ts'

const workflowArgument = { name: 'workflow', summary: 'Name or id of the workflow' }

async function apply(call: Call): Promise<undefined> {
  const file = await readWorkflow(call, await loadRules())
  const client = await call.client()
  const applied = await client.workflows.apply(file, { dryRun: call.dryRun })
  call.printer.row(applied, workflowShape)
  for (const { pointer, message } of applied.warnings) call.printer.say(`Warning: ${pointer} ${message}.`)
  const { name, outcome, version } = applied
  if (outcome === 'unchanged')
    call.printer.say(`The workflow ${name} is as the file says already; it stays at version ${version}.`)
  else if (outcome === 'created')
    sayChange(call, `Created the workflow ${name}.`, `belfry workflow graph ${name}`)
  else
    sayChange(
      call,
      `Changed the workflow ${name}; its version is ${version}.`,
      `belfry workflow diff ${name}`,
    )
}

async function list(call: Call): Promise<undefined> {
  const client = await call.client()
  await printList(
    call,
    client.workflows.list(pageQuery(call)),
    workflowSummaryShape,
    'No workflows yet. Make one: belfry workflow apply -f workflow.yaml',
  )
}

const idOf = async (call: Call): Promise<string> => {
  const wanted = required(call, 'workflow')
  return isId(wanted) ? wanted : (await findWorkflow(await call.client(), wanted)).id
}

async function get(call: Call): Promise<undefined> {
  const client = await call.client()
  const version = call.flags.whole('version', 1, 2_147_483_647)
  call.printer.one(await client.workflows.get(await idOf(call), given({ version })), workflowShape)
}

async function versions(call: Call): Promise<undefined> {
  const client = await call.client()
  const found = client.workflows.versions(await idOf(call), pageQuery(call))
  await printList(call, found, workflowVersionShape, 'There are no versions.')
}

/** `v3` as well as `3`. */
function versionOf(call: Call, name: 'from' | 'to'): number | undefined {
  const text = call.argument(name)
  if (text === undefined) return undefined
  const number = /^v?([1-9]\d{0,8})$/.exec(text)?.[1]
  if (number === undefined) throw new UsageError(`"${text}" is no version; write it like v3`)
  return Number(number)
}

const marks = { added: '+', removed: '-', changed: '~' } as const

async function diff(call: Call): Promise<undefined> {
  const client = await call.client()
  const query = given({ from: versionOf(call, 'from'), to: versionOf(call, 'to') })
  const found = await client.workflows.diff(await idOf(call), query)
  const { from, to, changes, changesTotal } = found
  call.printer.value(
    found,
    changes.map(({ kind, message }) => `${marks[kind]} ${message}`),
  )
  if (changesTotal === 0) call.printer.say(`Versions ${from} and ${to} do not differ.`)
  if (changesTotal > changes.length)
    call.printer.say(`${changesTotal} differences; the first ${maxShownChanges} are shown.`)
}

async function remove(call: Call): Promise<undefined> {
  const client = await call.client()
  const workflow = await findWorkflow(client, required(call, 'workflow'))
  await client.workflows.delete(workflow.id, { dryRun: call.dryRun })
  sayChange(call, `Deleted the workflow ${workflow.name}.`, 'belfry workflow list')
}

export const storedWorkflowCommands: readonly Command[] = [
  {
    noun: 'workflow',
    verb: 'apply',
    summary: 'Store the workflow of a file: a new one, or a new version where it differs',
    details: 'Versions never change once they are there. Runs keep the one that they were begun with.',
    flags: [workflowFileFlag],
    effect: 'change',
    examples: [
      { words: 'Store a file', command: 'belfry workflow apply -f nightly.yaml' },
      { words: 'See first what it would do', command: 'belfry workflow apply -f nightly.yaml --dry-run' },
    ],
    run: apply,
  },
  {
    noun: 'workflow',
    verb: 'list',
    summary: 'List workflows',
    flags: listFlags,
    effect: 'read',
    examples: [{ words: 'All workflows', command: 'belfry workflow list --all' }],
    run: list,
  },
  {
    noun: 'workflow',
    verb: 'get',
    summary: 'Show a workflow and its tasks',
    arguments: [workflowArgument],
    flags: [{ name: 'version', value: 'number', summary: 'The newest if left out' }],
    effect: 'read',
    fieldFlags: { '/query/version': '--version' },
    examples: [
      { words: 'As it is now', command: 'belfry workflow get nightly' },
      { words: 'As it was', command: 'belfry workflow get nightly --version 3 -o yaml' },
    ],
    run: get,
  },
  {
    noun: 'workflow',
    verb: 'versions',
    summary: 'List the versions of a workflow, newest first',
    arguments: [workflowArgument],
    flags: listFlags,
    effect: 'read',
    examples: [{ words: 'When it was changed', command: 'belfry workflow versions nightly' }],
    run: versions,
  },
  {
    noun: 'workflow',
    verb: 'diff',
    summary: 'Say what differs between two versions of a workflow',
    arguments: [
      workflowArgument,
      { name: 'from', summary: 'The version before; that before the other if left out', optional: true },
      { name: 'to', summary: 'The version after; the newest if left out', optional: true },
    ],
    effect: 'read',
    fieldFlags: { '/query/from': '<from>', '/query/to': '<to>' },
    examples: [
      { words: 'The last change', command: 'belfry workflow diff nightly' },
      { words: 'Between two versions', command: 'belfry workflow diff nightly v3 v4' },
    ],
    run: diff,
  },
  {
    noun: 'workflow',
    verb: 'delete',
    summary: 'Delete a workflow; its runs that are under way go on',
    arguments: [workflowArgument],
    effect: 'change',
    examples: [
      { words: 'See first whether it can be deleted', command: 'belfry workflow delete nightly --dry-run' },
    ],
    run: remove,
  },
]

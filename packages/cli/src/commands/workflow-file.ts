/**
 * Files of workflows as the commands take them: read, checked field by field and as a whole, every fault with
 * its place. The rules are loaded only when a command needs them.
 */
import { BelfryError, fieldFaults, type WorkflowFile, workflowFileSchema } from '@belfry/contract'
import type * as Workflow from '@belfry/server/workflow'
import { parseAllDocuments } from 'yaml'
import type { Call, FlagSpec } from '../command.ts'
import { UsageError } from '../exit-codes.ts'

export type Rules = typeof Workflow
type Fault = { readonly pointer: string; readonly message: string }

export const loadRules = (): Promise<Rules> => import('@belfry/server/workflow')

export const workflowFileFlag: FlagSpec = {
  name: 'file',
  short: 'f',
  value: 'file',
  summary: 'YAML or JSON file with the workflow, `-` for standard input',
}

/** What a file says, checked field by field and as a whole. Throws with every fault and its place. */
export async function readWorkflow(call: Call, rules: Rules): Promise<WorkflowFile> {
  const text = await call.flags.file('file')
  if (text === undefined) throw new UsageError('Name the file of the workflow: --file workflow.yaml')
  const value = valueOf(text)
  const parsed = workflowFileSchema.safeParse(value)
  if (!parsed.success) throw invalidWorkflow(fieldFaults(workflowFileSchema, value, parsed.error.issues))
  const faults = rules.definitionFaults(parsed.data)
  if (faults.length > 0) throw invalidWorkflow(faults)
  return parsed.data
}

/** The one document of a file. What is no workflow at all is told as that, not field by field. */
function valueOf(text: string): unknown {
  const documents = parseAllDocuments(text)
  // of several documents, one that cannot be read is the nearer fault
  const [unread] = documents.flatMap(({ errors }) => errors)
  if (unread !== undefined) throw notYaml(unread.message, unread)
  if (documents.length > 1)
    throw new UsageError(
      `--file holds ${documents.length} YAML documents, divided by "---"; keep one workflow in a file`,
    )
  const [document] = documents
  if (document === undefined || !('contents' in document) || document.contents === null)
    throw new UsageError(
      '--file is empty; write name: nightly and tasks: [{id: extract, job: extract}], for example',
    )
  const [odd] = document.warnings
  if (odd !== undefined)
    throw new UsageError(
      `--file says what no workflow can hold (${firstLine(odd.message)}); write plain values without tags`,
      { cause: odd },
    )
  const value = plainValue(document)
  if (isObject(value) && 'jobs' in value && !('tasks' in value))
    throw new UsageError(
      '--file looks like a workflow of GitHub Actions (it has jobs); write tasks: a list ' +
        'with id, job or handler, and needs; docs/how-to/from-github-actions.md shows how',
    )
  return value
}

function plainValue(document: { toJS(options: { maxAliasCount: number }): unknown }): unknown {
  try {
    // a file that names anchors of anchors does not grow without bound
    return document.toJS({ maxAliasCount: 100 })
  } catch (cause) {
    throw notYaml(cause instanceof Error ? cause.message : 'it cannot be read', cause)
  }
}

const isObject = (value: unknown): value is object =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

const firstLine = (message: string): string => (message.split('\n')[0] ?? '').replace(/:$/, '')

const notYaml = (why: string, cause: unknown): UsageError =>
  new UsageError(`--file is not valid YAML (${firstLine(why)}); mend the file`, { cause })

export const invalidWorkflow = (faults: readonly Fault[]): BelfryError =>
  new BelfryError('invalid_request', 'The workflow cannot be taken as it is.', {
    errors: faults.map(({ pointer, message }) => ({ pointer, message })),
  })

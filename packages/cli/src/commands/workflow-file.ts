/**
 * Files of workflows as the commands take them: read, checked field by field and as a whole, every fault with
 * its place. The rules are loaded only when a command needs them.
 */
import { BelfryError, type WorkflowFile, workflowFileSchema } from '@belfry/contract'
import type * as Workflow from '@belfry/server/workflow'
import { parse, YAMLParseError } from 'yaml'
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
  const parsed = workflowFileSchema.safeParse(valueOf(text))
  if (!parsed.success) {
    throw invalidWorkflow(
      parsed.error.issues.map(({ path, message }) => ({
        pointer: path.map((part) => `/${String(part).replaceAll('~', '~0').replaceAll('/', '~1')}`).join(''),
        message,
      })),
    )
  }
  const faults = rules.definitionFaults(parsed.data)
  if (faults.length > 0) throw invalidWorkflow(faults)
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

export const invalidWorkflow = (faults: readonly Fault[]): BelfryError =>
  new BelfryError('invalid_request', 'The workflow cannot be taken as it is.', {
    errors: faults.map(({ pointer, message }) => ({ pointer, message })),
  })

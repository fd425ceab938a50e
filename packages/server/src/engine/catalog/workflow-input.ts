/**
 * The input that a workflow run is begun with, against the schema of its workflow: for whoever begins one, so
 * that all are checked alike. Pure.
 */
import type { JsonValue, WorkflowDefinition } from '@belfry/contract'
import { BelfryError } from '@belfry/contract'
import { checkInput } from '../../domain/workflow/input-schema.ts'

/**
 * With defaults put in for what is left out. Throws `invalid_request` with every fault and its place, below
 * `at`: where the input stands in what was sent.
 */
export function checkedRunInput(
  workflow: { readonly name: string; readonly definition: WorkflowDefinition },
  input: JsonValue | undefined,
  at = '/input',
): JsonValue | undefined {
  const { inputSchema } = workflow.definition
  if (inputSchema === undefined) return input
  const checked = checkInput(inputSchema, input, at)
  if (checked.ok) return checked.value
  const words = checked.error.slice(0, 3).map(({ pointer, message }) => `${pointer} ${message}`)
  const more = checked.error.length > words.length ? `; and ${checked.error.length - words.length} more` : ''
  throw new BelfryError(
    'invalid_request',
    `The input does not fit what the workflow "${workflow.name}" takes: ${words.join('; ')}${more}.`,
    { errors: checked.error },
  )
}

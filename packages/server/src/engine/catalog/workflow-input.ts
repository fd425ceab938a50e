/**
 * The input that a workflow run is begun with, against the schema of its workflow: for whoever begins one, so
 * that all are checked alike. Where nobody is there to be told, the run itself says what is wrong. Pure.
 */
import type { InputSchema, JsonValue, WorkflowDefinition } from '@belfry/contract'
import { BelfryError } from '@belfry/contract'
import { checkInput } from '../../domain/workflow/input-schema.ts'

/** Among the notes of a workflow run: why the input that it was begun with was refused. */
export const refusalNote = 'input'

/** The input with defaults put in, or in words why the workflow does not take it. */
export function inputOrRefusal(
  schema: InputSchema,
  input: JsonValue,
): { readonly input: JsonValue; readonly refusal: string | null } {
  const checked = checkInput(schema, input, '')
  if (checked.ok) return { input: checked.value ?? null, refusal: null }
  const faults = checked.error.slice(0, 3).map(({ pointer, message }) => `${pointer || 'it'} ${message}`)
  const more =
    checked.error.length > faults.length ? `; and ${checked.error.length - faults.length} more` : ''
  const refusal = `its input does not fit what the workflow takes: ${faults.join('; ')}${more}`
  return { input, refusal }
}

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

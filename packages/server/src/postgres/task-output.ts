/**
 * The output of a run of a task: what a function answered; else the response of a target, where that is JSON;
 * or what a person gave instead.
 */
import type { JsonValue } from '@belfry/contract'
import type { TaskOutput } from '../ports/workflow-runs.ts'
import type { TaskOutputRow } from './statements/task-outputs.ts'

export function taskOutput({ task, item, result, response, given }: TaskOutputRow): TaskOutput {
  const at = { task, item: item ?? undefined }
  if (given) return { ...at, output: result as JsonValue, given }
  return { ...at, output: outputOf(result, response) }
}

function outputOf(result: unknown, response: string | null): JsonValue | undefined {
  if (result !== null) return result as JsonValue
  if (response === null) return undefined
  try {
    return JSON.parse(response) as JsonValue
  } catch {
    return undefined
  }
}

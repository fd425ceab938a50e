/**
 * What a task that starts is given: its constant input, with values put into it from outputs of other tasks,
 * the input of the workflow run, and the item that it runs for. Pure. What is missing and has no default is a
 * fault, in words: the task fails with it, without a run.
 */
import type { InputMapping, JsonValue, OutputMapping, WorkflowTask } from '@belfry/contract'
import { resultFault } from '@belfry/contract'
import { refuse, type Result, succeed } from '../zone/result.ts'
import { valueAt } from './condition.ts'

export interface InputFacts {
  readonly outputOf: (task: string) => JsonValue | undefined
  /** Of a task with items: the outputs of those that succeeded; undefined for others. */
  readonly ofItems?: ((task: string) => readonly JsonValue[] | undefined) | undefined
  readonly input: JsonValue | undefined
  readonly workflowRunId: string
  /** The times that the run is for, epoch ms; left out, or null: none. */
  readonly begunWith?: RunTimes | undefined
}

export interface RunTimes {
  readonly scheduledForMs: number | null
  readonly intervalStartMs: number | null
  readonly intervalEndMs: number | null
}

/** The items of a mapped task. */
export function itemsOfTask(task: WorkflowTask, facts: InputFacts): Result<readonly JsonValue[], string> {
  if (task.matrix !== undefined) return succeed(combinations(task.matrix))
  const from = task.forEach?.from
  if (from === undefined) return succeed([])
  const most = task.forEach?.maxItems ?? 0
  const value =
    'items' in from
      ? from.items
      : 'task' in from
        ? listOf(from.task, from.path, facts)
        : valueAt(facts.input, from.input)
  if (!Array.isArray(value)) {
    const what = value === undefined ? 'there is nothing' : 'what there is is no list'
    return refuse(`forEach takes a list, and ${what} at ${placeOf(from)}`)
  }
  const items = value as readonly JsonValue[]
  if (items.length > most) return refuse(`the list has ${items.length} items; maxItems allows ${most}`)
  return succeed(items)
}

/** What failed or was skipped among the items of another task is left out: there is nothing to run for. */
const listOf = (task: string, path: string, facts: InputFacts): unknown =>
  (path === '' ? facts.ofItems?.(task) : undefined) ?? valueAt(facts.outputOf(task), path)

const placeOf = (from: object): string =>
  'task' in from ? `the output of "${String(from.task)}"` : 'the input of the run'

/** Every combination of the values of all axes; the last axis changes fastest. */
function combinations(matrix: NonNullable<WorkflowTask['matrix']>): JsonValue[] {
  return Object.entries(matrix).reduce<Record<string, JsonValue>[]>(
    (made, [axis, values]) => made.flatMap((each) => values.map((value) => ({ ...each, [axis]: value }))),
    [{}],
  )
}

/** `item` is undefined for a task that is not mapped. Who says nothing of its input is given its item. */
export function inputOfTask(
  task: WorkflowTask,
  facts: InputFacts,
  item: JsonValue | undefined,
): Result<JsonValue | undefined, string> {
  if (task.input === undefined && task.inputFrom.length === 0) return kept(item)
  let input: JsonValue | undefined = task.input
  for (const mapping of task.inputFrom) {
    const value = mappedValue(mapping, facts, item)
    if (value === undefined) return refuse(`${wordsOf(mapping)} is not there, and there is no default for it`)
    const put = putAt(input, mapping.to.split('/').slice(1), value)
    if (!put.ok) return refuse(`"${mapping.to}" cannot be put into the input: ${put.error}`)
    input = put.value
  }
  return kept(input)
}

/** A target answers with what it likes, and items are many: not all of it can be the input of a run. */
function kept(input: JsonValue | undefined): Result<JsonValue | undefined, string> {
  const fault = resultFault(input)
  return fault === undefined ? succeed(input) : refuse(`its input ${fault}`)
}

/** What a workflow run gives. What is not there, of a task that was skipped for example, is left out. */
export function outputOfRun(
  base: JsonValue | undefined,
  mappings: readonly OutputMapping[],
  facts: InputFacts,
): Result<JsonValue | undefined, string> {
  let output = base
  for (const mapping of mappings) {
    const value = mappedValue(mapping, facts, undefined)
    if (value === undefined) continue
    const put = putAt(output, mapping.to.split('/').slice(1), value)
    if (!put.ok) return refuse(`"${mapping.to}" cannot be put into the output: ${put.error}`)
    output = put.value
  }
  const fault = resultFault(output)
  return fault === undefined ? succeed(output) : refuse(`the output ${fault}`)
}

/** A default stands in for null as well; without one, null is handed on like any value. */
function mappedValue(
  mapping: InputMapping,
  facts: InputFacts,
  item: JsonValue | undefined,
): JsonValue | undefined {
  const found = sourceValue(mapping, facts, item)
  return found ?? mapping.default ?? found
}

function sourceValue(
  mapping: InputMapping,
  facts: InputFacts,
  item: JsonValue | undefined,
): JsonValue | undefined {
  if ('task' in mapping) return valueAt(facts.outputOf(mapping.task), mapping.path)
  if ('input' in mapping) return valueAt(facts.input, mapping.input)
  if ('item' in mapping) return valueAt(item, mapping.item)
  if (mapping.run === 'id') return facts.workflowRunId
  const instantMs = facts.begunWith?.[timeOf[mapping.run]] ?? null
  return instantMs === null ? undefined : new Date(instantMs).toISOString()
}

const timeOf = {
  scheduledFor: 'scheduledForMs',
  dataIntervalStart: 'intervalStartMs',
  dataIntervalEnd: 'intervalEndMs',
} as const

function wordsOf(mapping: InputMapping): string {
  if ('task' in mapping) return `${mapping.path || 'the output'} of "${mapping.task}"`
  if ('input' in mapping) return `${mapping.input || 'an input'} of the run`
  if ('item' in mapping) return `${mapping.item || 'the value'} of the item`
  return `${mapping.run} of the run`
}

/** A copy with the value in its place; objects on the way there are made. */
function putAt(
  base: JsonValue | undefined,
  keys: readonly string[],
  value: JsonValue,
): Result<JsonValue, string> {
  const [raw, ...rest] = keys
  if (raw === undefined) return succeed(value)
  const key = raw.replaceAll('~1', '/').replaceAll('~0', '~')
  if (Array.isArray(base)) {
    const list = base as readonly JsonValue[]
    const index = Number(key)
    if (!/^(?:0|[1-9]\d{0,5})$/.test(key) || index > list.length)
      return refuse(`"${key}" is no place in a list`)
    const put = putAt(list[index], rest, value)
    return put.ok ? succeed(list.toSpliced(index, 1, put.value)) : put
  }
  if (base !== undefined && base !== null && typeof base !== 'object')
    return refuse(`"${key}" is in no object`)
  const object = (base ?? {}) as Readonly<Record<string, JsonValue>>
  const put = putAt(Object.hasOwn(object, key) ? object[key] : undefined, rest, value)
  return put.ok ? succeed({ ...object, [key]: put.value }) : put
}

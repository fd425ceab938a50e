/**
 * What differs between two versions of a workflow, in words: tasks that came or went, and field by field what
 * changed of those that stayed. The order of tasks, and of what a task needs, does not count. Values of
 * headers that carry secrets are not told. Pure.
 */
import type { WorkflowChange, WorkflowDefinition, WorkflowTask } from '@belfry/contract'
import { isSecretHeader } from '@belfry/contract'
import { isDeepStrictEqual } from 'node:util'

export interface Described {
  readonly description: string
  readonly definition: WorkflowDefinition
}

type Part = 'tasks' | 'onFailure' | 'finally'
interface Placed {
  readonly task: WorkflowTask
  readonly part: Part
}

const parts: readonly Part[] = ['tasks', 'onFailure', 'finally']
const ownFields = [
  'failFast',
  'timeoutMs',
  'priority',
  'concurrency',
  'inputSchema',
  'output',
  'outputFrom',
  'triggers',
] as const
const longestValue = 80
/** Lists in which the order says nothing. */
const unordered: ReadonlySet<string> = new Set(['needs'])

/** The workflow itself first, then its tasks in the order of the older version, then those that came. */
export function differences(before: Described, after: Described): WorkflowChange[] {
  const own = [
    ...fieldChanges('description', before.description, after.description),
    ...ownFields.flatMap((field) => fieldChanges(field, before.definition[field], after.definition[field])),
  ].map((message): WorkflowChange => ({ kind: 'changed', task: null, message }))
  const [olds, news] = [placed(before.definition), placed(after.definition)]
  const kept = [...olds].flatMap(([id, old]): WorkflowChange[] => {
    const next = news.get(id)
    if (next === undefined) return [{ kind: 'removed', task: id, message: `${id} was removed` }]
    return taskChanges(old, next).map((message) => ({
      kind: 'changed',
      task: id,
      message: `${id}: ${message}`,
    }))
  })
  const added = [...news].flatMap(([id, next]): WorkflowChange[] =>
    olds.has(id) ? [] : [{ kind: 'added', task: id, message: addedWords(next) }],
  )
  return [...own, ...kept, ...added]
}

function placed(definition: WorkflowDefinition): ReadonlyMap<string, Placed> {
  return new Map(parts.flatMap((part) => definition[part].map((task) => [task.id, { task, part }])))
}

function addedWords({ task, part }: Placed): string {
  const where = part === 'tasks' ? '' : ` to ${part}`
  const needs = task.needs.length === 0 ? '' : `, which needs ${task.needs.join(', ')}`
  return `${task.id} was added${where}${needs}`
}

function taskChanges(before: Placed, after: Placed): string[] {
  const moved = before.part === after.part ? [] : [`moved from ${before.part} to ${after.part}`]
  const fields = [...new Set([...Object.keys(before.task), ...Object.keys(after.task)])]
  const [old, next]: Record<string, unknown>[] = [before.task, after.task]
  return [...moved, ...fields.flatMap((field) => fieldChanges(field, old?.[field], next?.[field]))]
}

/** Objects field by field, down to what is no object. */
function fieldChanges(path: string, before: unknown, after: unknown): string[] {
  if (isDeepStrictEqual(before, after)) return []
  if (isObject(before) && isObject(after)) {
    const keys = [...new Set([...Object.keys(before), ...Object.keys(after)])]
    return keys.flatMap((key) => fieldChanges(`${path}.${key}`, before[key], after[key]))
  }
  if (unordered.has(path) && Array.isArray(before) && Array.isArray(after)) {
    const words = listWords(before, after)
    return words === '' ? [] : [`${path} ${words}`]
  }
  if (isSecretPath(path)) return [`${path} has another value`]
  if (before === undefined) return [`${path} ${valueWords(path, after)} was added`]
  if (after === undefined) return [`${path} ${valueWords(path, before)} was removed`]
  return [`${path} ${valueWords(path, before)} → ${valueWords(path, after)}`]
}

function listWords(before: readonly unknown[], after: readonly unknown[]): string {
  const gone = before.filter((each) => !after.includes(each))
  const come = after.filter((each) => !before.includes(each))
  const some = (words: string, items: readonly unknown[]): string[] =>
    items.length === 0 ? [] : [`${words} ${clipped(items.map(String).join(', '))}`]
  return [...some('no longer', gone), ...some('also', come)].join(', ')
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

const headerMark = 'handler.headers.'

const isSecretPath = (path: string): boolean =>
  path.startsWith(headerMark) && isSecretHeader(path.slice(headerMark.length))

/** A handler as a whole may hold what is secret: its kind and target say enough. */
function valueWords(path: string, value: unknown): string {
  if (path === 'handler' && isObject(value)) {
    const target = value['url'] ?? value['image'] ?? value['functionArn'] ?? value['name']
    return clipped(`${String(value['kind'])} ${String(target)}`)
  }
  if (path === 'handler.headers' && isObject(value)) return clipped(Object.keys(value).join(', '))
  return clipped(typeof value === 'string' ? value : JSON.stringify(value))
}

const clipped = (text: string): string =>
  text.length <= longestValue ? text : `${text.slice(0, longestValue - 1)}…`

/**
 * What is wrong with the shape of a workflow, before it is stored: each fault with its code, the place and
 * the fix. All faults are told at once, except that cycles are looked for only among edges that exist. Linear
 * in tasks and edges, without recursion.
 */
import { type Condition, maxWorkflowTasks, type TriggerRule, triggerRules } from '@belfry/contract'
import { setupsOf, type TaskShape } from './plan.ts'

export type WorkflowFaultCode =
  | 'empty'
  | 'too_many_tasks'
  | 'duplicate_task'
  | 'invalid_id'
  | 'unknown_task'
  | 'self_dependency'
  | 'cycle'
  | 'unknown_rule'
  | 'rule_never_holds'
  | 'not_a_parent'
  | 'other_role'
  | 'no_items'
  | 'too_many_items'
  | 'chooses_by_items'
  | 'never_runs'
  | 'duplicate_need'
  | 'same_place'
  | 'unsafe_place'

export interface WorkflowFault {
  readonly code: WorkflowFaultCode
  /** JSON pointer into the definition. */
  readonly pointer: string
  readonly message: string
}

/** Tasks of one workflow, at most. */
export const maxTasks = maxWorkflowTasks

/** Rules that no task without parents can meet. */
const needParents: ReadonlySet<TriggerRule> = new Set([
  'one_failed',
  'one_success',
  'one_done',
  'all_failed',
  'all_skipped',
])

/** What other systems call a task, too; the fields of a definition are bound more closely. */
const isId = /^[\p{L}\p{N}_][\p{L}\p{N}\p{M}_.-]{0,249}$/u

/** Empty: the shape is sound. `pointerOf` says where a task stands in what was sent. */
export function shapeFaults(
  shapes: readonly TaskShape[],
  pointerOf: (index: number) => string = (index) => `/tasks/${index}`,
): WorkflowFault[] {
  if (shapes.length === 0)
    return [{ code: 'empty', pointer: '/tasks', message: 'has no tasks; a workflow needs at least one' }]
  if (shapes.length > maxTasks) {
    const message = `has ${shapes.length} tasks; at most ${maxTasks} fit into one workflow, split it`
    return [{ code: 'too_many_tasks', pointer: '/tasks', message }]
  }
  const firsts = new Map<string, number>()
  for (const [index, { id }] of shapes.entries()) if (!firsts.has(id)) firsts.set(id, index)
  const faults = shapes.flatMap((shape, index) => taskFaults(shape, index, firsts, shapes, pointerOf(index)))
  const cycle = faults.length === 0 ? findCycle(shapes, firsts) : undefined
  if (cycle === undefined) return faults
  const path = [...cycle, cycle[0] ?? ''].join(' → ')
  const pointer = `${pointerOf(firsts.get(cycle[0] ?? '') ?? 0)}/needs`
  return [{ code: 'cycle', pointer, message: `goes round in a circle: ${path}; take one of these edges out` }]
}

function taskFaults(
  shape: TaskShape,
  index: number,
  firsts: ReadonlyMap<string, number>,
  shapes: readonly TaskShape[],
  at: string,
): WorkflowFault[] {
  const faults: WorkflowFault[] = []
  const { id, needs, rule, teardownOf } = shape
  const isList = typeof teardownOf === 'object'
  if (!isId.test(id)) {
    const message = `"${id}" is no id; use letters, digits, "_", "-" and ".", and no more than 250 of them`
    faults.push({ code: 'invalid_id', pointer: `${at}/id`, message })
  }
  if (firsts.get(id) !== index) {
    const message = `"${id}" is already the id of task ${(firsts.get(id) ?? 0) + 1}; each task needs its own`
    faults.push({ code: 'duplicate_task', pointer: `${at}/id`, message })
  }
  const known = (parent: string, pointer: string): void => {
    const there = firsts.get(parent)
    if (parent === id)
      faults.push({
        code: 'self_dependency',
        pointer,
        message: `"${id}" needs itself; take this edge out`,
      })
    else if (there === undefined)
      faults.push({ code: 'unknown_task', pointer, message: `there is no task "${parent}" in this workflow` })
    else if (shapes[there]?.role !== shape.role) {
      const message = `"${parent}" is in another part of the workflow; need tasks of the same part`
      faults.push({ code: 'other_role', pointer, message })
    }
  }
  needs.forEach((parent, place) => known(parent, `${at}/needs/${place}`))
  setupsOf(shape).forEach((setup, place) => known(setup, `${at}/teardownOf${isList ? `/${place}` : ''}`))
  if (!(triggerRules as readonly string[]).includes(rule)) {
    const message = `"${rule}" is no rule; use one of ${triggerRules.join(', ')}`
    faults.push({ code: 'unknown_rule', pointer: `${at}/rule`, message })
  } else if (needs.length === 0 && teardownOf === undefined && needParents.has(rule)) {
    const message = `${rule} never holds for a task that needs no other; name what it needs or drop the rule`
    faults.push({ code: 'rule_never_holds', pointer: `${at}/rule`, message })
  }
  const parents = new Set([...needs, ...setupsOf(shape)])
  for (const named of shape.when === undefined ? [] : tasksIn(shape.when)) {
    if (parents.has(named)) continue
    const message = `looks at "${named}", which "${id}" does not need; add it to needs`
    faults.push({ code: 'not_a_parent', pointer: `${at}/when`, message })
  }
  return faults
}

/** The tasks that a condition looks at. */
function tasksIn(condition: Condition): string[] {
  const found: string[] = []
  const left = [condition]
  for (let each = left.pop(); each !== undefined; each = left.pop()) {
    if ('all' in each) left.push(...each.all)
    else if ('any' in each) left.push(...each.any)
    else if ('not' in each) left.push(each.not)
    else if ('task' in each) found.push(each.task)
  }
  return found
}

/**
 * The tasks of one circle, each needed by the next. Takes away tasks that need nothing until none is left
 * (Kahn); what stays leads, parent by parent, into a circle.
 */
function findCycle(shapes: readonly TaskShape[], indexes: ReadonlyMap<string, number>): string[] | undefined {
  const parents = shapes.map((shape) => {
    return [...new Set([...shape.needs, ...setupsOf(shape)])].flatMap((id) => indexes.get(id) ?? [])
  })
  const children: number[][] = shapes.map(() => [])
  for (const [child, its] of parents.entries()) for (const parent of its) children[parent]?.push(child)
  const left = parents.map((its) => its.length)
  const free = left.flatMap((count, index) => (count === 0 ? [index] : []))
  const gone = new Set<number>()
  for (let index = free.pop(); index !== undefined; index = free.pop()) {
    gone.add(index)
    for (const child of children[index] ?? []) {
      left[child] = (left[child] ?? 0) - 1
      if (left[child] === 0) free.push(child)
    }
  }
  const start = left.findIndex((_, index) => !gone.has(index))
  if (start < 0) return undefined
  const walked = new Map<number, number>()
  const path: number[] = []
  let at = start
  while (!walked.has(at)) {
    walked.set(at, path.length)
    path.push(at)
    at = parents[at]?.find((parent) => !gone.has(parent)) ?? at
  }
  const circle = path.slice(walked.get(at)).reverse()
  // it begins with the task that stands first in the definition
  const first = circle.indexOf(circle.reduce((low, index) => Math.min(low, index)))
  return [...circle.slice(first), ...circle.slice(0, first)].map((index) => shapes[index]?.id ?? '')
}

/**
 * From a definition as people wrote it to what the rules need, and what is wrong with it beyond its fields.
 * Faults keep it from being stored; warnings go with it.
 */
import { maxForEachItems, type WorkflowDefinition, type WorkflowTask } from '@belfry/contract'
import { placeFaults, repeatedNeeds, unsafePlaces } from './needs-and-places.ts'
import { whyHardly, whyNever } from './never-runs.ts'
import { setupsOf, type TaskRole, type TaskShape } from './plan.ts'
import { untilOf, waitEndsOf } from './task-wait.ts'
import { maxTasks, shapeFaults, type WorkflowFault } from './validate.ts'

export interface WorkflowWarning {
  readonly code:
    | 'needs_default'
    | 'looks_like_cleanup'
    | 'rule_hardly_holds'
    | 'waits_without_end'
    | 'trigger_circle'
    | 'chooses_nothing'
    | 'empty_list'
  readonly pointer: string
  readonly message: string
}

interface Placed {
  readonly task: WorkflowTask
  readonly shape: TaskShape
  readonly pointer: string
}

const parts: readonly (readonly [TaskRole, 'tasks' | 'onFailure' | 'finally'])[] = [
  ['main', 'tasks'],
  ['on_failure', 'onFailure'],
  ['finally', 'finally'],
]

const isMapped = (task: WorkflowTask): boolean => task.forEach !== undefined || task.matrix !== undefined

function placed(definition: WorkflowDefinition): Placed[] {
  return parts.flatMap(([role, part]) =>
    definition[part].map((task, index): Placed => {
      const { id, needs, rule, kind, when, allowFailure, teardownOf } = task
      const waits = waitEndsOf(task)
      const mapped = isMapped(task)
      const shape = { id, role, needs, rule, kind, when, allowFailure, mapped, waits, teardownOf }
      return { task, shape, pointer: `/${part}/${index}` }
    }),
  )
}

/** The tasks of all parts, in the order in which they are numbered. */
export function shapesOf(definition: WorkflowDefinition): readonly TaskShape[] {
  return placed(definition).map(({ shape }) => shape)
}

/** Everything that keeps a definition from being stored. */
export function definitionFaults(definition: WorkflowDefinition): WorkflowFault[] {
  const all = placed(definition)
  // the bound of the fields holds for each part, this one for all of them
  if (all.length > maxTasks || definition.tasks.length === 0)
    return shapeFaults(definition.tasks.length === 0 ? [] : all.map(({ shape }) => shape))
  const faults = shapeFaults(
    all.map(({ shape }) => shape),
    (index) => all[index]?.pointer ?? '',
  )
  const byId = new Map(all.map(({ shape }) => [shape.id, shape]))
  return [
    ...faults,
    ...all.flatMap((each) => [...sourceFaults(each), ...itemFaults(each), ...ownFaults(each, byId)]),
    ...outputFaults(definition, byId),
  ]
}

/** What contradicts itself within one task. */
function ownFaults({ task, shape, pointer }: Placed, byId: ReadonlyMap<string, TaskShape>): WorkflowFault[] {
  const never = whyNever(shape, byId)
  return [
    ...repeatedNeeds(task, pointer),
    ...placeFaults(task, pointer),
    ...unsafePlaces(task.inputFrom, `${pointer}/inputFrom`),
    ...(never === undefined
      ? []
      : [{ code: 'never_runs' as const, pointer: `${pointer}/when`, message: never }]),
  ]
}

/** Outputs come from tasks that are needed: from others it would be chance whether they are there. */
function sourceFaults({ task, pointer }: Placed): WorkflowFault[] {
  const from = task.forEach?.from
  const until = untilOf(task)
  const named = [
    ...(from !== undefined && 'task' in from ? [[from.task, `${pointer}/forEach/from/task`] as const] : []),
    ...(until !== undefined && 'task' in until ? [[until.task, `${pointer}/wait/until/task`] as const] : []),
    ...task.inputFrom.flatMap((mapping, index) =>
      'task' in mapping ? [[mapping.task, `${pointer}/inputFrom/${index}/task`] as const] : [],
    ),
  ]
  const parents = new Set([...task.needs, ...setupsOf(task)])
  const faults = named
    .filter(([parent]) => !parents.has(parent))
    .map(([parent, at]): WorkflowFault => {
      const message = `takes from "${parent}", which "${task.id}" does not need; add it to needs`
      return { code: 'not_a_parent', pointer: at, message }
    })
  const ofItems = [
    ...task.inputFrom.flatMap((mapping, index) =>
      'item' in mapping ? [`${pointer}/inputFrom/${index}/item`] : [],
    ),
    ...(until !== undefined && 'item' in until ? [`${pointer}/wait/until/item`] : []),
  ]
  const message = `"${task.id}" has no items; give it forEach or matrix, or take the value elsewhere`
  const stray = isMapped(task) ? [] : ofItems
  return [...faults, ...stray.map((at): WorkflowFault => ({ code: 'no_items', pointer: at, message }))]
}

/** What is known of items before any run: how many a constant list has, and who could not choose by them. */
function itemFaults({ task: { id, kind, forEach }, shape, pointer }: Placed): WorkflowFault[] {
  const faults: WorkflowFault[] = []
  if (forEach !== undefined && 'items' in forEach.from && forEach.from.items.length > forEach.maxItems) {
    const message =
      `has ${forEach.from.items.length} items; maxItems allows ${forEach.maxItems}, ` +
      `shorten the list or set maxItems (at most ${maxForEachItems})`
    faults.push({ code: 'too_many_items', pointer: `${pointer}/forEach/from/items`, message })
  }
  if (kind !== 'task' && shape.mapped) {
    const message =
      `${kind} chooses once, and "${id}" runs for each item; ` +
      `let a task of its own that needs "${id}" choose`
    faults.push({ code: 'chooses_by_items', pointer: `${pointer}/kind`, message })
  }
  return faults
}

/** What a run gives comes from tasks that there are. */
function outputFaults(definition: WorkflowDefinition, ids: ReadonlyMap<string, TaskShape>): WorkflowFault[] {
  const unknown = definition.outputFrom.flatMap((mapping, index): WorkflowFault[] => {
    if (!('task' in mapping) || ids.has(mapping.task)) return []
    const message = `there is no task "${mapping.task}" in this workflow`
    return [{ code: 'unknown_task', pointer: `/outputFrom/${index}/task`, message }]
  })
  return [...unknown, ...unsafePlaces(definition.outputFrom, '/outputFrom')]
}

/** What is allowed, and yet likely not meant. */
export function definitionWarnings(definition: WorkflowDefinition): WorkflowWarning[] {
  const all = placed(definition)
  const byId = new Map(all.map((each) => [each.task.id, each.task]))
  const shapes = new Map(all.map(({ shape }) => [shape.id, shape]))
  const needed = new Set(all.flatMap(({ shape }) => shape.needs))
  return all.flatMap(({ task, shape, pointer }) => [
    ...missingDefaults(task, pointer, byId),
    ...hardlyHolds(shape, pointer, shapes),
    ...endlessCleanup(task, shape, pointer),
    ...idleChoice(task, pointer, needed),
    ...(shape.role === 'main' && isLooseCleanup(task) && !needed.has(task.id)
      ? [
          {
            code: 'looks_like_cleanup' as const,
            pointer: `${pointer}/rule`,
            message:
              `"${task.id}" runs whatever happened and nothing needs it; as clean-up it belongs into ` +
              'finally, where it also runs after a cancel',
          },
        ]
      : []),
  ])
}

/** Neither a cancel nor a timeout ends what cleans up: the run would stay alive until somebody comes. */
function endlessCleanup(
  { id, approval, wait }: WorkflowTask,
  shape: TaskShape,
  pointer: string,
): WorkflowWarning[] {
  if (shape.role !== 'finally' && setupsOf(shape).length === 0) return []
  const signal = wait !== undefined && 'signal' in wait ? wait : undefined
  const at = approval === undefined ? 'wait' : 'approval'
  const bounded = approval ?? signal
  if (bounded === undefined || bounded.atMostMs !== undefined) return []
  const message = `"${id}" cleans up and may wait for ever, whatever is canceled; give it atMostMs`
  return [{ code: 'waits_without_end', pointer: `${pointer}/${at}`, message }]
}

/**
 * A branch or a short circuit that nothing needs has nothing to choose from; nor has a list without items.
 */
function idleChoice(
  { id, kind, forEach }: WorkflowTask,
  pointer: string,
  needed: ReadonlySet<string>,
): WorkflowWarning[] {
  if (forEach !== undefined && 'items' in forEach.from && forEach.from.items.length === 0) {
    const message = `has no items, so that "${id}" is always skipped; name some, or take the task out`
    return [{ code: 'empty_list', pointer: `${pointer}/forEach/from/items`, message }]
  }
  if (kind === 'task' || needed.has(id)) return []
  const does = kind === 'branch' ? 'chooses among the tasks that need it' : 'skips what follows it'
  const message = `${kind} ${does}, and nothing needs "${id}"; add it to their needs, or leave kind out`
  return [{ code: 'chooses_nothing', pointer: `${pointer}/kind`, message }]
}

function hardlyHolds(
  shape: TaskShape,
  pointer: string,
  byId: ReadonlyMap<string, TaskShape>,
): WorkflowWarning[] {
  const message = whyHardly(shape, byId)
  return message === undefined ? [] : [{ code: 'rule_hardly_holds', pointer: `${pointer}/rule`, message }]
}

const isLooseCleanup = ({ rule, needs, teardownOf }: WorkflowTask): boolean =>
  (rule === 'all_done' || rule === 'always') && needs.length > 0 && teardownOf === undefined

/** A parent that may be skipped by design has no output then. */
function missingDefaults(
  task: WorkflowTask,
  pointer: string,
  byId: ReadonlyMap<string, WorkflowTask>,
): WorkflowWarning[] {
  const sure = task.rule === 'all_succeeded' || (task.needs.length === 1 && task.rule.endsWith('success'))
  return task.inputFrom.flatMap((mapping, index) => {
    if (sure || !('task' in mapping) || mapping.default !== undefined) return []
    if (byId.get(mapping.task)?.when === undefined) return []
    const message = `"${mapping.task}" may be skipped; it has no output then, and "${task.id}" no default`
    return [{ code: 'needs_default', pointer: `${pointer}/inputFrom/${index}`, message }]
  })
}

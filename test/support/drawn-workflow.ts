// Workflows drawn by a seed: any graph, all rules, some tasks that fail. What a run of one has to come to is
// known beforehand: the simulation plays it, and no order of finishing may change it.
import { triggerRules, type WorkflowDefinition, workflowDefinitionSchema } from '@belfry/contract'
import * as rules from '@belfry/server/workflow'
import { type Draw, pick } from './random-draws.ts'

export interface DrawnWorkflow {
  readonly definition: WorkflowDefinition
  /** Parents of each task, by its number. */
  readonly parents: readonly (readonly number[])[]
  /** Ids of tasks whose runs fail. */
  readonly failing: ReadonlySet<string>
  /** How every run of it has to end. */
  readonly expected: {
    readonly run: string
    readonly states: Readonly<Record<string, unknown>>
    /** By id; those that never start are left out. */
    readonly starts: ReadonlyMap<string, number>
  }
}

export interface DrawOptions {
  readonly draw: Draw
  readonly tasks: number
  /** The job of tasks that succeed, and of those that fail. */
  readonly jobs: { readonly works: string; readonly breaks: string }
}

type Part = 'tasks' | 'onFailure' | 'finally'

/** The last two tasks are of `onFailure` and of `finally`. */
export function drawWorkflow({ draw, tasks, jobs }: DrawOptions): DrawnWorkflow {
  const parts: Record<Part, object[]> = { tasks: [], onFailure: [], finally: [] }
  const failing = new Set<string>()
  for (let number = 0; number < tasks; ) {
    const part: Part = number === tasks - 1 ? 'finally' : number === tasks - 2 ? 'onFailure' : 'tasks'
    const breaks = draw(7) === 0
    const id = `t${number}`
    const needs = part === 'tasks' ? parentsOf(draw, number) : []
    const job = breaks ? jobs.breaks : jobs.works
    const more = needs.length === 0 ? {} : { needs, rule: pick(draw, [...triggerRules]) }
    const task = { id, job, allowFailure: draw(5) === 0, ...more }
    const grown = { ...parts, [part]: [...parts[part], task] }
    // one that could never run is refused when it is stored: another is drawn
    if (rules.definitionFaults(workflowDefinitionSchema.parse(grown)).length > 0) continue
    parts[part].push(task)
    if (breaks) failing.add(id)
    number++
  }
  const definition = workflowDefinitionSchema.parse(parts)
  const opened = rules.openWorkflow(rules.shapesOf(definition), definition.failFast)
  if (!opened.ok) throw new Error(opened.error[0].message)
  const outcomes = Object.fromEntries([...failing].map((id) => [id, ['fail_final' as const]]))
  const { progress, run, attempts } = rules.simulate(opened.value, { outcomes })
  return {
    definition,
    parents: opened.value.tasks.map((task) => task.parents),
    failing,
    expected: { run, states: rules.statesByTask(progress), starts: attempts },
  }
}

/** Up to three of those before it, more often near ones. */
function parentsOf(draw: Draw, number: number): string[] {
  const reach = Math.min(number, 12)
  const some = Array.from({ length: Math.min(draw(4), reach) }, () => `t${number - 1 - draw(reach)}`)
  return [...new Set(some)]
}

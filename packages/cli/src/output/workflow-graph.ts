/**
 * A workflow as a picture: lines for the terminal, Mermaid, DOT, or SVG; with how the tasks of one of its
 * runs stand, if that is known. Ids of tasks are the only text from outside, and their letters are safe in
 * each of the forms (contract's `taskIdSchema`).
 */
import type { TaskState } from '@belfry/contract'
import type { WorkflowPlan } from '@belfry/server/workflow'
import { type Paint, toneOf } from './paint.ts'

export const graphFormats = ['text', 'mermaid', 'dot', 'svg'] as const
export type GraphFormat = (typeof graphFormats)[number]

type Task = WorkflowPlan['tasks'][number]
type Layers = readonly (readonly Task[])[]

/** How the tasks of a run stand, by their ids. */
export type TaskStandings = ReadonlyMap<string, TaskStanding>
export interface TaskStanding {
  readonly state: TaskState
  /** Of a task that runs for each item of a list. */
  readonly items: readonly TaskState[] | null
  /** What one that runs no job waits for, in words; null: nothing. */
  readonly waitsFor: string | null
}

export interface GraphLook {
  readonly standings?: TaskStandings | undefined
  readonly paint?: Paint | undefined
}

const usualRule = 'none_failed_min_one_success'

/** "succeeded", "started 3/5", "waits for an approval"; empty for what waits, and where nothing is known. */
function standingOf({ id }: Task, { standings }: GraphLook): string {
  const found = standings?.get(id)
  if (found === undefined || found.state === 'waiting_for_dependencies') return ''
  const { state, items, waitsFor } = found
  if (state === 'started' && waitsFor !== null) return `waits for ${waitsFor}`
  const ended = items?.filter((each) => each !== 'started').length
  return items === null || state !== 'started' ? state : `${state} ${ended}/${items.length}`
}

/** What is said of a task behind its id: what differs from the usual. */
function notesOf(task: Task): string {
  const notes = [
    ...(task.rule === usualRule ? [] : [task.rule]),
    ...(task.kind === 'task' ? [] : [task.kind]),
    ...(task.when === undefined ? [] : ['when']),
    ...(task.mapped ? ['for each'] : []),
    ...(task.allowFailure ? ['may fail'] : []),
    ...(task.teardownOf === undefined ? [] : [`teardown of ${[task.teardownOf].flat().join(', ')}`]),
    ...(task.role === 'main' ? [] : [task.role === 'finally' ? 'finally' : 'on failure']),
  ]
  return notes.length === 0 ? '' : ` (${notes.join(', ')})`
}

/** A workflow as data; state and items where there is a run. */
export interface WorkflowGraph {
  readonly nodes: readonly (Pick<Task, 'id' | 'kind' | 'role' | 'rule' | 'allowFailure'> & {
    /** Whether it runs for each item of a list. */
    readonly forEach: boolean
    readonly state?: TaskState
    readonly items?: readonly TaskState[] | null
  })[]
  readonly edges: readonly { readonly from: string; readonly to: string }[]
}

/** For programs: every task, with its state where there is a run, and what needs what. */
export function graphOf(plan: WorkflowPlan, { standings }: GraphLook = {}): WorkflowGraph {
  return {
    nodes: plan.tasks.map(({ id, kind, role, rule, mapped, allowFailure }) => {
      const found = standings?.get(id)
      const state = found === undefined ? {} : { state: found.state, items: found.items }
      return { id, kind, role, rule, forEach: mapped, allowFailure, ...state }
    }),
    edges: edgesOf(plan).map(([from, to]) => ({ from: from.id, to: to.id })),
  }
}

export function drawWorkflow(
  plan: WorkflowPlan,
  layers: Layers,
  format: GraphFormat,
  look: GraphLook = {},
): string {
  switch (format) {
    case 'text':
      return textOf(plan, layers, look)
    case 'mermaid':
      return mermaidOf(plan, look)
    case 'dot':
      return dotOf(plan, look)
    case 'svg':
      return svgOf(plan, layers, look)
    default:
      return format satisfies never
  }
}

/** Layer by layer; each task with what it waits for. */
function textOf(plan: WorkflowPlan, layers: Layers, look: GraphLook): string {
  const stateOf = (task: Task): string => {
    const words = standingOf(task, look)
    const tone = toneOf(look.standings?.get(task.id)?.state ?? '')
    if (words === '') return ''
    return `: ${tone === undefined || look.paint === undefined ? words : look.paint(words, tone)}`
  }
  const lines = layers.flatMap((layer, number) => {
    const rows = layer.map((task) => {
      const needs = task.parents.map((parent) => plan.tasks[parent]?.id ?? '')
      const behind = needs.length === 0 ? '' : `  ← ${shortList(needs)}`
      return `${task.id}${notesOf(task)}${stateOf(task)}${behind}`
    })
    const mark = `${number + 1}`.padStart(String(layers.length).length)
    return rows.map((row, at) => {
      const side = rows.length === 1 ? '─' : at === 0 ? '┬' : at === rows.length - 1 ? '└' : '├'
      return `${at === 0 ? mark : ' '.repeat(mark.length)} ${side} ${row}`
    })
  })
  return lines.join('\n')
}

const longestList = 8

const shortList = (ids: readonly string[]): string =>
  ids.length <= longestList
    ? ids.join(', ')
    : `${ids.slice(0, longestList).join(', ')} and ${ids.length - longestList} more`

const edgesOf = (plan: WorkflowPlan): (readonly [Task, Task])[] =>
  plan.tasks.flatMap((task) =>
    task.children.flatMap((child) => {
      const other = plan.tasks[child]
      return other === undefined ? [] : [[task, other] as const]
    }),
  )

/** Of the states that are worth a colour; the others are white. */
const fills: Partial<Record<TaskState, string>> = {
  started: '#fff3c4',
  succeeded: '#d3f2d9',
  failed: '#ffd5d2',
  upstream_failed: '#ffe9e7',
  canceled: '#e6e6ee',
  skipped: '#f1f1f5',
  not_run: '#f1f1f5',
}

const fillOf = ({ id }: Task, { standings }: GraphLook): string =>
  fills[standings?.get(id)?.state ?? 'waiting_for_dependencies'] ?? '#fff'

const labelOf = (task: Task, look: GraphLook): string => {
  const state = standingOf(task, look)
  return `${task.id}${notesOf(task)}${state === '' ? '' : `: ${state}`}`
}

function mermaidOf(plan: WorkflowPlan, look: GraphLook): string {
  const nodes = plan.tasks.map((task) => `  t${task.index}["${labelOf(task, look)}"]`)
  const edges = edgesOf(plan).map(([from, to]) => `  t${from.index} --> t${to.index}`)
  const styles =
    look.standings === undefined
      ? []
      : plan.tasks.map((task) => `  style t${task.index} fill:${fillOf(task, look)}`)
  return ['flowchart TD', ...nodes, ...edges, ...styles].join('\n')
}

function dotOf(plan: WorkflowPlan, look: GraphLook): string {
  const fill = (task: Task): string =>
    look.standings === undefined ? '' : `, style="rounded,filled", fillcolor="${fillOf(task, look)}"`
  const nodes = plan.tasks.map((task) => `  "${task.id}" [label="${labelOf(task, look)}"${fill(task)}];`)
  const edges = edgesOf(plan).map(([from, to]) => `  "${from.id}" -> "${to.id}";`)
  const head = ['digraph workflow {', '  node [shape=box, style=rounded];']
  return [...head, ...nodes, ...edges, '}'].join('\n')
}

const box = { width: 180, height: 40, gapX: 24, gapY: 48, margin: 16 }

function svgOf(plan: WorkflowPlan, layers: Layers, look: GraphLook): string {
  const widest = Math.max(...layers.map((layer) => layer.length))
  const width = widest * (box.width + box.gapX) - box.gapX + 2 * box.margin
  const height = layers.length * (box.height + box.gapY) - box.gapY + 2 * box.margin
  const places = new Map<number, { x: number; y: number }>()
  for (const [row, layer] of layers.entries()) {
    const left = (width - layer.length * (box.width + box.gapX) + box.gapX) / 2
    for (const [column, task] of layer.entries()) {
      const x = left + column * (box.width + box.gapX)
      places.set(task.index, { x, y: box.margin + row * (box.height + box.gapY) })
    }
  }
  const placeOf = (task: Task) => places.get(task.index) ?? { x: 0, y: 0 }
  const edges = edgesOf(plan).map(([from, to]) => {
    const [a, b] = [placeOf(from), placeOf(to)]
    const [x1, y1, x2, y2] = [a.x + box.width / 2, a.y + box.height, b.x + box.width / 2, b.y]
    const bend = (y1 + y2) / 2
    return `<path d="M${x1} ${y1}C${x1} ${bend} ${x2} ${bend} ${x2} ${y2}" fill="none" stroke="#667"/>`
  })
  const nodes = plan.tasks.map((task) => {
    const { x, y } = placeOf(task)
    const size = `x="${x}" y="${y}" width="${box.width}" height="${box.height}"`
    const frame = `<rect ${size} rx="6" fill="${fillOf(task, look)}" stroke="#334"/>`
    const middle = `x="${x + box.width / 2}" y="${y + box.height / 2 + 5}" text-anchor="middle"`
    const text = `<text ${middle}>${task.id}</text>`
    return `<g><title>${labelOf(task, look)}</title>${frame}${text}</g>`
  })
  const style = 'font-family="sans-serif" font-size="13"'
  const open = `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" ${style}>`
  return [open, ...edges, ...nodes, '</svg>'].join('\n')
}

/**
 * A workflow as a picture: lines for the terminal, Mermaid, DOT, or SVG. Ids of tasks are the only text from
 * outside, and their letters are safe in each of the forms (contract's `taskIdSchema`).
 */
import type { WorkflowPlan } from '@belfry/server/workflow'

export const graphFormats = ['text', 'mermaid', 'dot', 'svg'] as const
export type GraphFormat = (typeof graphFormats)[number]

type Task = WorkflowPlan['tasks'][number]
type Layers = readonly (readonly Task[])[]

const usualRule = 'none_failed_min_one_success'

/** What is said of a task behind its id: what differs from the usual. */
function notesOf(task: Task): string {
  const notes = [
    ...(task.rule === usualRule ? [] : [task.rule]),
    ...(task.kind === 'task' ? [] : [task.kind]),
    ...(task.when === undefined ? [] : ['when']),
    ...(task.mapped ? ['for each'] : []),
    ...(task.allowFailure ? ['may fail'] : []),
    ...(task.teardownOf === undefined ? [] : [`teardown of ${task.teardownOf}`]),
    ...(task.role === 'main' ? [] : [task.role === 'finally' ? 'finally' : 'on failure']),
  ]
  return notes.length === 0 ? '' : ` (${notes.join(', ')})`
}

export function drawWorkflow(plan: WorkflowPlan, layers: Layers, format: GraphFormat): string {
  switch (format) {
    case 'text':
      return textOf(plan, layers)
    case 'mermaid':
      return mermaidOf(plan)
    case 'dot':
      return dotOf(plan)
    case 'svg':
      return svgOf(plan, layers)
    default:
      return format satisfies never
  }
}

/** Layer by layer; each task with what it waits for. */
function textOf(plan: WorkflowPlan, layers: Layers): string {
  const lines = layers.flatMap((layer, number) => {
    const rows = layer.map((task) => {
      const needs = task.parents.map((parent) => plan.tasks[parent]?.id ?? '')
      return `${task.id}${notesOf(task)}${needs.length === 0 ? '' : `  ← ${shortList(needs)}`}`
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

function mermaidOf(plan: WorkflowPlan): string {
  const nodes = plan.tasks.map((task) => `  t${task.index}["${task.id}${notesOf(task)}"]`)
  const edges = edgesOf(plan).map(([from, to]) => `  t${from.index} --> t${to.index}`)
  return ['flowchart TD', ...nodes, ...edges].join('\n')
}

function dotOf(plan: WorkflowPlan): string {
  const nodes = plan.tasks.map((task) => `  "${task.id}" [label="${task.id}${notesOf(task)}"];`)
  const edges = edgesOf(plan).map(([from, to]) => `  "${from.id}" -> "${to.id}";`)
  const head = ['digraph workflow {', '  node [shape=box, style=rounded];']
  return [...head, ...nodes, ...edges, '}'].join('\n')
}

const box = { width: 180, height: 40, gapX: 24, gapY: 48, margin: 16 }

function svgOf(plan: WorkflowPlan, layers: Layers): string {
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
    const frame = `<rect ${size} rx="6" fill="#fff" stroke="#334"/>`
    const middle = `x="${x + box.width / 2}" y="${y + box.height / 2 + 5}" text-anchor="middle"`
    const text = `<text ${middle}>${task.id}</text>`
    return `<g><title>${task.id}${notesOf(task)}</title>${frame}${text}</g>`
  })
  const style = 'font-family="sans-serif" font-size="13"'
  const open = `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" ${style}>`
  return [open, ...edges, ...nodes, '</svg>'].join('\n')
}

/**
 * `belfry workflow-run get --watch` and `belfry workflow graph --run`: the tasks of a workflow run in the
 * graph of the version that it keeps, as they stand; on a terminal the picture is drawn again as they change,
 * elsewhere, and where it is too long for that, each change is a line behind it.
 */
import type { WorkflowRun, WorkflowRunTask } from '@belfry/contract'
import type { Client } from '@belfry/sdk'
import type { WorkflowPlan } from '@belfry/server/workflow'
import type { Call } from '../command.ts'
import { exitCodes, UsageError } from '../exit-codes.ts'
import {
  drawWorkflow,
  type GraphFormat,
  type GraphLook,
  graphOf,
  type TaskStandings,
} from '../output/workflow-graph.ts'
import { workflowRunShape } from '../output/workflow-run-shapes.ts'
import { timeWords } from '../output/times.ts'
import { isId } from '../resolve-name.ts'
import { invalidWorkflow, loadRules } from './workflow-file.ts'

const lookAgainMs = 500
/** A picture of more lines would not fit, and could not be drawn again. */
const mostLines = 60

type Draw = (format: GraphFormat, look: GraphLook) => string
type Opened = { readonly plan: WorkflowPlan; readonly draw: Draw }
type Tasks = readonly WorkflowRunTask[]

const standingsOf = (tasks: Tasks): TaskStandings =>
  new Map(tasks.map(({ id, state, items, wait }) => [id, { state, items, waitsFor: waitWords(wait) }]))

function waitWords(wait: WorkflowRunTask['wait']): string | null {
  if (wait?.state !== 'waiting') return null
  if (wait.kind === 'approval') return 'an approval'
  if (wait.kind === 'signal') return `the signal ${wait.signal ?? ''}`
  return wait.kind === 'time' ? (wait.dueAt ?? 'its time') : 'the end of another workflow run'
}

/** Shows a run as it stands now: the picture, or for programs the graph. Throws for what is no id. */
export async function showRun(call: Call, id: string, format: GraphFormat): Promise<void> {
  if (!isId(id)) throw new UsageError(`"${id}" is no id of a workflow run; see belfry workflow-run list`)
  const client = await call.client()
  const [run, { tasks }] = await Promise.all([client.workflowRuns.get(id), client.workflowRuns.tasks(id)])
  const { plan, draw } = await openGraph(client, run)
  const look = { standings: standingsOf(tasks), paint: call.printer.paint }
  showGraph(call, graphOf(plan, look), draw(format, look))
}

/** For programs the graph, its ids with `-o name`; for people the picture. */
export function showGraph(call: Call, graph: ReturnType<typeof graphOf>, picture: string): void {
  const ids = graph.nodes.map(({ id }) => id)
  call.printer.value(graph, call.printer.format === 'name' ? ids : [picture])
}

async function openGraph(client: Client, { workflowId, version }: WorkflowRun): Promise<Opened> {
  const rules = await loadRules()
  const definition = await client.workflows.get(workflowId, { version })
  const opened = rules.openWorkflow(rules.shapesOf(definition), definition.failFast)
  if (!opened.ok) throw invalidWorkflow(opened.error)
  const layers = rules.layersOf(opened.value)
  const plan = opened.value
  return { plan, draw: (format, look) => drawWorkflow(plan, layers, format, look) }
}

/** Until the run has ended; answers the exit code. Programs are given the run as it ended, no more. */
export async function watchRun(call: Call, client: Client, id: string): Promise<number | undefined> {
  const shows = call.printer.format === 'table'
  const show = shows ? await openView(call, client, id) : () => undefined
  for (;;) {
    const run = await client.workflowRuns.get(id)
    const { tasks } = await client.workflowRuns.tasks(id)
    show(tasks)
    if (run.endedAt !== null) return sayEnd(call, run)
    await new Promise((resolve) => setTimeout(resolve, lookAgainMs))
  }
}

function sayEnd(call: Call, run: WorkflowRun): number | undefined {
  call.printer.row(run, workflowRunShape)
  if (run.state === 'succeeded') return undefined
  call.printer.say(`The workflow run ended ${run.state}.`, `Next: belfry workflow-run explain ${run.id}`)
  return exitCodes.runDidNotSucceed
}

async function openView(call: Call, client: Client, id: string): Promise<(tasks: Tasks) => void> {
  const { draw } = await openGraph(client, await client.workflowRuns.get(id))
  const { stdout } = call.io
  const { paint } = call.printer
  const lines = draw('text', {}).split('\n').length
  let before: string | undefined
  let tell: ((tasks: Tasks) => void) | undefined
  return (tasks) => {
    if (tell !== undefined) return tell(tasks)
    const picture = `${draw('text', { standings: standingsOf(tasks), paint })}\n`
    // up to where the picture before began, and away with it
    if (before !== undefined && picture !== before) stdout.write(`\u001b[${lines}A\u001b[J`)
    if (picture !== before) stdout.write(picture)
    before = picture
    if (stdout.isTTY !== true || lines > mostLines) tell = tellChanges(call, tasks)
  }
}

/** A line for each task that stands otherwise than when it was last looked at. */
function tellChanges(call: Call, before: Tasks): (tasks: Tasks) => void {
  const known = new Map<string, string>(before.map(({ id, state }) => [id, state]))
  const { clock } = call.printer
  return (tasks) => {
    for (const { id, state, note } of tasks) {
      if (known.get(id) === state) continue
      known.set(id, state)
      const why = note === null ? '' : ` (${note})`
      const time = timeWords(new Date(call.io.now()).toISOString(), clock)
      call.printer.value(undefined, [`${time} ${id} ${state}${why}`])
    }
  }
}

/**
 * One round of the resolver (resolver.ts), inside its transaction: what follows from what happened to the
 * workflow runs that were handed over is decided (workflow-step.ts) and written. What is to be made known
 * after the commit is answered.
 */
import { laneOf, routeOf } from '../domain/route.ts'
import type { Ids } from '../ports/ids.ts'
import type {
  DueWorkflowRuns,
  LockedWorkflowRun,
  NewTaskRun,
  ResolvingTx,
  TaskTemplate,
} from '../ports/workflow-runs.ts'
import type { TaskJob } from '../ports/workflows.ts'
import type { FairTags } from './fair-tags.ts'
import { type Gates, holdGates } from './workflow-gates.ts'
import type { CompiledWorkflow, WorkflowPlans } from './workflow-plans.ts'
import { type Stepped, stepWorkflow } from './workflow-step.ts'
import type { DueWaits } from './workflow-timers.ts'
import { type Aftermath, handOnTurns, waitingTurns } from './workflow-turns.ts'
import { firstDueMs, writeWaiting } from './workflow-waits.ts'

/** Of a round: workflow runs, and events by which they are looked for; each is taken with all of its own. */
export const mostRuns = 500
export const mostEvents = 2_000

export interface RoundParts {
  readonly ids: Ids
  readonly tags: Pick<FairTags, 'next'>
  readonly plans: WorkflowPlans
  readonly timers: DueWaits
  /** Those of which tags are known. */
  readonly lanes: ReadonlySet<string>
}

export interface RoundOutcome {
  readonly moved: number
  /** There is more to do, for all that is known. */
  readonly more: boolean
  readonly startedByQueue: ReadonlyMap<string, number>
  readonly sessions: ReadonlySet<string>
  /** Ends of workflow runs, by their state. */
  readonly endedByState: ReadonlyMap<string, number>
  /** Of each thing that had happened: from then until this round began. */
  readonly waitsMs: readonly number[]
  readonly aftermath: Aftermath
}

/** Tags of these lanes are not known here yet; asking for them may need a connection of its own. */
export class UnknownLanes extends Error {
  readonly lanes: readonly string[]
  constructor(lanes: readonly string[]) {
    super('Tags of lanes are to be read first.')
    this.lanes = lanes
  }
}

/** Decides what follows from what happened, and writes it. */
export async function resolveRound(
  parts: RoundParts,
  due: DueWorkflowRuns,
  tx: ResolvingTx,
): Promise<RoundOutcome> {
  const turns = await waitingTurns(tx.turns, due.runs, due.events)
  const gates = await holdGates(tx.waits, due.runs, turns)
  const wanted = await stepAll(parts, tx, due, gates.placeOf)
  const starts = await newRuns(parts, tx, wanted, due.nowMs)
  const sessions = new Set<string>()
  const goingOn = wanted.filter(({ stepped }) => stepped.goesOn).map(({ run }) => run.id)
  await Promise.all([tx.save(wanted.map(({ stepped }) => stepped.saved)), tx.start(starts), tx.goOn(goingOn)])
  const follows = await finishRound(parts, tx, wanted, gates, due)
  const over = wanted.flatMap(({ run, stepped: { saved } }) => (saved.state === null ? [] : [{ run, saved }]))
  const aftermath = await handOnTurns(tx.turns, over, parts.ids, due.nowMs)
  let canceled = false
  for (const { run, stepped } of wanted) {
    canceled ||= stepped.cancels.length > 0
    for (const session of await tx.cancel(run, stepped.cancels)) sessions.add(session)
  }
  const startedByQueue = new Map<string, number>()
  for (const { queue } of starts) startedByQueue.set(queue, (startedByQueue.get(queue) ?? 0) + 1)
  const endedByState = new Map<string, number>()
  for (const { stepped } of wanted) {
    const { state: end } = stepped.saved
    if (end !== null) endedByState.set(end, (endedByState.get(end) ?? 0) + 1)
  }
  const moved = due.runs.length
  const more =
    follows ||
    aftermath.follows ||
    canceled ||
    goingOn.length > 0 ||
    moved >= mostRuns ||
    due.events.length >= mostEvents
  return { moved, more, startedByQueue, sessions, endedByState, waitsMs: due.waitsMs, aftermath }
}

/** Waits, workflow runs that are tasks, and places behind gates; true where an event came of it. */
async function finishRound(
  { timers, ids }: RoundParts,
  tx: ResolvingTx,
  wanted: readonly Wanted[],
  gates: Gates,
  { events, nowMs }: DueWorkflowRuns,
): Promise<boolean> {
  const moved = wanted.map(({ run, compiled, stepped }) => {
    return { run, compiled, ...stepped, state: stepped.saved.state }
  })
  const told = await writeWaiting(tx.waits, moved, ids, nowMs)
  timers.expect(firstDueMs(moved, nowMs))
  const begun = new Set(events.filter(({ kind }) => kind === 'begin').map((event) => event.workflowRunId))
  const beginning = moved.filter(({ run, state }) => state === null && begun.has(run.id))
  for (const { compiled } of beginning) timers.expect(compiled.timeoutMs ?? Infinity)
  const waiting = beginning.filter(({ run, compiled }) => gates.placeOf(run, compiled) === 'waits')
  const replaced = await gates.replace(waiting.map(({ run, compiled }) => [run, compiled] as const))
  const over = moved.filter(({ state }) => state !== null).map(({ run }) => run)
  return (await gates.handOn(over)) || told || replaced
}

interface Wanted {
  readonly run: LockedWorkflowRun
  readonly compiled: CompiledWorkflow
  readonly stepped: Stepped
}

async function stepAll(
  { plans }: RoundParts,
  tx: ResolvingTx,
  { runs, events }: DueWorkflowRuns,
  placeOf: Gates['placeOf'],
): Promise<readonly Wanted[]> {
  const compiled: CompiledWorkflow[] = []
  for (const run of runs) {
    const its = await plans.load(`${run.workflowId}:${run.version}`, () => tx.version(run))
    if (its === undefined) throw new Error(`There is no version ${run.version} of ${run.workflowId}.`)
    compiled.push(its)
  }
  const asking = runs.filter((_, index) => compiled[index]?.asksForBegin === true)
  const begunWith = await tx.begunWith(asking.map(({ id }) => id))
  const eventsOf = Map.groupBy(events, ({ workflowRunId }) => workflowRunId)
  const wanted: Wanted[] = []
  for (const [index, its] of compiled.entries()) {
    const run = runs[index]
    if (run === undefined) continue
    const outputs = (tasks: readonly number[]) => tx.outputs(run, tasks)
    const subWorkflows = (ids: readonly string[]) => tx.waits.subWorkflows(run.tenantId, ids)
    const place = placeOf(run, its)
    const given = { outputs, begunWith: begunWith.get(run.id), subWorkflows, place }
    const stepped = await stepWorkflow(run, its, eventsOf.get(run.id) ?? [], given)
    wanted.push({ run, compiled: its, stepped })
  }
  return wanted
}

const keyOf = ({ jobId, version }: TaskJob): string => `${jobId}:${version ?? ''}`

async function newRuns(
  { ids, tags, lanes }: RoundParts,
  tx: ResolvingTx,
  wanted: readonly Wanted[],
  nowMs: number,
): Promise<NewTaskRun[]> {
  const all = wanted.flatMap(({ run, compiled, stepped }) =>
    stepped.starts.map((start) => ({ run, compiled, start, job: compiled.taskJobs[start.task] })),
  )
  if (all.length === 0) return []
  const jobs = new Map(all.flatMap(({ job }) => (!job ? [] : [[keyOf(job), job] as const])))
  const found = new Map((await tx.templates([...jobs.values()])).map((each) => [keyOf(each), each]))
  const placed = all.map(({ run, compiled, start, job }) => {
    const template = found.get(job ? keyOf(job) : '')
    if (template === undefined) throw new Error(`A task of the workflow run ${run.id} has no job.`)
    return { run, start, template, ...placeOf(compiled, start.task, template, run) }
  })
  const unknown = [...new Set(placed.map(({ lane }) => lane))].filter((lane) => !lanes.has(lane))
  if (unknown.length > 0) throw new UnknownLanes(unknown)
  return placed.map(({ run, start, template, queue, priority, lane }) => ({
    ...start,
    id: ids.uuidv7(Math.floor(nowMs)),
    workflowRunId: run.id,
    tenantId: run.tenantId,
    template,
    queue,
    priority,
    tag: tags.next({ queue: lane, tenantId: run.tenantId, weight: template.tenantWeight, priority }),
  }))
}

/** What the task says goes before what its job says; that of the run or its workflow stands between them. */
function placeOf(
  compiled: CompiledWorkflow,
  task: number,
  { definition }: TaskTemplate,
  run: LockedWorkflowRun,
) {
  const said = compiled.tasks[task]
  const queue = said?.queue ?? definition.queue
  const asked = run.priority ?? compiled.priority
  const ownPriority = asked === 0 ? definition.priority : asked
  const lane = laneOf(queue, routeOf(definition.handler, run.tenantId))
  return { queue, priority: said?.priority ?? ownPriority, lane }
}

/**
 * Moves workflow runs on: takes in what happened to them and starts what follows.
 *
 *   round: lock workflow runs that have something to do (others pass over them) ─► take their events ─►
 *          decide (workflow-step.ts) ─► write states, runs, cancels: one transaction ─► hints ─► again, until
 *          nothing is left
 *
 * Any number of resolvers may run: a workflow run is moved on by one at a time, and what one has taken in is
 * gone for the others. A round begins with a hint (a run of a task ended, a workflow run was asked for), and
 * by itself: each second while workflow runs came up lately, each ten seconds otherwise. Every minute it
 * looks for ends that nobody told of.
 */
import type { Clock } from '../ports/clock.ts'
import { laneOf, routeOf } from '../domain/route.ts'
import type { EventSink } from '../ports/event-sink.ts'
import type { Hints } from '../ports/hints.ts'
import type { Ids } from '../ports/ids.ts'
import type { Random } from '../ports/random.ts'
import type { Service } from '../ports/service.ts'
import type {
  LockedWorkflowRun,
  NewTaskRun,
  ResolvingTx,
  TaskTemplate,
  WorkflowResolving,
} from '../ports/workflow-runs.ts'
import type { TaskJob } from '../ports/workflows.ts'
import type { FairTags } from './fair-tags.ts'
import { createLoop } from './loop.ts'
import { settledWithin } from './within.ts'
import { type CompiledWorkflow, createWorkflowPlans, type WorkflowPlans } from './workflow-plans.ts'
import { type Stepped, stepWorkflow } from './workflow-step.ts'

const batchSize = 50
const busyPollMs = 1_000
const idlePollMs = 10_000
const busyForMs = 30_000
const mendMs = 60_000
const stopWithinMs = 2_000
const maxLanes = 1_000

export interface ResolverOptions {
  readonly clock: Clock
  readonly random: Random
  readonly events: EventSink
  readonly resolving: WorkflowResolving
  readonly ids: Ids
  readonly hints: Hints
  readonly tags: Pick<FairTags, 'ready' | 'next'>
}

export interface Resolver extends Service {
  /** Rounds until nothing is to be done; answers how many workflow runs were moved on. */
  readonly runOnce: () => Promise<number>
}

/** What a round did, to be made known after its commit. */
interface Round {
  readonly moved: number
  readonly startedByQueue: ReadonlyMap<string, number>
  readonly sessions: ReadonlySet<string>
}

/** Tags of these lanes are not known here yet; asking for them may need a connection of its own. */
class UnknownLanes extends Error {
  readonly lanes: readonly string[]
  constructor(lanes: readonly string[]) {
    super('Tags of lanes are to be read first.')
    this.lanes = lanes
  }
}

interface State {
  readonly options: ResolverOptions
  readonly plans: WorkflowPlans
  readonly lanes: Set<string>
}

export function createResolver(options: ResolverOptions): Resolver {
  const { clock, random, hints } = options
  const state: State = { options, plans: createWorkflowPlans(), lanes: new Set() }
  let busyUntilMs = 0
  let mendAtMs = 0
  let unsubscribe: (() => void) | undefined
  const loop = createLoop({
    name: 'resolver',
    clock,
    random,
    events: options.events,
    async round(signal) {
      if (clock.monotonicMs() >= mendAtMs) {
        await options.resolving.mend()
        mendAtMs = clock.monotonicMs() + mendMs
      }
      if ((await workOff(state, signal)) > 0) busyUntilMs = clock.monotonicMs() + busyForMs
      const pollMs = clock.monotonicMs() < busyUntilMs ? busyPollMs : idlePollMs
      return pollMs * (0.9 + random.next() / 5)
    },
  })
  return {
    name: loop.name,
    runOnce: () => workOff(state),
    async start() {
      unsubscribe = hints.subscribe(({ topic }) => {
        if (topic === 'workflows') loop.wake()
      })
      await loop.start()
    },
    async stop() {
      unsubscribe?.()
      // a round that is under way is safe to leave
      await settledWithin(clock, stopWithinMs, loop.stop())
    },
  }
}

async function workOff(state: State, signal?: AbortSignal): Promise<number> {
  let moved = 0
  while (signal?.aborted !== true) {
    const round = await roundOf(state)
    moved += round.moved
    tell(state.options, round)
    if (round.moved === 0) break
  }
  return moved
}

async function roundOf(state: State): Promise<Round> {
  const { resolving, tags } = state.options
  for (;;) {
    try {
      await tags.ready(state.lanes)
      return await resolving.within((tx) => roundWithin(state, tx))
    } catch (error) {
      if (!(error instanceof UnknownLanes)) throw error
      if (state.lanes.size > maxLanes) state.lanes.clear()
      for (const lane of error.lanes) state.lanes.add(lane)
    }
  }
}

async function roundWithin(state: State, tx: ResolvingTx): Promise<Round> {
  const { runs, events } = await tx.lockDue(batchSize)
  const wanted: { run: LockedWorkflowRun; compiled: CompiledWorkflow; stepped: Stepped }[] = []
  for (const run of runs) {
    const key = `${run.workflowId}:${run.version}`
    const compiled = await state.plans.load(key, () => tx.version(run))
    if (compiled === undefined) throw new Error(`There is no version ${run.version} of ${run.workflowId}.`)
    const its = events.filter((event) => event.workflowRunId === run.id)
    const stepped = await stepWorkflow(run, compiled, its, (tasks) => tx.outputs(run, tasks))
    wanted.push({ run, compiled, stepped })
  }
  const starts = await newRuns(state, tx, wanted)
  const sessions = new Set<string>()
  for (const { stepped } of wanted) await tx.save(stepped.saved, stepped.endedRunIds)
  await tx.start(starts)
  for (const { run, stepped } of wanted)
    for (const session of await tx.cancel(run.id, stepped.cancels)) sessions.add(session)
  const startedByQueue = new Map<string, number>()
  for (const { queue } of starts) startedByQueue.set(queue, (startedByQueue.get(queue) ?? 0) + 1)
  return { moved: runs.length, startedByQueue, sessions }
}

const keyOf = ({ jobId, version }: TaskJob): string => `${jobId}:${version ?? ''}`

async function newRuns(
  { options: { ids, tags }, lanes }: State,
  tx: ResolvingTx,
  wanted: readonly { run: LockedWorkflowRun; compiled: CompiledWorkflow; stepped: Stepped }[],
): Promise<NewTaskRun[]> {
  const all = wanted.flatMap(({ run, compiled, stepped }) =>
    stepped.starts.map((start) => ({ run, compiled, start, job: compiled.taskJobs[start.task] })),
  )
  if (all.length === 0) return []
  const jobs = new Map(all.flatMap(({ job }) => (job === undefined ? [] : [[keyOf(job), job] as const])))
  const found = new Map((await tx.templates([...jobs.values()])).map((each) => [keyOf(each), each]))
  const nowMs = await tx.nowMs()
  const placed = all.map(({ run, compiled, start, job }) => {
    const template = found.get(job === undefined ? '' : keyOf(job))
    if (template === undefined) throw new Error(`A task of the workflow run ${run.id} has no job.`)
    return { run, start, template, ...placeOf(compiled, start.task, template, run.tenantId) }
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

/** What the task says goes before what its job says; the priority of the workflow stands between them. */
function placeOf(compiled: CompiledWorkflow, task: number, { definition }: TaskTemplate, tenantId: string) {
  const said = compiled.tasks[task]
  const queue = said?.queue ?? definition.queue
  const ownPriority = compiled.priority === 0 ? definition.priority : compiled.priority
  const lane = laneOf(queue, routeOf(definition.handler, tenantId))
  return { queue, priority: said?.priority ?? ownPriority, lane }
}

/** A hint to workers, of what was committed. */
function tell({ events, hints }: ResolverOptions, { startedByQueue, sessions }: Round): void {
  for (const [queue, count] of startedByQueue) {
    events.emit('runs_enqueued', { count, queue, source: 'workflow' })
    hints.publish({ topic: 'ready', key: queue })
  }
  for (const session of sessions) hints.publish({ topic: 'cancel', key: session })
}

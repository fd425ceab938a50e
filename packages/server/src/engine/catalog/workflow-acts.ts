/**
 * Acts by hand on a workflow run: a rerun, a mark, a skip. One transaction each:
 *
 *   hold it (one that has ended opens again) ─► judge ─► put tasks back or set them
 *   (domain/workflow/rerun.ts) ─► write their states, the act and a `begin` event ─► a resolver decides what
 *   waits, and starts it
 *
 * So whoever crashes in between has done nothing, and a dry run, whose transaction is taken back, answers the
 * very same. What was asked for before and is under way is not done again.
 */
import type {
  JsonValue,
  TaskState,
  WorkflowActKind,
  WorkflowDefinition,
  WorkflowRunAct,
  WorkflowRunMark,
  WorkflowRunRerun,
  WorkflowRunSkip,
} from '@belfry/contract'
import { BelfryError, maxActTasks, maxKeptActs } from '@belfry/contract'
import { isDeepStrictEqual } from 'node:util'
import { carryOver } from '../../domain/workflow/carry-over.ts'
import { isEnded, restoreProgress, type WorkflowProgress } from '../../domain/workflow/progress.ts'
import { markTasks, type PutBack, rerunWorkflow } from '../../domain/workflow/rerun.ts'
import type { RerunSelection } from '../../domain/workflow/rerun.ts'
import { packItems, packStates, unpackItems, unpackStates } from '../../domain/workflow/stored-states.ts'
import type { Hint } from '../../ports/hints.ts'
import type { HeldWorkflowRun } from '../../ports/workflow-acts.ts'
import { compileWorkflow } from '../workflow-plans.ts'
import { cancelRuns } from './run-canceler.ts'
import { checkedRunInput, refusalNote } from './workflow-input.ts'
import * as checks from './workflow-act-checks.ts'
import { type ActParts, factsAfter, factsOf, type Opened } from './workflow-act-facts.ts'

/** What came of an act, task by task in the order of the version that it goes on with. */
export interface Acted {
  /** False: it was asked for before, and is under way or done. */
  readonly done: boolean
  readonly before: ReadonlyMap<string, TaskState>
  readonly after: WorkflowProgress
  readonly starts: ReadonlySet<number>
  /** Put back or set. */
  readonly reset: ReadonlySet<number>
  readonly marked: ReadonlySet<string>
  /** Of a move to a newer version: both definitions. */
  readonly moved: { readonly from: Version; readonly to: Version } | null
  readonly hints: readonly Hint[]
}

export interface Version {
  readonly version: number
  readonly description: string
  readonly definition: WorkflowDefinition
}

interface Asked {
  readonly act: WorkflowActKind
  readonly what: string
  readonly reason: string | null
  readonly inputChanged: boolean
}

const hint: Hint = { topic: 'workflows', key: 'any' }

export async function rerun(parts: ActParts, held: HeldWorkflowRun, body: WorkflowRunRerun): Promise<Acted> {
  const opened = await open(parts, held)
  const fingerprint = fingerprintOf(body)
  if (isUnderWay(opened, fingerprint)) return nothingDone(opened)
  checks.checkNotStopping(held)
  const before = statesById(opened)
  const { target, moved } = body.version === 'newest' ? await newest(opened) : { target: opened, moved: null }
  const { plan } = target.compiled
  const { what, tasks = [], skip = [] } = body
  checks.checkTaskNames(plan, target.version, 'tasks', tasks)
  checks.checkTaskNames(plan, target.version, 'skip', skip)
  const selection: RerunSelection = what === 'from' || what === 'only' ? { what, tasks } : { what }
  const input = inputOf(target, body, moved !== null)
  const inputChanged = body.input !== undefined && !isDeepStrictEqual(body.input, held.input)
  const done = rerunWorkflow(target.progress, selection, {
    ...(await factsOf(target, input)),
    skip,
    dropItems: inputChanged || moved !== null,
  })
  checkReset(target, done, what, moved !== null)
  checks.checkSkips(plan, skip, done.reset)
  const putBack = [...done.reset].filter((index) => isEnded(stateAt(target.progress, index)))
  await parts.tx.workflows.acts.closeLetters(held.id, putBack)
  const ids = [...done.reset].map((index) => plan.tasks[index]?.id ?? '')
  const asked = { act: 'rerun', what, reason: body.reason ?? null, inputChanged } as const
  const note =
    skip.length === 0 ? '' : `skipped once by ${await parts.tx.workflows.acts.keyName(parts.keyId)}`
  const notes = Object.fromEntries(skip.map((id) => [String(plan.byId.get(id)?.index ?? -1), note]))
  await save(target, done, { asked, tasks: ids, input, notes, lastRerun: { fingerprint, tasks: ids } })
  return actedOf(before, done, { moved, marked: new Set(skip), hints: [hint] })
}

export async function mark(parts: ActParts, held: HeldWorkflowRun, body: WorkflowRunMark): Promise<Acted> {
  return setTasks(await open(parts, held), body, { act: 'mark', reason: body.reason })
}

/** `field`: where the tasks stand in what was sent. */
export async function skip(
  parts: ActParts,
  held: HeldWorkflowRun,
  body: WorkflowRunSkip,
  field: 'tasks' | 'skip' = 'tasks',
): Promise<Acted> {
  const opened = await open(parts, held)
  checks.checkTaskNames(opened.compiled.plan, opened.version, field, body.tasks)
  checks.checkWaiting(opened.progress, body.tasks)
  const set = { tasks: body.tasks, state: 'skipped' } as const
  return setTasks(opened, set, { act: 'skip', reason: body.reason ?? null })
}

async function setTasks(
  opened: Opened,
  { tasks, state, output }: Pick<WorkflowRunMark, 'tasks' | 'state' | 'output'>,
  { act, reason }: Pick<Asked, 'act' | 'reason'>,
): Promise<Acted> {
  const { held, progress, compiled, parts } = opened
  const { plan } = compiled
  checks.checkTaskNames(plan, opened.version, 'tasks', tasks)
  const numbers = tasks.map((id) => plan.byId.get(id)?.index ?? -1)
  const isSet = numbers.every((index) => progress.states[index] === state)
  const given = numbers.map((index) => held.givenOutputs[String(index)])
  if (isSet && (output === undefined || isDeepStrictEqual(given[0], output))) return nothingDone(opened)
  // what keeps a run from its end can be ended by hand, and brings nothing back to life
  const stopping = checks.whyStopping(held)
  if (stopping !== undefined) checks.checkOpen(progress, tasks, stopping)
  const facts = await factsAfter(opened, { tasks, state, output })
  const done = markTasks(progress, tasks, state, { ...facts, isStopping: stopping !== undefined })
  const others = [...done.reset].filter((index) => !numbers.includes(index))
  checks.checkNoneAtWork(progress, others, 'tasks')
  const { acts } = parts.tx.workflows
  const live = await acts.liveRuns(
    held.id,
    numbers.filter((index) => progress.states[index] === 'started'),
  )
  const canceled = live.length === 0 ? [] : await cancelOf(opened, live, state)
  await acts.closeLetters(held.id, numbers)
  const name = await acts.keyName(parts.keyId)
  const words = `${act === 'skip' ? 'skipped once' : `marked ${state}`} by ${name}`
  const note = reason === null ? words : `${words}: ${reason}`
  await save(opened, done, {
    asked: { act, what: state, reason, inputChanged: false },
    tasks,
    input: held.input,
    lastRerun: held.lastRerun,
    notes: Object.fromEntries(numbers.map((index) => [String(index), note])),
    outputs: output === undefined ? {} : { [String(numbers[0])]: output },
  })
  const hints = [hint, ...canceled]
  return actedOf(statesById(opened), done, { moved: null, marked: new Set(tasks), hints })
}

/** Ends what runs of a task that is set by hand; its end is not an end of the task any more. */
async function cancelOf({ parts }: Opened, runIds: readonly string[], state: string): Promise<Hint[]> {
  const { tx } = parts
  const waits = new Set(await tx.workflows.acts.closeWaits(runIds))
  const runs = runIds.filter((id) => !waits.has(id))
  const canceled = await cancelRuns(tx.cancels, runs, `Its task was marked ${state} by hand.`)
  await tx.workflows.acts.forget(runIds)
  return [...canceled.hints]
}

async function open(parts: ActParts, held: HeldWorkflowRun): Promise<Opened> {
  const definition = await parts.tx.workflows.runs.definition(held)
  if (definition === undefined)
    throw new BelfryError('internal', `There is no version ${held.version} of ${held.workflowId}.`)
  const compiled = compileWorkflow({ definition, taskJobs: [] })
  const { items, launched } = unpackItems(held.items)
  const { turn, stop, notes, goneTasks, version } = held
  const progress = restoreProgress(compiled.plan, { states: unpackStates(held.states), items, turn, stop })
  return { parts, held, definition, compiled, progress, launched, notes, goneTasks, version }
}

/** Throws `invalid_request` for one that the version does not take: a new one, or that it had. */
function inputOf(
  { held, definition }: Opened,
  { input }: WorkflowRunRerun,
  isMoved: boolean,
): JsonValue | undefined {
  if (input === undefined && !isMoved && held.notes[refusalNote] === undefined) return held.input
  return checkedRunInput({ name: held.workflowName, definition }, input ?? held.input)
}

/** The same workflow run on the newest version: its tasks are numbered anew, their runs with them. */
async function newest(opened: Opened): Promise<{ target: Opened; moved: Acted['moved'] }> {
  const { held, compiled, progress, parts } = opened
  const { workflows } = parts.tx
  const [found, before] = [
    await workflows.find(held.workflowId),
    await workflows.find(held.workflowId, held.version),
  ]
  if (found === undefined) throw checks.workflowGone()
  if (before === undefined || found.version === held.version) return { target: opened, moved: null }
  checks.checkMayMove(progress)
  const next = compileWorkflow({ definition: found.definition, taskJobs: [] })
  const { items, launched, notes, states, numbers } = carryOver(compiled.plan, next.plan, {
    states: progress.states,
    items: progress.items,
    launched: opened.launched,
    notes: opened.notes,
  })
  const goneTasks = [...held.goneTasks]
  const from: number[] = []
  const to: number[] = []
  const move = (old: number, now: number): void => {
    if (old === now) return
    from.push(old)
    to.push(now)
  }
  for (const [old, now] of numbers.entries())
    move(old, now >= 0 ? now : -goneTasks.push(compiled.plan.tasks[old]?.id ?? ''))
  // one that was gone and is there again gets its runs back
  for (const [place, id] of held.goneTasks.entries()) {
    const back = next.plan.byId.get(id)
    if (back !== undefined) move(-1 - place, back.index)
  }
  await workflows.acts.renumber(held.id, from, to)
  const moved = restoreProgress(next.plan, {
    states: [...states],
    items: new Map(items),
    turn: 'main',
    stop: null,
  })
  const givenOutputs = Object.fromEntries(
    Object.entries(held.givenOutputs).flatMap(([old, value]) => {
      const now = numbers[Number(old)] ?? -1
      return now < 0 ? [] : [[String(now), value] as const]
    }),
  )
  const { definition, version } = found
  const target = { ...opened, held: { ...held, givenOutputs }, definition, compiled: next, progress: moved }
  return {
    target: { ...target, launched, notes, goneTasks, version },
    moved: { from: before, to: found },
  }
}

/** Throws where nothing would run again, or where what would have to is at work. */
function checkReset({ progress }: Opened, done: PutBack, what: string, isMoved: boolean): void {
  const ended = [...done.reset].some((index) => isEnded(stateAt(progress, index)))
  checks.checkNoneAtWork(progress, done.reset, what === 'from' || what === 'only' ? 'tasks' : 'what')
  // a newer version may bring tasks that run for the first time
  if (!ended && !(isMoved && done.commands.length > 0)) throw checks.nothingToRerun(what)
}

const stateAt = ({ states }: WorkflowProgress, index: number): TaskState =>
  states[index] ?? 'waiting_for_dependencies'

interface Written {
  readonly asked: Asked
  readonly tasks: readonly string[]
  readonly input: JsonValue | undefined
  readonly lastRerun: HeldWorkflowRun['lastRerun']
  /** Of tasks that are set. */
  readonly notes?: Readonly<Record<string, string>>
  readonly outputs?: Readonly<Record<string, JsonValue>>
}

/** What was put back loses its note, its items and the output that a person gave it. */
async function save(opened: Opened, { stored, reset, commands }: PutBack, written: Written): Promise<void> {
  const { parts, held, version, goneTasks, definition } = opened
  // a rerun has had its input checked; whatever else is done, one that was refused stays so
  const gone = new Set([...reset].map(String))
  if (written.asked.act === 'rerun') gone.add(refusalNote)
  const without = <Value>(record: Readonly<Record<string, Value>>) =>
    Object.fromEntries(Object.entries(record).filter(([task]) => !gone.has(task)))
  await parts.tx.workflows.acts.save({
    id: held.id,
    version,
    states: packStates(stored.states),
    items: packItems(stored.items, launchedAfter(opened, reset)),
    notes: { ...without(opened.notes), ...written.notes },
    turn: stored.turn,
    stop: stored.stop,
    input: written.input,
    acts: [await actOf(opened, written), ...held.acts].slice(0, maxKeptActs),
    lastRerun: written.lastRerun,
    givenOutputs: { ...without(held.givenOutputs), ...written.outputs },
    goneTasks,
    timeoutMs: definition.timeoutMs ?? null,
    startsNothing: commands.length === 0,
  })
}

/** Of a task that is put back no item was given a run. */
const launchedAfter = ({ launched }: Opened, reset: ReadonlySet<number>): ReadonlyMap<number, number> =>
  new Map([...launched, ...[...reset].map((index) => [index, 0] as const)])

async function actOf({ parts, version }: Opened, { asked, tasks }: Written): Promise<WorkflowRunAct> {
  const { tx, keyId } = parts
  return {
    at: new Date(await tx.nowMs()).toISOString(),
    by: { keyId, name: await tx.workflows.acts.keyName(keyId) },
    tasks: tasks.slice(0, maxActTasks),
    tasksTotal: tasks.length,
    version,
    ...asked,
  }
}

function actedOf(
  before: ReadonlyMap<string, TaskState>,
  { progress, commands, reset }: PutBack,
  rest: Pick<Acted, 'moved' | 'marked' | 'hints'>,
): Acted {
  const starts = new Set(commands.filter(({ kind }) => kind === 'start').map(({ task }) => task.index))
  return { done: true, before, after: progress, starts, reset, ...rest }
}

/** One that had ended stays so. */
async function nothingDone(opened: Opened): Promise<Acted> {
  if (opened.held.reopened) await opened.parts.tx.workflows.acts.letGo(opened.held.id)
  const none = new Set<never>()
  const before = statesById(opened)
  return {
    done: false,
    before,
    after: opened.progress,
    starts: none,
    reset: none,
    marked: none,
    moved: null,
    hints: [],
  }
}

const statesById = ({ compiled, progress }: Opened): ReadonlyMap<string, TaskState> =>
  new Map(compiled.plan.tasks.map(({ id, index }) => [id, stateAt(progress, index)]))

/** The same rerun was the last one, and something that it put back has not ended. */
function isUnderWay({ held, compiled, progress }: Opened, fingerprint: string): boolean {
  if (held.lastRerun?.fingerprint !== fingerprint) return false
  return held.lastRerun.tasks.some((id) => {
    const index = compiled.plan.byId.get(id)?.index
    return index !== undefined && !isEnded(stateAt(progress, index))
  })
}

/** The reason says nothing about what is done. */
function fingerprintOf({ what, tasks = [], skip: skipped = [], input, version }: WorkflowRunRerun): string {
  return JSON.stringify([
    what,
    [...tasks].sort(),
    [...skipped].sort(),
    input ?? null,
    input !== undefined,
    version,
  ])
}

/**
 * Says why a workflow run, or a task of it, is where it is. Read in one transaction: the run, its tasks
 * (domain/workflow/explain-task.ts), and of those that may be the cause the run or the wait; then the runs'
 * own explanations are asked for, each on its own.
 *
 *   a task: from it to its first cause, and what holds or ended that
 *   the workflow run: of all tasks at work the one that is held the most; or what failed first
 *
 * Where that is a task whose own workflow run failed, it goes on in that one, and names it.
 */
import type { RunExplanation, RunVerdict, TaskState, WorkflowVerdict } from '@belfry/contract'
import { causesOf, explainTask, listed, type TaskFacts } from '../../domain/workflow/explain-task.ts'
import type { PlannedTask } from '../../domain/workflow/plan.ts'
import { restoreProgress, type WorkflowProgress } from '../../domain/workflow/progress.ts'
import { unpackItems, unpackStates } from '../../domain/workflow/stored-states.ts'
import type { CatalogTx } from '../../ports/catalog.ts'
import type {
  EndedWait,
  FailedChild,
  NewestTaskRun,
  OpenWait,
  WorkflowRunFacts,
} from '../../ports/workflow-insight.ts'
import { outputsOf } from '../workflow-outputs.ts'
import { compileWorkflow } from '../workflow-plans.ts'
import { childFix, childrenByTask, childWords, mostChildren } from './workflow-children.ts'
import { refusalNote } from './workflow-input.ts'
import { endedWaitWords, waitWords } from './workflow-wait-words.ts'

/** Tasks that are looked at for the one that is the cause. */
const mostLooked = 10

/** What a transaction has seen. */
export interface SeenWorkflow {
  readonly run: WorkflowRunFacts
  readonly facts: TaskFacts
  readonly waits: ReadonlyMap<number, OpenWait>
  readonly endedWaits: ReadonlyMap<number, EndedWait>
  readonly liveRuns: ReadonlyMap<number, string>
  readonly newest: ReadonlyMap<number, NewestTaskRun>
  readonly children: ReadonlyMap<number, readonly FailedChild[]>
  /** The task that was asked for; undefined: the workflow run. */
  readonly subject: PlannedTask | undefined
  /** Those of which one may be the cause. */
  readonly candidates: readonly PlannedTask[]
}

export interface WorkflowExplained {
  readonly task: PlannedTask | null
  readonly verdict: WorkflowVerdict
  readonly message: string
  readonly sinceMs: number | null
  readonly clearsAtMs: number | null
  readonly fix: string | null
  readonly causes: readonly PlannedTask[]
  readonly run: RunExplanation | null
}

/** How to look further, each time in a transaction of its own. */
export interface Further {
  readonly run: (runId: string) => Promise<RunExplanation | undefined>
  readonly workflowRun: (id: string) => Promise<SeenWorkflow | undefined>
}

/** Undefined: there is no such workflow run; a task that it does not have is answered by its absence. */
export async function lookAtWorkflow(
  tx: CatalogTx,
  id: string,
  taskId: string | undefined,
): Promise<SeenWorkflow | 'no_task' | undefined> {
  const { insight, runs, acts } = tx.workflows
  const run = await insight.find(id)
  const definition = run && (await runs.definition(run))
  if (run === undefined || definition === undefined) return undefined
  const { plan, tasks, lookedAt } = compileWorkflow({ definition, taskJobs: [] })
  const { items } = unpackItems(run.items)
  const { turn, stop, notes, input } = run
  const progress = restoreProgress(plan, { states: unpackStates(run.states), items, turn, stop })
  const subject = taskId === undefined ? undefined : plan.byId.get(taskId)
  if (taskId !== undefined && subject === undefined) return 'no_task'
  const outputs = outputsOf(plan, progress, (wanted) => acts.outputs(id, wanted))
  await outputs.load(lookedAt.filter((index) => progress.states[index] === 'succeeded'))
  const counted = new Set((await runs.taskRuns(id)).map((each) => each.task))
  const facts: TaskFacts = {
    progress,
    notes,
    input,
    outputOf: outputs.get,
    whenOf: ({ index }) => tasks[index]?.when,
    hasRuns: ({ index }) => counted.has(index),
  }
  const path = subject === undefined ? undefined : causesOf(subject, facts)
  const candidates = path?.slice(-1) ?? candidatesOf(run, progress)
  const looked = [...new Set([...(path ?? []), ...candidates])].slice(0, 2 * mostLooked)
  const numbers = [...new Set(looked.flatMap((task) => [task.index, ...task.parents.slice(0, mostLooked)]))]
  const [liveRuns, waits, endedWaits, newest, children] = await Promise.all([
    insight.oldestLiveRuns(id, numbers),
    insight.openWaits(id, numbers),
    insight.endedWaits(id, numbers),
    insight.newestRuns(id, numbers),
    insight.failedChildren(id, numbers, mostChildren),
  ])
  return {
    run,
    facts,
    liveRuns,
    waits: new Map(waits.map((wait) => [wait.task, wait])),
    endedWaits: new Map(endedWaits.map((wait) => [wait.task, wait])),
    newest: new Map(newest.map((each) => [each.task, each])),
    children: childrenByTask(children),
    subject,
    candidates,
  }
}

/** Of the workflow run: what is at work, else what waits; of one that is over what went wrong. */
function candidatesOf({ state }: WorkflowRunFacts, { plan, states }: WorkflowProgress): PlannedTask[] {
  const inState = (...wanted: readonly TaskState[]): PlannedTask[] =>
    plan.tasks.filter(({ index }) => wanted.includes(states[index] ?? 'not_run')).slice(0, mostLooked)
  if (state === null) {
    const started = inState('started')
    return started.length > 0 ? started : inState('waiting_for_dependencies').slice(0, 1)
  }
  if (state !== 'failed') return state === 'canceled' ? inState('canceled').slice(0, 1) : []
  const failed = plan.tasks.filter(({ index, allowFailure }) => states[index] === 'failed' && !allowFailure)
  return failed.length > 0 ? failed.slice(0, mostLooked) : inState('upstream_failed', 'canceled').slice(0, 1)
}

export async function explainWorkflow(seen: SeenWorkflow, further: Further): Promise<WorkflowExplained> {
  const whole = seen.subject === undefined ? wholeRun(seen) : undefined
  if (whole !== undefined) return whole
  if (seen.subject !== undefined) return explainSubject(seen, seen.subject, further)
  const looked = await Promise.all(seen.candidates.map((task) => lookAt(seen, task, further)))
  const [first] = looked.sort((a, b) => a.rank - b.rank || (a.sinceMs ?? Infinity) - (b.sinceMs ?? Infinity))
  if (first === undefined) return { ...nothing, verdict: 'ended', ...endOf(seen.run) }
  const told = await withChild(seen, first, further)
  return { ...told, message: `${beginning(seen)}${named(seen, told)}` }
}

/** The task with its state, which the words of its run need not say again. */
function named({ facts }: SeenWorkflow, { task, run, message }: WorkflowExplained): string {
  if (task === null) return message
  const ending = run?.verdict === 'ended' ? `Ended: ${run.state.replace('_', ' ')}.` : ''
  const rest = message.startsWith(ending) ? message.slice(ending.length).trimStart() : message
  return `${listed([task], facts.progress)}${rest === '' ? '.' : `: ${rest}`}`
}

/** Goes on in the first workflow run of a task that did not succeed. */
async function withChild(seen: SeenWorkflow, looked: Looked, further: Further): Promise<Looked> {
  const { task, verdict } = looked
  const children = task === null || verdict !== 'ended' ? undefined : seen.children.get(task.index)
  const [first] = children ?? []
  if (task === null || children === undefined || first === undefined) return looked
  const child = await further.workflowRun(first.childId)
  const inside = child && (await explainWorkflow(child, further))
  const { states, items } = seen.facts.progress
  // how it ended is said in front of it
  const cause = inside?.message.replace(/^Ended:? (?:failed|canceled)\. ?/, '') || null
  return {
    ...looked,
    message: childWords(children, states[task.index], items.get(task.index), cause),
    fix: childFix(first),
    run: inside?.run ?? null,
  }
}

const nothing = { task: null, sinceMs: null, clearsAtMs: null, fix: null, causes: [], run: null }

/** What holds it as a whole, whatever its tasks. */
function wholeRun({ run }: SeenWorkflow): WorkflowExplained | undefined {
  const { waitsFor, createdAtMs, notes } = run
  if (notes[refusalNote] !== undefined)
    return {
      ...nothing,
      verdict: 'no_run',
      message: `No task ran: ${notes[refusalNote]}.`,
      fix: `Rerun it with an input that fits: belfry workflow-run rerun ${run.id} --all --input …`,
      sinceMs: run.endedAtMs ?? createdAtMs,
    }
  if (waitsFor === null) return undefined
  const message =
    waitsFor === 'concurrency'
      ? 'It waits for its turn: as many runs of its workflow are alive as its "concurrency" allows.'
      : 'It waits for its turn: a run of its schedule that came before it is alive.'
  const fix =
    waitsFor === 'concurrency'
      ? 'Wait for one of them to end, cancel one, or raise "concurrency" of the workflow.'
      : 'Cancel that run, or set "overlap" of the schedule to "allow".'
  return { ...nothing, verdict: 'waits_for_turn', message, fix, sinceMs: createdAtMs }
}

function endOf({ state, endedAtMs }: WorkflowRunFacts): Pick<WorkflowExplained, 'message' | 'sinceMs'> {
  const limit =
    ': as many runs as the "concurrency" of its workflow allows were alive, and its "onLimit" is "skip"'
  return { message: `Ended: ${state ?? 'under way'}${state === 'skipped' ? limit : ''}.`, sinceMs: endedAtMs }
}

/** How the workflow run stands, before the task that is the cause is told of. */
function beginning({ run, facts }: SeenWorkflow): string {
  const { state, stop, canceling } = run
  if (state !== null) {
    const why =
      stop === 'timed_out' ? ': it ran out of time' : stop === 'failed_fast' ? ' at the first failure' : ''
    return `Ended ${state}${why}. `
  }
  const started = facts.progress.states.filter((each) => each === 'started').length
  const ending = canceling || stop === 'canceled' ? 'It is being canceled. ' : ''
  const outOfTime = stop === 'timed_out' ? 'It ran out of time and is being ended. ' : ''
  return `${ending}${outOfTime}${started > 1 ? `${started.toLocaleString('en')} tasks are at work. ` : ''}`
}

type Looked = WorkflowExplained & { readonly rank: number }

/** What holds a run the most comes first. */
const ranks: Readonly<Record<RunVerdict, number>> = {
  worker_lost: 0,
  no_worker: 1,
  held: 2,
  waiting_for_run: 3,
  waiting_for_dependencies: 3,
  gathering: 4,
  retry_delay: 4,
  waiting_for_time: 5,
  cancel_requested: 5,
  queued: 6,
  running: 8,
  ended: 9,
}
const waitRank = 7

/** One task by itself, with its run or its wait. */
async function lookAt(seen: SeenWorkflow, task: PlannedTask, further: Further): Promise<Looked> {
  const { facts, waits, liveRuns, newest } = seen
  const base = { ...nothing, task, causes: [task] }
  const state = facts.progress.states[task.index]
  const wait = waits.get(task.index)
  if (state === 'started' && wait !== undefined)
    return {
      ...base,
      ...waitWords(wait),
      fix: fixOfWait(seen, task, waitWords(wait).fix),
      sinceMs: wait.createdAtMs,
      clearsAtMs: wait.dueAtMs,
      rank: waitRank,
    }
  const explained = explainTask(task, facts)
  const past = seen.endedWaits.get(task.index)
  if (past !== undefined && past.state === state && saysLess.has(explained.verdict))
    return {
      ...base,
      verdict: 'ended',
      message: endedWaitWords(past),
      fix: state === 'failed' ? fixOfEndedWait(seen, task) : null,
      sinceMs: past.endedAtMs,
      rank: ranks.ended,
    }
  const runId = state === 'started' ? liveRuns.get(task.index) : newest.get(task.index)?.runId
  const ownEnd = explained.verdict === 'ended' || explained.verdict === 'at_work'
  const run = ownEnd && runId !== undefined ? await further.run(runId) : undefined
  if (run === undefined) {
    const { verdict, message, fix } = explained
    return {
      ...base,
      verdict,
      message,
      fix,
      sinceMs: sinceOf(seen, task),
      rank: verdict === 'ended' ? ranks.ended : 5,
    }
  }
  const times = { sinceMs: msOf(run.since), clearsAtMs: msOf(run.clearsAt) }
  const { verdict } = explained
  return {
    ...base,
    verdict,
    message: run.message,
    fix: fixOf(state, run),
    ...times,
    run,
    rank: ranks[run.verdict],
  }
}

/** What is said of a task from its state alone; how its wait ended says more. */
const saysLess: ReadonlySet<WorkflowVerdict> = new Set(['ended', 'no_items', 'not_chosen', 'stopped'])

const fixOfEndedWait = ({ run }: SeenWorkflow, { id }: PlannedTask): string =>
  `To ask again, rerun it: belfry workflow-run rerun ${run.id} --from ${id}. Or let the others go on ` +
  `without it: belfry workflow-run mark ${run.id} ${id} --as succeeded --reason …`

/** What cleans up is not ended by a cancel, so a person has to be able to. */
function fixOfWait({ run }: SeenWorkflow, { id }: PlannedTask, fix: string | null): string | null {
  const isStopping = run.canceling || run.stop === 'canceled' || run.stop === 'timed_out'
  if (!isStopping) return fix
  const mark = `belfry workflow-run mark ${run.id} ${id} --as skipped --reason …`
  return fix === null ? `End it by hand: ${mark}` : `${fix} Or end it by hand: ${mark}`
}

const msOf = (instant: string | null): number | null => (instant === null ? null : Date.parse(instant))

function fixOf(state: TaskState | undefined, { runId, fix }: RunExplanation): string | null {
  if (state !== 'failed') return fix
  return (
    `See its attempts and logs (belfry run get ${runId}); mend the cause, then rerun what failed, or mark ` +
    'the task where it was done by hand.'
  )
}

async function explainSubject(
  seen: SeenWorkflow,
  subject: PlannedTask,
  further: Further,
): Promise<WorkflowExplained> {
  const whole = wholeRun(seen)
  if (whole !== undefined) return { ...whole, task: subject, causes: [subject] }
  const causes = causesOf(subject, seen.facts)
  const own = explainTask(subject, seen.facts)
  const root = causes.at(-1) ?? subject
  const looked = await withChild(seen, await lookAt(seen, root, further), further)
  if (root === subject) return { ...looked, causes }
  const first = `First cause: ${named(seen, looked)}`
  return {
    ...looked,
    task: subject,
    verdict: own.verdict,
    message: `${own.message} ${first}`,
    fix: looked.fix ?? own.fix,
    sinceMs: sinceOf(seen, subject),
    causes,
  }
}

/** When the last of what it needs ended; else when the workflow run was asked for. */
function sinceOf({ run, newest, children, facts }: SeenWorkflow, task: PlannedTask): number | null {
  const own = newest.get(task.index)?.endedAtMs ?? children.get(task.index)?.[0]?.endedAtMs ?? null
  const state = facts.progress.states[task.index]
  if (state !== 'waiting_for_dependencies') return own
  const ends = task.parents.flatMap((parent) => newest.get(parent)?.endedAtMs ?? [])
  return ends.length === 0 ? run.createdAtMs : Math.max(...ends)
}

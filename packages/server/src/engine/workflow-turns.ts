/**
 * Turns of workflow runs, in the round of a resolver:
 *
 *   - a run of a schedule that waits for the one before it begins when that has ended, one at a time; until
 *     then it stands like one behind a gate (workflow-gates.ts)
 *   - the end of a run begins runs of the workflows that are triggered by it; one whose input does not fit
 *     what its workflow takes is made too, and ends as failed without a task
 *   - a schedule whose last runs all failed is paused, in a transaction of its own: it needs the timer, which
 *     is locked before runs are. Should that be lost, the next failure does it
 */
import type { EventSink } from '../ports/event-sink.ts'
import type { Hints } from '../ports/hints.ts'
import type { Ids } from '../ports/ids.ts'
import type {
  LockedWorkflowRun,
  SavedProgress,
  WorkflowEvent,
  WorkflowResolving,
} from '../ports/workflow-runs.ts'
import type { TurnsTx } from '../ports/workflow-turns.ts'
import { inputOrRefusal } from './catalog/workflow-input.ts'
import { tellPaused } from './failure-pauses.ts'

/** Those of the round that still have to wait. */
export async function waitingTurns(
  tx: TurnsTx,
  runs: readonly LockedWorkflowRun[],
  events: readonly WorkflowEvent[],
): Promise<ReadonlySet<string>> {
  const waiting = runs.filter(({ waits }) => waits).map(({ id }) => id)
  if (waiting.length === 0) return new Set()
  const told = new Set(events.filter(({ kind }) => kind === 'begin').map((event) => event.workflowRunId))
  const asked = waiting.filter((id) => told.has(id))
  const free = asked.length > 0 ? await tx.free(asked) : new Set<string>()
  return new Set(waiting.filter((id) => !free.has(id)))
}

interface Ended {
  readonly run: LockedWorkflowRun
  readonly saved: Pick<SavedProgress, 'state'>
}

export interface Aftermath {
  /** An event came of it. */
  readonly follows: boolean
  /** Schedules of runs that failed. */
  readonly failed: readonly string[]
  /** Schedules of backfills that may go on. */
  readonly backfilled: readonly string[]
}

/** What the ends of these bring about; sent when they are written. */
export async function handOnTurns(
  tx: TurnsTx,
  over: readonly Ended[],
  ids: Ids,
  nowMs: number,
): Promise<Aftermath> {
  if (over.length === 0) return { follows: false, failed: [], backfilled: [] }
  const scheduleIds = schedulesOf(over)
  const given = scheduleIds.length > 0 && (await tx.give(scheduleIds))
  const { triggered, backfilled } = await tx.aftermath(over.map(({ run }) => run.id))
  const begun = triggered.map(({ asked, ...each }) => ({
    ...each,
    id: ids.uuidv7(Math.floor(nowMs)),
    ...(asked === null ? { input: undefined, refusal: null } : inputOrRefusal(asked.schema, asked.input)),
  }))
  if (begun.length > 0) await tx.begin(begun)
  const failed = schedulesOf(over.filter(({ saved }) => saved.state === 'failed'))
  return { follows: given || begun.length > 0, failed, backfilled }
}

const schedulesOf = (over: readonly Ended[]): readonly string[] =>
  [...new Set(over.flatMap(({ run }) => run.scheduleId ?? []))].toSorted()

/** After the commit. */
export async function pauseFailed(
  {
    resolving,
    ...told
  }: {
    readonly resolving: Pick<WorkflowResolving, 'pauseFailing'>
    readonly events: EventSink
    readonly hints: Pick<Hints, 'publish'>
  },
  { failed }: Aftermath,
): Promise<void> {
  if (failed.length > 0) tellPaused(told, await resolving.pauseFailing(failed))
}

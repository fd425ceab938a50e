/**
 * The way of events from whoever ends a run of a task, begins or cancels a workflow run, to the resolver that
 * moves it on. An event is put on record in the transaction of what it tells of, and leaves the record in the
 * transaction that takes it in: so none is lost, none is taken in twice, and a consumer that dies in between
 * has done nothing. What a bus carries is whose turn it is. It may lose that, tell it twice, late or in
 * another order; what is taken in is read from the record, and what nobody was told of is found there.
 */
import type { DueWorkflowRuns, ResolvingTx } from './workflow-runs.ts'

export interface DeliveryLimits {
  readonly runs: number
  /** Events by which workflow runs are looked for; each is handed over with all of its own. */
  readonly events: number
  /** Workflow runs to be left alone for now. */
  readonly without: readonly string[]
}

export interface EventBus {
  /**
   * Hands workflow runs that have something to do to `work`, each to one consumer at a time, with what
   * happened to them; none at all where there is nothing to do. All that `work` writes, and that the events
   * are gone, is one transaction, which commits when `work` resolves. Where it rejects, or its process dies,
   * they come again.
   */
  deliver<T>(limits: DeliveryLimits, work: (due: DueWorkflowRuns, tx: ResolvingTx) => Promise<T>): Promise<T>
  /** Calls `listener` when something may have come, until the returned function is called. May be missed. */
  onArrival(listener: () => void): () => void
}

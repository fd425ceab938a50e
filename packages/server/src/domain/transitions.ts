/**
 * The one table of what a run may become, and when. The guards in SQL, the CHECK constraints, the reference
 * page and the UI say the same; tests compare them. Invariants: nothing follows a terminal state; a run that
 * runs becomes `running` again only by way of `pending`.
 */
import type { RunState, TerminalRunState } from '@belfry/contract'
import { isTerminal, runStates } from '@belfry/contract'

/** Who makes a transition happen. */
type TransitionActor = 'enqueuer' | 'gatekeeper' | 'worker' | 'rescuer' | 'resolver' | 'person'

export interface Transition {
  /** `null`: the run is made. */
  readonly from: RunState | null
  readonly to: RunState
  readonly by: TransitionActor
  /** When it happens, for the reference page. */
  readonly when: string
}

export const transitions = [
  { from: null, to: 'pending', by: 'enqueuer', when: 'it is asked for and waits for nothing but its time' },
  {
    from: null,
    to: 'waiting_for_dependencies',
    by: 'enqueuer',
    when: 'it is asked for and depends on other runs',
  },
  {
    from: 'waiting_for_dependencies',
    to: 'pending',
    by: 'resolver',
    when: 'what it depends on allows it to start',
  },
  { from: 'waiting_for_dependencies', to: 'skipped', by: 'resolver', when: 'its rule can no longer hold' },
  {
    from: 'waiting_for_dependencies',
    to: 'upstream_failed',
    by: 'resolver',
    when: 'something that it depends on failed',
  },
  { from: 'waiting_for_dependencies', to: 'canceled', by: 'person', when: 'it is canceled while it waits' },
  { from: 'pending', to: 'running', by: 'worker', when: 'a worker claims it; an attempt begins' },
  { from: 'pending', to: 'canceled', by: 'person', when: 'it is canceled while it waits' },
  {
    from: 'pending',
    to: 'failed',
    by: 'rescuer',
    when: 'it waits past its time to start or past the deadline of the run',
  },
  { from: 'pending', to: 'skipped', by: 'gatekeeper', when: 'its job is at a limit that skips what comes' },
  { from: 'pending', to: 'canceled', by: 'gatekeeper', when: 'a newer run takes its place at a limit' },
  { from: 'running', to: 'succeeded', by: 'worker', when: 'the handler reports success' },
  {
    from: 'running',
    to: 'failed',
    by: 'worker',
    when: 'an attempt fails and no other may follow: attempts used up, not retryable, or at most once',
  },
  {
    from: 'running',
    to: 'canceled',
    by: 'worker',
    when: 'it was canceled and the attempt ended without success, or its function called it off',
  },
  { from: 'running', to: 'skipped', by: 'worker', when: 'its function had nothing to do' },
  {
    from: 'running',
    to: 'pending',
    by: 'worker',
    when: 'an attempt failed and another may follow, or it was handed back on shutdown',
  },
  {
    from: 'running',
    to: 'pending',
    by: 'rescuer',
    when: 'its worker was lost; it may run again after a pause',
  },
  {
    from: 'running',
    to: 'failed',
    by: 'rescuer',
    when: 'its worker was lost and it may not run again: at most once, or lost three times',
  },
  {
    from: 'running',
    to: 'canceled',
    by: 'rescuer',
    when: 'its worker was lost after a cancel was asked for',
  },
] as const satisfies readonly Transition[]

/** Whether a run in state `from` (`null`: not made yet) may become `to`. */
export function mayBecome(from: RunState | null, to: RunState): boolean {
  return transitions.some((row) => row.from === from && row.to === to)
}

/** The states that may follow `from`, in the order of `runStates`. */
export function successorsOf(from: RunState | null): readonly RunState[] {
  return runStates.filter((to) => mayBecome(from, to))
}

/**
 * The states in which an attempt may leave its run for good: what the CHECK on `attempt.run_state` allows.
 */
export const endStates: readonly TerminalRunState[] = runStates.filter(isTerminal)

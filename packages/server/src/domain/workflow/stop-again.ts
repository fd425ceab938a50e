/**
 * A run that was stopped is stopped again: what still runs, although the stop was to end it, is asked once
 * more. Its request may have missed it, where it moved on at that moment. Pure.
 */
import { endsWhatRuns, type WorkflowCommand, type WorkflowProgress } from './progress.ts'

/** Only what surely ran before the stop: after a timeout `on_failure` tasks start, after a cancel not. */
export function stopAgain({ plan, states, stop, turn }: WorkflowProgress): WorkflowCommand[] {
  if (stop === null || turn === null) return []
  return plan.tasks.flatMap((task): WorkflowCommand[] => {
    const ranBefore = task.role === 'main' || (task.role === 'on_failure' && stop === 'canceled')
    const isMeant = ranBefore && task.setups.length === 0 && states[task.index] === 'started'
    return isMeant && endsWhatRuns(stop, plan, task) ? [{ kind: 'cancel', task }] : []
  })
}

/**
 * The end of a workflow run whose turn never came: it stood behind the limit of its workflow, and was
 * canceled, or is to be skipped. Nothing of it starts, clean-up neither. Pure.
 */
import type { WorkflowProgress } from './progress.ts'

/** Ends a run that has not begun, or has begun again and waits for its turn: nothing of it starts. */
export function dropWorkflow(progress: WorkflowProgress, cause: 'canceled' | null): void {
  for (const { index, role } of progress.plan.tasks) {
    if (progress.states[index] !== 'waiting_for_dependencies') continue
    progress.states[index] = cause === 'canceled' && role === 'main' ? 'canceled' : 'not_run'
  }
  progress.stop = cause
  progress.turn = null
  progress.open = 0
}

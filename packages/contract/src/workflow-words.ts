/**
 * The words of workflows: what a task can be, when it starts, how it ends. The same strings stand in SQL, API
 * bodies, CLI and docs; `server/src/domain/workflow/` gives them their meaning.
 */
import { nearest } from './nearest.ts'

/**
 * When a task starts, judged from its direct parents. The `one_*` rules and `always` start as soon as they
 * hold; every other rule is judged once all parents have ended, so that the order in which they end plays no
 * part. Where a rule does not hold, failure beats skip.
 */
export const triggerRules = [
  'all_succeeded',
  'all_failed',
  'all_done',
  'all_done_min_one_success',
  'all_skipped',
  'one_failed',
  'one_success',
  'one_done',
  'none_failed',
  'none_failed_min_one_success',
  'none_skipped',
  'always',
] as const
export type TriggerRule = (typeof triggerRules)[number]

/** What other systems call a rule that means the same here; nearness of spelling alone would name another. */
const rulesElsewhere: Readonly<Record<string, TriggerRule>> = {
  all_success: 'all_succeeded',
  success: 'all_succeeded',
  'success()': 'all_succeeded',
  one_succeeded: 'one_success',
  none_failed_or_skipped: 'none_failed_min_one_success',
  none_failed_min_one_succeeded: 'none_failed_min_one_success',
  failure: 'one_failed',
  'failure()': 'one_failed',
  'always()': 'always',
}

/** What is said of a rule that there is not. */
export function noRule(given: unknown): string {
  const known = `must be one of ${triggerRules.join(', ')}`
  if (typeof given !== 'string') return known
  const elsewhere = Object.hasOwn(rulesElsewhere, given) ? rulesElsewhere[given] : undefined
  const meant = elsewhere ?? nearest(given, triggerRules)
  return meant === undefined ? known : `${known}; did you mean "${meant}"?`
}

/** The rule of a task that names none: skipped parents do not hold it back, unless all were skipped. */
export const defaultTriggerRule: TriggerRule = 'none_failed_min_one_success'

/**
 * States of a task of a workflow run. `upstream_failed`: it could not start because of a failure above it;
 * `skipped`: it was not meant to run; `not_run`: nothing above it failed, but the run was stopped before it,
 * or it was not among the tasks that were asked for.
 */
export const taskStates = [
  'waiting_for_dependencies',
  'started',
  'succeeded',
  'failed',
  'canceled',
  'skipped',
  'upstream_failed',
  'not_run',
] as const
export type TaskState = (typeof taskStates)[number]
export type EndedTaskState = Exclude<TaskState, 'waiting_for_dependencies' | 'started'>

/** How a task takes part: `branch` chooses among its children, `short_circuit` may skip all that follow. */
export const taskKinds = ['task', 'branch', 'short_circuit'] as const
export type TaskKind = (typeof taskKinds)[number]

/**
 * What one failure does to the rest: nothing, no further start, or also an end of what runs. Clean-up goes on
 * in each case.
 */
export const failFastModes = ['off', 'finish_running', 'cancel_running'] as const
export type FailFastMode = (typeof failFastModes)[number]

/**
 * The words for what a run, an attempt, an occurrence and a schedule can be. The same strings stand in SQL
 * CHECK constraints, API bodies, CLI tables and metrics; `server/src/domain/transitions.ts` says which may
 * follow which.
 */

/** States of a run. Only the last five are terminal. */
export const runStates = [
  'waiting_for_dependencies',
  'pending',
  'running',
  'succeeded',
  'failed',
  'canceled',
  'skipped',
  'upstream_failed',
] as const
export type RunState = (typeof runStates)[number]

export const terminalRunStates = ['succeeded', 'failed', 'canceled', 'skipped', 'upstream_failed'] as const
export type TerminalRunState = (typeof terminalRunStates)[number]

/**
 * How one attempt ended. `lost`: the worker's session ended before it reported, so what the handler did is
 * unknown. `released`: handed back unstarted or on shutdown; neither a failure nor a crash. `expired`: the
 * time of the run was over before the handler was called.
 */
export const attemptOutcomes = [
  'succeeded',
  'failed',
  'timed_out',
  'canceled',
  'lost',
  'released',
  'expired',
  'skipped',
] as const
export type AttemptOutcome = (typeof attemptOutcomes)[number]

/** What became of one planned time. `missed` and `skipped` carry a reason. */
export const occurrenceOutcomes = ['ran', 'skipped', 'missed'] as const
export type OccurrenceOutcome = (typeof occurrenceOutcomes)[number]

/** `completed`: no planned time is left (a spent `at`, or the end bound is reached). */
export const scheduleStates = ['active', 'paused', 'completed'] as const
export type ScheduleState = (typeof scheduleStates)[number]

/**
 * What happens to a planned time while a run of the same schedule is alive: it is skipped, runs beside it,
 * waits (one at most, or all), or takes its place once it has ended, by request or at once.
 */
export const overlapPolicies = [
  'skip',
  'allow',
  'buffer_one',
  'buffer_all',
  'cancel_other',
  'terminate_other',
] as const
export type OverlapPolicy = (typeof overlapPolicies)[number]

/** What becomes of a schedule that has started its last run. */
export const afterCompletions = ['keep', 'delete'] as const
export type AfterCompletion = (typeof afterCompletions)[number]

/** Who asked for a run. */
export const runSources = ['schedule', 'manual', 'trigger', 'backfill', 'replay', 'workflow'] as const
export type RunSource = (typeof runSources)[number]

export const deliveries = ['at_least_once', 'at_most_once'] as const
export type Delivery = (typeof deliveries)[number]

export const handlerKinds = ['http', 'function', 'container', 'lambda'] as const
export type HandlerKind = (typeof handlerKinds)[number]

/**
 * Why a run is in its state where the state alone does not say: kept with the run, shown on every surface.
 * `outcome_unknown`: an at-most-once run whose worker was lost; it may or may not have taken effect.
 * `quarantined`: its worker died three times while running it. `canceled_by_handler`: the function itself
 * called it off. `deadline_exceeded`: the time for the whole run was over. `expired`: its first attempt had
 * not started by the time set for that. `concurrency_limit`: it came while its job was at a limit that
 * skips. `replaced`: a newer run took its place at such a limit. `dependency_failed`,
 * `dependency_skipped`: its rule on the runs that it depends on can no longer hold. In words for people:
 * `reasonWords` (run-reasons.ts).
 */
export const runReasons = [
  'attempts_exhausted',
  'not_retryable',
  'outcome_unknown',
  'quarantined',
  'canceled_by_request',
  'canceled_by_handler',
  'skipped_by_handler',
  'overlap',
  'deadline_exceeded',
  'expired',
  'concurrency_limit',
  'replaced',
  'dependency_failed',
  'dependency_skipped',
] as const
export type RunReason = (typeof runReasons)[number]

/** Why a planned time did not run. */
export const occurrenceReasons = [
  'overlap',
  'buffer_full',
  'asleep',
  'calendar',
  'paused',
  'run_limit',
  'catch_up_latest',
  'catch_up_none',
  'catch_up_window',
] as const
export type OccurrenceReason = (typeof occurrenceReasons)[number]

export function isTerminal(state: RunState): state is TerminalRunState {
  return (terminalRunStates as readonly string[]).includes(state)
}

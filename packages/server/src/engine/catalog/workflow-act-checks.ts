/**
 * What an act by hand on a workflow run is refused for, in typed errors that name the field and what to do
 * instead. Pure.
 */
import { BelfryError, type ErrorDetail, nearest } from '@belfry/contract'
import type { WorkflowPlan } from '../../domain/workflow/plan.ts'
import { atWork } from '../../domain/workflow/rerun.ts'
import { isEnded, type WorkflowProgress } from '../../domain/workflow/progress.ts'
import type { HeldWorkflowRun } from '../../ports/workflow-acts.ts'

const mostNamed = 5

function refusal(code: 'invalid_request' | 'invalid_state', pointer: string, message: string): BelfryError {
  const sentence = `${message.slice(0, 1).toUpperCase()}${message.slice(1)}.`
  return new BelfryError(code, sentence, { errors: [{ pointer, message }] })
}

/** "a, b and 3 more". */
export function someOf(ids: readonly string[]): string {
  const shown = ids.slice(0, mostNamed).map((id) => `"${id}"`)
  const more = ids.length - shown.length
  return more > 0 ? `${shown.join(', ')} and ${more} more` : shown.join(', ')
}

/** Throws `invalid_request` for tasks that the version does not have. */
export function checkTaskNames(
  plan: WorkflowPlan,
  version: number,
  field: 'tasks' | 'skip',
  ids: readonly string[],
): void {
  const errors = ids.flatMap((id, index): ErrorDetail[] => {
    if (plan.byId.has(id)) return []
    const meant = nearest(id, plan.byId.keys())
    const fix = meant === undefined ? 'see the tasks of the workflow run' : `did you mean "${meant}"?`
    return [
      { pointer: `/${field}/${index}`, message: `names no task of version ${version}: "${id}"; ${fix}` },
    ]
  })
  const [first] = errors
  if (first === undefined) return
  const message = `${field} ${first.message}`
  throw new BelfryError('invalid_request', message.endsWith('?') ? message : `${message}.`, { errors })
}

type Stopping = Pick<HeldWorkflowRun, 'reopened' | 'stop' | 'canceling'>

/** In words, why the workflow run is being brought to its end; undefined: it is not. */
export function whyStopping({ reopened, stop, canceling }: Stopping): string | undefined {
  if (reopened) return undefined
  if (canceling || stop === 'canceled') return 'is being canceled'
  return stop === 'timed_out' ? 'has run out of time, and is being ended' : undefined
}

/** Throws `invalid_state` where the workflow run is being brought to its end. */
export function checkNotStopping(run: Stopping): void {
  const why = whyStopping(run)
  if (why === undefined) return
  const message =
    `the workflow run ${why}; wait until it has ended, then do this again: explain says what holds it, and ` +
    'mark ends a task that is at work or waits'
  throw refusal('invalid_state', '/params/id', message)
}

/** Throws `invalid_state` for tasks that have ended: of a run that is being ended they stay as they are. */
export function checkOpen({ plan, states }: WorkflowProgress, ids: readonly string[], why: string): void {
  for (const [index, id] of ids.entries()) {
    const state = states[plan.byId.get(id)?.index ?? -1]
    if (state === undefined || !isEnded(state)) continue
    const message =
      `the workflow run ${why}, and "${id}" has ended ${state}; until the run has ended, only tasks ` +
      `that are ` +
      'at work or wait are marked'
    throw refusal('invalid_state', `/tasks/${index}`, message)
  }
}

/** Throws `invalid_state` where tasks at work would have to be put back. */
export function checkNoneAtWork(before: WorkflowProgress, reset: Iterable<number>, field: string): void {
  const busy = atWork(before, reset)
  if (busy.length === 0) return
  const [verb, them] = busy.length === 1 ? ['is', 'its run'] : ['are', 'their runs']
  const message =
    `${someOf(busy)} ${verb} at work and would have to be put back; wait for the end, cancel ${them}, or ` +
    'cancel the workflow run'
  throw refusal('invalid_state', `/${field}`, message)
}

export function nothingToRerun(what: string): BelfryError {
  const message =
    what === 'failed'
      ? 'nothing in the workflow run failed, was canceled or was left out, save what may fail; name tasks ' +
        'with "what": "from", or run all of them again with "what": "all"'
      : 'none of these tasks has ended, so there is nothing to run again; they run by themselves'
  return refusal('invalid_state', what === 'failed' || what === 'all' ? '/what' : '/tasks', message)
}

/** Throws where a task that is to be skipped does not run by this rerun anyway. */
export function checkSkips(plan: WorkflowPlan, skip: readonly string[], reset: ReadonlySet<number>): void {
  for (const [index, id] of skip.entries()) {
    if (reset.has(plan.byId.get(id)?.index ?? -1)) continue
    const message = `"${id}" is not put back by this rerun, so it does not run anyway; leave it out of skip`
    throw refusal('invalid_request', `/skip/${index}`, message)
  }
}

/** Throws `invalid_state` for tasks that have begun: only what waits can be skipped. */
export function checkWaiting({ plan, states }: WorkflowProgress, ids: readonly string[]): void {
  for (const [index, id] of ids.entries()) {
    const state = states[plan.byId.get(id)?.index ?? -1]
    if (state === 'waiting_for_dependencies' || state === 'skipped') continue
    const now = state === 'started' ? 'is at work' : `has ended ${state ?? ''}`
    const message = `"${id}" ${now}; only what waits is skipped: mark it as skipped instead`
    throw refusal('invalid_state', `/tasks/${index}`, message)
  }
}

/** Throws `invalid_state` where a workflow run whose tasks are at work is to move to another version. */
export function checkMayMove(before: WorkflowProgress): void {
  const busy = atWork(before, before.plan.tasks.keys())
  if (busy.length === 0) return
  const message =
    `${someOf(busy)} ${busy.length === 1 ? 'is' : 'are'} at work, and a workflow run moves to a newer ` +
    'version only between tasks; wait, or rerun on the version that it has ("version": "pinned")'
  throw refusal('invalid_state', '/version', message)
}

export function workflowGone(): BelfryError {
  const message = 'the workflow was deleted, so there is no newest version; use "version": "pinned"'
  return refusal('invalid_state', '/version', message)
}

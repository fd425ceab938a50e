/**
 * What came of an act by hand on a workflow run, as the contract describes it: each task in the order of the
 * version that the run goes on with, and what differs where that is a newer one.
 */
import type { ActEffect, TaskState, WorkflowRunActed } from '@belfry/contract'
import { maxShownChanges } from '@belfry/contract'
import { differences } from '../domain/workflow/diff.ts'
import type { Acted } from '../engine/catalog/workflow-acts.ts'

type ActedTask = WorkflowRunActed['tasks'][number]

export function actedTasks({ before, after, starts, reset, marked }: Acted): ActedTask[] {
  return after.plan.tasks.map(({ id, index }): ActedTask => {
    const was = before.get(id) ?? null
    const state = after.states[index] ?? 'waiting_for_dependencies'
    const put = reset.has(index) || was === null
    return {
      id,
      before: was,
      after: state,
      effect: effectOf(was, state, put, starts.has(index), marked.has(id)),
    }
  })
}

function effectOf(
  before: TaskState | null,
  after: TaskState,
  put: boolean,
  starts: boolean,
  marked: boolean,
): ActEffect {
  if (marked) return 'marked'
  if (starts) return 'starts'
  if (after === 'waiting_for_dependencies') return 'waits'
  return put || before !== after ? 'ends' : 'kept'
}

export function movedView(moved: Acted['moved']): WorkflowRunActed['moved'] {
  if (moved === null) return null
  const changes = differences(moved.from, moved.to)
  const named = (kind: 'added' | 'changed' | 'removed'): string[] => [
    ...new Set(changes.flatMap((change) => (change.kind === kind ? (change.task ?? []) : []))),
  ]
  return {
    from: moved.from.version,
    to: moved.to.version,
    changes: changes.slice(0, maxShownChanges),
    changesTotal: changes.length,
    added: named('added'),
    changed: named('changed'),
    removed: named('removed'),
  }
}

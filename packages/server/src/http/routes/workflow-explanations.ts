/**
 * The endpoint that says why a workflow run, or a task of it, is where it is
 * (engine/catalog/workflow-explainer.ts).
 */
import type { WorkflowRunExplanation } from '@belfry/contract'
import { BelfryError, maxExplainedTasks } from '@belfry/contract'
import type { PlannedTask } from '../../domain/workflow/plan.ts'
import { isEnded } from '../../domain/workflow/progress.ts'
import {
  explainWorkflow,
  lookAtWorkflow,
  type SeenWorkflow,
  type WorkflowExplained,
} from '../../engine/catalog/workflow-explainer.ts'
import type { Endpoints } from '../endpoint.ts'
import { explainRunNow } from '../explain-run-now.ts'
import { noSuchRun } from '../missing.ts'

const isoOrNull = (instantMs: number | null): string | null =>
  instantMs === null ? null : new Date(instantMs).toISOString()

export const workflowExplanationEndpoints: Pick<Endpoints, 'workflowRunExplain'> = {
  workflowRunExplain: {
    as: 'waiting',
    async answer({ params, query, within, watcher }) {
      const seen = await within((tx) => lookAtWorkflow(tx, params.id, query.task))
      if (seen === undefined) throw await within((tx) => noSuchRun(tx, 'workflow run', params.id))
      if (seen === 'no_task') throw noSuchTask(query.task ?? '')
      const explained = await explainWorkflow(seen, {
        run: (runId) => explainRunNow({ within, watcher }, runId),
        async workflowRun(id) {
          const child = await within((tx) => lookAtWorkflow(tx, id, undefined))
          return child === 'no_task' ? undefined : child
        },
      })
      return { body: explanationView(seen, explained) }
    },
  },
}

function noSuchTask(id: string): BelfryError {
  const message = `names no task of the version that the workflow run has: "${id}"; see its tasks`
  return new BelfryError('not_found', `The task ${message}.`, {
    errors: [{ pointer: '/query/task', message }],
  })
}

function explanationView(seen: SeenWorkflow, explained: WorkflowExplained): WorkflowRunExplanation {
  const { run, facts } = seen
  const { progress } = facts
  const { task, verdict, message, sinceMs, clearsAtMs, fix, causes } = explained
  const stateOf = ({ index }: PlannedTask) => progress.states[index] ?? 'waiting_for_dependencies'
  const needs = (task?.parents ?? []).flatMap((index) => progress.plan.tasks[index] ?? [])
  // those that hold it first: what has not succeeded, and of that what has not ended
  const rank = (each: PlannedTask): number =>
    stateOf(each) === 'succeeded' ? 2 : isEnded(stateOf(each)) ? 1 : 0
  return {
    workflowRunId: run.id,
    workflow: run.workflowName,
    version: run.version,
    state: run.state ?? (run.waitsFor === 'concurrency' ? 'pending' : 'running'),
    task: task?.id ?? null,
    taskState: task === null ? null : stateOf(task),
    verdict,
    message,
    since: isoOrNull(sinceMs),
    clearsAt: isoOrNull(clearsAtMs),
    fix,
    needs: needs
      .toSorted((a, b) => rank(a) - rank(b) || a.index - b.index)
      .slice(0, maxExplainedTasks)
      .map((each) => ({ id: each.id, state: stateOf(each) })),
    needsTotal: needs.length,
    causes: causes.map(({ id }) => id),
    run: explained.run,
    now: new Date(run.nowMs).toISOString(),
  }
}

/**
 * Events by way of Postgres alone: the record of them (workflow_event, migration 0022) is also what tells
 * whose turn it is, oldest first. A hint makes that known, and a consumer that missed it comes by itself.
 */
import type { EventBus } from '../ports/event-bus.ts'
import type { Hints } from '../ports/hints.ts'
import type { WorkflowResolving } from '../ports/workflow-runs.ts'

export function createPostgresEventBus(parts: {
  resolving: Pick<WorkflowResolving, 'within'>
  hints: Pick<Hints, 'subscribe'>
}): EventBus {
  const { resolving, hints } = parts
  return {
    deliver: (limits, work) => resolving.within(async (tx) => work(await tx.lockDue(limits), tx)),
    onArrival: (listener) =>
      hints.subscribe(({ topic }) => {
        if (topic === 'workflows') listener()
      }),
  }
}

/**
 * What a task without a job waits for, and what ends that, in words: a decision, a signal, a time, or a
 * workflow run of its own. Pure.
 */
import type { WorkflowVerdict } from '@belfry/contract'
import type { OpenWait } from '../../ports/workflow-insight.ts'

interface WaitWords {
  readonly verdict: WorkflowVerdict
  readonly message: string
  readonly fix: string | null
}

export function waitWords({ id, kind, message, signal, childId }: OpenWait): WaitWords {
  switch (kind) {
    case 'approval':
      return {
        verdict: 'approval',
        message: `It waits for a decision: ${message ?? ''}`.trimEnd(),
        fix: `Decide it: belfry workflow-run approve or reject, approval ${id}.`,
      }
    case 'signal':
      return {
        verdict: 'signal',
        message: `It waits for the signal "${signal ?? ''}".`,
        fix: 'Send it: belfry workflow-run signal, or POST /v1/workflow-runs/{id}/signal.',
      }
    case 'time':
      return { verdict: 'time', message: 'It waits for its time.', fix: null }
    case 'workflow':
      return {
        verdict: 'sub_workflow',
        message: `It waits for its own workflow run ${childId ?? ''} to end.`,
        fix: `See what holds that one: belfry workflow-run explain ${childId ?? ''}.`,
      }
  }
}

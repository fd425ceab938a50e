/**
 * What a task without a job waits for, and what ends that, in words: a decision, a signal, a time, or a
 * workflow run of its own. Pure.
 */
import type { WorkflowVerdict } from '@belfry/contract'
import type { EndedWait, OpenWait } from '../../ports/workflow-insight.ts'

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

/** How it ended: who did that, when, and why. */
export function endedWaitWords(wait: EndedWait): string {
  const { kind, message, signal, item, state, dueAtMs, endedAtMs, endedBy } = wait
  const of = item === null ? '' : ` of item ${item}`
  const asked = kind === 'approval' && message !== null ? ` "${message}"` : ''
  const name = kind === 'signal' ? `The signal "${signal ?? ''}"${of}` : `The approval${of}${asked}`
  const at = `at ${new Date(endedAtMs).toISOString()}`
  const why = wait.reason === null || endedBy === null ? '' : `: ${wait.reason}`
  if (state === 'canceled')
    return `${nameOf(kind, name, of)} was canceled ${at}: ${wait.reason ?? 'no reason'}`
  if (kind === 'time') return `Its time came ${at}.`
  if (endedBy === null) {
    const until = dueAtMs === null ? at : `until ${new Date(dueAtMs).toISOString()}`
    const missing = kind === 'signal' ? 'did not come' : 'was not decided'
    return `${name} ${missing} ${until}; its "onTimeout" says ${state}.`
  }
  if (kind === 'signal') return `${name} came from ${endedBy} ${at}.`
  return `${name} was ${state === 'succeeded' ? 'approved' : 'rejected'} by ${endedBy} ${at}${why}.`
}

const nameOf = (kind: EndedWait['kind'], name: string, of: string): string =>
  kind === 'time' ? `Its wait for a time${of}` : name

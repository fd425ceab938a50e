/**
 * Why a run ended as it did, in sentences, and what can be done about it: the same on every surface. The
 * reasons themselves are worded in the contract (run-reasons.ts).
 */
import { reasonWords } from '@belfry/contract'
import type { RunReason } from '@belfry/contract'
import type { RunInsightFacts } from './facts.ts'

export interface Words {
  readonly message: string
  readonly fix: string | null
}

const logs = 'See what it said: the attempts and their logs.'

/** What can be done after an end for this reason. */
const fixes: Partial<Record<RunReason, string>> = {
  attempts_exhausted:
    'See what it said: the attempts and their logs. Mend the cause, then run it again; more attempts: ' +
    '"retry.maxAttempts" of the job.',
  not_retryable: `${logs} Mend the cause, then run it again.`,
  deadline_exceeded: 'Raise "runDeadlineMs" of the job, or make it faster; then run it again.',
  dependency_failed: 'See the runs that it depends on (dependsOn), mend what failed, and ask for it anew.',
  expired: 'Add workers, or raise "startWithinMs" of the job; then run it again if it still makes sense.',
}

export function endWords(facts: Pick<RunInsightFacts, 'state' | 'reason' | 'tried'>): Words {
  const { state, reason, tried } = facts
  if (state === 'succeeded') return { message: 'Ended: succeeded.', fix: null }
  const why = reason === null ? '' : ` ${reasonWords[reason]}`
  const last = tried.at(-1)
  const error =
    last === undefined || last.number === 0 || last.errorCode === null
      ? ''
      : ` The last attempt ${last.outcome.replace('_', ' ')} with ${last.errorCode}: ` +
        (last.errorMessage ?? '')
  return {
    message: `Ended: ${state.replace('_', ' ')}.${why}${error}`.trimEnd(),
    fix: reason === null ? null : (fixes[reason] ?? null),
  }
}

/**
 * What the reason of a run's end means, in words for people: what happened, and what to do. The same words on
 * every surface that has room for them.
 */
import type { RunReason } from './states.ts'

export const reasonWords: Readonly<Record<RunReason, string>> = {
  attempts_exhausted: 'Every attempt that the retry policy allows has failed.',
  not_retryable: 'It failed in a way that another attempt cannot mend, or that the retry policy excludes.',
  outcome_unknown:
    'Nobody can know whether it took effect: the handler was called once (delivery at_most_once), and its ' +
    'worker was lost or it was cut off before it answered. Belfry will not call it again. Look at the ' +
    'target, by the idempotency key of the run, whether it happened; if it did not, ask for a new run.',
  quarantined:
    'Its worker died three times while running it, so it is not given to another one. Look at what it does ' +
    'to its worker (memory, a crash), mend that, and ask for a new run.',
  canceled_by_request: 'Somebody asked for its cancel.',
  canceled_by_handler: 'The function itself called it off.',
  skipped_by_handler: 'The function itself said that there was nothing for it to do.',
  overlap: 'The next planned time of its schedule took its place, as its overlap policy says.',
  deadline_exceeded: 'The time for the whole run, with all of its attempts, was over before it succeeded.',
  expired: 'Its first attempt had not started by the time set for that, so the handler was never called.',
  concurrency_limit: 'It came while its job was at a limit of runs at once that skips what comes on top.',
  replaced: 'A newer run of its job took its place at a limit of runs at once, as the job says.',
  dependency_failed:
    'A run that it depends on failed, and its rule asks for one that did not. Mend that one, run it again, ' +
    'and ask for this one anew.',
  dependency_skipped: 'The runs that it depends on ended in a way in which its rule leaves it out.',
}

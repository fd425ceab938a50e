/**
 * What is on record of a run that this transaction makes, without reading it back: nobody else has seen it
 * yet, so it waits, and has no attempts. Not for a run that a limit or a pause may hold: what became of that
 * has to be read. test/http/runs.test.ts holds it against what is read.
 */
import type { NewRun, RunRecord } from '../../ports/catalog.ts'

/** `nowMs`: of the transaction. */
export function newRunRecord(run: NewRun, nowMs: number): RunRecord {
  const { id, template, queue, priority, source, scheduleId, scheduledForMs, dueAtMs, input } = run
  const { definition } = template
  const { start } = run
  return {
    id,
    jobId: template.jobId,
    jobName: template.jobName,
    jobVersion: template.jobVersion,
    scheduleId,
    scheduledForMs,
    source,
    state: start.kind === 'waiting' ? 'waiting_for_dependencies' : 'pending',
    reason: null,
    queue,
    priority,
    delivery: definition.delivery,
    runAs: definition.runAs,
    attempts: 0,
    maxAttempts: definition.retry.maxAttempts,
    createdAtMs: nowMs,
    dueAtMs,
    nextAttemptAtMs: start.kind === 'waiting' ? null : dueAtMs,
    startByMs: run.startByMs,
    runDeadlineMs: run.runDeadlineMs,
    startedAtMs: null,
    finishedAtMs: null,
    cancelRequested: false,
    input,
    cancelReason: null,
    replayOf: null,
    replayedAs: null,
    dependsOn:
      start.kind === 'waiting' ? start.runIds.toSorted().map((runId) => ({ runId, state: null })) : [],
    rule: start.kind === 'waiting' ? start.rule : null,
    attemptList: [],
    attemptsEnded: 0,
    present: null,
    afterRunId: null,
    heldSinceMs: null,
    retry: definition.retry,
    nowMs,
  }
}

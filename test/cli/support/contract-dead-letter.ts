// Dead letters as the test server of the contract answers them: every run it has, as if it had failed.
import type { DeadLetter, DeadLetterReplayed, Run } from '@belfry/contract'

const failedAt = '2026-11-29T12:00:00.000Z'

export const deadLetterOf = (run: Run): DeadLetter => ({
  runId: run.id,
  jobId: run.jobId,
  job: run.job,
  jobVersion: run.jobVersion,
  scheduleId: run.scheduleId,
  scheduledFor: run.scheduledFor,
  source: run.source,
  queue: run.queue,
  reason: 'attempts_exhausted',
  errorCode: 'http_500',
  errorMessage: 'the target answered 500 instead of 2xx',
  fingerprint: '9c1f0c2ad07f2b41',
  attempts: 3,
  createdAt: run.createdAt,
  failedAt,
  keptUntil: '2026-12-30T00:00:00.000Z',
  state: 'open',
  replayedAs: null,
  replayedAt: null,
  deletedAt: null,
})

export const replayOf = (run: Run): DeadLetterReplayed => ({
  deadLetter: { ...deadLetterOf(run), state: 'replayed', replayedAs: run.id, replayedAt: failedAt },
  run: { ...run, source: 'replay', replayOf: run.id },
  created: true,
})

export const noGroups = { items: [], groupsTotal: 0, looked: 0, exact: true }

const selection = { count: 0, exact: true, byJob: [], sample: [] }
export const noneCanceled = {
  canceled: 0,
  asked: 0,
  ended: 0,
  nextCursor: null,
  preview: { ...selection, byState: { waiting_for_dependencies: 0, pending: 0, running: 0 } },
}
export const noneReplayed = {
  replayed: 0,
  refused: [],
  nextCursor: null,
  preview: { ...selection, byError: [] },
}
export const noneDeleted = { deleted: 0, nextCursor: null, preview: { ...selection, byError: [] } }

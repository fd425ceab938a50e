// What the test server of the contract makes jobs, runs, attempts and keys of: whole records in the API's
// shapes, with what a test says otherwise.
import { type Attempt, type Job, type Key, type Run, retryPolicySchema } from '@belfry/contract'

/** When everything was made. */
export const madeAt = '2026-11-29T12:00:00.000Z'

let lastId = 0
export function nextId(): string {
  lastId += 1
  return `019ad0c1-0000-7000-8000-${lastId.toString(16).padStart(12, '0')}`
}

export const attempt = (more: Partial<Attempt> = {}): Attempt => ({
  number: 1,
  outcome: 'succeeded',
  startedAt: '2026-11-29T12:00:01.000Z',
  endedAt: '2026-11-29T12:00:01.120Z',
  durationMs: 120,
  error: null,
  httpStatus: 200,
  response: 'ok',
  responseTruncated: false,
  responseHeaders: null,
  responseCapBytes: 16_384,
  result: null,
  retryAt: null,
  workerId: null,
  leaseEpoch: 1,
  progress: null,
  ...more,
})

export const newJob = (name: string, more: Partial<Job>): Job => ({
  id: nextId(),
  name,
  description: '',
  version: 1,
  handler: { kind: 'http', url: 'https://example.com/hook', method: 'POST', headers: {} },
  retry: retryPolicySchema.parse({}),
  attemptTimeoutMs: 60_000,
  runDeadlineMs: null,
  startWithinMs: null,
  delivery: 'at_least_once',
  runAs: null,
  queue: 'default',
  priority: 0,
  debounce: null,
  collect: null,
  concurrency: null,
  rateLimit: null,
  paused: null,
  createdAt: madeAt,
  updatedAt: madeAt,
  ...more,
})

export const newRun = (more: Partial<Run>): Run => {
  const id = nextId()
  return {
    id,
    jobId: nextId(),
    job: 'report',
    jobVersion: 1,
    scheduleId: null,
    scheduledFor: null,
    source: 'manual',
    state: 'pending',
    reason: null,
    queue: 'default',
    priority: 0,
    delivery: 'at_least_once',
    runAs: null,
    attempts: 0,
    maxAttempts: 3,
    idempotencyKey: id,
    createdAt: madeAt,
    dueAt: madeAt,
    nextAttemptAt: null,
    startBy: null,
    runDeadline: null,
    startedAt: null,
    finishedAt: null,
    lateMs: null,
    cancelRequested: false,
    input: null,
    cancelReason: null,
    replayOf: null,
    dependsOn: [],
    rule: null,
    replayedAs: null,
    attemptList: [],
    timeline: [],
    attemptsTotal: more.attemptList?.length ?? 0,
    ...more,
  }
}

export const newKey = (name: string, more: Partial<Key>): Key => ({
  id: nextId(),
  name,
  owner: null,
  prefix: 'blf_abcd',
  scopes: ['read'],
  queues: null,
  createdAt: madeAt,
  expiresAt: null,
  revokedAt: null,
  lastUsedAt: null,
  ...more,
})

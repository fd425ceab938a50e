/**
 * Flags that describe the policies of a job, shared by `job` and by `schedule create`, and what they mean;
 * those of its handler are in handler-flags.ts.
 */
import type { Job } from '@belfry/contract'
import { backoffs, deliveries } from '@belfry/contract'
import type { BodyOf } from '@belfry/sdk'
import type { Call, FlagSpec } from '../command.ts'
import { durationMs } from '../values.ts'
import { handlerFieldFlags } from './handler-flags.ts'
import { given } from './shared.ts'

/** Of a whole run: of a job, and of one run in its stead. */
export const runLimitFlags: readonly FlagSpec[] = [
  {
    name: 'run-deadline',
    value: 'duration',
    summary: 'The whole run with all its tries must be over so long after it was due, or `none`',
  },
  {
    name: 'start-within',
    value: 'duration',
    summary: 'The first try must start so long after the run was due, else it expires, or `none`',
  },
]

export const policyFlags: readonly FlagSpec[] = [
  {
    name: 'max-attempts',
    value: 'count',
    summary: 'Tries in all; 3 if left out. One after a lost worker does not count',
  },
  {
    name: 'backoff',
    value: 'kind',
    choices: backoffs,
    summary: 'How the delay between tries grows',
  },
  { name: 'retry-base', value: 'duration', summary: 'First delay; 1s if left out' },
  { name: 'retry-cap', value: 'duration', summary: 'Longest delay; 5m if left out' },
  {
    name: 'retry-delays',
    value: 'durations',
    summary: 'Delays in turn, such as 10s,1m,10m; the last repeats. Means --backoff list',
  },
  {
    name: 'retry-jitter',
    value: 'kind',
    choices: ['full', 'none'],
    summary: 'full draws each delay between 0 and its limit; none takes the limit',
  },
  {
    name: 'retry-on',
    value: 'codes',
    repeat: true,
    summary:
      'Only try again after these error codes: http_5xx, attempt_timeout, net*; `none` takes them away',
  },
  {
    name: 'never-retry-on',
    value: 'codes',
    repeat: true,
    summary: 'Never try again after these error codes, or `none`',
  },
  { name: 'timeout', value: 'duration', summary: 'Limit of one attempt, such as 30s; 1m if left out' },
  ...runLimitFlags,
  {
    name: 'delivery',
    value: 'kind',
    choices: deliveries,
    summary: 'Promise when a worker dies in the middle of a run',
  },
  { name: 'queue', value: 'name', summary: 'Queue of its runs' },
]

export const runLimitFieldFlags: Readonly<Record<string, string>> = {
  '/runDeadlineMs': '--run-deadline',
  '/startWithinMs': '--start-within',
}

/** Which flag fills which field of a job. */
export const jobFieldFlags: Readonly<Record<string, string>> = {
  ...handlerFieldFlags,
  '/retry/maxAttempts': '--max-attempts',
  '/retry/backoff': '--backoff',
  '/retry/baseMs': '--retry-base',
  '/retry/capMs': '--retry-cap',
  '/retry/delaysMs': '--retry-delays',
  '/retry/jitter': '--retry-jitter',
  '/retry/retryOn': '--retry-on',
  '/retry/neverRetryOn': '--never-retry-on',
  '/attemptTimeoutMs': '--timeout',
  ...runLimitFieldFlags,
  '/delivery': '--delivery',
  '/queue': '--queue',
}

type RetryInput = NonNullable<BodyOf<'jobCreate'>['retry']>

/** The retry policy that the flags describe; undefined when none of them is given. */
export function retryFromFlags(call: Call): RetryInput | undefined {
  const delaysMs = call.flags
    .text('retry-delays')
    ?.split(',')
    .map((text) => durationMs(text.trim(), '--retry-delays'))
  const retry = given({
    maxAttempts: call.flags.whole('max-attempts', 1, 1000),
    backoff: call.flags.choice('backoff', backoffs) ?? (delaysMs === undefined ? undefined : 'list'),
    baseMs: call.flags.durationMs('retry-base'),
    capMs: call.flags.durationMs('retry-cap'),
    delaysMs,
    jitter: call.flags.choice('retry-jitter', ['full', 'none']),
    retryOn: codesFromFlag(call, 'retry-on'),
    neverRetryOn: codesFromFlag(call, 'never-retry-on'),
  })
  return Object.keys(retry).length === 0 ? undefined : retry
}

/** Error codes, repeated or separated by commas; `none` alone is an empty list. */
function codesFromFlag(call: Call, name: string): string[] | undefined {
  const codes = call.flags.list(name).flatMap((text) => text.split(',').map((code) => code.trim()))
  if (codes.length === 0) return undefined
  return codes.length === 1 && codes[0] === 'none' ? [] : codes
}

/** The limits of a whole run that are given; null for one that is `none`. */
export const runLimitsFromFlags = (call: Call): Partial<Pick<Job, 'runDeadlineMs' | 'startWithinMs'>> =>
  given({
    runDeadlineMs: durationOrNone(call, 'run-deadline'),
    startWithinMs: durationOrNone(call, 'start-within'),
  })

const durationOrNone = (call: Call, name: string): number | null | undefined =>
  call.flags.text(name) === 'none' ? null : call.flags.durationMs(name)

/** Policies of a job other than its retries, as far as they are given. */
export const policiesFromFlags = (
  call: Call,
): Partial<Pick<Job, 'attemptTimeoutMs' | 'runDeadlineMs' | 'startWithinMs' | 'delivery' | 'queue'>> => ({
  ...runLimitsFromFlags(call),
  ...given({
    attemptTimeoutMs: call.flags.durationMs('timeout'),
    delivery: call.flags.choice('delivery', deliveries),
    queue: call.flags.text('queue'),
  }),
})

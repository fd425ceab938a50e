/**
 * When a failed attempt is followed by another, and how long a run may take in all: the part of a job's
 * definition that says so, and what its fields must say together.
 */
import { z } from 'zod'
import { durationMsSchema } from './common.ts'

const hourMs = 3_600_000
const longestRunMs = 30 * 24 * hourMs

export const backoffs = ['exponential', 'fixed', 'list'] as const
export type Backoff = (typeof backoffs)[number]

/** Delays in a list; the last one repeats. */
export const maxDelays = 100
/** Error codes in each of the two lists. */
export const maxRetryCodes = 50

/** An error code as it stands with an attempt, or the beginning of some with a `*` behind. */
const errorCodeSchema = z
  .string()
  .min(1)
  .max(128)
  .regex(/^[\w.:-]+\*?$/, {
    error: 'is not an error code; write one such as "http_503", or the beginning of some such as "http_5*"',
  })

const codesMeta =
  'Error codes of attempts, exact or with a trailing `*`: `attempt_timeout`, `connection_refused`, the ' +
  'code that a function throws. An HTTP status counts as `http_status`, `http_503` and `http_5xx`.'

const retryFields = {
  maxAttempts: z.int().min(1).max(1000),
  backoff: z.enum(backoffs),
  baseMs: durationMsSchema(24 * hourMs),
  capMs: durationMsSchema(24 * hourMs),
  delaysMs: z
    .array(durationMsSchema(longestRunMs))
    .max(maxDelays)
    .meta({
      description: `With the backoff \`list\`: 1 to ${maxDelays} delays in turn, of which the last repeats`,
    }),
  jitter: z.enum(['full', 'none']),
  retryOn: z
    .array(errorCodeSchema)
    .max(maxRetryCodes)
    .meta({
      description:
        `Only these are tried again, also where they would be final. ${codesMeta} ` +
        'Empty: whatever may pass',
    }),
  neverRetryOn: z
    .array(errorCodeSchema)
    .max(maxRetryCodes)
    .meta({ description: `These are never tried again; wins over all but a lost worker. ${codesMeta}` }),
}

type Together = {
  backoff?: Backoff | undefined
  delaysMs?: readonly number[] | undefined
  retryOn?: readonly string[] | undefined
  neverRetryOn?: readonly string[] | undefined
}

/** What fields of a policy say together; those that are not given are not judged. */
function checkTogether(
  { backoff, delaysMs, retryOn, neverRetryOn }: Together,
  context: z.core.$RefinementCtx,
): void {
  const fault = (path: (string | number)[], message: string): void =>
    context.addIssue({ code: 'custom', path, message })
  const delays = delaysMs?.length ?? 0
  if (backoff === 'list' && delays === 0)
    fault(['delaysMs'], 'is needed with the backoff "list"; give at least one delay in ms')
  if (backoff !== undefined && backoff !== 'list' && delays > 0)
    fault(['delaysMs'], `has no meaning with the backoff "${backoff}"; leave it out, or choose "list"`)
  for (const [index, code] of (neverRetryOn ?? []).entries()) {
    if (retryOn?.includes(code) === true)
      fault(['neverRetryOn', index], `"${code}" stands in retryOn too; keep it in one of them`)
  }
}

/** Full jitter: the delay is drawn between 0 and min(cap, base × 2^(n−1)), or the one of the list. */
export const retryPolicySchema = z
  .strictObject({
    maxAttempts: retryFields.maxAttempts.default(3),
    backoff: retryFields.backoff.default('exponential'),
    baseMs: retryFields.baseMs.default(1_000),
    capMs: retryFields.capMs.default(300_000),
    delaysMs: retryFields.delaysMs.default([]),
    jitter: retryFields.jitter.default('full'),
    retryOn: retryFields.retryOn.default([]),
    neverRetryOn: retryFields.neverRetryOn.default([]),
  })
  .superRefine(checkTogether)
  .meta({ id: 'RetryPolicy' })
export type RetryPolicy = z.infer<typeof retryPolicySchema>

/** A change of some fields; how they fit those that stay is judged where both are known. */
export const retryChangeSchema = z.strictObject(retryFields).partial().superRefine(checkTogether)

/** Limits of a whole run, both counted from its due time; null: none. */
export const runLimitFields = {
  runDeadlineMs: durationMsSchema(longestRunMs, 1_000)
    .nullable()
    .meta({
      description:
        'The whole run, with all its attempts, must be over so long after it was due: no attempt starts ' +
        'later, one that runs is cut off, and the run ends `failed` with the reason `deadline_exceeded`',
    }),
  startWithinMs: durationMsSchema(longestRunMs, 1_000)
    .nullable()
    .meta({
      description:
        'The first attempt must start so long after the run was due; else it is never called, and the run ' +
        'ends `failed` with the reason `expired`',
    }),
}

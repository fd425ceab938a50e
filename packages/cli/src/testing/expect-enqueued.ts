/**
 * `expectEnqueued`: that a run of a job was asked for, with an input that holds at least this. For any test
 * runner: it throws an Error that says what was enqueued instead.
 */
import { isDeepStrictEqual } from 'node:util'
import type { AnyJob } from '@belfry/sdk'
import type { EnqueuedRun } from './inline-attempt.ts'
import type { InlineBelfry } from './inline-belfry.ts'

/** Answers the newest run that fits. */
export function expectEnqueued(
  belfry: Pick<InlineBelfry, 'runs'>,
  job: Pick<AnyJob, 'name'>,
  input?: unknown,
): EnqueuedRun {
  const ofJob = belfry.runs().filter((run) => run.job === job.name)
  const fitting = ofJob.filter((run) => input === undefined || holds(run.input, input))
  const found = fitting.at(-1)
  if (found !== undefined) return found
  const wanted = input === undefined ? '' : ` with ${JSON.stringify(input)}`
  const instead =
    ofJob.length === 0
      ? `There is none of that job; of others: ${
          belfry
            .runs()
            .map((run) => run.job)
            .join(', ') || 'none'
        }.`
      : `There were: ${ofJob.map((run) => JSON.stringify(run.input)).join('; ')}.`
  throw new Error(`No run of "${job.name}"${wanted} was enqueued. ${instead}`)
}

/** Whether a value has all that is wanted; objects may have more. */
function holds(value: unknown, wanted: unknown): boolean {
  const both = [value, wanted].every(
    (each) => typeof each === 'object' && each !== null && !Array.isArray(each),
  )
  if (!both) return isDeepStrictEqual(value, wanted)
  const has = value as Record<string, unknown>
  return Object.entries(wanted as Record<string, unknown>).every(([key, each]) => holds(has[key], each))
}

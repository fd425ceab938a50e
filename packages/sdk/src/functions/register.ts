/**
 * Storing the jobs of functions. Many processes with the same definitions start at once, so one may find that
 * another has just made a job, or is about to change it: then it looks again.
 */
import type { FunctionRegistered } from '@belfry/contract'
import { BelfryError } from '@belfry/contract'
import { checkArgument, jobs as jobsRule } from '../check-input.ts'
import type { CallOptions } from '../route-types.ts'
import type { Requester } from '../requester.ts'
import { pause } from '../transport.ts'
import type { AnyJob } from './define-job.ts'

const tries = 5

/** Throws as the call does; `name_taken` where a job of this name has another handler. */
export async function registerJobs(
  requester: Requester,
  jobs: readonly AnyJob[],
  options: CallOptions = {},
): Promise<FunctionRegistered> {
  checkArgument('register', '/jobs', jobs, jobsRule)
  const body = { jobs: jobs.map(({ registration }) => registration) }
  for (let left = tries - 1; ; left--) {
    try {
      return await requester.request('functionRegister', { ...options, body })
    } catch (error) {
      const isRace = error instanceof BelfryError && races.has(error.code)
      if (!isRace || left === 0) throw error
      await pause(50 + Math.random() * 200, options.signal)
    }
  }
}

const races: ReadonlySet<string> = new Set(['name_taken', 'serialization_conflict'])

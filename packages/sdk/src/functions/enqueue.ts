/**
 * Asking for a run of a job that is defined in code: the input is checked here, so that what cannot run is
 * refused where it comes from.
 */
import type { RunCreate } from '@belfry/contract'
import { BelfryError } from '@belfry/contract'
import type { CallOptions } from '../route-types.ts'
import type { AnyJob } from './define-job.ts'
import { checkAgainst, faultWords } from './standard-schema.ts'

export interface EnqueueOptions extends CallOptions {
  /** Not before; now if left out. */
  readonly runAt?: Date | string | undefined
  /** Instead of the job's. */
  readonly queue?: string | undefined
  readonly priority?: number | undefined
}

/** The input may be left out where the job takes none. */
export type EnqueueArguments<Input> = undefined extends Input
  ? [input?: Input, options?: EnqueueOptions]
  : [input: Input, options?: EnqueueOptions]

export type EnqueueRequest = CallOptions & { readonly body: RunCreate }

/** Throws `invalid_request`, with pointers below `/input`. */
export async function enqueueRequest(
  job: AnyJob,
  input: unknown,
  options: EnqueueOptions = {},
): Promise<EnqueueRequest> {
  const { runAt, queue, priority, ...call } = options
  const checked = await checkAgainst(job.input, input)
  if ('faults' in checked) {
    const errors = checked.faults.map(({ pointer, message }) => ({ pointer: `/input${pointer}`, message }))
    const words = faultWords(checked.faults)
    throw new BelfryError('invalid_request', `The input does not fit the job "${job.name}": ${words}.`, {
      errors,
    })
  }
  // as it was given: the schema is applied once more before the run
  const body = {
    job: job.name,
    input: input as RunCreate['input'],
    runAt: runAt instanceof Date ? runAt.toISOString() : runAt,
    queue,
    priority,
  }
  return { ...call, body }
}

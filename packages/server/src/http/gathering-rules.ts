/**
 * What a definition that debounces or collects must hold to beyond its schema: one of the two, and no
 * schedule that would hand a run of its own to a function that takes lists.
 */
import type { JobDefinition } from '@belfry/contract'
import { BelfryError } from '@belfry/contract'

/**
 * Throws `invalid_request`. `user`: a schedule that uses the job; `pointer`: where the definition stands in
 * the
 * body.
 */
export function checkGathering(
  { debounce, collect }: Pick<JobDefinition, 'debounce' | 'collect'>,
  user: string | undefined,
  pointer = '',
): void {
  if (collect === null) return
  const refuse = (message: string): never => {
    throw new BelfryError('invalid_request', `The job cannot collect: it ${message}.`, {
      errors: [{ pointer: `${pointer}/collect`, message }],
    })
  }
  if (debounce !== null) refuse('stands beside debounce; keep one of them and set the other to null')
  if (user !== undefined)
    refuse(
      `is used by the schedule "${user}", whose planned times are runs of their own; use another job there`,
    )
}

/** Throws `invalid_request` for a job that a schedule cannot use. */
export function checkSchedulable({ collect }: Pick<JobDefinition, 'collect'>, name: string): void {
  if (collect === null) return
  const message = `collects inputs of requests; a planned time is a run of its own: use one without "collect"`
  throw new BelfryError('invalid_request', `The job "${name}" ${message}.`, {
    errors: [{ pointer: '/job', message }],
  })
}

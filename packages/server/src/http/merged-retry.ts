/**
 * A retry policy after a change of some of its fields: what was fine by itself may not fit what stays. For
 * whoever changes a job: its own route, and workers that register their functions.
 */
import type { JobUpdate, RetryPolicy } from '@belfry/contract'
import { BelfryError, retryPolicySchema } from '@belfry/contract'

/**
 * Throws `invalid_request`, with pointers below `pointer`, where it does not hold together. A change to
 * another backoff than `list` drops the delays of the list.
 */
export function mergedRetry(
  before: Partial<RetryPolicy>,
  change: JobUpdate['retry'],
  pointer: string,
): RetryPolicy {
  const given = Object.fromEntries(Object.entries(change ?? {}).filter(([, value]) => value !== undefined))
  const leavesList = change?.backoff !== undefined && change.backoff !== 'list'
  const { data, error } = retryPolicySchema.safeParse({
    ...before,
    ...(leavesList ? { delaysMs: [] } : {}),
    ...given,
  })
  if (data !== undefined) return data
  const errors = error.issues.map(({ path, message }) => ({
    pointer: [pointer, ...path].map(String).join('/'),
    message,
  }))
  const words = errors.map((fault) => `${fault.pointer} ${fault.message}`).join('; ')
  throw new BelfryError('invalid_request', `The retry policy would not hold together: ${words}.`, { errors })
}

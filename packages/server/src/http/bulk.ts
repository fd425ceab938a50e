/**
 * What operations on many share: the place where a step goes on, and the check that no more is taken than the
 * preview counted. A step is one transaction; whoever repeats it, or begins anew, finds what is left.
 */
import type { JobCount } from '@belfry/contract'
import { BelfryError, maxBulkBreakdown, maxBulkCounted } from '@belfry/contract'
import type { ListScope, PositionReader } from './cursor.ts'
import { readCursor } from './cursor.ts'

export interface BulkAsked {
  readonly cursor?: string | undefined
  readonly expectedCount?: number | undefined
}

/** Where this step begins; null: at the newest. Throws `invalid_cursor`. */
export function readStep<Position>(
  scope: ListScope,
  { cursor }: BulkAsked,
  read: PositionReader<Position>,
): Position | null {
  return readCursor(scope, cursor, read, '/cursor')
}

/**
 * Throws `precondition_failed` where a first step would begin to take more than was expected. `count` is not
 * asked for otherwise.
 */
export async function refuseMore(
  { cursor, expectedCount }: BulkAsked,
  count: () => Promise<{ readonly total: number; readonly isWhole: boolean }>,
): Promise<void> {
  if (expectedCount === undefined || cursor !== undefined) return
  const { total, isWhole } = await count()
  if (isWhole && total <= expectedCount) return
  const found = isWhole ? `${total}` : `more than can be counted (the look ends after ${maxBulkCounted})`
  const fix = isWhole ? 'look again with ?dryRun=true' : 'leave it out, or narrow the filter'
  const message = `is ${expectedCount}, but ${found} match now; nothing was done: ${fix}`
  throw new BelfryError('precondition_failed', `The expected count ${message}.`, {
    errors: [{ pointer: '/expectedCount', message }],
  })
}

interface Counted {
  readonly jobId: string
  readonly jobName: string
  readonly count: number
}

export const sumOf = (tallies: readonly { readonly count: number }[]): number =>
  tallies.reduce((sum, { count }) => sum + count, 0)

/** The jobs with the most of them, most first. */
export function jobCounts(tallies: readonly Counted[], most = maxBulkBreakdown): JobCount[] {
  const counts = new Map<string, JobCount>()
  for (const { jobId, jobName, count } of tallies) {
    const known = counts.get(jobId)
    counts.set(jobId, { jobId, job: jobName, count: count + (known?.count ?? 0) })
  }
  return [...counts.values()].sort((a, b) => b.count - a.count).slice(0, most)
}

/**
 * Waits until a backfill is over: every planned time was looked at and every run of it has ended, or it was
 * canceled.
 */
import type { Backfill } from '@belfry/contract'
import { isBackfillOver } from '@belfry/contract'
import type { Requester } from './requester.ts'
import type { WaitUntilOptions } from './wait-until-over.ts'
import { waitUntilOver } from './wait-until-over.ts'

/** Resolves with the backfill, however it ended. Throws `wait_timeout`, or the signal's reason. */
export function waitForBackfill(
  requester: Requester,
  id: string,
  options: WaitUntilOptions<Backfill> = {},
): Promise<Backfill> {
  const backfill = {
    read: () => requester.request('backfillGet', { params: { id }, signal: options.signal }),
    isOver: ({ state }: Backfill) => isBackfillOver(state),
    mark: ({ state, started, skipped, alive }: Backfill) => `${state} ${started} ${skipped} ${alive}`,
    lateWords: (last: Backfill | undefined) =>
      `Backfill ${id} is still ${last?.state ?? 'unknown'}; wait longer or look later.`,
  }
  return waitUntilOver(backfill, options)
}

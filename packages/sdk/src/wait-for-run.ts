/**
 * Waits until a run has ended: how a run is looked at, over the wait that runs and backfills share
 * (wait-until-over.ts).
 */
import type { Run } from '@belfry/contract'
import { isTerminal } from '@belfry/contract'
import type { Requester } from './requester.ts'
import type { WaitUntilOptions } from './wait-until-over.ts'
import { waitUntilOver } from './wait-until-over.ts'

export type WaitOptions = WaitUntilOptions<Run>

/** Resolves with the ended run, whatever its end. Throws `wait_timeout`, or the signal's reason. */
export function waitForRun(requester: Requester, id: string, options: WaitOptions = {}): Promise<Run> {
  const run = {
    read: () => requester.request('runGet', { params: { id }, signal: options.signal }),
    isOver: ({ state }: Run) => isTerminal(state),
    mark: ({ state, attempts }: Run) => `${state} ${attempts}`,
    lateWords: (last: Run | undefined) =>
      `Run ${id} is still ${last?.state ?? 'unknown'}; wait longer or look later.`,
  }
  return waitUntilOver(run, options)
}

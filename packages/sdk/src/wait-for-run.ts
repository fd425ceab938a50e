/**
 * Waits until a run has ended: the server holds the request until then, so a wait costs one request in many
 * seconds. A server that does not know how to wait is asked again and again (wait-until-over.ts).
 */
import type { Run } from '@belfry/contract'
import { isTerminal, maxRunWaitMs } from '@belfry/contract'
import { optionsOf } from './check-input.ts'
import type { Requester } from './requester.ts'
import type { WaitUntilOptions } from './wait-until-over.ts'
import { waitUntilOver } from './wait-until-over.ts'

export type WaitOptions = WaitUntilOptions<Run>

/** So soon are changes told on the way, where somebody wants to hear of them. */
const toldWithinMs = 3_000

/**
 * Resolves with the ended run, whatever its end. Throws `wait_timeout`, or the signal's reason.
 * `requestTimeoutMs` bounds one request.
 */
export function waitForRun(
  requester: Requester,
  id: string,
  given?: WaitOptions,
  requestTimeoutMs = 30_000,
): Promise<Run> {
  const options = optionsOf(given)
  const { signal, onChange } = options
  const longestMs = onChange === undefined ? maxRunWaitMs : toldWithinMs
  const run = {
    read: () => requester.request('runGet', { params: { id }, signal }),
    hold: {
      longestMs: Math.floor(Math.min(longestMs, requestTimeoutMs / 2)),
      read: (waitMs: number) => requester.request('runWait', { params: { id }, query: { waitMs }, signal }),
    },
    isOver: ({ state }: Run) => isTerminal(state),
    mark: ({ state, attempts }: Run) => `${state} ${attempts}`,
    lateWords: (last: Run | undefined) =>
      `Run ${id} is still ${last?.state ?? 'unknown'}; wait longer or look later.`,
  }
  return waitUntilOver(run, options)
}

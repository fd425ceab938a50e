/**
 * Waits until a run has ended by asking for it again and again: soon at first, so that short runs are seen
 * at once, then less and less often. Failures that may pass are ridden out until the time limit.
 */
import type { Run } from '@belfry/contract'
import { BelfryError, isTerminal } from '@belfry/contract'
import type { Requester } from './requester.ts'
import { pause } from './transport.ts'

export type WaitOptions = {
  /** Limit of the whole wait; without it the wait has none. */
  readonly timeoutMs?: number | undefined
  readonly signal?: AbortSignal | undefined
  /** Called with each state that differs from the one before. */
  readonly onChange?: ((run: Run) => void) | undefined
}

const firstPauseMs = 100
const longestPauseMs = 2_000

/** Resolves with the ended run, whatever its end. Throws `wait_timeout`, or the signal's reason. */
export async function waitForRun(requester: Requester, id: string, options: WaitOptions = {}): Promise<Run> {
  const deadline = options.timeoutMs === undefined ? Infinity : performance.now() + options.timeoutMs
  let seen = ''
  let last: Run | undefined
  for (let pauseMs = firstPauseMs; ; pauseMs = Math.min(longestPauseMs, pauseMs * 1.5)) {
    last = await readRun(requester, id, options.signal, last !== undefined).then((run) => run ?? last)
    if (last !== undefined) {
      const mark = `${last.state} ${last.attempts}`
      if (mark !== seen) options.onChange?.(last)
      seen = mark
      if (isTerminal(last.state)) return last
    }
    const leftMs = deadline - performance.now()
    if (leftMs <= 0) {
      throw new BelfryError(
        'wait_timeout',
        `Run ${id} is still ${last?.state ?? 'unknown'}; wait longer or look later.`,
      )
    }
    await pause(Math.min(pauseMs, leftMs), options.signal)
  }
}

/**
 * The run, or undefined where the server fails for the moment and `mayFail` says that this can be ridden
 * out.
 */
async function readRun(
  requester: Requester,
  id: string,
  signal: AbortSignal | undefined,
  mayFail: boolean,
): Promise<Run | undefined> {
  try {
    return await requester.request('runGet', { params: { id }, signal })
  } catch (error) {
    if (mayFail && error instanceof BelfryError && error.retryable) return undefined
    throw error
  }
}

/**
 * Waits until something has come to its end by asking for it again and again: soon at first, so that what is
 * short is seen at once, then less and less often. Failures that may pass are ridden out until the time
 * limit.
 */
import { BelfryError } from '@belfry/contract'
import { pause } from './transport.ts'

export type WaitUntilOptions<Thing> = {
  /** Limit of the whole wait; without it the wait has none. */
  readonly timeoutMs?: number | undefined
  readonly signal?: AbortSignal | undefined
  /** Called with each state that differs from the one before. */
  readonly onChange?: ((thing: Thing) => void) | undefined
}

/** How to look at the thing that is waited for. */
export type WaitedFor<Thing> = {
  readonly read: () => Promise<Thing>
  readonly isOver: (thing: Thing) => boolean
  /** Differs where a change is worth telling. */
  readonly mark: (thing: Thing) => string
  /** What to say when the time is up; undefined where it was never seen. */
  readonly lateWords: (thing: Thing | undefined) => string
}

const firstPauseMs = 100
const longestPauseMs = 2_000

/** Resolves with the thing as it ended, whatever its end. Throws `wait_timeout`, or the signal's reason. */
export async function waitUntilOver<Thing>(
  { read, isOver, mark, lateWords }: WaitedFor<Thing>,
  options: WaitUntilOptions<Thing>,
): Promise<Thing> {
  const deadline = options.timeoutMs === undefined ? Infinity : performance.now() + options.timeoutMs
  let seen = ''
  let last: Thing | undefined
  for (let pauseMs = firstPauseMs; ; pauseMs = Math.min(longestPauseMs, pauseMs * 1.5)) {
    last = (await orUndefined(read, last !== undefined)) ?? last
    if (last !== undefined) {
      const now = mark(last)
      if (now !== seen) options.onChange?.(last)
      seen = now
      if (isOver(last)) return last
    }
    const leftMs = deadline - performance.now()
    if (leftMs <= 0) throw new BelfryError('wait_timeout', lateWords(last))
    await pause(Math.min(pauseMs, leftMs), options.signal)
  }
}

/** Undefined where the server fails for the moment and `mayFail` says that this can be ridden out. */
async function orUndefined<Thing>(read: () => Promise<Thing>, mayFail: boolean): Promise<Thing | undefined> {
  try {
    return await read()
  } catch (error) {
    if (mayFail && error instanceof BelfryError && error.retryable) return undefined
    throw error
  }
}

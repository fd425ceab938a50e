/**
 * Waits until something has come to its end. Where the server can hold a request until then, it is asked once
 * in many seconds; else again and again: soon at first, so that what is short is seen at once, then less and
 * less often. Failures that may pass are ridden out until the time limit.
 */
import { BelfryError } from '@belfry/contract'
import { aDuration, aFunction, anObject, checkOptions } from './check-input.ts'
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
  /** How to be answered when it is over, or after a while as it is then. */
  readonly hold?: {
    readonly longestMs: number
    readonly read: (waitMs: number) => Promise<Thing>
  }
  readonly isOver: (thing: Thing) => boolean
  /** Differs where a change is worth telling. */
  readonly mark: (thing: Thing) => string
  /** What to say when the time is up; undefined where it was never seen. */
  readonly lateWords: (thing: Thing | undefined) => string
}

const firstPauseMs = 100
const waitRules = { timeoutMs: aDuration, signal: anObject, onChange: aFunction }
const longestPauseMs = 2_000

/** Resolves with the thing as it ended, whatever its end. Throws `wait_timeout`, or the signal's reason. */
export async function waitUntilOver<Thing>(
  waited: WaitedFor<Thing>,
  options: WaitUntilOptions<Thing>,
): Promise<Thing> {
  const { isOver, mark, lateWords } = waited
  checkOptions('The wait', 'invalid_request', options, waitRules)
  const deadline = options.timeoutMs === undefined ? Infinity : performance.now() + options.timeoutMs
  const look = lookAt(waited)
  let seen = ''
  let last: Thing | undefined
  for (let pauseMs = firstPauseMs; ; pauseMs = Math.min(longestPauseMs, pauseMs * 1.5)) {
    const askedMs = performance.now()
    const { thing, heldMs } = await look(last, deadline - askedMs)
    last = thing ?? last
    if (last !== undefined) {
      const now = mark(last)
      if (now !== seen) options.onChange?.(last)
      seen = now
      if (isOver(last)) return last
    }
    const leftMs = deadline - performance.now()
    if (leftMs <= 0) throw new BelfryError('wait_timeout', lateWords(last))
    // a server that held the request has waited for us; one that answers early is about to stop
    const waitedMs = performance.now() - askedMs
    if (heldMs === 0 || waitedMs < heldMs / 2) await pause(Math.min(pauseMs, leftMs), options.signal)
  }
}

/** Looks at once the first time, and from then on by a held request, while the server knows those. */
function lookAt<Thing>({ read, hold }: WaitedFor<Thing>) {
  let holds = hold !== undefined
  return async (
    last: Thing | undefined,
    leftMs: number,
  ): Promise<{ thing: Thing | undefined; heldMs: number }> => {
    if (hold === undefined || !holds || last === undefined)
      return { thing: await orUndefined(read, last !== undefined), heldMs: 0 }
    const heldMs = Math.max(0, Math.floor(Math.min(hold.longestMs, leftMs)))
    try {
      return { thing: await orUndefined(() => hold.read(heldMs), true), heldMs }
    } catch (error) {
      if (!(error instanceof BelfryError) || error.code !== 'not_found') throw error
      // an older server has no such route; if it is the thing that is gone, the plain look says so
      holds = false
      return { thing: await orUndefined(read, true), heldMs: 0 }
    }
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

/**
 * Counts attempts to authenticate that failed, by address or account, in windows of time. An attempt is
 * counted before the key is looked up and given back if the key proves right, so that many guesses at once
 * find the limit too, and beyond it cost no query. Bounded: of too many the one seen first is forgotten.
 */

const maxAddresses = 10_000

export interface FailedAttempts {
  /** Counts one attempt; answers how long to wait, ms, where the limit was reached before. */
  begin(address: string): { readonly waitMs: number } | undefined
  /** Takes it back: the key was right, or could not be looked up. */
  takeBack(address: string): void
}

type Window = { count: number; readonly endsAtMs: number }

export function createFailedAttempts(options: {
  limit: number
  nowMs: () => number
  /** Default: a minute. */
  windowMs?: number
}): FailedAttempts {
  const { windowMs = 60_000 } = options
  const windows = new Map<string, Window>()

  function windowOf(address: string): Window {
    const nowMs = options.nowMs()
    const known = windows.get(address)
    if (known !== undefined && nowMs < known.endsAtMs) return known
    windows.delete(address)
    const [first] = windows.size >= maxAddresses ? windows.keys() : []
    if (first !== undefined) windows.delete(first)
    const fresh = { count: 0, endsAtMs: nowMs + windowMs }
    windows.set(address, fresh)
    return fresh
  }

  return {
    begin(address) {
      const window = windowOf(address)
      if (window.count >= options.limit) return { waitMs: window.endsAtMs - options.nowMs() }
      window.count += 1
      return undefined
    },
    takeBack(address) {
      const window = windows.get(address)
      if (window !== undefined && window.count > 0) window.count -= 1
    },
  }
}

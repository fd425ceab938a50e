/**
 * Lookups of names, a few at a time. The system's resolver blocks a thread for each, as long as it likes (10
 * to
 * 30 s for a name whose servers do not answer), and Node lends it only half of its few threads; who asks
 * without order can keep everybody's names from being resolved. So:
 *
 *   - one lookup a name at a time, shared by all who want it
 *   - no more at once than there are threads; who waits no longer (the connect timeout) leaves the queue
 *   - names that were slow lately share half of these places, so that they wait for each other
 *
 * What is left: somebody who calls ever new names that are all slow holds every place for the time of one
 * lookup, and others run into the connect timeout, which is retried. More threads (UV_THREADPOOL_SIZE in the
 * environment of the process) make that dearer.
 */
import type { Clock } from '../../ports/clock.ts'
import type { ResolvedAddress } from './dial.ts'

/** Resolves a name to all its addresses. The signal tells that nobody wants the answer any more. */
export type Resolver = (host: string, signal: AbortSignal) => Promise<readonly ResolvedAddress[]>

export interface LookupOptions {
  /** What looks a name up, once it is its turn. */
  readonly lookup: (host: string) => Promise<readonly ResolvedAddress[]>
  readonly clock: Clock
  readonly atOnce: number
}

const slowMs = 1_000
const rememberedMs = 10 * 60_000
const maxRemembered = 10_000

interface Entry {
  readonly host: string
  readonly slow: boolean
  wanted: number
  running: boolean
  readonly answer: PromiseWithResolvers<readonly ResolvedAddress[]>
}

/** How many lookups the threads of this process take at once: libuv keeps half of them for other work. */
export function lookupThreads(env: Readonly<Record<string, string | undefined>>): number {
  const threads = Number(env['UV_THREADPOOL_SIZE'] ?? 4)
  return Number.isInteger(threads) && threads > 0 ? Math.ceil(Math.min(threads, 1024) / 2) : 2
}

export function createLookups({ lookup, clock, atOnce }: LookupOptions): Resolver {
  /** By name, in the order of asking. */
  const entries = new Map<string, Entry>()
  const slowUntilMs = createMemory(clock)
  const slowPlaces = Math.max(1, Math.floor(atOnce / 2))

  function startWhatMay(): void {
    const running = [...entries.values()].filter((entry) => entry.running)
    let free = atOnce - running.length
    let freeForSlow = slowPlaces - running.filter((entry) => entry.slow).length
    const waiting = [...entries.values()].filter((entry) => !entry.running)
    for (const entry of [...waiting.filter(({ slow }) => !slow), ...waiting.filter(({ slow }) => slow)]) {
      if (free <= 0) return
      if (entry.slow && freeForSlow <= 0) return
      if (entry.slow) freeForSlow -= 1
      free -= 1
      void run(entry)
    }
  }

  async function run(entry: Entry): Promise<void> {
    entry.running = true
    const startedMs = clock.monotonicMs()
    try {
      entry.answer.resolve(await lookup(entry.host))
    } catch (error) {
      entry.answer.reject(error)
    }
    entries.delete(entry.host)
    slowUntilMs.note(entry.host, clock.monotonicMs() - startedMs > slowMs)
    startWhatMay()
  }

  function enter(host: string): Entry {
    const present = entries.get(host)
    if (present !== undefined) return present
    const answer = Promise.withResolvers<readonly ResolvedAddress[]>()
    // all who asked may have left by the time it fails
    answer.promise.catch(() => undefined)
    const entry = { host, slow: slowUntilMs.has(host), wanted: 0, running: false, answer }
    entries.set(host, entry)
    return entry
  }

  return async (host, signal) => {
    signal.throwIfAborted()
    const entry = enter(host)
    entry.wanted += 1
    const leave = Promise.withResolvers<never>()
    const onAbort = (): void => {
      entry.wanted -= 1
      if (entry.wanted === 0 && !entry.running) entries.delete(host)
      leave.reject(signal.reason)
    }
    signal.addEventListener('abort', onAbort, { once: true })
    startWhatMay()
    try {
      return await Promise.race([entry.answer.promise, leave.promise])
    } finally {
      signal.removeEventListener('abort', onAbort)
    }
  }
}

/** Names that were slow, for a while; the oldest go when there are too many. */
function createMemory(clock: Clock) {
  const untilMs = new Map<string, number>()
  return {
    has: (host: string): boolean => (untilMs.get(host) ?? 0) > clock.monotonicMs(),
    note(host: string, slow: boolean): void {
      untilMs.delete(host)
      if (!slow) return
      untilMs.set(host, clock.monotonicMs() + rememberedMs)
      const oldest = untilMs.keys().next()
      if (untilMs.size > maxRemembered && oldest.done !== true) untilMs.delete(oldest.value)
    },
  }
}

/**
 * Follows runs for readers of logs and for those who wait for an end. However many follow, one query at a
 * time asks for all of them together: at once when somebody joins, after a hint about one of the runs, and
 * each second in case a hint was lost. While nobody follows, nothing is asked.
 *
 *   reader ── next(place) ──►  watcher ── look, all places ──► store
 *          ◄── what is new ──          ◄── hint `run` ──────── who wrote a line or an end (watched-runs.ts)
 *
 * 1. A reader asks for what is behind its place and gets one page; it asks again when that is delivered. So a
 *    slow reader holds nothing, and who has gone costs nothing.
 * 2. While a run is followed, a hint `watch` says so to every process, again and again: only what is followed
 *    is told of, so runs that nobody looks at cost no notice.
 */
import type { Clock, Timer } from '../ports/clock.ts'
import type { EventSink } from '../ports/event-sink.ts'
import type { Hints } from '../ports/hints.ts'
import type { Random } from '../ports/random.ts'
import type { RunNews, RunWatchStore, WatchedPlace } from '../ports/run-watch.ts'

const pollMs = 1_000
/** Looks that come close together are made together. */
const leastMs = 20
/** How often it is said that a run is followed; it is remembered three times as long. */
export const announceMs = 10_000
const maxAnnounced = 10_000
/** Places in one query. */
const placesPerLook = 500

export interface RunWatcherOptions {
  readonly store: RunWatchStore
  readonly hints: Hints
  readonly clock: Clock
  readonly random: Random
  readonly events: EventSink
}

export interface Following extends WatchedPlace {
  readonly waitMs: number
  /** The reader has gone. */
  readonly signal: AbortSignal
}

export interface RunWatcher {
  /** Resolves with what is new behind the place; undefined when the wait is over. Never rejects. */
  next(following: Following): Promise<RunNews | undefined>
  /** Where a run stands now, asked at once. */
  standing: RunWatchStore['standing']
  /** Readers that wait now. */
  waiting(): number
  /** Ends every wait, and those to come. */
  close(): void
}

interface Waiter extends Following {
  readonly wake: (news: RunNews | undefined) => void
}

const keyOf = ({ runId, after }: WatchedPlace): string =>
  after === null ? runId : `${runId} ${after.attempt}/${after.line}`

export function createRunWatcher(options: RunWatcherOptions): RunWatcher {
  const { clock, hints } = options
  const waiters = new Set<Waiter>()
  const looks = createLooks(options, waiters)
  const announce = createAnnouncer(options)
  let closed = false
  const unsubscribe = hints.subscribe((hint) => {
    if (hint.topic === 'run') looks.hinted(hint.key)
  })

  return {
    next(following) {
      if (closed || following.signal.aborted) return Promise.resolve(undefined)
      const woken = Promise.withResolvers<RunNews | undefined>()
      const over = (): void => waiter.wake(undefined)
      const limit = clock.setTimer(following.waitMs, over)
      const waiter: Waiter = {
        ...following,
        wake(news) {
          waiters.delete(waiter)
          limit.cancel()
          following.signal.removeEventListener('abort', over)
          woken.resolve(news)
        },
      }
      following.signal.addEventListener('abort', over, { once: true })
      waiters.add(waiter)
      announce(following.runId)
      looks.joined(waiter)
      return woken.promise
    },
    standing: (runId) => options.store.standing(runId),
    waiting: () => waiters.size,
    close() {
      closed = true
      unsubscribe()
      looks.stop()
      for (const waiter of waiters) waiter.wake(undefined)
    },
  }
}

/** Says that a run is followed, at most so often a run. */
function createAnnouncer({ clock, hints }: RunWatcherOptions): (runId: string) => void {
  const saidAtMs = new Map<string, number>()
  return (runId) => {
    const nowMs = clock.monotonicMs()
    if (nowMs - (saidAtMs.get(runId) ?? -Infinity) < announceMs) return
    saidAtMs.delete(runId)
    saidAtMs.set(runId, nowMs)
    const oldest = saidAtMs.keys().next()
    if (saidAtMs.size > maxAnnounced && oldest.done !== true) saidAtMs.delete(oldest.value)
    hints.publish({ topic: 'watch', key: runId })
  }
}

/** When is looked, and for whom. */
function createLooks(
  { clock, random, events, store }: RunWatcherOptions,
  waiters: ReadonlySet<Waiter>,
): { joined(waiter: Waiter): void; hinted(runId: string): void; stop(): void } {
  /** Runs to look at soon, and those who have not been looked for yet. */
  const hinted = new Set<string>()
  const fresh = new Set<Waiter>()
  let timer: Timer | undefined
  let timerAtMs = Infinity
  let lookedAtMs = -Infinity
  let nextPollMs = 0
  let looking = false
  let stopped = false

  function arm(): void {
    if (waiters.size === 0) hinted.clear()
    if (stopped || looking || waiters.size === 0) return
    const soon = hinted.size > 0 || fresh.size > 0
    const atMs = soon ? Math.min(nextPollMs, lookedAtMs + leastMs) : nextPollMs
    if (timer !== undefined && timerAtMs <= atMs) return
    timer?.cancel()
    timerAtMs = atMs
    timer = clock.setTimer(Math.max(0, atMs - clock.monotonicMs()), () => {
      timer = undefined
      timerAtMs = Infinity
      void look()
    })
  }

  function chosen(): Waiter[] {
    const all = lookedAtMs >= nextPollMs
    const found = [...waiters].filter((each) => all || fresh.has(each) || hinted.has(each.runId))
    hinted.clear()
    fresh.clear()
    if (all) nextPollMs = lookedAtMs + pollMs * (1 + random.next() / 5)
    return found
  }

  async function look(): Promise<void> {
    looking = true
    lookedAtMs = clock.monotonicMs()
    try {
      await handOut(store, [...Map.groupBy(chosen(), keyOf).values()])
    } catch (error) {
      const retryInMs = Math.max(0, nextPollMs - clock.monotonicMs())
      events.emit('role_failed', { role: 'run-watcher', error, retryInMs })
    }
    looking = false
    arm()
  }

  return {
    joined(waiter): void {
      fresh.add(waiter)
      arm()
    },
    hinted(runId): void {
      for (const waiter of waiters) {
        if (waiter.runId !== runId) continue
        hinted.add(runId)
        arm()
        return
      }
    },
    stop(): void {
      stopped = true
      timer?.cancel()
    },
  }
}

/** Asks for each group of readers who stand at the same place once. */
async function handOut(store: RunWatchStore, groups: readonly (readonly Waiter[])[]): Promise<void> {
  for (let from = 0; from < groups.length; from += placesPerLook) {
    const part = groups.slice(from, from + placesPerLook)
    const news = await store.look(part.flatMap(([first]) => (first === undefined ? [] : [first])))
    for (const [index, group] of part.entries()) {
      const found = news[index]
      if (found !== undefined) for (const waiter of group) waiter.wake(found)
    }
  }
}

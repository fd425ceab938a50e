/**
 * Wakes workers that wait for runs. However many wait, one query a second asks for all of them together what
 * is there; a hint asks at once, for those only who serve that queue. Where runs are found, as many workers
 * are woken as it takes to claim them, those who wait longest first: the others sleep on.
 */
import type { Clock, Timer } from '../../ports/clock.ts'
import type { EventSink } from '../../ports/event-sink.ts'
import type { Hints } from '../../ports/hints.ts'
import type { Random } from '../../ports/random.ts'
import type { Wanted, WorkerStore } from '../../ports/worker-store.ts'

const pollMs = 1_000
/** Hints that come close together are looked after together. */
const leastMs = 5
/** A hint counts for those, too, who begin to wait soon after it: their claim may have come just before. */
const freshMs = 250
const maxFresh = 10_000
/** By then a heartbeat has told of a cancel that was asked for while its worker did not wait. */
const cancelMs = 15_000
/** Runs that one look counts, a queue and route. */
const countLimit = 500

export type WakeReason = 'supply' | 'cancel' | 'over'

export interface SupplyWatcherOptions {
  readonly store: Pick<WorkerStore, 'supply'>
  readonly hints: Pick<Hints, 'subscribe'>
  readonly clock: Clock
  readonly random: Random
  readonly events: EventSink
}

export interface Waiting {
  readonly sessionId: string
  readonly wanted: readonly Wanted[]
  /** Runs that there is room for; 0: it waits for cancels only. */
  readonly max: number
  readonly waitMs: number
  /** The caller has gone. */
  readonly signal: AbortSignal
}

export interface SupplyWatcher {
  /** Resolves when there may be something, a cancel was asked for, or the wait is over. Never rejects. */
  wait(waiting: Waiting): Promise<WakeReason>
  waiting(): number
  /** Ends every wait, and those to come. */
  close(): void
}

interface Waiter extends Waiting {
  readonly wake: (reason: WakeReason) => void
}

const keyOf = ({ queue, route }: Wanted): string => `${queue} ${route}`

export function createSupplyWatcher(options: SupplyWatcherOptions): SupplyWatcher {
  const { clock } = options
  const waiters = new Set<Waiter>()
  const looks = createLooks(options, waiters)
  /** Sessions of which none waited when a cancel was asked for, the latest last. */
  const canceled = new Map<string, number>()
  let closed = false

  const unsubscribe = options.hints.subscribe((hint) => {
    if (hint.topic === 'ready') looks.hinted(hint.key)
    if (hint.topic !== 'cancel') return
    const theirs = [...waiters].filter((waiter) => waiter.sessionId === hint.key)
    for (const waiter of theirs) waiter.wake('cancel')
    if (theirs.length > 0) return
    canceled.delete(hint.key)
    canceled.set(hint.key, clock.monotonicMs())
    const oldest = canceled.size > maxFresh ? canceled.keys().next().value : undefined
    if (oldest !== undefined) canceled.delete(oldest)
  })

  function wasCanceled(sessionId: string): boolean {
    const atMs = canceled.get(sessionId)
    canceled.delete(sessionId)
    return atMs !== undefined && clock.monotonicMs() - atMs < cancelMs
  }

  return {
    wait(waiting) {
      if (closed || waiting.signal.aborted || waiting.waitMs <= 0) return Promise.resolve('over')
      if (wasCanceled(waiting.sessionId)) return Promise.resolve('cancel')
      const woken = Promise.withResolvers<WakeReason>()
      const over = (): void => waiter.wake('over')
      const limit = clock.setTimer(waiting.waitMs, over)
      const waiter: Waiter = {
        ...waiting,
        wake(reason) {
          waiters.delete(waiter)
          limit.cancel()
          waiting.signal.removeEventListener('abort', over)
          woken.resolve(reason)
        },
      }
      waiting.signal.addEventListener('abort', over, { once: true })
      waiters.add(waiter)
      looks.joined(waiting.wanted)
      return woken.promise
    },
    waiting: () => waiters.size,
    close() {
      closed = true
      unsubscribe()
      looks.stop()
      for (const waiter of waiters) waiter.wake('over')
    },
  }
}

/** When is looked: each second while somebody waits, at once after a hint, one look at a time. */
function createLooks({ clock, random, events, store }: SupplyWatcherOptions, waiters: ReadonlySet<Waiter>) {
  const hinted = new Set<string>()
  /** When each queue was last hinted, the latest last. */
  const fresh = new Map<string, number>()
  let timer: Timer | undefined
  let timerAtMs = Infinity
  let lookedAtMs = -Infinity
  let nextPollMs = 0
  let looking = false
  let stopped = false

  function arm(): void {
    if (waiters.size === 0) hinted.clear()
    if (stopped || looking || waiters.size === 0) return
    const atMs = hinted.size > 0 ? Math.min(nextPollMs, lookedAtMs + leastMs) : nextPollMs
    if (timer !== undefined && timerAtMs <= atMs) return
    timer?.cancel()
    timerAtMs = atMs
    timer = clock.setTimer(Math.max(0, atMs - clock.monotonicMs()), () => {
      timer = undefined
      timerAtMs = Infinity
      void look()
    })
  }

  async function look(): Promise<void> {
    looking = true
    lookedAtMs = clock.monotonicMs()
    const all = lookedAtMs >= nextPollMs
    const queues = new Set(hinted)
    hinted.clear()
    if (all) nextPollMs = lookedAtMs + pollMs * (1 + random.next() / 5)
    try {
      const wanted = wantedBy(waiters, (queue) => all || queues.has(queue))
      if (wanted.length > 0) handOut(waiters, await store.supply(wanted, countLimit))
    } catch (error) {
      const retryInMs = Math.max(0, nextPollMs - clock.monotonicMs())
      events.emit('role_failed', { role: 'supply-watcher', error, retryInMs })
    }
    looking = false
    arm()
  }

  return {
    joined(wanted: readonly Wanted[]): void {
      const sinceMs = clock.monotonicMs() - freshMs
      for (const { queue } of wanted) if ((fresh.get(queue) ?? -Infinity) >= sinceMs) hinted.add(queue)
      arm()
    },
    hinted(queue: string): void {
      fresh.delete(queue)
      fresh.set(queue, clock.monotonicMs())
      const oldest = fresh.keys().next()
      if (fresh.size > maxFresh && oldest.done !== true) fresh.delete(oldest.value)
      hinted.add(queue)
      arm()
    },
    stop(): void {
      stopped = true
      timer?.cancel()
    },
  }
}

/** What those wait for who have room, each pair once. */
function wantedBy(waiters: Iterable<Waiter>, isAsked: (queue: string) => boolean): readonly Wanted[] {
  const wanted = new Map<string, Wanted>()
  for (const { max, wanted: each } of waiters) {
    if (max === 0) continue
    for (const pair of each) if (isAsked(pair.queue)) wanted.set(keyOf(pair), pair)
  }
  return [...wanted.values()]
}

function handOut(waiters: Iterable<Waiter>, supply: readonly (Wanted & { readonly count: number })[]): void {
  const left = new Map(supply.map((each) => [keyOf(each), each.count]))
  for (const waiter of waiters) {
    let room = waiter.max
    for (const pair of waiter.wanted) {
      const count = left.get(keyOf(pair)) ?? 0
      const taken = Math.min(room, count)
      if (taken === 0) continue
      left.set(keyOf(pair), count - taken)
      room -= taken
    }
    if (room < waiter.max) waiter.wake('supply')
  }
}

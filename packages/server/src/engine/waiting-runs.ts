/**
 * Runs that were claimed ahead and wait for a handler that is at work (slots.ts says how many there may be).
 * They are held as those that run are: the session hangs on to them, and they end with it. None waits long:
 * where handlers take longer than those before them, what has waited for a second goes back to the queue,
 * for workers that are idle.
 */
import type { Clock, Timer } from '../ports/clock.ts'
import type { AbortReason } from '../ports/handler.ts'
import type { ClaimedRun } from '../ports/run-queue.ts'
import type { Held, Slots } from './slots.ts'

const patienceMs = 1_000

export interface WaitingRun {
  readonly sessionId: string
  readonly run: ClaimedRun
  /** Starts it; it takes a slot by itself. */
  readonly begin: () => void
}

export interface WaitingRuns {
  readonly add: (run: WaitingRun) => void
  /** A handler is over: begins those that there is room for now. */
  readonly next: () => void
  readonly giveBack: () => void
}

export interface WaitingRunsOptions {
  readonly clock: Clock
  readonly slots: Pick<Slots, 'idle' | 'take' | 'leave'>
  readonly giveBack: (sessionId: string, runs: readonly ClaimedRun[]) => void
}

interface Waiting extends WaitingRun {
  readonly held: Held
  readonly sinceMs: number
}

export function createWaitingRuns({ clock, slots, giveBack }: WaitingRunsOptions): WaitingRuns {
  const line = createLine<Waiting>()
  const leaving: Waiting[] = []
  let timer: Timer | undefined

  function leave(each: Waiting): void {
    line.delete(each)
    slots.leave(each.held)
  }

  /** One of a session that was lost is somebody else's. A cancel ends it where it is given back. */
  function abort(each: Waiting, reason: AbortReason): boolean {
    if (!line.has(each)) return false
    leave(each)
    if (reason === 'lease_lost') return true
    // what is aborted at one time goes back in one statement
    if (leaving.push(each) === 1) queueMicrotask(() => giveBackThese(leaving.splice(0)))
    return true
  }

  function giveBackThese(these: readonly Waiting[]): void {
    for (const [sessionId, its] of Map.groupBy(these, (each) => each.sessionId)) {
      giveBack(
        sessionId,
        its.map(({ run }) => run),
      )
    }
  }

  function giveBackAll(): void {
    const all = line.all()
    for (const each of all) leave(each)
    giveBackThese(all)
  }

  function check(): void {
    timer = undefined
    const first = line.oldest()
    if (first === undefined) return
    const leftMs = first.sinceMs + patienceMs - clock.monotonicMs()
    if (leftMs <= 0) giveBackAll()
    else timer = clock.setTimer(leftMs, check)
  }

  return {
    add(run) {
      const sinceMs = clock.monotonicMs()
      const abortIt = (reason: AbortReason): boolean => abort(each, reason)
      const held: Held = { sessionId: run.sessionId, run: run.run, abort: abortIt }
      slots.take(held)
      const each: Waiting = { ...run, held, sinceMs }
      line.add(each)
      timer ??= clock.setTimer(patienceMs, check)
    },
    next() {
      while (slots.idle()) {
        const each = line.oldest()
        if (each === undefined) return
        leave(each)
        each.begin()
      }
    },
    giveBack: giveBackAll,
  }
}

/** Things in the order in which they came. Those at its head go fast, however many there are. */
function createLine<Item>() {
  /** Those before `head`, and those that are not in the set, have left. */
  const queue: Item[] = []
  const present = new Set<Item>()
  let head = 0
  return {
    add(item: Item): void {
      present.add(item)
      queue.push(item)
    },
    delete: (item: Item) => present.delete(item),
    has: (item: Item) => present.has(item),
    all: (): Item[] => [...present],
    oldest(): Item | undefined {
      for (; head < queue.length; head++) {
        const item = queue[head]
        if (item !== undefined && present.has(item)) return item
      }
      queue.length = head = 0
      return undefined
    },
  }
}

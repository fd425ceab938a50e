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
  readonly slots: Pick<Slots, 'idle' | 'take' | 'leave' | 'part'>
  /** Answers whether it is acknowledged; never fails. */
  readonly giveBack: (sessionId: string, runs: readonly ClaimedRun[]) => Promise<boolean>
}

interface Waiting extends WaitingRun {
  readonly held: Held
  readonly sinceMs: number
}

interface Parted extends Waiting {
  readonly tell: (back: boolean) => void
}

export function createWaitingRuns({ clock, slots, giveBack }: WaitingRunsOptions): WaitingRuns {
  const waiting = createLine()
  const leaving: Parted[] = []
  let timer: Timer | undefined

  function leave(each: Waiting): void {
    waiting.delete(each)
    slots.leave(each.held)
  }

  function part(each: Waiting): Parted {
    waiting.delete(each)
    return { ...each, tell: slots.part(each.held) }
  }

  /** One of a session that was lost is somebody else's. A cancel ends it where it is given back. */
  function abort(each: Waiting, reason: AbortReason): boolean {
    if (!waiting.has(each)) return false
    if (reason === 'lease_lost') {
      leave(each)
      return true
    }
    // what is aborted at one time goes back in one statement
    if (leaving.push(part(each)) === 1) queueMicrotask(() => giveBackThese(leaving.splice(0)))
    return true
  }

  function giveBackThese(these: readonly Parted[]): void {
    for (const [sessionId, its] of Map.groupBy(these, (each) => each.sessionId)) {
      const runs = its.map(({ run }) => run)
      void giveBack(sessionId, runs).then((back) => {
        for (const { tell } of its) tell(back)
      })
    }
  }

  function giveBackAll(): void {
    giveBackThese(waiting.all().map(part))
  }

  function check(): void {
    timer = undefined
    const first = waiting.first()
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
      waiting.add(each)
      timer ??= clock.setTimer(patienceMs, check)
    },
    next() {
      while (slots.idle()) {
        const each = waiting.first()
        if (each === undefined) return
        leave(each)
        each.begin()
      }
    },
    giveBack: giveBackAll,
  }
}

/** In the order of their claims; taking the first costs the same however many there are. */
function createLine() {
  const queue: Waiting[] = []
  /** Those before it, and those that are not in `left`, are none any more. */
  let head = 0
  const left = new Set<Waiting>()

  return {
    has: (each: Waiting): boolean => left.has(each),
    all: (): Waiting[] => [...left],
    delete: (each: Waiting): boolean => left.delete(each),
    add(each: Waiting): void {
      left.add(each)
      queue.push(each)
    },
    first(): Waiting | undefined {
      for (; head < queue.length; head++) {
        const each = queue[head]
        if (each !== undefined && left.has(each)) return each
      }
      queue.length = 0
      head = 0
      return undefined
    },
  }
}

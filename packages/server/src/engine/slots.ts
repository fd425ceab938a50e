/**
 * What a worker holds: as many runs as it has slots, each from its claim until its end is on record; and some
 * more where slots become free so fast that they would wait for claims (turnover.ts). No more handlers than
 * slots are at work at a time, whatever is held.
 *
 * Two things are held without a slot: handlers that ignored their signal and still run (they block no slot,
 * until there are as many of them as slots; from then on each one more does, so that a handler that always
 * hangs cannot pile up without end); and runs whose end could not be stored: the session holds them in the
 * database until their deadline, and nobody may take them for unstarted.
 */
import type { Clock } from '../ports/clock.ts'
import type { AbortReason } from '../ports/handler.ts'
import type { ClaimedRun } from '../ports/run-queue.ts'
import type { ClaimBook } from './claim-book.ts'
import { createTurnover } from './turnover.ts'

export interface Held {
  readonly sessionId: string
  readonly run: ClaimedRun
  /** Answers whether the handler was still at work. */
  readonly abort: (reason: AbortReason) => boolean
}

/** Dropped ends are rare, and of no interest once their deadline has passed. */
const maxDropped = 1_000

export interface Slots {
  /** How many runs may be claimed now. */
  readonly free: () => number
  /** Whether one more handler may begin. */
  readonly idle: () => boolean
  /** A handler begins; answers what is to be called when it is over, or left behind. */
  readonly begin: () => () => void
  /** Runs that are held. */
  readonly busy: () => number
  readonly leftBehind: () => number
  readonly held: () => readonly Held[]
  /** Runs whose end could not be stored, of those that were dropped last. */
  readonly dropped: () => readonly ClaimedRun[]
  readonly take: (held: Held) => void
  /** The run is no longer held. */
  readonly release: (held: Held) => void
  /** The run is held on paper only. */
  readonly drop: (held: Held) => void
  /** It is no longer held here, and was never started: it begins now, or is somebody else's. */
  readonly leave: (held: Held) => void
  /**
   * It is no longer held here, and is to be given back. Answers what is to be called when that is
   * acknowledged, or failed: until then the database must not forget who holds it.
   */
  readonly part: (held: Held) => (back: boolean) => void
  readonly leaveBehind: (settled: Promise<unknown>) => void
  /** Resolves when nothing is held any more, or after `limitMs`. */
  readonly emptied: (clock: Clock, limitMs: number) => Promise<void>
}

export function createSlots(count: number, clock: Pick<Clock, 'monotonicMs'>, book: ClaimBook): Slots {
  const turnover = createTurnover(clock)
  const held = new Set<Held>()
  const dropped: ClaimedRun[] = []
  let leftBehind = 0
  let atWork = 0
  let emptied = Promise.withResolvers<void>()
  emptied.resolve()

  const usable = (): number => count - Math.max(0, leftBehind - count)

  function letGo(each: Held): void {
    held.delete(each)
    if (held.size === 0) emptied.resolve()
  }

  function leave(each: Held): void {
    letGo(each)
    book.leave(each.run)
  }

  function release(each: Held): void {
    turnover.released()
    leave(each)
  }

  return {
    free: () => usable() + turnover.ahead() - held.size,
    idle: () => atWork < usable(),
    begin() {
      atWork++
      return () => void atWork--
    },
    busy: () => held.size,
    leftBehind: () => leftBehind,
    held: () => [...held],
    dropped: () => dropped,
    take(each) {
      if (held.size === 0) emptied = Promise.withResolvers()
      held.add(each)
      book.take(each.run)
    },
    release,
    drop(each) {
      dropped.push(each.run)
      book.drop(each.run)
      if (dropped.length > maxDropped) dropped.shift()
      release(each)
    },
    leave,
    part(each) {
      letGo(each)
      return (back) => (back ? book.leave(each.run) : book.drop(each.run))
    },
    leaveBehind(settled) {
      leftBehind++
      void settled.then(() => leftBehind--)
    },
    async emptied(clock, limitMs) {
      if (held.size === 0) return
      const limit = Promise.withResolvers<void>()
      const timer = clock.setTimer(limitMs, limit.resolve)
      await Promise.race([emptied.promise, limit.promise])
      timer.cancel()
    },
  }
}

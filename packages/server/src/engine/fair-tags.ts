/**
 * The tags of this process (domain/fair-queue.ts), kept in step with the other processes by way of the
 * database:
 *
 *   enqueue  ── ready ──► reads V of the queue: at its first use, after it was forgotten, and up to four
 *                         times a second while runs are enqueued into it
 *   claim    ── observeClaimed ──► notes V: up to four times a second, at once after a pause, in a
 *                         transaction of its own; nobody waits for it
 *
 * So V is known here to within about half a second of service, also where nobody claims and after a restart.
 * Being late costs fairness by that much and nothing else. A read that fails only counts where nothing is
 * known of the queue.
 */
import { createTagClock, type TagClock } from '../domain/fair-queue.ts'
import type { Clock, Timer } from '../ports/clock.ts'
import type { QueueProgress } from '../ports/queue-progress.ts'
import { settledWithin } from './within.ts'

/** Together well below the age of a low-water mark (low-water-marks.ts): a tag must not come up behind it. */
const readAgainMs = 250
const noteAgainMs = 250
/** Noted again after this while claims go on, even where V stands still, so that it is not forgotten. */
const noteAnywayMs = 3_600_000
const forgetIdleMs = 3_600_000
const closeMs = 1_000

export interface FairTags extends TagClock {
  /**
   * Makes known how far the service of these queues has come; before `next`, in the same turn of the event
   * loop. Nearly always answers at once. Throws as the database does.
   */
  ready(queues: Iterable<string>): Promise<void>
  /** Notes what was claimed since, if that takes no longer than a second, and stops noting. */
  close(): Promise<void>
}

export function createFairTags(options: {
  readonly clock: Clock
  readonly progress: QueueProgress
}): FairTags {
  const { clock, progress } = options
  const tags = createTagClock()
  const reader = createReader(clock, progress, tags)
  const notes = createNotes(clock, progress)
  return {
    next: (request) => tags.next(request),
    virtualTime: (queue) => tags.virtualTime(queue),
    observeClaimed(queue, tag) {
      tags.observeClaimed(queue, tag)
      notes.add(queue, tag)
    },
    async ready(queues) {
      const old = [...new Set(queues)].filter((queue) => reader.isOld(queue))
      if (old.length > 0) await reader.read(old)
    },
    async close() {
      await settledWithin(clock, closeMs, notes.close())
    },
  }
}

/** Reads V into `tags`; each queue once at a time, however many wait for it. */
function createReader(clock: Clock, progress: QueueProgress, tags: TagClock) {
  const readAtMs = new Map<string, number>()
  const underWay = new Map<string, Promise<void>>()

  async function fetch(queues: readonly string[]): Promise<void> {
    try {
      for (const { queue, tag } of await progress.read(queues)) tags.observeClaimed(queue, tag)
    } catch (error) {
      if (queues.some((queue) => tags.virtualTime(queue) === undefined)) throw error
    } finally {
      forgetOld()
      for (const queue of queues) {
        readAtMs.set(queue, clock.monotonicMs())
        underWay.delete(queue)
      }
    }
  }

  /** Entries that are due to be read again say nothing any more. */
  function forgetOld(): void {
    const untilMs = clock.monotonicMs() - readAgainMs
    for (const [queue, atMs] of readAtMs) if (atMs < untilMs) readAtMs.delete(queue)
  }

  return {
    isOld(queue: string): boolean {
      if (tags.virtualTime(queue) === undefined) return true
      return clock.monotonicMs() - (readAtMs.get(queue) ?? Number.NEGATIVE_INFINITY) >= readAgainMs
    },
    async read(queues: readonly string[]): Promise<void> {
      const missing = queues.filter((queue) => !underWay.has(queue))
      if (missing.length > 0) {
        const fetched = fetch(missing)
        for (const queue of missing) underWay.set(queue, fetched)
      }
      await Promise.all(queues.flatMap((queue) => underWay.get(queue) ?? []))
    },
  }
}

interface Note {
  readonly tag: number
  readonly atMs: number
}

/** Notes V of claimed queues, all together, four times a second at most; what failed goes with the next. */
function createNotes(clock: Clock, progress: QueueProgress) {
  const noted = new Map<string, Note>()
  const waiting = new Map<string, number>()
  let timer: Timer | undefined
  let writing: Promise<void> | undefined
  let closed = false
  let nextMs = Number.NEGATIVE_INFINITY
  let nextForgetMs = clock.monotonicMs() + forgetIdleMs

  const wait = (queue: string, tag: number): void => {
    waiting.set(queue, Math.max(tag, waiting.get(queue) ?? tag))
  }

  async function write(): Promise<void> {
    const claimed = [...waiting].map(([queue, tag]) => ({ queue, tag }))
    waiting.clear()
    const nowMs = clock.monotonicMs()
    try {
      if (claimed.length > 0) await progress.note(claimed)
      for (const [queue, { atMs }] of noted) if (nowMs - atMs >= noteAnywayMs) noted.delete(queue)
      for (const { queue, tag } of claimed) noted.set(queue, { tag, atMs: nowMs })
      if (nowMs < nextForgetMs) return
      nextForgetMs = nowMs + forgetIdleMs
      await progress.forgetIdle()
    } catch {
      for (const { queue, tag } of claimed) wait(queue, tag)
    }
  }

  function arm(): void {
    if (closed || timer !== undefined || writing !== undefined || waiting.size === 0) return
    timer = clock.setTimer(Math.max(0, nextMs - clock.monotonicMs()), () => {
      timer = undefined
      nextMs = clock.monotonicMs() + noteAgainMs
      writing = write().finally(() => {
        writing = undefined
        arm()
      })
    })
  }

  return {
    add(queue: string, tag: number): void {
      const last = noted.get(queue)
      const fresh = last !== undefined && clock.monotonicMs() - last.atMs < noteAnywayMs
      if (fresh && tag <= last.tag) return
      wait(queue, tag)
      arm()
    },
    async close(): Promise<void> {
      closed = true
      timer?.cancel()
      timer = undefined
      await writing
      await write()
    },
  }
}

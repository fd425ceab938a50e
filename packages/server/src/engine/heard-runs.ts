/**
 * What a worker heard of and has not claimed yet: by queue, lowest tag first. Messages are counted down: once
 * nothing of one is left here, it is to be settled. What nobody asks for goes after `lifeMs`; by then it was
 * announced again, or somebody else has claimed it.
 */
import type { TakenAnnouncement } from '../ports/announcements.ts'

export interface HeardRuns {
  /** Runs that are here. */
  readonly size: () => number
  readonly has: (queue: string) => boolean
  /** What is here already is left out, and counts as done with. */
  readonly add: (announcements: readonly TakenAnnouncement[], nowMs: number) => void
  /** Takes out up to `limit` of a queue, lowest tag first, from `minTag` on. */
  readonly pick: (queue: string, limit: number, minTag: number) => readonly HeardRun[]
  /** Some that were picked and could not be asked for. */
  readonly putBack: (runs: readonly HeardRun[]) => void
  /** They are done with. */
  readonly finish: (runs: readonly HeardRun[]) => void
  /** Others know better: these were claimed otherwise. Answers those of them that were here. */
  readonly drop: (queue: string, runIds: readonly string[]) => ReadonlySet<string>
  readonly expire: (nowMs: number) => void
  /** Messages of which nothing is left here, since the last call. */
  readonly settled: () => readonly TakenAnnouncement[]
  /** Messages of which something is left here; they are forgotten. */
  readonly clear: () => readonly TakenAnnouncement[]
}

export interface HeardRun {
  readonly queue: string
  readonly runId: string
  readonly tag: number
  readonly message: Message
}

interface Message {
  readonly taken: TakenAnnouncement
  readonly atMs: number
  left: number
}

export function createHeardRuns(lifeMs: number): HeardRuns {
  const shelf = createShelf()
  const messages = createMessages()

  return {
    size: shelf.size,
    has: shelf.has,
    add(announcements, atMs) {
      for (const taken of announcements) {
        const message = messages.add(taken, atMs)
        for (const { runId, tag } of taken.runs) {
          if (!shelf.put({ queue: taken.queue, runId, tag, message })) messages.countDown(message)
        }
      }
    },
    pick: (queue, limit, minTag) => (limit <= 0 ? [] : shelf.takeLowest(queue, limit, minTag)),
    putBack(runs) {
      for (const run of runs) if (!shelf.put(run)) messages.countDown(run.message)
    },
    finish(runs) {
      for (const { message } of runs) messages.countDown(message)
    },
    drop(queue, runIds) {
      const dropped = runIds.flatMap((runId) => shelf.take(queue, runId) ?? [])
      for (const { message } of dropped) messages.countDown(message)
      return new Set(dropped.map(({ runId }) => runId))
    },
    expire(nowMs) {
      for (const message of messages.before(nowMs - lifeMs)) {
        for (const { runId } of message.taken.runs) {
          const run = shelf.take(message.taken.queue, runId, message)
          if (run !== undefined) messages.countDown(message)
        }
      }
    },
    settled: () => messages.takeDone(),
    clear() {
      shelf.clear()
      return messages.clear()
    },
  }
}

/** The runs, by queue and id. */
function createShelf() {
  const queues = new Map<string, Map<string, HeardRun>>()
  let size = 0

  function remove(its: Map<string, HeardRun>, run: HeardRun): void {
    its.delete(run.runId)
    size--
    if (its.size === 0) queues.delete(run.queue)
  }

  return {
    size: () => size,
    has: (queue: string): boolean => queues.has(queue),
    /** False where it is there already. */
    put(run: HeardRun): boolean {
      const known = queues.get(run.queue)
      const its = known ?? new Map<string, HeardRun>()
      if (known === undefined) queues.set(run.queue, its)
      if (its.has(run.runId)) return false
      its.set(run.runId, run)
      size++
      return true
    },
    /** `of`: only if that message brought it. */
    take(queue: string, runId: string, of?: Message): HeardRun | undefined {
      const its = queues.get(queue)
      const run = its?.get(runId)
      if (its === undefined || run === undefined || (of !== undefined && run.message !== of)) return undefined
      remove(its, run)
      return run
    },
    takeLowest(queue: string, limit: number, minTag: number): readonly HeardRun[] {
      const its = queues.get(queue)
      if (its === undefined) return []
      const lowest = [...its.values()]
        .filter((run) => run.tag >= minTag)
        .sort((a, b) => a.tag - b.tag || (a.runId < b.runId ? -1 : 1))
        .slice(0, limit)
      for (const run of lowest) remove(its, run)
      return lowest
    },
    clear() {
      queues.clear()
      size = 0
    },
  }
}

/** The messages, in the order in which they came. */
function createMessages() {
  const open = new Set<Message>()
  let done: TakenAnnouncement[] = []
  return {
    add(taken: TakenAnnouncement, atMs: number): Message {
      const message = { taken, atMs, left: taken.runs.length }
      open.add(message)
      return message
    },
    countDown(message: Message): void {
      message.left--
      if (message.left <= 0 && open.delete(message)) done.push(message.taken)
    },
    before(atMs: number): readonly Message[] {
      const old: Message[] = []
      for (const message of open) {
        if (message.atMs > atMs) break
        old.push(message)
      }
      return old
    },
    takeDone(): readonly TakenAnnouncement[] {
      const these = done
      done = []
      return these
    },
    clear(): readonly TakenAnnouncement[] {
      const left = [...open].map(({ taken }) => taken)
      open.clear()
      return left
    },
  }
}

/**
 * What an inbox holds ahead, in the order in which it came, and how far each partition is done with. The
 * stream that fills it stands still while it is full.
 */
import type { Message, MessagesStream } from '@platformatic/kafka'
import type { Clock } from '../../ports/clock.ts'

export interface InboxMessage {
  readonly topic: string
  readonly partition: number
  readonly offset: bigint
  readonly key: Buffer | undefined
  /** Undefined: without a value, as somebody wrote it by hand. */
  readonly value: Buffer | undefined
  /** Epoch ms, of who sent it. */
  readonly timestampMs: number
}

interface Assigned {
  readonly topic: string
  readonly partitions: readonly number[]
}

type Stream = Pick<
  MessagesStream<Buffer, Buffer, Buffer, Buffer>,
  'on' | 'pause' | 'resume' | 'offsetsToFetch'
>

export function createBuffer(capacity: number) {
  let held: InboxMessage[] = []
  let stream: Stream | undefined
  let full = false
  /** Where each partition begins for this member. */
  let begins: ReadonlyMap<string, bigint> = new Map()
  let arrival = new AbortController()

  function push({ topic, partition, offset, key, value, timestamp }: Message): void {
    // while partitions change hands the library may read one from its start, which others are long done with
    if (offset < (begins.get(keyOf(topic, partition)) ?? 0n)) return
    held.push({ topic, partition, offset, key, value, timestampMs: Number(timestamp) })
    if (held.length >= capacity && !full) {
      full = true
      stream?.pause()
    }
    if (held.length === 1) arrival.abort()
  }

  return {
    get size() {
      return held.length
    },
    fillFrom(source: Stream) {
      stream = source
      full = false
      begins = new Map()
      source.on('offsets', () => (begins = new Map(source.offsetsToFetch)))
      source.on('data', push)
    },
    clear() {
      stream = undefined
      held = []
    },
    /** Drops what others have now. */
    keepOnly(assigned: readonly Assigned[]) {
      held = held.filter((message) => has(assigned, message))
    },
    take(limit: number): readonly InboxMessage[] {
      const taken = held.splice(0, limit)
      if (full && held.length < capacity / 2) {
        full = false
        stream?.resume()
      }
      return taken
    },
    /** Until something comes, the time is over, or `signal` fires. */
    async waitFor(clock: Clock, waitMs: number, signal?: AbortSignal): Promise<void> {
      arrival = new AbortController()
      const ends = signal === undefined ? [arrival.signal] : [arrival.signal, signal]
      await clock.sleep(waitMs, AbortSignal.any(ends))
    },
  }
}

export type MessageBuffer = ReturnType<typeof createBuffer>

export interface Position {
  readonly topic: string
  readonly partition: number
  /** The first that is not done with. */
  readonly offset: bigint
}

/**
 * Sends how far the partitions are done with: one request at a time, and never back. `send` may reject, as
 * while partitions change hands: then it goes with the next.
 */
export function createCommits(send: (positions: readonly Position[]) => Promise<void>) {
  const done = new Map<string, Position>()
  const unsent = new Set<string>()
  let sending: Promise<void> | undefined

  async function flush(): Promise<void> {
    while (unsent.size > 0) {
      const keys = [...unsent]
      unsent.clear()
      try {
        await send(keys.flatMap((key) => done.get(key) ?? []))
      } catch {
        for (const key of keys) unsent.add(key)
        return
      }
    }
  }

  function sent(): Promise<void> {
    sending ??= flush().finally(() => (sending = undefined))
    return sending
  }

  return {
    /** Resolves when these are on record, or were not accepted. */
    async upTo(messages: readonly InboxMessage[]): Promise<void> {
      for (const { topic, partition, offset } of messages) {
        const key = keyOf(topic, partition)
        if (offset < (done.get(key)?.offset ?? 0n)) continue
        done.set(key, { topic, partition, offset: offset + 1n })
        unsent.add(key)
      }
      await sent()
    },
    /** Forgets what others have now, and sends again what was not accepted. */
    keepOnly(assigned: readonly Assigned[]) {
      for (const [key, position] of done) {
        if (has(assigned, position)) continue
        done.delete(key)
        unsent.delete(key)
      }
      void sent()
    },
    clear() {
      done.clear()
      unsent.clear()
    },
  }
}

const keyOf = (topic: string, partition: number): string => `${topic}:${partition}`

const has = (assigned: readonly Assigned[], { topic, partition }: Omit<Position, 'offset'>): boolean =>
  assigned.some((each) => each.topic === topic && each.partitions.includes(partition))

/**
 * Kafka knows how far a partition is done with, not which messages of it are: so a message is committed when
 * it and all that were taken before it are done.
 */

export interface Place {
  readonly topic: string
  readonly partition: number
  readonly offset: bigint
}

interface Taken<Message> {
  readonly message: Message
  done: boolean
}

export interface SettledOffsets<Message extends Place> {
  readonly took: (messages: readonly Message[]) => void
  /** Answers up to where each of their partitions may be committed. */
  readonly settle: (messages: readonly Message[]) => readonly Message[]
}

export function createSettledOffsets<Message extends Place>(): SettledOffsets<Message> {
  const partitions = new Map<string, Map<bigint, Taken<Message>>>()
  const lastOffsets = new Map<string, bigint>()
  const keyOf = ({ topic, partition }: Place): string => `${topic}:${partition}`

  return {
    took(messages) {
      for (const message of messages) {
        const key = keyOf(message)
        // it comes again: after a rebalance, or the topic was made anew
        if (message.offset <= (lastOffsets.get(key) ?? -1n)) partitions.delete(key)
        lastOffsets.set(key, message.offset)
        const known = partitions.get(key)
        const its = known ?? new Map<bigint, Taken<Message>>()
        if (known === undefined) partitions.set(key, its)
        its.set(message.offset, { message, done: false })
      }
    },
    settle(messages) {
      const touched = new Set<string>()
      for (const message of messages) {
        const key = keyOf(message)
        const taken = partitions.get(key)?.get(message.offset)
        if (taken?.message !== message) continue
        taken.done = true
        touched.add(key)
      }
      return [...touched].flatMap((key) => {
        let last: Message | undefined
        const its = partitions.get(key)
        for (const [offset, { message, done }] of its ?? []) {
          if (!done) break
          last = message
          its?.delete(offset)
        }
        return last === undefined ? [] : [last]
      })
    },
  }
}

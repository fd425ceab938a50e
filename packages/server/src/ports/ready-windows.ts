/**
 * What the announcer reads of the queues (engine/announcer.ts): which have something that workers of servers
 * may claim, what comes next in each, and how many slots are there for it. Functions are left out: their
 * workers claim directly. Writes nothing.
 */

export interface NextRun {
  readonly runId: string
  readonly tag: number
  /** Grows with every claim: one that is back in the queue is another. */
  readonly leaseEpoch: number
  /** Of one that holds a slot of a concurrency key. */
  readonly orderKey: string | undefined
}

export interface ServedSlots {
  readonly queues: readonly string[] | '*'
  readonly slots: number
}

export interface ReadyWindows {
  /** Queues in which something may be claimed, by name, from after the given one on; a bounded look. */
  queues(afterQueue: string): Promise<{
    readonly queues: readonly string[]
    /** Where the next look goes on; undefined: there was no more to see. */
    readonly next: string | undefined
  }>
  /** Lowest tag first, up to `size` of each. A queue with nothing is left out. */
  next(
    windows: readonly { readonly queue: string; readonly minTag: number; readonly size: number }[],
  ): Promise<ReadonlyMap<string, readonly NextRun[]>>
  /** Of live workers. */
  slots(): Promise<readonly ServedSlots[]>
}

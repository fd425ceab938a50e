/**
 * Holds this process's share of the shards (ports/leadership.ts) and says which it may act for.
 *
 * 1. Renew, and trust the answer for a while (shard-trust.ts).
 * 2. Again a third of a term later, or at the very instant at which somebody else's term runs out, so that
 *    takeover takes no longer than the term itself, or at a hint that shards were given up.
 * 3. On stop give everything up, and tell the others.
 */
import type { Clock } from '../ports/clock.ts'
import type { EventSink } from '../ports/event-sink.ts'
import type { Hints } from '../ports/hints.ts'
import type { HeldShard, Leadership, Renewal } from '../ports/leadership.ts'
import type { Random } from '../ports/random.ts'
import type { Service } from '../ports/service.ts'
import type { DatabaseClock } from './database-clock.ts'
import { createLoop } from './loop.ts'
import { createShardTrust } from './shard-trust.ts'

export const defaultTermMs = 15_000

/** Others' terms end on the database's clock, which is known to within about a round trip. */
const leastWaitMs = 5

export interface ElectorOptions {
  readonly clock: Clock
  readonly random: Random
  readonly events: EventSink
  readonly databaseClock: DatabaseClock
  readonly leadership: Leadership
  readonly hints: Hints
  /** A random boot id, new for each process; never the host name, which several processes may share. */
  readonly nodeId: string
  /** For people only. */
  readonly host: string
  readonly version: string
  /** How long a dead node's shards stay with it at most. Default 15,000. */
  readonly termMs?: number
}

export interface Elector extends Service {
  readonly nodeId: string
  /**
   * The shards that this process may act for now; empty once trust has ended. The same array until it
   * changes.
   */
  heldShards(): readonly HeldShard[]
  /** Calls `listener` after each renewal and when trust ends, until the returned function is called. */
  subscribe(listener: () => void): () => void
  /** Renews now. */
  wake(): void
}

export function createElector(options: ElectorOptions): Elector {
  const { clock, events, leadership, nodeId, termMs = defaultTermMs } = options
  const trust = createShardTrust(clock, events, termMs)
  let telling = false

  /** Tells the others that there are shards to take now. */
  function tellOthers(): void {
    telling = true
    options.hints.publish({ topic: 'shards', key: 'free' })
    telling = false
  }

  async function round(): Promise<number> {
    const sentMs = clock.monotonicMs()
    const { host, version } = options
    const renewal = await leadership.renew({ id: nodeId, host, version }, termMs)
    options.databaseClock.observe(renewal.nowMs, sentMs)
    const gaveUp = renewal.held.length === renewal.share && renewal.held.length < trust.held().length
    trust.grant(renewal.held, sentMs)
    if (gaveUp) tellOthers()
    return Math.max(leastWaitMs, sentMs + untilNext(renewal, termMs) - clock.monotonicMs())
  }

  const loop = createLoop({
    name: 'elector',
    clock,
    random: options.random,
    events,
    round,
    longestRetryMs: Math.min(1_000, termMs / 6),
    onStop: async () => {
      trust.end()
      // Whoever cannot say goodbye is missed when the term runs out.
      await leadership.resign(nodeId).then(tellOthers, () => undefined)
    },
  })
  let unsubscribe = (): void => {}
  return {
    ...loop,
    nodeId,
    async start() {
      unsubscribe = options.hints.subscribe((hint) => {
        if (hint.topic === 'shards' && !telling) loop.wake()
      })
      await loop.start()
    },
    async stop() {
      unsubscribe()
      await loop.stop()
    },
    heldShards: () => trust.held(),
    subscribe: (listener) => trust.subscribe(listener),
  }
}

/** In how many ms after this renewal the next one is worth sending. */
function untilNext(renewal: Renewal, termMs: number): number {
  const periodMs = termMs / 3
  // Others hold more than their share and give it up at their next renewal: look often, so that nobody's
  // timers wait.
  if (renewal.held.length < renewal.share)
    return Math.min(periodMs, renewal.nextExpiryMs ?? periodMs, termMs / 60)
  return Math.min(periodMs, renewal.nextExpiryMs ?? periodMs)
}

/**
 * Who leads and what falls due next: by Postgres alone, or by Redis with Postgres behind it. Which of them
 * follows from `redisUrl`.
 */
import { createRedisLeadership } from '../adapters/redis/redis-leadership.ts'
import type { RedisLink } from '../adapters/redis/redis-link.ts'
import { createRedisTimerIndex } from '../adapters/redis/redis-timer-index.ts'
import type { Config } from '../config/schema.ts'
import type { DatabaseClock } from '../engine/database-clock.ts'
import type { Elector } from '../engine/elector.ts'
import { createReconciler, type ReconcilerOptions } from '../engine/reconciler.ts'
import type { Leadership } from '../ports/leadership.ts'
import type { Service } from '../ports/service.ts'
import type { TimerIndex } from '../ports/timer-index.ts'
import type { Database } from '../postgres/database.ts'
import { createPostgresLeadership, createTermLedger } from '../postgres/leadership.ts'
import { createPostgresTimerIndex } from '../postgres/timer-index.ts'

type TimingParts = Pick<ReconcilerOptions, 'clock' | 'random' | 'events' | 'hints'> & {
  readonly config: Config
  readonly db: Database
  readonly leases: Database
  readonly databaseClock: DatabaseClock
  readonly installation: string
  readonly redis?: RedisLink | undefined
}

export interface Timing {
  readonly leadership: Leadership
  readonly timers: TimerIndex
  /** What keeps the index true. */
  readonly services: (elector: Pick<Elector, 'heldShards'>) => readonly Service[]
}

/**
 * How all names in Redis begin: two installations with the same prefix must not take shards from each
 * other.
 */
export const redisSpace = (
  { redisPrefix }: Pick<Config, 'redisPrefix'>,
  { installation }: { readonly installation: string },
): string => `${redisPrefix}:${installation}`

export function createTiming(parts: TimingParts): Timing {
  const leadership = createPostgresLeadership(parts.leases)
  const truth = createPostgresTimerIndex(parts.db)
  const { redis, databaseClock, config } = parts
  if (redis === undefined) return { leadership, timers: truth, services: () => [] }
  const common = { redis, prefix: redisSpace(config, parts) }
  const index = createRedisTimerIndex({ ...common, truth, databaseClock })
  const terms = createTermLedger(parts.leases)
  return {
    leadership: createRedisLeadership({ ...common, terms, otherwise: leadership }),
    timers: index,
    services: (elector) => [createReconciler({ ...parts, elector, truth, index })],
  }
}

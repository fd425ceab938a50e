/**
 * What a process that could not hear others for a while tells itself when it hears them again: to look at all
 * that it would else look at late. Left out is what comes up by itself within a second or two (queues,
 * cancels) and what only somebody who waits would miss (logs and ends of single runs).
 */
import { shardCount } from '../domain/shard.ts'
import type { Hint } from '../ports/hints.ts'

export const hintsOfSilence: readonly Hint[] = [
  { topic: 'shards', key: 'free' },
  { topic: 'workflows', key: 'any' },
  { topic: 'dependencies', key: 'any' },
  { topic: 'backfills', key: 'any' },
  { topic: 'replans', key: 'asked' },
  ...Array.from({ length: shardCount }, (_, shard): Hint => ({ topic: 'timers', key: String(shard) })),
]

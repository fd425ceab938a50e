/**
 * Tells schedulers of runs that now wait for their next attempt: they read ahead, and would see them late
 * otherwise.
 */
import type { Hints } from '../ports/hints.ts'
import type { AppliedEnd } from '../ports/run-store.ts'

/** As SQL's `belfry.shard_of`: the low six bits of the last byte. */
function shardOf(id: string): number {
  return Number.parseInt(id.slice(-2), 16) & 63
}

export function hintRetries(hints: Pick<Hints, 'publish'>, applied: readonly AppliedEnd[]): void {
  const shards = new Set<number>()
  for (const { runId, runState } of applied) if (runState === null) shards.add(shardOf(runId))
  for (const shard of shards) hints.publish({ topic: 'timers', key: String(shard) })
}

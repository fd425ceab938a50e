/**
 * Tells of what the ends of runs have let go. Schedulers: of runs that now wait for their next attempt, or no
 * longer for another run; they read ahead, and would see them late otherwise. Resolvers: of runs of tasks,
 * and of runs on which others depend.
 * Gatekeepers: of limits that have room.
 */
import { dependencyShard, shardOf, workflowShard } from '../domain/shard.ts'
import type { Hint, Hints } from '../ports/hints.ts'
import type { AppliedEnd, LetGo } from '../ports/run-store.ts'

export function hintTimers(
  hints: Pick<Hints, 'publish'>,
  applied: readonly AppliedEnd[],
  { timerShards, gateTenants = [] }: LetGo,
): void {
  const shards = new Set(timerShards)
  for (const { runId, runState } of applied) if (runState === null) shards.add(shardOf(runId))
  for (const tenantId of gateTenants) hints.publish({ topic: 'gate', key: tenantId })
  for (const shard of shards) hints.publish(hintOfShard(shard))
}

export function hintOfShard(shard: number): Hint {
  if (shard === workflowShard) return { topic: 'workflows', key: 'any' }
  if (shard === dependencyShard) return { topic: 'dependencies', key: 'any' }
  return { topic: 'timers', key: String(shard) }
}

/**
 * Tells schedulers of runs that now wait for their next attempt, or no longer for another run: they read
 * ahead, and would see them late otherwise.
 */
import { shardOf, workflowShard } from '../domain/shard.ts'
import type { Hints } from '../ports/hints.ts'
import type { AppliedEnd, LetGo } from '../ports/run-store.ts'

export function hintTimers(
  hints: Pick<Hints, 'publish'>,
  applied: readonly AppliedEnd[],
  { timerShards }: LetGo,
): void {
  const shards = new Set(timerShards)
  for (const { runId, runState } of applied) if (runState === null) shards.add(shardOf(runId))
  for (const shard of shards) {
    hints.publish(
      shard === workflowShard ? { topic: 'workflows', key: 'any' } : { topic: 'timers', key: String(shard) },
    )
  }
}

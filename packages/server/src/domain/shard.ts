/**
 * Schedules and runs are spread over 64 shards by their ids; a scheduler holds shards (ports/leadership.ts),
 * and hints name them. The same function as SQL's `belfry.shard_of`.
 */

export const shardCount = 64

/** Stands for the resolver among the shards that are told of ends: a run of a workflow is among them. */
export const workflowShard = -1
/** The same of runs on which others depend. */
export const dependencyShard = -2

/** The last byte of a UUIDv7 is random: its low six bits spread evenly. */
export function shardOf(id: string): number {
  return Number.parseInt(id.slice(-2), 16) & (shardCount - 1)
}

/** The shard of what has a name and no id of ours: queues, say. FNV-1a. */
export function shardOfName(name: string): number {
  let hash = 0x811c9dc5
  for (let index = 0; index < name.length; index++) {
    hash = Math.imul(hash ^ name.charCodeAt(index), 0x01000193)
  }
  return (hash >>> 0) & (shardCount - 1)
}

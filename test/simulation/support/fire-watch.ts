// Looks, at the moment of each fire, whether the node that moved timers holds their shards: whoever fires for
// another does no harm by it, as long as the timers are as they were read, but the promise is that it cannot.
import { shardOf } from '../../../packages/server/src/domain/shard.ts'
import type { Database } from '../../../packages/server/src/postgres/database.ts'
import { fireTimers, fireTimersWithPolicies } from '../../../packages/server/src/postgres/statements/fire.ts'
import { fireWorkflowTimers } from '../../../packages/server/src/postgres/statements/fire-workflows.ts'
import type { WorldDatabase } from './world-database.ts'

const names: ReadonlySet<string> = new Set([
  fireTimers.name,
  fireTimersWithPolicies.name,
  fireWorkflowTimers.name,
])

export function watchingFires(
  { db, sql }: WorldDatabase,
  nodeId: () => string | undefined,
  found: (foreignShards: readonly number[]) => void,
): Database {
  return {
    ...db,
    async run(scope, statement, params) {
      const rows = await db.run(scope, statement, params)
      if (!names.has(statement.name)) return rows
      const [row] = rows as readonly { readonly moved: readonly string[] }[]
      const shards = row?.moved.map(shardOf) ?? []
      if (shards.length === 0) return rows
      const foreign = await sql<{ shard: number }>(
        'SELECT shard FROM belfry.shard_term WHERE shard = ANY ($1) AND owner_id IS DISTINCT FROM $2',
        [shards, nodeId()],
      )
      found(foreign.map(({ shard }) => shard))
      return rows
    },
  }
}

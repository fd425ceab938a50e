/**
 * Housekeeping in Postgres, each task a transaction of its own (statements/maintenance.ts). A task that
 * cannot get its locks gives up soon; the pruner comes back.
 */
import type { Maintenance } from '../ports/maintenance.ts'
import type { Database } from './database.ts'
import {
  deleteDeadNodes,
  deleteExpiredIdempotencyKeys,
  dropPartitions,
  limitLockWait,
  makePartitions,
} from './statements/maintenance.ts'

const engine = { role: 'belfry_engine' } as const
/** Rows that the default partition caught move when their day is made; there may be many. */
const partitionTimeoutMs = 60_000

export function createPostgresMaintenance(db: Database): Maintenance {
  return {
    makePartitions: (days) =>
      db.transaction({ ...engine, timeoutMs: partitionTimeoutMs }, async (tx) => {
        await tx.query(limitLockWait, [])
        return (await tx.query(makePartitions, [days])).map((row) => row.name)
      }),
    dropPartitions: (retentionDays) =>
      db.transaction({ ...engine, timeoutMs: partitionTimeoutMs }, async (tx) => {
        await tx.query(limitLockWait, [])
        return (await tx.query(dropPartitions, [retentionDays])).map((row) => row.name)
      }),
    async deleteExpiredIdempotencyKeys(limit) {
      const [row] = await db.run(engine, deleteExpiredIdempotencyKeys, [limit])
      return row?.count ?? 0
    },
    async deleteDeadNodes() {
      const [row] = await db.run(engine, deleteDeadNodes, [])
      return row?.count ?? 0
    },
  }
}

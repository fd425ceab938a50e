/**
 * Housekeeping in Postgres, each task a transaction of its own (statements/maintenance.ts). A task that
 * cannot get its locks gives up soon; the pruner comes back.
 */
import type { Maintenance } from '../ports/maintenance.ts'
import type { Database } from './database.ts'
import { deleteOldCallbacks } from './statements/callbacks.ts'
import { deleteOldBackfills, deleteOldExtraRuns } from './statements/backfill-steps.ts'
import { deleteOldDeadLetters } from './statements/dead-letters.ts'
import { deleteOldDependencies } from './statements/dependencies.ts'
import { deleteOldEvents } from './statements/workflow-events.ts'
import { deleteFreeDedupeKeys } from './statements/dedupe.ts'
import { deleteIdleGatherings, deleteOldGathered } from './statements/gatherings.ts'
import {
  deleteDeadNodes,
  deleteExpiredIdempotencyKeys,
  deleteOldReplans,
  dropPartitions,
  limitLockWait,
  listMissingDays,
  listOldDays,
  makePartitions,
  pruneDefault,
} from './statements/maintenance.ts'
import { deleteOldCancelNotes } from './statements/run-cancels.ts'
import { pruneTaskWaits } from './statements/task-waits.ts'

const engine = { role: 'belfry_engine' } as const
/** Rows that the default partition caught move when their day is made; there may be many. */
const partitionTimeoutMs = 60_000

export function createPostgresMaintenance(db: Database): Maintenance {
  /** One transaction a day, so that its locks are held for no longer than it takes. */
  const changePartitions = (change: typeof makePartitions, day: string): Promise<string[]> =>
    db.transaction({ ...engine, timeoutMs: partitionTimeoutMs }, async (tx) => {
      await tx.query(limitLockWait, [])
      return (await tx.query(change, [day])).map((row) => row.name)
    })

  return {
    async missingDays(aheadDays, retentionDays, limit) {
      const rows = await db.run(engine, listMissingDays, [aheadDays, retentionDays, limit])
      return rows.map((row) => row.day)
    },
    makePartitions: (day) => changePartitions(makePartitions, day),
    async oldDays(retentionDays, limit) {
      return (await db.run(engine, listOldDays, [retentionDays, limit])).map((row) => row.day)
    },
    dropPartitions: (day) => changePartitions(dropPartitions, day),
    async pruneDefault(retentionDays, limit) {
      const [row] = await db.run(engine, pruneDefault, [retentionDays, limit])
      return row?.count ?? 0
    },
    async deleteOldCallbacks(limit) {
      const [row] = await db.run(engine, deleteOldCallbacks, [limit])
      return row?.count ?? 0
    },
    async deleteExpiredIdempotencyKeys(limit) {
      const [row] = await db.run(engine, deleteExpiredIdempotencyKeys, [limit])
      return row?.count ?? 0
    },
    async deleteOldExtraRuns(retentionDays, limit) {
      const [row] = await db.run(engine, deleteOldExtraRuns, [retentionDays, limit])
      return row?.count ?? 0
    },
    async deleteOldBackfills(retentionDays, limit) {
      const [row] = await db.run(engine, deleteOldBackfills, [retentionDays, limit])
      return row?.count ?? 0
    },
    async deleteOldRunNotes(retentionDays, limit) {
      const [letters] = await db.run(engine, deleteOldDeadLetters, [retentionDays, limit])
      const [notes] = await db.run(engine, deleteOldCancelNotes, [retentionDays, limit])
      return Math.max(letters?.count ?? 0, notes?.count ?? 0)
    },
    async deleteOldTaskWaits(retentionDays, limit) {
      const [row] = await db.run(engine, pruneTaskWaits, [retentionDays, limit])
      return row?.deleted ?? 0
    },
    async deleteOldRequests(retentionDays, limit) {
      const [keys] = await db.run(engine, deleteFreeDedupeKeys, [limit])
      const [gatherings] = await db.run(engine, deleteIdleGatherings, [limit])
      const [inputs] = await db.run(engine, deleteOldGathered, [retentionDays, limit])
      return Math.max(keys?.count ?? 0, gatherings?.count ?? 0, inputs?.count ?? 0)
    },
    async deleteOldTriggers(retentionDays, limit) {
      const [events] = await db.run(engine, deleteOldEvents, [retentionDays, limit])
      const [dependencies] = await db.run(engine, deleteOldDependencies, [retentionDays, limit])
      return Math.max(events?.count ?? 0, dependencies?.count ?? 0)
    },
    async deleteOldReplans(retentionDays, limit) {
      const [row] = await db.run(engine, deleteOldReplans, [retentionDays, limit])
      return row?.count ?? 0
    },
    async deleteDeadNodes() {
      const [row] = await db.run(engine, deleteDeadNodes, [])
      return row?.count ?? 0
    },
  }
}

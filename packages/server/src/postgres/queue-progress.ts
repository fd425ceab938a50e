/**
 * The progress of queues in Postgres: one small row a queue, written and read apart from every claim and
 * enqueue.
 */
import { partsOfLane, sharedRoutes } from '../domain/route.ts'
import type { QueueProgress } from '../ports/queue-progress.ts'
import type { Database } from './database.ts'
import { forgetIdleQueues, noteQueueProgress, readQueueProgress } from './statements/queue-progress.ts'

const engine = { role: 'belfry_engine' } as const
const idleDays = 30

export function createPostgresQueueProgress(db: Database): QueueProgress {
  return {
    read(lanes) {
      const parts = lanes.map(partsOfLane)
      return db.run({ ...engine, readOnly: true }, readQueueProgress, [
        lanes,
        parts.map(({ queue }) => queue),
        parts.map(({ tenantId }) => tenantId),
        sharedRoutes,
      ])
    },
    async note(claimed) {
      await db.run(engine, noteQueueProgress, [
        claimed.map(({ queue }) => queue),
        claimed.map(({ tag }) => tag),
      ])
    },
    async forgetIdle() {
      await db.run(engine, forgetIdleQueues, [idleDays])
    },
  }
}

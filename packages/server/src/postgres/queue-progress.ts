/** The progress of queues in Postgres: one small row a queue, apart from every claim and enqueue. */
import { handlerKinds } from '@belfry/contract'
import type { QueueProgress } from '../ports/queue-progress.ts'
import type { Database } from './database.ts'
import { forgetIdleQueues, noteQueueProgress, readQueueProgress } from './statements/queue-progress.ts'

const engine = { role: 'belfry_engine' } as const
const idleDays = 30

export function createPostgresQueueProgress(db: Database): QueueProgress {
  return {
    read: (queues) => db.run({ ...engine, readOnly: true }, readQueueProgress, [queues, handlerKinds]),
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

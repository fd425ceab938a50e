// Leadership on Postgres, held to the suite that every one must pass.
import { createPostgresLeadership } from '../../packages/server/src/postgres/leadership.ts'
import { createTestDatabase } from '../support/postgres.ts'
import { newId } from '../support/scheduling.ts'
import { describeLeadership } from './leadership.ts'

describeLeadership('Postgres', async () => {
  const database = await createTestDatabase()
  let nowMs = Date.UTC(2026, 0, 1)
  await database.useVirtualNow(new Date(nowMs))
  return {
    leadership: createPostgresLeadership(database.open()),
    advance: async (ms) => {
      nowMs += ms
      await database.setNow(new Date(nowMs))
    },
    newId,
    drop: database.drop,
  }
})

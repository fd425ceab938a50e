// The timer index on Postgres, held to the suite that every one must pass.
import { createPostgresTimerIndex } from '../../packages/server/src/postgres/timer-index.ts'
import { createSchedulingFixture, idInShard } from '../support/scheduling.ts'
import { describeTimerIndex } from './timer-index.ts'

describeTimerIndex('Postgres', async () => {
  const fixture = await createSchedulingFixture()
  const nowMs = Date.UTC(2026, 0, 1)
  await fixture.database.useVirtualNow(new Date(nowMs))
  return {
    index: createPostgresTimerIndex(fixture.database.open()),
    tenantId: fixture.tenantId,
    nowMs,
    idInShard,
    addSchedule: (timer) => fixture.addSchedule(timer),
    addRun: (timer) => fixture.addDelayed(timer),
    remove: (id) => fixture.database.sql('DELETE FROM belfry.timer WHERE schedule_id = $1', [id]),
    moveTo: (id, dueAtMs) =>
      fixture.database.sql('UPDATE belfry.timer SET due_at = $2, scheduled_for = $2 WHERE schedule_id = $1', [
        id,
        new Date(dueAtMs),
      ]),
    clear: async () => {
      await fixture.database.sql('TRUNCATE belfry.timer, belfry.delayed, belfry.schedule, belfry.run CASCADE')
    },
    drop: fixture.drop,
  }
})

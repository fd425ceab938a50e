// What is due now does not wait for what an outage left: neither in the lanes of memory, nor behind the pages
// that are read, nor behind the rows that catching up writes.
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { maxMissedRows } from '../../packages/server/src/domain/firing.ts'
import { shardCount } from '../../packages/server/src/domain/shard.ts'
import { createSchedulingFixture, newId, type SchedulingFixture, until } from '../support/scheduling.ts'

const minuteMs = 60_000
const schedules = 1_200
const outageMinutes = 17 * 60

let fixture: SchedulingFixture
beforeEach(async () => {
  fixture = await createSchedulingFixture()
})
afterEach(() => fixture.drop())

/** Schedules of one tenant, once a minute each, that were due last before an outage of so many minutes. */
async function addBacklog(count: number, minutes: number): Promise<void> {
  const dueMs = Date.now() - minutes * minuteMs
  await fixture.database.sql(
    `WITH made AS (
       INSERT INTO belfry.schedule
         (id, tenant_id, name, job_id, spec, zone, zone_data_version, catch_up, overlap)
       SELECT (lpad(to_hex(n), 12, '0') || '70008000' || lpad(to_hex(n::bigint * 2654435761), 12, '0'))::uuid,
              $1, 'm' || n, $2, $3, 'UTC', '',
              '{"policy":"latest","windowMs":86400000,"maxRuns":100}', 'allow'
       FROM generate_series(1, $4::int) AS n RETURNING id)
     INSERT INTO belfry.timer (schedule_id, tenant_id, due_at, scheduled_for, gen, shard)
     SELECT id, $1, $5, $5, 1, belfry.shard_of(id) FROM made`,
    [
      fixture.tenantId,
      fixture.jobId,
      { every: '1m', everyMs: minuteMs, anchorMs: dueMs },
      count,
      new Date(dueMs),
    ],
  )
}

/** Timers that the outage left and that were not fired yet. */
const left = async (): Promise<number> => {
  const [row] = await fixture.database.sql<{ count: number }>(
    `SELECT count(*)::int AS count FROM belfry.timer WHERE due_at < now() - interval '2 minutes'`,
  )
  return row?.count ?? 0
}

/** How late each planned time of a schedule was fired while the backlog was worked off. */
const latenesses = async (scheduleId: string): Promise<number[]> => {
  const rows = await fixture.database.sql<{ late: number }>(
    `SELECT (extract(epoch FROM fired_at - due_at) * 1000)::float8 AS late
     FROM belfry.occurrence WHERE schedule_id = $1 ORDER BY scheduled_for`,
    [scheduleId],
  )
  return rows.map(({ late }) => late)
}

describe('after an outage of 17 hours', () => {
  // With 300 of memory, most of the backlog does not even fit.
  test.each([50_000, 300])(
    'what is due now is fired on time, with room for %i timers',
    async (maxTimers) => {
      await addBacklog(schedules, outageMinutes)
      const node = fixture.node({ maxTimers })
      const startMs = Date.now() + 500
      const spec = { every: '1s', everyMs: 1_000, anchorMs: startMs }
      const id = await fixture.addSchedule({ id: newId(), scheduledForMs: startMs, spec })
      await node.start()
      await until('all shards held', () => node.elector.heldShards().length === shardCount)
      await until('the other tenant to fire during the backlog', async () => {
        return (await latenesses(id)).length >= 1
      })
      expect(await left()).toBeGreaterThan(0)
      await until('the backlog to be worked off', async () => (await left()) === 0, 60_000)
      expect(Math.max(...(await latenesses(id)))).toBeLessThan(1_000)
      const [rows] = await fixture.database.sql<{ most: number; all: number }>(
        `SELECT max(rows)::int AS most, min(planned)::int AS all
       FROM (SELECT count(*) AS rows, sum(missed_count) AS planned FROM belfry.occurrence
             WHERE schedule_id <> $1 GROUP BY schedule_id) AS each`,
        [id],
      )
      // One sums up the rest, one ran; those of the minutes since may have come.
      expect(rows?.most).toBeLessThanOrEqual(maxMissedRows + 4)
      expect(rows?.all).toBeGreaterThanOrEqual(outageMinutes)
      expect(node.events.filter(({ name }) => name === 'role_failed')).toEqual([])
    },
    90_000,
  )
})

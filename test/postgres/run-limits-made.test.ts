// Every way in which the engine makes waiting runs gives them the limits of their job: fires of both texts,
// chains, the release of what was delayed, backfills. Time stands still, so limits are told to the ms.
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { BackfillFixture } from '../support/backfilling.ts'
import { createBackfillFixture, firstHourMs, hour, noonMs } from '../support/backfilling.ts'
import { createOverlapRig, type OverlapRig } from '../support/overlap-rig.ts'

const startMs = Date.UTC(2026, 5, 1, 12)
const limitsMs = { start_within_ms: 30_000, run_deadline_ms: 2_592_000_000 }

let rig: OverlapRig
let backfills: BackfillFixture
beforeAll(async () => {
  rig = await createOverlapRig(startMs)
  backfills = await createBackfillFixture()
  for (const { database } of [rig.fixture, backfills])
    await database.sql('UPDATE belfry.job SET start_within_ms = $1, run_deadline_ms = $2', [
      limitsMs.start_within_ms,
      limitsMs.run_deadline_ms,
    ])
})
afterAll(async () => {
  await rig.drop()
  await backfills.drop()
})

type Limits = { readonly place: string; readonly start_by: Date | null; readonly run_deadline: Date | null }

const waiting = (sql: OverlapRig['fixture']['database']['sql'], scheduleId: string) =>
  sql<Limits>(
    `SELECT place, start_by, run_deadline FROM (
       SELECT run_id, 'ready' AS place, start_by, run_deadline FROM belfry.ready
       UNION ALL SELECT run_id, 'delayed', start_by, run_deadline FROM belfry.delayed) AS alive
     JOIN belfry.run ON run.id = alive.run_id
     WHERE run.schedule_id = $1 ORDER BY run.scheduled_for`,
    [scheduleId],
  )

const limited = (dueMs: number, place: string): Limits => ({
  place,
  start_by: new Date(dueMs + limitsMs.start_within_ms),
  run_deadline: new Date(dueMs + limitsMs.run_deadline_ms),
})

test('a fire, its text with policies, and a run that waits in a chain', async () => {
  const plain = await rig.addSchedule({ overlap: 'allow' })
  const chained = await rig.addSchedule({ overlap: 'buffer_all' })
  const node = await rig.startNode()
  await rig.time.pass(12_000)
  const { sql } = rig.fixture.database
  expect(await waiting(sql, plain)).toEqual([limited(startMs, 'ready'), limited(startMs + 10_000, 'ready')])
  expect(await waiting(sql, chained)).toEqual([
    limited(startMs, 'ready'),
    limited(startMs + 10_000, 'delayed'),
  ])
  // let go, it is released with what it had
  await sql(`DELETE FROM belfry.ready WHERE run_id IN (SELECT id FROM belfry.run WHERE schedule_id = $1)`, [
    chained,
  ])
  await sql('UPDATE belfry.delayed SET after_run_id = NULL, due_at = belfry.now()')
  for (let shard = 0; shard < 64; shard++) node.hints.publish({ topic: 'timers', key: String(shard) })
  await rig.time.pass(2_000)
  expect(await waiting(sql, chained)).toEqual([limited(startMs + 10_000, 'ready')])
})

test('a backfill, from when its run was made', async () => {
  const scheduleId = await backfills.hourly()
  await backfills.backfill(scheduleId, { fromMs: firstHourMs, toMs: hour(1) })
  await backfills.backfiller().runOnce()
  expect(await waiting(backfills.database.sql, scheduleId)).toEqual([limited(noonMs, 'ready')])
})

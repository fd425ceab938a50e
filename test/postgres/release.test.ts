// The release of delayed runs against real Postgres with a clock that the test moves.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Firing } from '../../packages/server/src/ports/firing.ts'
import { createPostgresFiring } from '../../packages/server/src/postgres/firing.ts'
import { createSchedulingFixture, newId, type SchedulingFixture } from '../support/scheduling.ts'

const t0 = Date.UTC(2026, 5, 1, 12)

let fixture: SchedulingFixture
let firing: Firing
beforeAll(async () => {
  fixture = await createSchedulingFixture()
  await fixture.database.useVirtualNow(new Date(t0))
  firing = createPostgresFiring(fixture.database.open())
})
afterAll(() => fixture.drop())

/** Runs that are due for a look, each waiting for the one before it; the first has yet to be told its own. */
async function delayedChain(length: number): Promise<[string, string, string]> {
  const ids: string[] = []
  for (let n = 0; n < length; n++) ids.push(await fixture.addDelayed({ dueAtMs: t0 }))
  await fixture.database.sql(
    `UPDATE belfry.delayed SET after_run_id = link.before, schedule_id = $3
     FROM unnest($1::uuid[], $2::uuid[]) AS link (run_id, before) WHERE delayed.run_id = link.run_id`,
    [ids.slice(1), ids.slice(0, -1), newId()],
  )
  await fixture.database.sql('UPDATE belfry.delayed SET schedule_id = $2 WHERE run_id = $1', [
    ids[0],
    newId(),
  ])
  const [first = '', second = '', third = ''] = ids
  return [first, second, third]
}

describe('release', () => {
  test('moves due runs to ready with all that they carry; early and unknown ones stay out', async () => {
    const due = await fixture.addDelayed({ dueAtMs: t0 })
    const early = await fixture.addDelayed({ dueAtMs: t0 + 1 })
    const runs = [due, early, newId()].map((runId, index) => ({ runId, tag: 5 + index }))
    const result = await firing.release(runs)
    const released = { releasedRunIds: [due], releasedQueues: ['default'] }
    expect(result).toEqual({
      ...released,
      putOffRunIds: [],
      movedRuns: [],
      putOffToMs: t0 + 20_000,
      nowMs: t0,
    })
    const rows = await fixture.database.sql('SELECT * FROM belfry.ready')
    expect(rows).toHaveLength(1)
    const carried = { lease_epoch: '7', attempt: 3, crash_count: 1, failure_count: 2 }
    expect(rows[0]).toMatchObject({ run_id: due, tag: 5, ...carried })
    expect(await fixture.count('delayed')).toBe(1)
    expect((await firing.release(runs)).releasedRunIds).toEqual([])
  })

  test('of a chain that waits puts off its head shortly, and what is further back for long', async () => {
    const [running, head, second, third] = [newId(), ...(await delayedChain(3))]
    await fixture.database.sql('UPDATE belfry.delayed SET after_run_id = $2 WHERE run_id = $1', [
      head,
      running,
    ])
    await fixture.database.sql(
      `INSERT INTO belfry.ready (run_id, tenant_id, job_id, job_version, queue, handler, tag, priority,
         available_at, timeout_ms)
       VALUES ($1, $2, $3, 1, 'default', 'http', 1, 0, belfry.now(), 60000)`,
      [running, fixture.tenantId, fixture.jobId],
    )
    const runs = [head, second, third].map((runId) => ({ runId, tag: 1 }))
    const result = await firing.release(runs)
    expect(result).toMatchObject({ releasedRunIds: [], putOffRunIds: [head] })
    const rows = await fixture.database.sql<{ id: string; seconds: number }>(
      `SELECT run_id AS id, extract(epoch FROM due_at - belfry.now())::int AS seconds FROM belfry.delayed
       WHERE run_id = ANY($1) ORDER BY due_at, run_id`,
      [[head, second, third]],
    )
    expect(rows.map(({ seconds }) => seconds)).toEqual([20, 300, 300])
    expect(rows[0]?.id).toBe(head)
  })

  test('incident 41: of the same runs by two nodes at once, each run once, and no deadlock', async () => {
    for (let round = 0; round < 8; round++) {
      const due = await Promise.all(Array.from({ length: 150 }, () => fixture.addDelayed({ dueAtMs: t0 })))
      const runs = due.map((runId) => ({ runId, tag: 1 }))
      const results = await Promise.all([firing.release(runs), firing.release(runs.toReversed())])
      expect(results.flatMap(({ releasedRunIds }) => releasedRunIds).sort()).toEqual([...due].sort())
    }
  })
})

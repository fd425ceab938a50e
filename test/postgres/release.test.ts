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

describe('release', () => {
  test('moves due runs to ready with all that they carry; early and unknown ones stay out', async () => {
    const due = await fixture.addDelayed({ dueAtMs: t0 })
    const early = await fixture.addDelayed({ dueAtMs: t0 + 1 })
    const runs = [due, early, newId()].map((runId, index) => ({ runId, tag: 5 + index }))
    const result = await firing.release(runs)
    const released = { releasedRunIds: [due], releasedQueues: ['default'] }
    expect(result).toEqual({ ...released, putOffRunIds: [], putOffToMs: t0 + 20_000, nowMs: t0 })
    const rows = await fixture.database.sql('SELECT * FROM belfry.ready')
    expect(rows).toHaveLength(1)
    const carried = { lease_epoch: '7', attempt: 3, crash_count: 1, failure_count: 2 }
    expect(rows[0]).toMatchObject({ run_id: due, tag: 5, ...carried })
    expect(await fixture.count('delayed')).toBe(1)
    expect((await firing.release(runs)).releasedRunIds).toEqual([])
  })

  test('of the same runs by two nodes at once: each run once, and no deadlock', async () => {
    for (let round = 0; round < 8; round++) {
      const due = await Promise.all(Array.from({ length: 150 }, () => fixture.addDelayed({ dueAtMs: t0 })))
      const runs = due.map((runId) => ({ runId, tag: 1 }))
      const results = await Promise.all([firing.release(runs), firing.release(runs.toReversed())])
      expect(results.flatMap(({ releasedRunIds }) => releasedRunIds).sort()).toEqual([...due].sort())
    }
  })
})

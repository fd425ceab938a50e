// The list of runs by state must stay a walk along the index that ends when the page is full, also under a
// generic plan, which knows neither the limit nor the states; with a plain comparison the planner sorted all
// runs of the tenant.
import { afterAll, beforeAll, expect, it } from 'vitest'
import { listRunsInStates } from '../../packages/server/src/postgres/statements/runs.ts'
import { httpJob, startTestApi, type TestApi } from '../support/api.ts'

let t: TestApi
beforeAll(async () => {
  t = await startTestApi()
  const { body: job } = await t.call('POST', '/v1/jobs', { body: httpJob('work') })
  await t.database.sql(
    `INSERT INTO belfry.run (id, tenant_id, job_id, job_version, source, queue, priority, due_at)
     SELECT
       (left(belfry.uuid_floor(now() - n * interval '1 s')::text, 24) || lpad(to_hex(n), 12, '0'))::uuid,
       $1, $2, 1, 'manual', 'default', 0, now()
     FROM generate_series(1, 20000) AS n`,
    [t.tenantId, job.id],
  )
  await t.database.sql(
    `INSERT INTO belfry.attempt (run_id, number, tenant_id, lease_epoch, outcome, run_state, started_at)
     SELECT id, 1, tenant_id, 1, 'succeeded', 'succeeded', now() FROM belfry.run`,
  )
  await t.database.sql('ANALYZE')
})
afterAll(() => t.close())

it('walks the index backwards and sorts nothing', async () => {
  const rows = await t.database.sql<{ 'QUERY PLAN': string }>(
    `EXPLAIN (GENERIC_PLAN) ${listRunsInStates.text}`,
  )
  const lines = rows.map((row) => row['QUERY PLAN'].trim())
  const start = lines.findIndex((line) => line.startsWith('CTE looked'))
  const page = lines.slice(
    start,
    lines.findIndex((line, index) => index > start && line.includes('CTE page')),
  )
  expect(page.some((line) => /Index Scan Backward using run_\d+_pkey/.test(line))).toBe(true)
  expect(
    page.filter((line) => /^(?:->\s+)?(?:(?:Incremental )?Sort \s*\(|Seq Scan on run_\d)/.test(line)),
  ).toEqual([])
})

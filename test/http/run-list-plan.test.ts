// Lists of runs must be walks along an index of the tenant that end when the page is full, also under a
// generic plan, which knows neither limit nor states: never a walk over what is not the tenant's, never a
// sort of all there is. They are planned here under the settings of their transaction.
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Statement } from '../../packages/server/src/postgres/statement.ts'
import * as statements from '../../packages/server/src/postgres/statements/runs.ts'
import { walkIndexes } from '../../packages/server/src/postgres/statements/transaction.ts'
import { httpJob, startTestApi, type TestApi } from '../support/api.ts'

let t: TestApi
let client: pg.Client
beforeAll(async () => {
  t = await startTestApi()
  client = new pg.Client(t.database.adminConnection)
  await client.connect()
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
  // a backlog, most of it of somebody else
  await t.database.sql(
    `INSERT INTO belfry.ready (run_id, tenant_id, job_id, job_version, queue, handler, tag, priority,
       available_at, timeout_ms, session_id, settled_by, claimed_at, deadline)
     SELECT gen_random_uuid(), CASE WHEN n % 10 = 0 THEN $1 ELSE gen_random_uuid() END, $2, 1, 'default',
       'http', n, 0, now(), 1000, held.id, held.id, held.at, held.at
     FROM generate_series(1, 5000) AS n
     CROSS JOIN LATERAL (
       SELECT CASE WHEN n <= 20 THEN gen_random_uuid() END AS id, CASE WHEN n <= 20 THEN now() END AS at
     ) AS held`,
    [t.tenantId, job.id],
  )
  await t.database.sql(
    `INSERT INTO belfry.delayed (run_id, tenant_id, job_id, job_version, due_at, shard, queue, handler,
       priority, timeout_ms, lease_epoch, attempt, crash_count)
     SELECT run_id, tenant_id, job_id, 1, now(), 0, queue, handler, 0, 1000, 0, 0, 0 FROM belfry.ready`,
  )
  await t.database.sql('ANALYZE')
})
afterAll(async () => {
  await client.end()
  await t.close()
})

/** The lines of the plan that make the part with this name. */
async function planOf(statement: Pick<Statement, 'text'>, part: string): Promise<string[]> {
  await client.query('BEGIN')
  try {
    await client.query(walkIndexes.text)
    const { rows } = await client.query<{ 'QUERY PLAN': string }>(`EXPLAIN (GENERIC_PLAN) ${statement.text}`)
    const lines = rows.map((row) => row['QUERY PLAN'])
    const start = lines.findIndex((line) => line.trim() === `CTE ${part}`)
    const depth = lines[start]?.search(/\S/) ?? 0
    const after = lines.slice(start + 1)
    return after.slice(
      0,
      after.findIndex((line) => line.search(/\S/) <= depth),
    )
  } finally {
    await client.query('ROLLBACK')
  }
}

const named = {
  listRuns: statements.listRuns,
  listRunsInStates: statements.listRunsInStates,
  listRunsOfJob: statements.listRunsOfJob,
  listRunsOfJobInStates: statements.listRunsOfJobInStates,
  listRunsOfSchedule: statements.listRunsOfSchedule,
  listRunsOfScheduleInStates: statements.listRunsOfScheduleInStates,
} as const

describe.each(Object.entries(named))('%s', (name, statement) => {
  it('walks an index backwards and sorts nothing', async () => {
    const looked = await planOf(statement, 'looked')
    const index = name.includes('Job') ? 'job_id' : name.includes('Schedule') ? 'schedule_id' : 'pkey'
    expect(looked.join('\n')).toMatch(new RegExp(`Index (?:Only )?Scan Backward using run_\\w*${index}`))
    expect(looked.filter((line) => /Sort {2}\(|Seq Scan/.test(line))).toEqual([])
    expect(statement.planner).toBe('index')
  })
})

describe('listRareRuns', () => {
  it('walks what waits by tenant, and what runs by the index of what is held', async () => {
    const looked = (await planOf(statements.listRareRuns, 'looked')).join('\n')
    expect(looked).toMatch(/Index (?:Only )?Scan Backward using ready_list/)
    expect(looked).toMatch(/Index (?:Only )?Scan using ready_held/)
    expect(looked).toMatch(/Index (?:Only )?Scan Backward using delayed_list/)
    expect(looked).toMatch(/Index (?:Only )?Scan Backward using attempt_\w*run_state/)
    expect(looked).not.toContain('Seq Scan')
    expect(statements.listRareRuns.planner).toBe('index')
  })
})

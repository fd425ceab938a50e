// Dead letters under a million runs of history and many dead ones: lists, groups and previews by their own
// indexes, never by a walk over runs, attempts or all dead letters.
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Statement } from '../../packages/server/src/postgres/statement.ts'
import {
  findDeadLetter,
  listDeadLetters,
  tallyDeadLetters,
} from '../../packages/server/src/postgres/statements/dead-letters.ts'
import { listCancelable, tallyCancelable } from '../../packages/server/src/postgres/statements/run-cancels.ts'
import { walkIndexes } from '../../packages/server/src/postgres/statements/transaction.ts'
import { createRunningFixture, type RunningFixture } from '../support/running.ts'

let fixture: RunningFixture
let jobId: string
const history = 1_000_000
const letters = 20_000

beforeAll(async () => {
  fixture = await createRunningFixture()
  const job = await fixture.addJob()
  jobId = job.id
  const ids = `((lpad(to_hex((extract(epoch FROM now()) * 1000)::bigint - 60000000 + n * 50), 12, '0')
    || '7000800000' || lpad(to_hex(n), 10, '0'))::uuid)`
  await fixture.database.sql(
    `INSERT INTO belfry.run (id, tenant_id, job_id, job_version, source, queue, priority, due_at)
     SELECT ${ids}, $1, $2, 1, 'manual', 'default', 0, now() FROM generate_series(1, ${history}) AS n`,
    [fixture.tenantId, job.id],
  )
  await fixture.database.sql(
    `INSERT INTO belfry.attempt (run_id, number, tenant_id, lease_epoch, outcome, run_state, started_at,
       error_code, error_message)
     SELECT id, 1, tenant_id, 1, CASE WHEN dead THEN 'failed' ELSE 'succeeded' END,
       CASE WHEN dead THEN 'failed' ELSE 'succeeded' END, now(), 'x', 'y'
     FROM (SELECT id, tenant_id, row_number() OVER () % ${history / letters} = 0 AS dead
       FROM belfry.run) AS run`,
  )
  await fixture.database.sql(
    `INSERT INTO belfry.dead_letter (run_id, tenant_id, job_id, queue, error_code, fingerprint, failed_at,
       state, deleted_at)
     SELECT run_id, tenant_id, CASE WHEN n % 30 < 2 THEN $1 ELSE gen_random_uuid() END, 'default', 'x',
       lpad(to_hex(n % 40), 16, '0'), date_trunc('milliseconds', now()) - n * interval '1 ms',
       CASE WHEN n % 2 = 0 THEN 'deleted' ELSE 'open' END,
       CASE WHEN n % 2 = 0 THEN now() END
     FROM (SELECT *, row_number() OVER () AS n FROM belfry.attempt WHERE run_state = 'failed') AS failed`,
    [job.id],
  )
}, 240_000)
afterAll(() => fixture.drop())

type Plan = { readonly text: string; readonly rows: number }

async function planOf(
  { text, name }: Statement,
  params: readonly (string | number | null | undefined | readonly string[])[],
): Promise<Plan> {
  const client = new pg.Client(fixture.database.adminConnection)
  await client.connect()
  try {
    await client.query('BEGIN')
    await client.query(walkIndexes.text)
    await client.query(`SELECT set_config('belfry.tenant_id', $1, true)`, [fixture.tenantId])
    await client.query('SET LOCAL ROLE belfry_app')
    await client.query('SET LOCAL plan_cache_mode = force_generic_plan')
    const literal = (value: (typeof params)[number]): string =>
      value === null || value === undefined
        ? 'NULL'
        : typeof value === 'object'
          ? `'{${value.join(',')}}'`
          : `'${value}'`
    await client.query(`PREPARE "${name}" AS ${text}`)
    const answer = await client.query<{ 'QUERY PLAN': string }>(
      `EXPLAIN (ANALYZE, TIMING OFF) EXECUTE "${name}" (${params.map(literal).join(', ')})`,
    )
    const plan = answer.rows.map((row) => row['QUERY PLAN']).join('\n')
    const most = Math.max(...[...plan.matchAll(/actual rows=(\d+)/g)].map(([, rows]) => Number(rows)))
    return { text: plan, rows: most }
  } finally {
    await client.end()
  }
}
const last = 'ffffffff-ffff-ffff-ffff-ffffffffffff'
const first = '00000000-0000-0000-0000-000000000000'
const look = (most: number) => [['open'], 'infinity', last, '-infinity', most]
const print = '0'.repeat(15) + '1'

describe.each(['stale', 'fresh'])('with %s statistics', (statistics) => {
  beforeAll(async () => {
    if (statistics === 'fresh')
      for (const table of ['dead_letter', 'run', 'attempt', 'job', 'ready'])
        await fixture.database.sql(`ANALYZE belfry.${table}`)
  }, 120_000)

  test('a page of a list reads a page', async () => {
    const plans = [
      await planOf(listDeadLetters.all, [...look(51), null, null, null, null, 51]),
      await planOf(listDeadLetters.job, [...look(51), jobId, null, null, null, 51]),
      await planOf(listDeadLetters.fingerprint, [...look(51), null, print, null, null, 51]),
    ]
    const indexes = ['dead_letter_list', 'dead_letter_job', 'dead_letter_fingerprint']
    for (const [n, plan] of plans.entries()) {
      expect(plan.text).toContain(`using ${indexes[n]}`)
      expect(plan.text).not.toMatch(/Seq Scan on (dead_letter|run_|attempt_)/)
      expect(plan.rows).toBeLessThanOrEqual(51)
    }
  })

  test('groups and previews read the open dead letters and nothing of the history', async () => {
    const plan = await planOf(tallyDeadLetters.all, [...look(100_000), null, null, null, null, 5_000])
    expect(plan.text).toContain('using dead_letter_list')
    expect(plan.text).not.toMatch(/Seq Scan on (dead_letter|run_|attempt_)/)
    expect(plan.rows).toBe(letters / 2)
    expect(plan.text).not.toMatch(/Scan using (run|attempt)_/)
  })

  test('one is looked up by its key', async () => {
    const [row] = await fixture.database.sql<{ run_id: string }>(
      `SELECT run_id FROM belfry.dead_letter LIMIT 1`,
    )
    const plan = await planOf(findDeadLetter, [row?.run_id])
    expect(plan.text).not.toMatch(/Seq Scan on (dead_letter|run_|attempt_)/)
    expect(plan.rows).toBeLessThanOrEqual(1)
  })

  test('what can be canceled is read from what is alive', async () => {
    const filter = [['pending', 'running'], jobId, null, null, null, null, null, first, last]
    for (const plan of [
      await planOf(listCancelable, [...filter, 20_000, 500]),
      await planOf(tallyCancelable, [...filter, 100_000]),
    ]) {
      expect(plan.text).not.toMatch(/Seq Scan on (ready|delayed|run_|attempt_)/)
      expect(plan.rows).toBeLessThanOrEqual(1)
    }
  })
})

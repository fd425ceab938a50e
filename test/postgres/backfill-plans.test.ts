// What a step of a backfill costs among much that is none of its business: it is read by index, whatever the
// statistics say, and the number of pages that it touches depends on the step, not on the tables.
import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  advanceBackfill,
  listDueBackfills,
  readLockedBackfill,
} from '../../packages/server/src/postgres/statements/backfill-steps.ts'
import { findBackfill, readTimeRecords } from '../../packages/server/src/postgres/statements/backfills.ts'
import type { Statement } from '../../packages/server/src/postgres/statement.ts'
import type { BackfillFixture } from '../support/backfilling.ts'
import { createBackfillFixture, firstHourMs, hour, range } from '../support/backfilling.ts'
import { newId } from '../support/running.ts'

/** Runs of other backfills that have ended, planned times on record, runs that wait. */
const others = 60_000
const concurrency = 100
const lookedAt = 500

let fixture: BackfillFixture
let client: pg.Client
let scheduleId: string
let id: string

beforeAll(async () => {
  fixture = await createBackfillFixture()
  client = new pg.Client(fixture.database.adminConnection)
  await client.connect()
  await client.query(`SELECT set_config('belfry.tenant_id', $1, false)`, [fixture.tenantId])
  await client.query(
    'SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_sort = off; SET jit = off',
  )
  scheduleId = await fixture.addSchedule({
    spec: { every: '1m', everyMs: 60_000, anchorMs: 0 },
    scheduledForMs: hour(20),
  })
  id = await fixture.backfill(scheduleId, { fromMs: firstHourMs, concurrency })
  await fixture.backfiller().runOnce()
  await fill()
})
afterAll(async () => {
  await client.end()
  await fixture.drop()
})

async function fill(): Promise<void> {
  const { database, tenantId, jobId } = fixture
  const tail = `lpad(to_hex(n::bigint * 2654435761), 12, '0')`
  const uuid = `(lpad(to_hex(n), 12, '0') || '70008000' || ${tail})::uuid`
  await database.sql(
    `INSERT INTO belfry.extra_run (tenant_id, schedule_id, scheduled_for, run_id, backfill_id, ended_as)
     SELECT $1, $2, $3::timestamptz - n * interval '1 minute', ${uuid}, gen_random_uuid(), 'succeeded'
     FROM generate_series(1, $4::int) AS n`,
    [tenantId, scheduleId, new Date(firstHourMs), others],
  )
  await database.sql(
    `INSERT INTO belfry.occurrence (schedule_id, scheduled_for, tenant_id, outcome, run_id, due_at)
     SELECT $2, $3::timestamptz - n * interval '1 minute', $1, 'ran', ${uuid}, belfry.now()
     FROM generate_series(1, $4::int) AS n`,
    [tenantId, scheduleId, new Date(firstHourMs), others],
  )
  await database.sql(
    `INSERT INTO belfry.ready (run_id, tenant_id, job_id, job_version, queue, handler, tag, priority,
       available_at, timeout_ms)
     SELECT gen_random_uuid(), $1, $2, 1, 'default', 'http', n, 0, now(), 1000
     FROM generate_series(1, $3::int) AS n`,
    [tenantId, jobId, others],
  )
  await database.sql(
    `INSERT INTO belfry.backfill (id, tenant_id, schedule_id, shard, from_at, to_at, time_order, concurrency,
       reprocess, timing, total, state, ended_at)
     SELECT ${uuid}, $1, $2, belfry.shard_of($2), now() - interval '1 day', now(), 'oldest_first', 4, 'none',
       '{}', 1, 'completed', now()
     FROM generate_series(1, 20000) AS n`,
    [tenantId, scheduleId],
  )
}

interface Node {
  readonly 'Node Type': string
  readonly 'Relation Name'?: string
  readonly 'Shared Hit Blocks': number
  readonly 'Shared Read Blocks': number
  readonly Plans?: readonly Node[]
}

/**
 * Pages that it touches, and tables that it reads from end to end, by a plan for any parameters and for
 * these.
 */
async function costOf<Params extends readonly unknown[]>(
  { text }: Statement<unknown, Params>,
  types: string,
  params: Params,
): Promise<{ pages: number; whole: string[] }> {
  const literal = (value: unknown) =>
    Array.isArray(value) ? `{${value.join(',')}}` : `${value as string | number}`
  const values = params.map((value) => (value === null ? 'NULL' : `'${literal(value)}'`)).join(', ')
  let pages = 0
  const whole = new Set<string>()
  for (const mode of ['force_generic_plan', 'force_custom_plan']) {
    await client.query(`SET plan_cache_mode = ${mode}`)
    await client.query(`PREPARE p (${types}) AS ${text}`)
    await client.query('BEGIN')
    const { rows } = await client.query<{ 'QUERY PLAN': readonly { Plan: Node }[] }>(
      `EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE p (${values})`,
    )
    await client.query('ROLLBACK')
    await client.query('DEALLOCATE p')
    const plan = rows[0]?.['QUERY PLAN'][0]?.Plan
    if (plan === undefined) throw new Error('there is no plan')
    pages = Math.max(pages, plan['Shared Hit Blocks'] + plan['Shared Read Blocks'])
    const walk = (node: Node): void => {
      if (node['Node Type'] === 'Seq Scan') whole.add(node['Relation Name'] ?? '')
      node.Plans?.forEach(walk)
    }
    walk(plan)
  }
  return { pages, whole: [...whole] }
}

test.each(['without statistics', 'with statistics'])('a step stays small, %s', async (how) => {
  if (how === 'with statistics') await fixture.database.sql('ANALYZE')
  const shards = range(64)
  const times = range(lookedAt).map((minute) => firstHourMs - minute * 60_000)
  const starts = range(concurrency).map((minute) => hour(5) + minute * 60_000)
  const runs = starts.map(() => newId())
  const next = (await fixture.read(id)).nextAtMs
  const ints = 'int, int, int, int, int'
  const costs = {
    due: await costOf(listDueBackfills, 'smallint[], uuid[], int', [shards, [], 200]),
    read: await costOf(readLockedBackfill, 'uuid', [id]),
    find: await costOf(findBackfill, 'uuid', [id]),
    times: await costOf(readTimeRecords, 'uuid, uuid, float8[]', [fixture.tenantId, scheduleId, times]),
    advance: await costOf(
      advanceBackfill,
      `uuid, float8, float8, text, text, ${ints}, uuid[], text[], float8[], uuid[], float8[], text[]`,
      [
        id,
        next,
        next,
        'running',
        null,
        0,
        0,
        0,
        0,
        0,
        [],
        [],
        starts,
        runs,
        starts.map(() => 1),
        starts.map(() => 'insert'),
      ],
    ),
  }
  const whole = Object.values(costs).flatMap((cost) => cost.whole)
  expect(whole).toEqual([])
  // a look-up by key takes some five pages; a hundred runs hang on the backfill
  expect(costs.due.pages).toBeLessThan(25 * concurrency)
  expect(costs.read.pages).toBeLessThan(25 * concurrency)
  expect(costs.find.pages).toBeLessThan(25 * concurrency)
  expect(costs.find.pages).toBeGreaterThan(concurrency)
  expect(costs.times.pages).toBeLessThan(40 * lookedAt)
  expect(costs.advance.pages).toBeLessThan(150 * concurrency)
})

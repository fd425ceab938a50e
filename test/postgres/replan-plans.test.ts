// How Postgres plans what a replan reads and writes: by index, one page at a time, whatever its statistics
// say about the size of the tables.
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Statement } from '../../packages/server/src/postgres/statement.ts'
import * as statements from '../../packages/server/src/postgres/statements/replanning.ts'
import { walkIndexes } from '../../packages/server/src/postgres/statements/transaction.ts'
import { createSchedulingFixture, type SchedulingFixture } from '../support/scheduling.ts'

const schedules = 20_000
const zones = 40
const tables = ['schedule', 'timer', 'zone_data', 'replan'] as const

let fixture: SchedulingFixture
let client: pg.Client
beforeAll(async () => {
  fixture = await createSchedulingFixture()
  client = new pg.Client(fixture.database.adminConnection)
  await client.connect()
})
afterAll(async () => {
  await client.end()
  await fixture.drop()
})

const hex = `(lpad(to_hex(n), 12, '0') || '70008000' || lpad(to_hex(n::bigint * 2654435761), 12, '0'))::uuid`

async function fill(): Promise<void> {
  await fixture.database.sql(
    `WITH made AS (
       INSERT INTO belfry.schedule
         (id, tenant_id, name, job_id, spec, zone, zone_data_version, catch_up, overlap)
       SELECT ${hex}, $1, 'm' || n, $2, '{}', 'Zone/' || n % $4::int, '2026' || chr(97 + n % 3), '{}', 'skip'
       FROM generate_series(1, $3::int) AS n RETURNING id)
     INSERT INTO belfry.timer (schedule_id, tenant_id, due_at, scheduled_for, gen, shard)
     SELECT id, $1, now(), now(), 1, belfry.shard_of(id) FROM made`,
    [fixture.tenantId, fixture.jobId, schedules, zones],
  )
  await fixture.database.sql(
    `INSERT INTO belfry.zone_data (zone, rules_from, data_version, changed_in)
     SELECT 'Zone/' || n, now(), '2026d', '2026b' FROM generate_series(1, 600) AS n`,
  )
  await fixture.database.sql(
    `INSERT INTO belfry.replan (id, kind, subject, to_version, state, ended_at)
     SELECT ${hex}, 'zone', 'Zone/' || n, '2026b', 'done', now() FROM generate_series(1, 2000) AS n`,
  )
}

const quoted = (value: string | number): string => `'${value}'`

/** Plans with parameters unknown and known, made as the engine runs the statement. */
async function plansOf(
  { text, planner }: Pick<Statement, 'text' | 'planner'>,
  types: string,
  values: readonly (string | number)[],
): Promise<string[]> {
  const plans: string[] = []
  for (const mode of ['force_generic_plan', 'force_custom_plan']) {
    await client.query('BEGIN')
    await client.query(`SET LOCAL plan_cache_mode = ${mode}`)
    if (planner === 'index') await client.query(walkIndexes.text)
    await client.query(`PREPARE p${types === '' ? '' : ` (${types})`} AS ${text}`)
    const given = values.length === 0 ? '' : ` (${values.map(quoted).join(', ')})`
    const { rows } = await client.query<{ 'QUERY PLAN': string }>(`EXPLAIN EXECUTE p${given}`)
    await client.query('DEALLOCATE p')
    await client.query('ROLLBACK')
    plans.push(rows.map((row) => row['QUERY PLAN']).join('\n'))
  }
  return plans
}

/** Throws for a plan that does not scale; answers how many there are. */
async function check(): Promise<number> {
  const noId = '00000000-0000-0000-0000-000000000000'
  const rows = await fixture.database.sql<{ id: string }>('SELECT id FROM belfry.schedule LIMIT 200')
  const ids = `{${rows.map(({ id }) => id).join(',')}}`
  const instants = `{${rows.map(() => '0').join(',')}}`
  const words = `{${rows.map(() => 'moved').join(',')}}`
  const pages = [
    ...(await plansOf(statements.staleZones, '', [])),
    ...(await plansOf(statements.countStale, 'text, text', ['Zone/1', '2026c'])),
    ...(await plansOf(statements.pageOfZone, 'text, text, text, uuid, int', [
      'Zone/1',
      '2026c',
      '2026a',
      noId,
      200,
    ])),
  ]
  const wrongPages = pages.filter(
    (plan) => !plan.includes('using schedule_zone') || /Seq Scan on schedule|Sort/.test(plan),
  )
  const single = [
    ...(await plansOf(statements.takeReplan, 'text', ['2026d'])),
    ...(await plansOf(statements.lockFreeTimers, 'uuid[]', [ids])),
    ...(await plansOf(statements.lockFreeSchedules, 'uuid[]', [ids])),
    ...(await plansOf(statements.timersThere, 'uuid[]', [ids])),
    ...(await plansOf(statements.onRecord, 'uuid[], float8[]', [ids, instants])),
    ...(await plansOf(statements.writeReplanned, 'text, uuid[], text[], float8[], float8[]', [
      '2026d',
      ids,
      words,
      instants,
      instants,
    ])),
  ]
  const wrong = [
    ...wrongPages,
    ...single.filter((plan) => /Seq Scan on (schedule|timer|replan|occurrence)/.test(plan)),
    ...single.slice(0, 2).filter((plan) => !plan.includes('using replan_open')),
  ]
  if (wrong[0] !== undefined) throw new Error(`a plan that does not scale:\n${wrong[0]}`)
  return pages.length + single.length
}

describe('plans of a replan', () => {
  test('with statistics from when the tables were empty', async () => {
    for (const table of tables) await fixture.database.sql(`ANALYZE belfry.${table}`)
    await fill()
    expect(await check()).toBe(18)
  })

  test('with statistics that are up to date', async () => {
    for (const table of tables) await fixture.database.sql(`ANALYZE belfry.${table}`)
    expect(await check()).toBe(18)
  })

  test('with statistics of a hundred million rows', async () => {
    await fixture.database.sql(
      `UPDATE pg_class SET reltuples = 1e8, relpages = 1000000 WHERE relnamespace = 'belfry'::regnamespace
         AND relname IN ('schedule', 'timer')`,
    )
    expect(await check()).toBe(18)
  })
})

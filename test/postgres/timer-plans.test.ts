// How Postgres plans the scan, the fire and the read of progress: by index, whatever its statistics say about
// the size of the tables.
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { completeAttempts } from '../../packages/server/src/postgres/statements/completion.ts'
import {
  fireTimers,
  fireTimersWithPolicies,
  settleTimer,
} from '../../packages/server/src/postgres/statements/fire.ts'
import { releaseDelayed } from '../../packages/server/src/postgres/statements/firing.ts'
import {
  closeAnyChain,
  letChainGo,
  lockTimerOfAnyChain,
} from '../../packages/server/src/postgres/statements/followers.ts'
import { readQueueProgress } from '../../packages/server/src/postgres/statements/queue-progress.ts'
import { closeChains, lockTimersOfChains } from '../../packages/server/src/postgres/statements/run-cancels.ts'
import { scanTimers } from '../../packages/server/src/postgres/statements/timers.ts'
import { createSchedulingFixture, type SchedulingFixture } from '../support/scheduling.ts'

const timers = 40_000

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

const nil = '00000000-0000-0000-0000-000000000000'
const hex = `(lpad(to_hex(n), 12, '0') || '70008000' || lpad(to_hex(n::bigint * 2654435761), 12, '0'))::uuid`

/** Timers over ten hours, of which a minute lies within the horizon. */
async function fill(): Promise<void> {
  await fixture.database.sql(
    `WITH made AS (
       INSERT INTO belfry.schedule
         (id, tenant_id, name, job_id, spec, zone, zone_data_version, catch_up, overlap)
       SELECT ${hex}, $1, 'm' || n, $2, '{}', 'UTC', '', '{}', 'skip'
       FROM generate_series(1, $3::int) AS n RETURNING id)
     INSERT INTO belfry.timer (schedule_id, tenant_id, due_at, scheduled_for, gen, shard, last_run_id)
     SELECT id, $1, at, at, 1, belfry.shard_of(id), id
     FROM (SELECT id, now() + random() * interval '10 hours' AS at FROM made) AS each`,
    [fixture.tenantId, fixture.jobId, timers],
  )
  await fixture.database.sql(
    `INSERT INTO belfry.delayed (run_id, tenant_id, job_id, job_version, due_at, shard, queue, handler,
       priority, timeout_ms, lease_epoch, attempt, crash_count, schedule_id, after_run_id)
     SELECT schedule_id, tenant_id, $1, 1, due_at, shard, 'default', 'http', 0, 1000, 0, 0, 0,
            CASE WHEN shard < 32 THEN schedule_id END, CASE WHEN shard < 16 THEN schedule_id END
     FROM belfry.timer`,
    [fixture.jobId],
  )
  await fixture.database.sql(
    `INSERT INTO belfry.ready (run_id, tenant_id, job_id, job_version, queue, handler, tag, priority,
       available_at, timeout_ms)
     SELECT schedule_id, tenant_id, $1, 1, 'default', 'http', 1, 0, now(), 1000 FROM belfry.timer`,
    [fixture.jobId],
  )
}

const hot = ['timer', 'delayed', 'ready', 'schedule'] as const

type Role = 'belfry_app' | 'belfry_engine'

/** Plans with parameters unknown (as a prepared statement is planned after its fifth use) and known. */
async function plansOf(
  text: string,
  types: string,
  values: readonly string[],
  role: Role = 'belfry_engine',
): Promise<string[]> {
  const plans: string[] = []
  await client.query(`SET ROLE ${role}`)
  await client.query("SELECT set_config('belfry.tenant_id', $1, false)", [fixture.tenantId])
  for (const mode of ['force_generic_plan', 'force_custom_plan']) {
    await client.query(`SET plan_cache_mode = ${mode}`)
    await client.query(`PREPARE p (${types}) AS ${text}`)
    const { rows } = await client.query<{ 'QUERY PLAN': string }>(
      `EXPLAIN EXECUTE p (${values.map((value) => `'${value}'`).join(', ')})`,
    )
    await client.query('DEALLOCATE p')
    plans.push(rows.map((row) => row['QUERY PLAN']).join('\n'))
  }
  await client.query('RESET ROLE')
  return plans
}

const many = (value: string, count: number): string =>
  `{${Array.from({ length: count }, () => value).join(',')}}`

/** Every plan of the statements that run all the time. */
async function allPlans(): Promise<{ readonly scan: string[]; readonly write: string[] }> {
  const shards = `{${Array.from({ length: 64 }, (_, shard) => shard).join(',')}}`
  const noId = '00000000-0000-0000-0000-000000000000'
  const scanTypes = 'smallint[], float8, float8, uuid, int'
  const scan = await plansOf(scanTimers.text, scanTypes, [shards, '60000', '-infinity', noId, '100'])
  const rows = await fixture.database.sql<{ id: string }>(
    'SELECT schedule_id AS id FROM belfry.timer LIMIT 500',
  )
  const ids = `{${rows.map(({ id }) => id).join(',')}}`
  const ones = many('1', 500)
  const words = [many('ran', 500), many('NULL', 500), many('NULL', 500)]
  const columnTypes =
    'uuid[], bigint[], int[], float8[], float8[], float8[], float8[], ' +
    'uuid[], float8[], float8[], text[], text[], text[], bigint[], uuid[], float8[]'
  const columns = [ids, ...Array.from({ length: 6 }, () => ones), ids, ones, ones, ...words, ones, ids, ones]
  const fireTypes = `${columnTypes}, uuid, smallint[], bigint[], float8, float8, text`
  const fireValues = [...columns, noId, shards, shards, '1', '1000', '2026f']
  const fires = [
    ...(await plansOf(fireTimers.text, fireTypes, fireValues)),
    ...(await plansOf(fireTimersWithPolicies.text, fireTypes, fireValues)),
    ...(await plansOf(settleTimer.text, `${columnTypes}, text`, [...columns, '2026f'], 'belfry_app')),
  ]
  const endTypes =
    'uuid[], bigint[], text[], text[], text[], float8[], text[], float8[], float8[], text[], text[], ' +
    'smallint[], text[], boolean[], jsonb[], jsonb[], uuid'
  const nulls = many('NULL', 500)
  const ends = [
    ids,
    ones,
    nulls,
    nulls,
    nulls,
    ones,
    nulls,
    ones,
    ones,
    nulls,
    nulls,
    ones,
    nulls,
    nulls,
    nulls,
    nulls,
    noId,
  ]
  const letGo = [
    ...(await plansOf(completeAttempts.text, endTypes, ends)),
    ...(await plansOf(closeAnyChain.text, 'uuid, uuid, uuid', [noId, noId, noId])),
    ...(await plansOf(lockTimerOfAnyChain.text, 'uuid', [noId])),
    ...(await plansOf(closeChains.text, 'uuid[], uuid[], uuid[]', [ids, ids, ids], 'belfry_app')),
    ...(await plansOf(lockTimersOfChains.text, 'uuid[]', [ids], 'belfry_app')),
    ...(await plansOf(letChainGo.text, 'uuid', [noId], 'belfry_app')),
  ]
  const release = await plansOf(releaseDelayed.text, 'uuid[], float8[]', [ids, ones])
  const lane = `default/${nil}`
  const progress = await plansOf(readQueueProgress.text, 'text[], text[], uuid[], text[]', [
    `{default,${lane}}`,
    '{default,default}',
    `{NULL,${nil}}`,
    '{http}',
  ])
  return { scan, write: [...fires, ...letGo, ...release, ...progress] }
}

const walked = new RegExp(`Seq Scan on (${hot.join('|')})\\b`)
const indexScan = new RegExp(`Index (?:Only )?Scan using (?:${hot.join('|')})_[^\\n]*\\n([^\\n]*)`, 'g')

/** Whether it walks over a whole index, or over all rows of a tenant, however few of them are wanted. */
function walksFar(plan: string): boolean {
  const conditions = [...plan.matchAll(indexScan)].map(([, condition = '']) => condition)
  return conditions.some((condition) => !/Index Cond: .*(schedule_id|run_id|queue|\bid\b)/.test(condition))
}

async function byIndex(): Promise<boolean> {
  const { scan, write } = await allPlans()
  const wrong = [
    ...scan.filter((plan) => !plan.includes('using timer_due') || !plan.includes('using delayed_due')),
    ...[...scan, ...write].filter((plan) => walked.test(plan)),
    ...write.filter(walksFar),
    // A fire looks its timers up one by one; it must not walk over all that is due.
    ...write.filter((plan) => plan.includes('timer_due')),
  ]
  if (wrong[0] !== undefined) throw new Error(`a plan that does not scale:\n${wrong[0]}`)
  return scan.length + write.length === 24
}

describe('plans', () => {
  test('with statistics from when the tables were empty', async () => {
    for (const table of hot) await fixture.database.sql(`ANALYZE belfry.${table}`)
    await fill()
    expect(await byIndex()).toBe(true)
  })

  test('with statistics that are up to date', async () => {
    for (const table of hot) await fixture.database.sql(`ANALYZE belfry.${table}`)
    expect(await byIndex()).toBe(true)
  })

  test('with statistics of a hundred million rows', async () => {
    await fixture.database.sql(
      `UPDATE pg_class SET reltuples = 1e8, relpages = 1000000 WHERE relnamespace = 'belfry'::regnamespace
         AND relname = ANY($1)`,
      [hot],
    )
    expect(await byIndex()).toBe(true)
  })
})

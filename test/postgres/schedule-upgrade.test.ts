// What the migration of the schedule policies does to a database that is in use: nobody loses a run by it,
// and the days of history that exist take the new words.
import { cpSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { migrate } from '../../packages/server/src/postgres/migrate.ts'
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts'
import { newId } from '../support/scheduling.ts'

const folder = new URL('../../packages/server/src/postgres/migrations/', import.meta.url).pathname
const quiet = { log: () => undefined }

let database: TestDatabase
let before: string
const [tenantId, jobId] = [newId(), newId()]
const schedules = { latest: newId(), all: newId() }

beforeAll(async () => {
  database = await createTestDatabase({ empty: true })
  before = mkdtempSync(join(tmpdir(), 'belfry-before-'))
  for (const file of readdirSync(folder)) {
    if (Number(file.slice(0, 4)) < 9) cpSync(join(folder, file), join(before, file))
  }
  await migrate(database.adminConnection, { ...quiet, directory: before })
  await database.sql("INSERT INTO belfry.tenant (id, name) VALUES ($1, 'acme')", [tenantId])
  await database.sql(
    `INSERT INTO belfry.job (id, tenant_id, name, handler, queue, priority, attempt_timeout_ms, definition)
     VALUES ($1, $2, 'report', 'http', 'default', 0, 60000, '{}')`,
    [jobId, tenantId],
  )
  for (const [policy, id] of Object.entries(schedules)) {
    await database.sql(
      `INSERT INTO belfry.schedule
         (id, tenant_id, name, job_id, spec, zone, zone_data_version, catch_up, overlap)
       VALUES ($1, $2, $3, $4, '{}', 'UTC', '', $5, 'skip')`,
      [id, tenantId, policy, jobId, JSON.stringify({ policy, windowMs: 86_400_000, maxRuns: 100 })],
    )
  }
  await migrate(database.adminConnection, quiet)
})
afterAll(async () => {
  await database.drop()
  rmSync(before, { recursive: true, force: true })
})

test('a window that had no effect takes no run away, and the schedule has a new version', async () => {
  const rows = await database.sql<{ name: string; window: number; version: number }>(
    `SELECT name, (catch_up ->> 'windowMs')::float8 AS window, version FROM belfry.schedule ORDER BY name`,
  )
  expect(rows).toEqual([
    { name: 'all', window: 86_400_000, version: 1 },
    { name: 'latest', window: 365 * 86_400_000, version: 2 },
  ])
})

describe('every partition', () => {
  test.each(['occurrence', 'run'])('of %s has the checks that its parent has', async (table) => {
    const rows = await database.sql<{ child: string; differs: boolean }>(
      `SELECT i.inhrelid::regclass::text AS child,
              (SELECT array_agg(pg_get_constraintdef(oid) ORDER BY conname)
               FROM pg_constraint WHERE conrelid = i.inhrelid AND contype = 'c')
              IS DISTINCT FROM
              (SELECT array_agg(pg_get_constraintdef(oid) ORDER BY conname)
               FROM pg_constraint WHERE conrelid = i.inhparent AND contype = 'c') AS differs
       FROM pg_inherits i WHERE i.inhparent = $1::regclass`,
      [`belfry.${table}`],
    )
    expect(rows.length).toBeGreaterThan(4)
    expect(rows.filter(({ differs }) => differs)).toEqual([])
  })

  test('takes the new words, today and on a day that is made later', async () => {
    const made = await database.sql<{ name: string }>(
      'SELECT belfry.make_partitions(current_date + 20) AS name',
    )
    expect(made).toHaveLength(5)
    for (const days of [0, 20]) {
      await database.sql(
        `INSERT INTO belfry.occurrence
           (schedule_id, scheduled_for, tenant_id, outcome, reason, detail, due_at)
         VALUES ($1, current_date + $3::int, $2, 'skipped', 'asleep', 'a move', now())`,
        [schedules.all, tenantId, days],
      )
    }
    const refused = database.sql(
      `INSERT INTO belfry.occurrence (schedule_id, scheduled_for, tenant_id, outcome, reason, due_at)
       VALUES ($1, current_date + interval '1 hour', $2, 'skipped', 'bored', now())`,
      [schedules.all, tenantId],
    )
    await expect(refused).rejects.toThrow(/occurrence_reason_check/)
  })
})

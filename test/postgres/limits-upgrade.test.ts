// What the migrations of limits, dedupe and dead letters do to a database that is in use: what waits may be
// claimed as before, runs that failed are dead letters, and the days of history that exist take the new
// words.
import { cpSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { migrate } from '../../packages/server/src/postgres/migrate.ts'
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts'
import { newId } from '../support/scheduling.ts'

const folder = new URL('../../packages/server/src/postgres/migrations/', import.meta.url).pathname
const quiet = { log: () => undefined }
const resumedAt = new Date('2026-11-01T10:00:00Z')

let database: TestDatabase
let before: string
const [tenantId, jobId] = [newId(), newId()]
const schedules = { never: newId(), resumed: newId() }
const runs = { failed: newId(), late: newId(), good: newId(), waiting: newId() }

beforeAll(async () => {
  database = await createTestDatabase({ empty: true })
  before = mkdtempSync(join(tmpdir(), 'belfry-before-'))
  for (const file of readdirSync(folder)) {
    if (Number(file.slice(0, 4)) < 16) cpSync(join(folder, file), join(before, file))
  }
  await migrate(database.adminConnection, { ...quiet, directory: before })
  await fill()
  await migrate(database.adminConnection, quiet)
})
afterAll(async () => {
  await database.drop()
  rmSync(before, { recursive: true, force: true })
})

async function fill(): Promise<void> {
  await database.sql("INSERT INTO belfry.tenant (id, name) VALUES ($1, 'acme')", [tenantId])
  await database.sql(
    `INSERT INTO belfry.job (id, tenant_id, name, handler, queue, priority, attempt_timeout_ms, definition)
     VALUES ($1, $2, 'report', 'http', 'mail', 0, 60000, $3)`,
    [jobId, tenantId, JSON.stringify({ handler: { type: 'http', url: 'https://Example.com:8443/x' } })],
  )
  for (const [name, id] of Object.entries(schedules)) {
    await database.sql(
      `INSERT INTO belfry.schedule
         (id, tenant_id, name, job_id, spec, zone, zone_data_version, catch_up, overlap, resumed_at)
       VALUES ($1, $2, $3, $4, '{}', 'UTC', '', '{}', 'skip', $5)`,
      [id, tenantId, name, jobId, name === 'resumed' ? resumedAt : null],
    )
  }
  for (const id of Object.values(runs)) {
    await database.sql(
      `INSERT INTO belfry.run (id, tenant_id, job_id, job_version, source, queue, priority, due_at)
       VALUES ($1, $2, $3, 1, 'manual', 'mail', 0, now())`,
      [id, tenantId, jobId],
    )
  }
  await attempt(runs.failed, 1, 'failed', null, 'http_500')
  await attempt(runs.failed, 2, 'failed', 'failed', 'http_502')
  await attempt(runs.late, 1, 'lost', 'failed', null)
  await attempt(runs.good, 1, 'succeeded', 'succeeded', null)
  await database.sql(
    `INSERT INTO belfry.ready (run_id, tenant_id, job_id, job_version, queue, handler, tag, priority,
       available_at, timeout_ms)
     VALUES ($1, $2, $3, 1, 'mail', 'http', 1, 0, now(), 1000)`,
    [runs.waiting, tenantId, jobId],
  )
}

async function attempt(
  runId: string,
  number: number,
  outcome: string,
  runState: string | null,
  errorCode: string | null,
): Promise<void> {
  await database.sql(
    `INSERT INTO belfry.attempt (run_id, number, tenant_id, lease_epoch, outcome, run_state, retry_at,
       started_at, error_code)
     VALUES ($1, $2, $3, 1, $4, $5::text, CASE WHEN $5::text IS NULL THEN now() END, now(), $6)`,
    [runId, number, tenantId, outcome, runState, errorCode],
  )
}

test('runs that failed are open dead letters, told apart by the code of their last error', async () => {
  const rows = await database.sql(
    `SELECT run_id, tenant_id, job_id, queue, error_code, state FROM belfry.dead_letter ORDER BY error_code`,
  )
  const letter = { tenant_id: tenantId, job_id: jobId, queue: 'mail', state: 'open' }
  expect(rows).toEqual([
    { ...letter, run_id: runs.failed, error_code: 'http_502' },
    { ...letter, run_id: runs.late, error_code: 'lost' },
  ])
})

test('what waits stands before no gate, and its job has no limit', async () => {
  const rows = await database.sql(
    `SELECT r.run_id, r.gate, r.slotted, r.detailed, j.limited, j.target_host
     FROM belfry.ready AS r JOIN belfry.job AS j ON j.id = r.job_id`,
  )
  expect(rows).toEqual([
    {
      run_id: runs.waiting,
      gate: null,
      slotted: false,
      detailed: true,
      limited: false,
      target_host: 'example.com',
    },
  ])
})

test('failures in a row count from the last resume on, as before', async () => {
  const rows = await database.sql('SELECT name, failures_since FROM belfry.schedule ORDER BY name')
  expect(rows).toEqual([
    { name: 'never', failures_since: null },
    { name: 'resumed', failures_since: resumedAt },
  ])
})

describe('every partition', () => {
  test.each(['attempt', 'run'])('of %s has the checks that its parent has', async (table) => {
    const rows = await database.sql<{ differs: boolean }>(
      `SELECT (SELECT array_agg(pg_get_constraintdef(oid) ORDER BY conname)
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

  test('takes the new words, and no others', async () => {
    const insert = (outcome: string, reason: string) =>
      database.sql(
        `INSERT INTO belfry.attempt (run_id, number, tenant_id, lease_epoch, outcome, run_state, reason,
           started_at)
         VALUES ($1, 0, $2, 1, $3, 'failed', $4, now())`,
        [newId(), tenantId, outcome, reason],
      )
    await insert('expired', 'deadline_exceeded')
    await insert('skipped', 'concurrency_limit')
    await expect(insert('expired', 'bored')).rejects.toThrow(/attempt_reason_check/)
  })
})

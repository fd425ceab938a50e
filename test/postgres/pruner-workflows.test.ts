// Retention of workflow runs: their partitions go with the days, but nothing that one that is alive still
// needs; and a drop that comes at the moment in which one is begun again waits for it, and lets it be.
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createPostgresMaintenance } from '../../packages/server/src/postgres/maintenance.ts'
import type { Maintenance } from '../../packages/server/src/ports/maintenance.ts'
import { createRunningFixture, newId, type RunningFixture, testIds } from '../support/running.ts'

const dayMs = 86_400_000
const start = Date.UTC(2026, 4, 10, 12)
const retentionDays = 30

let fixture: RunningFixture
let maintenance: Maintenance
beforeAll(async () => {
  fixture = await createRunningFixture()
  maintenance = createPostgresMaintenance(fixture.database.open())
  await fixture.database.useVirtualNow(new Date(start))
})
afterAll(() => fixture.drop())

const sql = <Row extends Record<string, unknown>>(text: string, params: readonly unknown[] = []) =>
  fixture.database.sql<Row>(text, [...params])
const dayOf = (atMs: number): string => new Date(atMs).toISOString().slice(0, 10)
const suffix = (atMs: number): string => dayOf(atMs).replaceAll('-', '')

/** A workflow run that began at this time, as it is when it is over. */
async function addRun(atMs: number): Promise<string> {
  const id = testIds.uuidv7(atMs)
  await sql(
    `INSERT INTO belfry.workflow_run (id, tenant_id, workflow_id, version, source, state, ended_at)
     VALUES ($1, $2, $3, 1, 'manual', 'succeeded', belfry.now())`,
    [id, fixture.tenantId, newId()],
  )
  return id
}

const setAlive = (id: string) =>
  sql(
    `WITH again AS (UPDATE belfry.workflow_run SET state = NULL, ended_at = NULL WHERE id = $1)
     INSERT INTO belfry.workflow_progress (workflow_run_id, tenant_id, workflow_id, version, states)
     VALUES ($1, $2, $3, 1, '\\x00')`,
    [id, fixture.tenantId, newId()],
  )
const setOver = (id: string) =>
  sql(
    `WITH over AS (DELETE FROM belfry.workflow_progress WHERE workflow_run_id = $1)
     UPDATE belfry.workflow_run SET state = 'failed', ended_at = belfry.now() WHERE id = $1`,
    [id],
  )

/** A run of a task, which has ended. */
async function addTaskRun(workflowRunId: string, atMs: number): Promise<void> {
  const [job, id] = [await fixture.addJob(), testIds.uuidv7(atMs)]
  await sql(
    `WITH attempt AS (
       INSERT INTO belfry.attempt (run_id, number, tenant_id, lease_epoch, outcome, run_state, started_at)
       VALUES ($1, 1, $2, 1, 'succeeded', 'succeeded', belfry.now())
     )
     INSERT INTO belfry.run (id, tenant_id, job_id, job_version, source, queue, priority, due_at,
                             workflow_run_id, task)
     VALUES ($1, $2, $3, 1, 'workflow', 'default', 0, belfry.now(), $4, 0)`,
    [id, fixture.tenantId, job.id, workflowRunId],
  )
}

/** What is left of the partitions of a day, once those that may go have gone. */
async function leftAfterPruning(atMs: number): Promise<string[]> {
  for (const day of await maintenance.oldDays(retentionDays, 1_000)) await maintenance.dropPartitions(day)
  const rows = await sql<{ name: string }>(
    `SELECT relname AS name FROM pg_class WHERE relnamespace = 'belfry'::regnamespace AND relkind = 'r'
       AND relname LIKE '%' || $1 ORDER BY 1`,
    [`_${suffix(atMs)}`],
  )
  return rows.map(({ name }) => name.slice(0, -9))
}

const later = (days: number) => fixture.database.setNow(new Date(start + days * dayMs))

describe('workflow runs', () => {
  test('stand in the partition of the day in which they began, and go with it', async () => {
    await maintenance.makePartitions(dayOf(start))
    const id = await addRun(start)
    const place = () =>
      sql(`SELECT tableoid::regclass::text AS p FROM belfry.workflow_run WHERE id = $1`, [id])
    expect(await place()).toEqual([{ p: `belfry.workflow_run_${suffix(start)}` }])
    await later(retentionDays)
    expect(await leftAfterPruning(start)).toContain('workflow_run')
    await later(retentionDays + 1)
    expect(await leftAfterPruning(start)).toEqual([])
    expect(await place()).toEqual([])
  })

  test('that are alive keep their row, and the runs of their tasks of whatever day', async () => {
    const [begun, next, between] = [start + 100 * dayMs, start + 102 * dayMs, start + 101 * dayMs]
    for (const at of [begun, next, between]) await maintenance.makePartitions(dayOf(at))
    const id = await addRun(begun)
    await setAlive(id)
    await addTaskRun(id, begun)
    await addTaskRun(id, next)
    await addTaskRun(await addRun(between), between)
    await later(200)
    expect(await leftAfterPruning(begun)).toEqual(['attempt', 'run', 'run_log', 'workflow_run'])
    expect(await leftAfterPruning(next)).toEqual(['attempt', 'run', 'run_log'])
    expect(await leftAfterPruning(between)).toEqual([])
    await setOver(id)
    expect(await leftAfterPruning(begun)).toEqual([])
    expect(await leftAfterPruning(next)).toEqual([])
  })

  test('that are begun again while their day is dropped stay', async () => {
    const begun = start + 300 * dayMs
    await maintenance.makePartitions(dayOf(begun))
    const id = await addRun(begun)
    await later(400)
    const client = new pg.Client(fixture.database.adminConnection)
    await client.connect()
    try {
      await client.query('BEGIN')
      await client.query('UPDATE belfry.workflow_run SET state = NULL, ended_at = NULL WHERE id = $1', [id])
      const dropping = maintenance.dropPartitions(dayOf(begun))
      await expect
        .poll(() => sql(`SELECT FROM pg_locks WHERE NOT granted AND mode = 'AccessExclusiveLock'`))
        .toHaveLength(1)
      await client.query(
        `INSERT INTO belfry.workflow_progress (workflow_run_id, tenant_id, workflow_id, version, states)
         VALUES ($1, $2, $3, 1, '\\x00')`,
        [id, fixture.tenantId, newId()],
      )
      await client.query('COMMIT')
      expect(await dropping).not.toContain(`workflow_run_${suffix(begun)}`)
    } finally {
      await client.end()
    }
    expect(await sql(`SELECT id FROM belfry.workflow_run WHERE id = $1`, [id])).toEqual([{ id }])
    await setOver(id)
    expect(await leftAfterPruning(begun)).toEqual([])
  })

  test('of days without a partition move there, or are deleted when their time is over', async () => {
    await later(500)
    const [old, alive, fresh] = [await addRun(start), await addRun(start), await addRun(start + 499 * dayMs)]
    await setAlive(alive)
    await addTaskRun(old, start)
    await addTaskRun(alive, start)
    await maintenance.pruneDefault(retentionDays, 1_000)
    for (const day of await maintenance.missingDays(3, retentionDays, 100))
      await maintenance.makePartitions(day)
    const rows = await sql<{ id: string; place: string }>(
      `SELECT id, tableoid::regclass::text AS place FROM belfry.workflow_run ORDER BY id`,
    )
    expect(rows).toEqual([
      { id: alive, place: 'belfry.workflow_run_default' },
      { id: fresh, place: `belfry.workflow_run_${suffix(start + 499 * dayMs)}` },
    ])
    expect(await sql(`SELECT workflow_run_id FROM belfry.run_default`)).toEqual([{ workflow_run_id: alive }])
    await setOver(alive)
    await maintenance.pruneDefault(retentionDays, 1_000)
    expect(await sql(`SELECT id FROM belfry.workflow_run`)).toEqual([{ id: fresh }])
    expect(await sql(`SELECT run_id FROM belfry.attempt_default`)).toEqual([])
  })
})

// Housekeeping: partitions ahead and after retention, keys and nodes that ran out, and one failing task among
// others.
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createPruner } from '../../packages/server/src/engine/pruner.ts'
import type { Maintenance } from '../../packages/server/src/ports/maintenance.ts'
import { createPostgresMaintenance } from '../../packages/server/src/postgres/maintenance.ts'
import { realClock } from '../support/real-clock.ts'
import {
  createRunningFixture,
  newId,
  recordEvents,
  type RunningFixture,
  succeededEnd,
  testIds,
} from '../support/running.ts'

const dayMs = 86_400_000
const start = new Date('2026-03-10T12:00:00Z')

let fixture: RunningFixture
let maintenance: Maintenance

beforeAll(async () => {
  fixture = await createRunningFixture()
  maintenance = createPostgresMaintenance(fixture.database.open())
  await fixture.database.useVirtualNow(start)
  // the migration made partitions of the real today; here only the virtual days shall be
  for (const name of await partitions()) await fixture.database.sql(`DROP TABLE belfry.${name}`)
})
afterAll(() => fixture.drop())

async function partitions(): Promise<string[]> {
  const rows = await fixture.database.sql<{ name: string }>(
    `SELECT c.relname AS name FROM pg_class c JOIN pg_inherits i ON i.inhrelid = c.oid
     WHERE c.relnamespace = 'belfry'::regnamespace AND c.relkind = 'r' AND c.relname ~ '_[0-9]{8}$'
       ORDER BY 1`,
  )
  return rows.map((row) => row.name)
}

async function addRun(atMs: number): Promise<string> {
  const id = testIds.uuidv7(atMs)
  const job = await fixture.addJob()
  await fixture.database.sql(
    `INSERT INTO belfry.run (id, tenant_id, job_id, job_version, source, queue, priority, due_at)
     VALUES ($1, $2, $3, 1, 'manual', 'default', 0, belfry.now())`,
    [id, fixture.tenantId, job.id],
  )
  return id
}

async function addReady(runId: string): Promise<void> {
  const job = await fixture.addJob()
  await fixture.database.sql(
    `INSERT INTO belfry.ready (run_id, tenant_id, job_id, job_version, queue, handler, tag, priority,
      available_at, timeout_ms)
     VALUES ($1, $2, $3, 1, 'default', 'http', 1, 0, belfry.now(), 1000)`,
    [runId, fixture.tenantId, job.id],
  )
}

async function addAttempt(runId: string): Promise<void> {
  await fixture.database.sql(
    `INSERT INTO belfry.attempt (run_id, number, tenant_id, lease_epoch, outcome, retry_at, started_at)
     VALUES ($1, 1, $2, 1, 'failed', belfry.now(), belfry.now())`,
    [runId, fixture.tenantId],
  )
}

async function placeOfRun(id: string): Promise<string | undefined> {
  const [row] = await fixture.database.sql<{ name: string }>(
    'SELECT tableoid::regclass::text AS name FROM belfry.run WHERE id = $1',
    [id],
  )
  return row?.name
}

function pruner(more: Partial<Maintenance> = {}, retentionDays = 2) {
  const events = recordEvents()
  const options = { clock: realClock, random: { next: () => 0.5 }, events }
  return {
    ...createPruner({ ...options, maintenance: { ...maintenance, ...more }, retentionDays }),
    events,
  }
}

const days = (...list: string[]) =>
  ['attempt', 'occurrence', 'run', 'run_log', 'workflow_run'].flatMap((parent) =>
    list.map((day) => `${parent}_${day}`),
  )

describe('partitions', () => {
  test('are made from yesterday to three days ahead, once', async () => {
    const { runOnce, events } = pruner()
    expect(await runOnce()).toBe(true)
    const expected = days('20260309', '20260310', '20260311', '20260312', '20260313')
    expect(await partitions()).toEqual(expected)
    const made = events.of('partitions_changed').map((each) => each.made)
    expect(made.map((names) => names.length)).toEqual([5, 5, 5, 5, 5])
    expect(made.flat().sort()).toEqual(expected)
    await runOnce()
    expect(events.of('partitions_changed')).toHaveLength(5)
  })

  test('that are missing lose nothing: rows in the default move when their day is made', async () => {
    await fixture.database.setNow(new Date(start.getTime() + 10 * dayMs))
    const id = await addRun(start.getTime() + 10 * dayMs)
    expect(await placeOfRun(id)).toBe('belfry.run_default')
    await pruner().runOnce()
    expect(await placeOfRun(id)).toBe('belfry.run_20260320')
  })

  test('start resolves when the days that are needed are there, so that nothing fires before', async () => {
    await fixture.database.setNow(new Date(start.getTime() + 14 * dayMs))
    const service = pruner()
    await service.start()
    const made = await partitions()
    await service.stop()
    expect(made).toEqual(expect.arrayContaining(days('20260323', '20260324', '20260327')))
  })

  test('of the days of an outage are made too, as far as they are kept', async () => {
    await fixture.database.setNow(new Date(start.getTime() + 24 * dayMs))
    expect(await maintenance.missingDays(3, 4, 100)).toEqual(
      ['04-02', '04-03', '04-04', '04-05', '04-06', '03-30', '03-31', '04-01'].map((day) => `2026-${day}`),
    )
    expect(await pruner({}, 4).runOnce()).toBe(true)
    expect((await partitions()).filter((name) => name.startsWith('run_'))).toEqual(
      days(
        '20260330',
        '20260331',
        '20260401',
        '20260402',
        '20260403',
        '20260404',
        '20260405',
        '20260406',
      ).filter((name) => name.startsWith('run_')),
    )
  })

  test('are made for what stands in the default, and what is too old there is deleted', async () => {
    const now = start.getTime() + 24 * dayMs
    const occurrence = (at: number) =>
      fixture.database.sql(
        `INSERT INTO belfry.occurrence (schedule_id, scheduled_for, tenant_id, outcome, reason, due_at)
         VALUES ($1, $2, $3, 'missed', 'catch_up_latest', $2)`,
        [newId(), new Date(at), fixture.tenantId],
      )
    await occurrence(now - 400 * dayMs)
    const old = await addRun(now - 400 * dayMs)
    const alive = await addRun(now - 300 * dayMs)
    await addReady(alive)
    const byWrongClock = await addRun(now + 100 * dayMs)
    await addAttempt(old)
    await addAttempt(alive)
    expect(await pruner().runOnce()).toBe(true)
    expect(await placeOfRun(old)).toBeUndefined()
    expect(await placeOfRun(alive)).toBe('belfry.run_default')
    expect(await placeOfRun(byWrongClock)).toBe('belfry.run_20260712')
    const left = await fixture.database.sql(
      `SELECT (SELECT count(*)::int FROM belfry.occurrence_default) AS occurrences,
              (SELECT array_agg(run_id::text) FROM belfry.attempt_default) AS attempts`,
    )
    expect(left).toEqual([{ occurrences: 0, attempts: [alive] }])
    await fixture.database.sql('DELETE FROM belfry.ready WHERE run_id = $1', [alive])
    await pruner().runOnce()
    expect(await placeOfRun(alive)).toBeUndefined()
    expect(await maintenance.missingDays(3, 2, 100)).toEqual([])
  })

  test('are deleted from the default in batches', async () => {
    for (let n = 0; n < 7; n++) await addRun(start.getTime() - 400 * dayMs)
    expect([await maintenance.pruneDefault(2, 4), await maintenance.pruneDefault(2, 4)]).toEqual([4, 3])
  })

  test('are dropped a day at a time: one that is locked does not take back the others', async () => {
    const client = new pg.Client(fixture.database.adminConnection)
    await client.connect()
    await fixture.database.setNow(new Date(start.getTime() + 40 * dayMs))
    const { runOnce, events } = pruner()
    try {
      await client.query('BEGIN; LOCK TABLE ONLY belfry.attempt_20260403 IN ACCESS SHARE MODE')
      expect(await runOnce()).toBe(false)
    } finally {
      await client.end()
    }
    const dropped = events.of('partitions_changed').flatMap((each) => each.dropped)
    expect(dropped).toContain('run_20260401')
    expect(dropped).not.toContain('run_20260403')
    expect(await pruner().runOnce()).toBe(true)
    expect(await partitions()).not.toContain('run_20260403')
  })

  test('are dropped after retention, but not while one of their runs is alive', async () => {
    await fixture.database.setNow(start)
    await pruner().runOnce()
    const alive = testIds.uuidv7(start.getTime())
    await addReady(alive)
    await fixture.database.setNow(new Date(start.getTime() + 3 * dayMs))
    const { runOnce, events } = pruner()
    await runOnce()
    const left = await partitions()
    expect(left).toContain('run_20260310')
    expect(left).toContain('attempt_20260310')
    expect(left).not.toContain('occurrence_20260310')
    expect(left).not.toContain('run_20260309')
    expect(left).toContain('run_20260311')
    const sessionId = await fixture.openSession()
    const shares = [{ queue: 'default', minTag: -Infinity, limit: 1 }]
    const [run] = (await fixture.queue.claim({ sessionId, shares, routes: ['http'], deadlineMarginMs: 0 }))
      .runs
    await fixture.store.complete(sessionId, [
      succeededEnd({ runId: alive, leaseEpoch: run?.leaseEpoch ?? 0 }),
    ])
    await runOnce()
    expect(await partitions()).not.toContain('run_20260310')
    expect(events.of('partitions_changed').flatMap((each) => each.dropped)).toContain('attempt_20260310')
  })
})

test('idempotency keys that ran out go, in steps; the others stay', async () => {
  await fixture.database.sql(
    `INSERT INTO belfry.idempotency_key (tenant_id, api_key_id, key, fingerprint, status, response,
      expires_at)
     SELECT $1, $2, 'k' || n, '\\x00', 201, '{}', belfry.now() + (n - 12) * interval '1 hour'
       FROM generate_series(1, 20) AS n`,
    [fixture.tenantId, newId()],
  )
  expect(await maintenance.deleteExpiredIdempotencyKeys(5)).toBe(5)
  await pruner().runOnce()
  const [row] = await fixture.database.sql<{ count: number }>(
    'SELECT count(*)::int FROM belfry.idempotency_key',
  )
  expect(row?.count).toBe(8)
})

test('replans that ended before the retention go; open ones and late ones stay', async () => {
  const insert = (version: string, age: string | null) =>
    fixture.database.sql(
      `INSERT INTO belfry.replan (id, kind, subject, to_version, state, ended_at)
       VALUES ($1, 'zone', 'Europe/Berlin', $2, CASE WHEN $3::text IS NULL THEN 'running' ELSE 'done' END,
               belfry.now() - $3::interval)`,
      [newId(), version, age],
    )
  await insert('2025a', '31 days')
  await insert('2025b', '29 days')
  await insert('2025c', null)
  expect(await maintenance.deleteOldReplans(30, 10)).toBe(1)
  const rows = await fixture.database.sql('SELECT to_version FROM belfry.replan ORDER BY to_version')
  expect(rows).toEqual([{ to_version: '2025b' }, { to_version: '2025c' }])
})

test('scheduler nodes that ran out a day ago go; those that ran out lately stay', async () => {
  const insert = (age: string) =>
    fixture.database.sql(
      `INSERT INTO belfry.scheduler_node (id, host, version, expires_at) VALUES ($1, 'h', '0',
        belfry.now() - $2::interval)`,
      [newId(), age],
    )
  await insert('25 hours')
  await insert('1 hour')
  expect(await maintenance.deleteDeadNodes()).toBe(1)
})

describe('a task that fails', () => {
  test('incident 13: is reported, and the others still run', async () => {
    await fixture.database.setNow(new Date(start.getTime() + 30 * dayMs))
    const { runOnce, events } = pruner({
      dropPartitions: async () => {
        throw new Error('a lock was not to be had')
      },
      deleteExpiredIdempotencyKeys: async () => {
        throw new Error('neither')
      },
    })
    expect(await runOnce()).toBe(false)
    expect(events.of('role_failed').map((each) => each.role)).toEqual([
      'pruner.drop_partitions',
      'pruner.idempotency_keys',
    ])
    expect(await partitions()).toContain('run_20260409')
  })

  test('behind a long query gives up rather than making everybody wait behind it', async () => {
    await fixture.database.setNow(new Date(start.getTime() + 60 * dayMs))
    const client = new pg.Client(fixture.database.adminConnection)
    await client.connect()
    try {
      await client.query('BEGIN; SELECT count(*) FROM belfry.run')
      await expect(maintenance.makePartitions('2026-05-09')).rejects.toMatchObject({
        code: 'database_timeout',
      })
    } finally {
      await client.end()
    }
    expect(await maintenance.makePartitions('2026-05-09')).toHaveLength(5)
  })
})

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

function pruner(more: Partial<Maintenance> = {}) {
  const events = recordEvents()
  const options = { clock: realClock, random: { next: () => 0.5 }, events }
  return {
    ...createPruner({ ...options, maintenance: { ...maintenance, ...more }, retentionDays: 2 }),
    events,
  }
}

const days = (...list: string[]) =>
  ['attempt', 'occurrence', 'run'].flatMap((parent) => list.map((day) => `${parent}_${day}`))

describe('partitions', () => {
  test('are made from yesterday to three days ahead, once', async () => {
    const { runOnce, events } = pruner()
    expect(await runOnce()).toBe(true)
    const expected = days('20260309', '20260310', '20260311', '20260312', '20260313')
    expect(await partitions()).toEqual(expected)
    expect(events.of('partitions_changed').map((each) => [...each.made].sort())).toEqual([expected])
    await runOnce()
    expect(events.of('partitions_changed')).toHaveLength(1)
  })

  test('that are missing lose nothing: rows in the default move when their day is made', async () => {
    const job = await fixture.addJob()
    await fixture.database.setNow(new Date(start.getTime() + 10 * dayMs))
    const id = testIds.uuidv7(start.getTime() + 10 * dayMs)
    await fixture.database.sql(
      `INSERT INTO belfry.run (id, tenant_id, job_id, job_version, source, queue, priority, due_at)
       VALUES ($1, $2, $3, 1, 'manual', 'default', 0, belfry.now())`,
      [id, fixture.tenantId, job.id],
    )
    const where = async () => {
      const [row] = await fixture.database.sql<{ name: string }>(
        'SELECT tableoid::regclass::text AS name FROM belfry.run WHERE id = $1',
        [id],
      )
      return row?.name
    }
    expect(await where()).toBe('belfry.run_default')
    await pruner().runOnce()
    expect(await where()).toBe('belfry.run_20260320')
  })

  test('are dropped after retention, but not while one of their runs is alive', async () => {
    await fixture.database.setNow(start)
    await pruner().runOnce()
    const job = await fixture.addJob()
    const alive = testIds.uuidv7(start.getTime())
    await fixture.database.sql(
      `INSERT INTO belfry.ready (run_id, tenant_id, job_id, job_version, queue, handler, tag, priority,
        available_at, timeout_ms)
       VALUES ($1, $2, $3, 1, 'default', 'http', 1, 0, belfry.now(), 1000)`,
      [alive, fixture.tenantId, job.id],
    )
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
    const [run] = (await fixture.queue.claim({ sessionId, shares, handlers: ['http'], deadlineMarginMs: 0 }))
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
      await expect(maintenance.makePartitions(2)).rejects.toMatchObject({ code: 'database_timeout' })
    } finally {
      await client.end()
    }
    expect((await maintenance.makePartitions(2)).length).toBe(6)
  })
})

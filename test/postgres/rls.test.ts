// Row-level security, found by walking the catalog rather than a list: a table that somebody adds tomorrow is
// held to it too. What the engine's role may do across tenants stands in engine-grants.test.ts.
import type pg from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { asRole, asRoleCommitted } from '../support/as-role.ts'
import { guardedRows, type Insert } from '../support/guarded-rows.ts'
import { createRunningFixture, newId, type RunningFixture } from '../support/running.ts'

let fixture: RunningFixture
let other: string

beforeAll(async () => {
  fixture = await createRunningFixture()
  other = await fixture.addTenant()
  for (const tenantId of [fixture.tenantId, other]) {
    const job = await fixture.addJob({}, tenantId)
    const [runId] = await fixture.addRuns(job, 1)
    await seed(tenantId, job.id, runId ?? '')
  }
})
afterAll(() => fixture.drop())

/** One row of each tenant in every tenant table that the fixture leaves empty. */
async function seed(tenantId: string, jobId: string, runId: string): Promise<void> {
  const scheduleId = newId()
  const rows: Insert[] = [
    [
      `INSERT INTO belfry.schedule (id, tenant_id, name, job_id, spec, zone, zone_data_version, catch_up,
        overlap)
       VALUES ($1, $2, 's', $3, '{}', 'UTC', '1', '{}', 'skip')`,
      [scheduleId, tenantId, jobId],
    ],
    [
      `INSERT INTO belfry.timer (schedule_id, tenant_id, due_at, scheduled_for, gen, shard) VALUES ($1, $2,
        now(), now(), 1, 0)`,
      [scheduleId, tenantId],
    ],
    [
      `INSERT INTO belfry.occurrence (schedule_id, scheduled_for, tenant_id, outcome, run_id, due_at)
       VALUES ($1, now(), $2, 'ran', $3, now())`,
      [scheduleId, tenantId, runId],
    ],
    [
      `INSERT INTO belfry.delayed (run_id, tenant_id, job_id, job_version, due_at, shard, queue, handler,
        priority, timeout_ms,
         lease_epoch, attempt, crash_count) VALUES ($1, $2, $3, 1, now(), 0, 'q', 'http', 0, 1, 0, 0, 0)`,
      [newId(), tenantId, jobId],
    ],
    [
      `INSERT INTO belfry.attempt (run_id, number, tenant_id, lease_epoch, outcome, run_state, started_at)
       VALUES ($1, 1, $2, 1, 'succeeded', 'succeeded', now())`,
      [newId(), tenantId],
    ],
    [
      `INSERT INTO belfry.api_key (id, tenant_id, name, prefix, secret_hash, scopes)
       VALUES ($1, $2, 'k', $3, decode(repeat('00', 32), 'hex'), '{read}')`,
      [newId(), tenantId, newId()],
    ],
    [
      `INSERT INTO belfry.idempotency_key (tenant_id, api_key_id, key, fingerprint, status, response,
        expires_at)
       VALUES ($1, $2, 'k', '\\x00', 201, '{}', now())`,
      [tenantId, newId()],
    ],
  ]
  rows.push(...workerRows(tenantId), ...scheduleRows(tenantId, scheduleId, runId))
  rows.push(...endRows(tenantId, jobId), ...gatheringRows(tenantId, jobId))
  rows.push(...workflowRows(tenantId, jobId), ...guardedRows(tenantId), ...auditRows(tenantId))
  for (const [text, params] of rows) await fixture.database.sql(text, params)
}

function auditRows(tenantId: string): Insert[] {
  const hash = "decode(repeat('00', 32), 'hex')"
  const signature = "decode(repeat('00', 64), 'hex')"
  const entry = "'job.update', 'done', 'key', 'k', 'job'"
  const columns = 'action, outcome, actor_kind, actor_name, subject_kind'
  return [
    [`INSERT INTO belfry.audit_inbox (tenant_id, ${columns}) VALUES ($1, ${entry})`, [tenantId]],
    [
      `INSERT INTO belfry.audit_log (tenant_id, seq, sealed_at, id, at, ${columns}, details,
         previous_hash, hash)
       VALUES ($1, 1, date_trunc('second', now()), $2, date_trunc('second', now()), ${entry}, '{}',
         ${hash}, ${hash})`,
      [tenantId, newId()],
    ],
    [
      `WITH head AS (
         INSERT INTO belfry.audit_head (tenant_id) VALUES ($1)
       ), point AS (
         INSERT INTO belfry.audit_checkpoint (tenant_id, size, head, at, key_id, signature)
         VALUES ($1, 1, ${hash}, date_trunc('second', now()), 'k', ${signature})
       ), cut AS (
         INSERT INTO belfry.audit_cut (tenant_id, first_seq, previous_hash, at, key_id, signature)
         VALUES ($1, 1, ${hash}, date_trunc('second', now()), 'k', ${signature})
       )
       INSERT INTO belfry.audit_export (sink, tenant_id, seq) VALUES ('file', $1, 1)`,
      [tenantId],
    ],
  ]
}

function workflowRows(tenantId: string, jobId: string): Insert[] {
  return [
    [
      `WITH made AS (
         INSERT INTO belfry.workflow (id, tenant_id, name, task_count) VALUES ($1, $2, 'w', 1) RETURNING id)
       INSERT INTO belfry.workflow_version
         (workflow_id, version, tenant_id, description, task_count, definition, job_ids, job_versions)
       SELECT id, 1, $2, '', 1, '{}', ARRAY[$3::uuid], ARRAY[NULL::integer] FROM made`,
      [newId(), tenantId, jobId],
    ],
    [
      `WITH run AS (
         INSERT INTO belfry.workflow_run (id, tenant_id, workflow_id, version, source)
         VALUES ($1, $2, $3, 1, 'manual')
       ), progress AS (
         INSERT INTO belfry.workflow_progress (workflow_run_id, tenant_id, workflow_id, version, states)
         VALUES ($1, $2, $3, 1, '\\x00')
       ), task AS (
         INSERT INTO belfry.task_run (run_id, tenant_id, workflow_run_id, task) VALUES ($3, $2, $1, 0)
       )
       INSERT INTO belfry.workflow_event (workflow_run_id, tenant_id, kind) VALUES ($1, $2, 'begin')`,
      [newId(), tenantId, newId()],
    ],
    [
      `WITH trigger AS (
         INSERT INTO belfry.workflow_trigger (tenant_id, workflow_id, position, kind, name, states)
         VALUES ($2, $1, 0, 'event', 'e', '{}')
       ), event AS (
         INSERT INTO belfry.event (id, tenant_id, name, key) VALUES ($1, $2, 'e', 'k')
       ), link AS (
         INSERT INTO belfry.dependency (child_id, parent_id, tenant_id, rule) VALUES ($1, $1, $2, 'all_done')
       )
       INSERT INTO belfry.dependency_event (child_id, tenant_id) VALUES ($1, $2)`,
      [newId(), tenantId],
    ],
    [
      `WITH sent AS (
         INSERT INTO belfry.workflow_signal (workflow_run_id, name, tenant_id, sent_by)
         VALUES ($1, 's', $2, '{}')
       )
       INSERT INTO belfry.task_wait
         (id, tenant_id, workflow_run_id, task, task_id, kind, on_timeout, on_reject)
       VALUES ($3, $2, $1, 0, 'a', 'approval', 'failed', 'failed')`,
      [newId(), tenantId, newId()],
    ],
  ]
}

function workerRows(tenantId: string): Insert[] {
  return [
    [
      `INSERT INTO belfry.run_log (run_id, number, first_line, last_line, tenant_id, lines, total_bytes)
       VALUES ($1, 1, 0, 0, $2, '[]', 2)`,
      [newId(), tenantId],
    ],
    [
      `INSERT INTO belfry.session (id, host, version, queues, slots, expires_at, tenant_id, functions)
       VALUES ($1, 'h', 'v', '{q}', 1, now() + interval '1 hour', $2, '{f}')`,
      [newId(), tenantId],
    ],
    [
      `INSERT INTO belfry.callback (tenant_id, run_id, lease_epoch, token_hash)
       VALUES ($2, $1, 1, sha256($1::uuid::text::bytea))`,
      [newId(), tenantId],
    ],
  ]
}

function endRows(tenantId: string, jobId: string): Insert[] {
  return [
    [
      `INSERT INTO belfry.dead_letter (run_id, tenant_id, job_id, queue, error_code, fingerprint, failed_at)
       VALUES ($1, $2, $3, 'q', 'http_500', '0123456789abcdef', '2026-11-30')`,
      [newId(), tenantId, jobId],
    ],
    [
      'INSERT INTO belfry.claim (session_id, tenant_id, number, run_ids) VALUES ($1, $2, 1, $3)',
      [newId(), tenantId, [newId()]],
    ],
    [
      `INSERT INTO belfry.cancel_note (run_id, tenant_id, reason) VALUES ($1, $2, 'because')`,
      [newId(), tenantId],
    ],
  ]
}

function gatheringRows(tenantId: string, jobId: string): Insert[] {
  return [
    [`INSERT INTO belfry.dedupe (tenant_id, job_id, key) VALUES ($1, $2, 'k')`, [tenantId, jobId]],
    [
      `INSERT INTO belfry.gathering (tenant_id, job_id, key, opened_at) VALUES ($1, $2, 'k', now())`,
      [tenantId, jobId],
    ],
    ['INSERT INTO belfry.gathered (run_id, position, tenant_id) VALUES ($1, 1, $2)', [newId(), tenantId]],
  ]
}

function scheduleRows(tenantId: string, scheduleId: string, runId: string): Insert[] {
  return [
    [
      `INSERT INTO belfry.backfill (id, tenant_id, schedule_id, shard, from_at, to_at, time_order,
         concurrency, reprocess, timing, total)
       VALUES ($1, $2, $3, 0, now() - interval '1 day', now(), 'oldest_first', 4, 'none', '{}', 1)`,
      [newId(), tenantId, scheduleId],
    ],
    [
      `INSERT INTO belfry.extra_run (tenant_id, schedule_id, scheduled_for, run_id)
       VALUES ($1, $2, now(), $3)`,
      [tenantId, scheduleId, runId],
    ],
    [
      `INSERT INTO belfry.replan (id, kind, subject, tenant_id, to_version)
       VALUES ($1, 'calendar', $2, $3, '2')`,
      [newId(), newId(), tenantId],
    ],
    [
      `WITH made AS (
         INSERT INTO belfry.calendar (id, tenant_id, name, definition, digest)
         VALUES ($1, $2, 'c', '{}', decode(repeat('00', 32), 'hex')) RETURNING id)
       INSERT INTO belfry.schedule_calendar (tenant_id, schedule_id, calendar_id, use, position)
       SELECT $2, $3, id, 'skip', 0 FROM made`,
      [newId(), tenantId, scheduleId],
    ],
    ...limitRows(tenantId, runId),
  ]
}

function limitRows(tenantId: string, runId: string): Insert[] {
  return [
    [
      `INSERT INTO belfry.slot (run_id, limit_key, tenant_id, weight) VALUES ($1, 'tenant', $2, 1)`,
      [runId, tenantId],
    ],
    [
      'INSERT INTO belfry.gate_group (gate, tenant_id, head_tag) VALUES ($1, $2, 1)',
      [`${newId()}///q`, tenantId],
    ],
    [
      `INSERT INTO belfry.bucket (tenant_id, limit_key, tokens, at, full_at)
       VALUES ($1, 'pool:x', 1, now(), now())`,
      [tenantId],
    ],
    [`INSERT INTO belfry.pool (id, tenant_id, name, slots) VALUES ($1, $2, 'p', 1)`, [newId(), tenantId]],
    [`INSERT INTO belfry.queue_pause (tenant_id, queue, reason) VALUES ($1, 'q', 'r')`, [tenantId]],
    ['INSERT INTO belfry.regate (tenant_id) VALUES ($1)', [tenantId]],
    [
      `INSERT INTO belfry.queue_pace (tenant_id, queue, kind, attempts, busy_ms)
       VALUES ($1, 'q', 'servers', 1, 1)`,
      [tenantId],
    ],
  ]
}

type TenantTable = {
  readonly name: string
  readonly enabled: boolean
  readonly forced: boolean
  readonly partition: boolean
}

const tenantTables = () =>
  fixture.database.sql<TenantTable>(
    `SELECT c.relname AS name, c.relrowsecurity AS enabled, c.relforcerowsecurity AS forced,
      c.relispartition AS partition
     FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
     WHERE c.relnamespace = 'belfry'::regnamespace AND c.relkind IN ('r', 'p') AND a.attname = 'tenant_id'
       AND NOT a.attisdropped
     ORDER BY c.relname`,
  )

const as = <Row extends pg.QueryResultRow>(
  role: string,
  tenantId: string,
  text: string,
  params: readonly unknown[] = [],
): Promise<Row[]> => asRole<Row>(fixture.database.connection, role, tenantId, text, params)

describe('every table with a tenant', () => {
  test('has row-level security, enabled and forced, partitions included (case tenant.rls_meta)', async () => {
    const tables = await tenantTables()
    expect(tables.length).toBeGreaterThan(20)
    expect(tables.filter((table) => table.partition).length).toBeGreaterThan(10)
    expect(tables.filter((table) => !table.enabled || !table.forced)).toEqual([])
  })

  test('shows no row without a tenant (case tenant.rls_no_tenant), and its own with one', async () => {
    const tables = (await tenantTables()).filter((table) => !table.partition)
    for (const { name } of tables) {
      const count = async (tenantId: string) => {
        const text = `SELECT count(*)::int AS all, count(*) FILTER (WHERE tenant_id = $1)::int AS own
          FROM belfry.${name}`
        return (await as<{ all: number; own: number }>('belfry_app', tenantId, text, [fixture.tenantId]))[0]
      }
      expect([name, await count('')]).toEqual([name, { all: 0, own: 0 }])
      const own = await count(fixture.tenantId)
      expect([name, own?.all]).toEqual([name, own?.own])
      expect([name, own?.own]).not.toEqual([name, 0])
      expect([name, (await count(other))?.own]).toEqual([name, 0])
    }
  })

  test('partitions are closed to every working role: the way is through the parent', async () => {
    const partitions = (await tenantTables()).filter((table) => table.partition)
    const grants = await fixture.database.sql<{ count: number }>(
      `SELECT count(*)::int FROM information_schema.role_table_grants
       WHERE table_schema = 'belfry' AND table_name = ANY ($1) AND grantee LIKE 'belfry%'`,
      [partitions.map((table) => table.name)],
    )
    expect(grants).toEqual([{ count: 0 }])
  })
})

describe('the app role', () => {
  test('cannot write a row for another tenant (case tenant.rls_insert_other)', async () => {
    const insert = `INSERT INTO belfry.job_version (job_id, version, tenant_id, definition) VALUES ($1, 1,
      $2, '{}')`
    await expect(as('belfry_app', fixture.tenantId, insert, [newId(), other])).rejects.toThrow(
      /row-level security/,
    )
    await expect(as('belfry_app', '', insert, [newId(), other])).rejects.toThrow(/row-level security/)
  })

  test("neither changes nor deletes another tenant's rows (case tenant.rls_update_other)", async () => {
    const cancel = 'UPDATE belfry.ready SET cancel_requested_at = now() RETURNING tenant_id'
    const rows = await as<{ tenant_id: string }>('belfry_app', fixture.tenantId, cancel)
    expect(rows).toEqual([{ tenant_id: fixture.tenantId }])
    expect(
      await as('belfry_app', other, 'DELETE FROM belfry.delayed WHERE tenant_id = $1 RETURNING 1', [
        fixture.tenantId,
      ]),
    ).toEqual([])
  })

  test('cannot touch the fence, the session or the engine of the queue', async () => {
    for (const text of [
      'UPDATE belfry.ready SET lease_epoch = 0',
      'UPDATE belfry.ready SET session_id = NULL',
      'UPDATE belfry.session SET expires_at = now()',
      'DELETE FROM belfry.session',
      'SELECT * FROM belfry.queue_progress',
      'SELECT belfry.drop_partitions(current_date)',
      'DELETE FROM belfry.attempt',
      'DELETE FROM belfry.run',
    ]) {
      await expect(as('belfry_app', fixture.tenantId, text)).rejects.toThrow(/permission denied/)
    }
  })

  test('and the login itself own nothing and bypass nothing', async () => {
    const rows = await fixture.database.sql<{ name: string; wrong: boolean; owned: number }>(
      `SELECT r.rolname AS name, r.rolsuper OR r.rolbypassrls OR r.rolcreaterole OR r.rolcreatedb AS wrong,
              (SELECT count(*)::int FROM pg_class WHERE relowner = r.oid) AS owned
       FROM pg_roles r WHERE r.rolname IN ('belfry', 'belfry_app', 'belfry_engine', 'belfry_platform')
         ORDER BY 1`,
    )
    expect(rows).toEqual(
      ['belfry', 'belfry_app', 'belfry_engine', 'belfry_platform'].map((name) => ({
        name,
        wrong: false,
        owned: 0,
      })),
    )
  })
})

test("a tenant's own role makes no key that reaches beyond it, but may revoke one", async () => {
  const insert = `INSERT INTO belfry.api_key (id, tenant_id, name, prefix, secret_hash, scopes)
    VALUES ($1, $2, 'more', $3, decode(repeat('00', 32), 'hex'), $4)`
  const key = (scopes: string) => [newId(), fixture.tenantId, newId(), scopes]
  await expect(as('belfry_app', fixture.tenantId, insert, key('{read,platform}'))).rejects.toThrow(
    /row-level security/,
  )
  await as('belfry_app', fixture.tenantId, insert, key('{read,admin}'))
  const platform = key('{platform}')
  await asRoleCommitted(fixture.database.connection, 'belfry_platform', '', insert, platform)
  const revoke = 'UPDATE belfry.api_key SET revoked_at = now() WHERE id = $1 RETURNING id'
  expect(await as('belfry_app', fixture.tenantId, revoke, [platform[0]])).toEqual([{ id: platform[0] }])
})

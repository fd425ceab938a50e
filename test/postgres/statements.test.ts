// Every statement of postgres/statements/, found by walking the folder: it prepares against the migrated
// schema under each role that uses it, that role may do what it asks, its name is its own, and a comment says
// what it is for. On the embedded Postgres 18 and on the system's own version.
import { readdirSync, readFileSync } from 'node:fs'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { migrate } from '../../packages/server/src/postgres/migrate.ts'
import { enterScope } from '../../packages/server/src/postgres/statements/transaction.ts'
import { describeNeeding } from '../support/needs.ts'
import type { SystemPostgres, TestConnection, TestDatabase } from '../support/postgres.ts'
import { createTestDatabase, startSystemPostgres } from '../support/postgres.ts'

type Role = 'belfry_app' | 'belfry_engine' | 'belfry_platform' | 'belfry'
type Named = { readonly name: string; readonly text: string }
type Found = Named & { readonly file: string; readonly constant: string }

/** Who uses the statements of a file; `belfry` is the login itself, before it takes a role. */
const usersOfFile: Readonly<Record<string, readonly Role[]>> = {
  'access.ts': ['belfry_platform'],
  'announced.ts': ['belfry_engine'],
  'audit.ts': ['belfry_app'],
  'audit-sealing.ts': ['belfry_engine'],
  'backfill-steps.ts': ['belfry_engine'],
  'backfills.ts': ['belfry_app'],
  'calendars.ts': ['belfry_app'],
  'callbacks.ts': ['belfry_engine'],
  'claim.ts': ['belfry_engine'],
  'cluster.ts': ['belfry_platform'],
  'completion.ts': ['belfry_engine'],
  'dead-letters.ts': ['belfry_app'],
  'successes.ts': ['belfry_engine'],
  'dedupe.ts': ['belfry_app'],
  'expiry.ts': ['belfry_engine'],
  'explanations.ts': ['belfry_app'],
  'dependencies.ts': ['belfry_engine'],
  'external-ids.ts': ['belfry_app'],
  'failure-pauses.ts': ['belfry_engine'],
  'fire.ts': ['belfry_engine'],
  'fire-workflows.ts': ['belfry_engine'],
  'enqueue-inside.ts': ['belfry_app'],
  'firing.ts': ['belfry_engine'],
  'followers.ts': ['belfry_app'],
  'gatherings.ts': ['belfry_app'],
  'gate.ts': ['belfry_engine'],
  'gate-changes.ts': ['belfry_app'],
  'gate-walk.ts': ['belfry_engine'],
  'gate-writes.ts': ['belfry_engine'],
  'health.ts': ['belfry'],
  'hints.ts': ['belfry_engine'],
  'hosts.ts': ['belfry'],
  'idempotency.ts': ['belfry_app', 'belfry_platform'],
  'jobs.ts': ['belfry_app'],
  'leadership.ts': ['belfry_engine'],
  'maintenance.ts': ['belfry_engine'],
  'members.ts': ['belfry_app'],
  'people.ts': ['belfry_platform'],
  'migrate.ts': ['belfry'],
  'nodes.ts': ['belfry_engine'],
  'outgoing-events.ts': ['belfry_engine'],
  'queue-progress.ts': ['belfry_engine'],
  'container-policies.ts': ['belfry_platform'],
  'quotas.ts': ['belfry_app'],
  'queue-stats.ts': ['belfry_app'],
  'queue-view.ts': ['belfry_app'],
  'replanning.ts': ['belfry_engine'],
  'replans.ts': ['belfry_app'],
  'rescue.ts': ['belfry_engine'],
  'run-batch.ts': ['belfry_app'],
  'run-cancels.ts': ['belfry_app'],
  'run-watch.ts': ['belfry_engine'],
  'runs.ts': ['belfry_app'],
  'schedules.ts': ['belfry_app'],
  'secrets.ts': ['belfry_app'],
  'service-accounts.ts': ['belfry_app'],
  'sessions.ts': ['belfry_engine'],
  'task-runs.ts': ['belfry_app'],
  'task-starts.ts': ['belfry_engine'],
  'task-wait-decisions.ts': ['belfry_app'],
  'task-waits.ts': ['belfry_engine'],
  'timers.ts': ['belfry_engine'],
  'transaction.ts': ['belfry'],
  'workers.ts': ['belfry_engine'],
  'workflow-acts.ts': ['belfry_app'],
  'workflow-events.ts': ['belfry_app'],
  'workflow-gates.ts': ['belfry_engine'],
  'workflow-insight.ts': ['belfry_app'],
  'workflow-mending.ts': ['belfry_engine'],
  'workflow-resolving.ts': ['belfry_engine'],
  'workflow-run-lists.ts': ['belfry_app'],
  'workflow-runs.ts': ['belfry_app'],
  'workflow-turns.ts': ['belfry_engine'],
  'workflows.ts': ['belfry_app'],
}
/** By name, where it is otherwise than for the rest of its file. */
const usersOfStatement: Readonly<Record<string, readonly Role[]>> = {
  secret_read_asked: ['belfry_engine'],
  secret_read_kept: ['belfry_engine'],
  external_id_find_of: ['belfry_engine'],
  tenant_key_list: ['belfry_platform'],
  tenant_key_replace: ['belfry_platform'],
  tenant_key_count: ['belfry_platform'],
  member_insert: ['belfry_app', 'belfry_platform'],
  member_lock_owners: ['belfry_app', 'belfry_platform'],
  person_session_end_of: ['belfry_app', 'belfry_platform'],
  belfry_list_identities: ['belfry_engine'],
  belfry_delete_free_dedupe_keys: ['belfry_engine'],
  belfry_delete_idle_gatherings: ['belfry_engine'],
  belfry_delete_old_cancel_notes: ['belfry_engine'],
  belfry_delete_old_gathered: ['belfry_engine'],
  belfry_delete_old_dead_letters: ['belfry_engine'],
  belfry_record_dead_letters: ['belfry_engine'],
  audit_put: ['belfry_app', 'belfry_engine', 'belfry_platform'],
  audit_chain_read: ['belfry_app', 'belfry_engine'],
  audit_checkpoints_read: ['belfry_app', 'belfry_engine'],
  audit_cuts_read: ['belfry_app', 'belfry_engine'],
  backfill_time_records: ['belfry_app', 'belfry_engine'],
  calendar_definitions: ['belfry_app', 'belfry_engine'],
  dependency_insert_runs: ['belfry_app'],
  dependency_known_runs: ['belfry_app'],
  event_delete_old: ['belfry_engine'],
  firing_settle: ['belfry_app'],
  firing_settle_workflow: ['belfry_app'],
  schedule_let_workflow_runs_go: ['belfry_app'],
  quota_list_of: ['belfry_platform'],
  quota_set: ['belfry_platform'],
  quota_reset: ['belfry_platform'],
  quota_set_gate: ['belfry_platform'],
  gate_list_job_facts: ['belfry_app', 'belfry_engine'],
  gate_read_standing: ['belfry_app', 'belfry_engine'],
  gate_read_tenant: ['belfry_app', 'belfry_engine'],
  followers_close_any_chain: ['belfry_engine'],
  followers_lock_timer_of_any: ['belfry_engine'],
  gathering_lock_due: ['belfry_engine'],
  gathering_seal: ['belfry_engine'],
  key_insert: ['belfry_app', 'belfry_platform'],
  key_find: ['belfry_app'],
  key_list: ['belfry_app'],
  key_revoke: ['belfry_app'],
  key_revoke_of: ['belfry_app'],
  health_open_replans: ['belfry_engine'],
  replan_list_zones: ['belfry_platform'],
  replanning_newest_zone_data: ['belfry_app', 'belfry_engine'],
  worker_list: ['belfry_app'],
  workflow_gate_poke_of: ['belfry_app'],
  workflow_set_concurrency: ['belfry_app'],
  worker_list_log_chunks: ['belfry_app'],
  queue_all_server_demand: ['belfry_platform'],
}

const folder = new URL('../../packages/server/src/postgres/statements/', import.meta.url)
const files = readdirSync(folder).filter((file) => file.endsWith('.ts'))
const sourceOf = (file: string) => readFileSync(new URL(file, folder), 'utf8')

function isStatement(value: unknown): value is Named {
  return typeof value === 'object' && value !== null && 'name' in value && 'text' in value
}

async function findStatements(file: string): Promise<Found[]> {
  const module = (await import(new URL(file, folder).href)) as Readonly<Record<string, unknown>>
  return Object.entries(module).flatMap(([constant, value]) =>
    isStatement(value) ? [{ name: value.name, text: value.text, file, constant }] : [],
  )
}

/** The constants that a source declares as statements. */
function scan(source: string): { constant: string; exported: boolean; documented: boolean }[] {
  return [...source.matchAll(/^(export )?const (\w+)[^=\n]*= statement\b/gm)].map((match) => ({
    constant: match[2] ?? '',
    exported: match[1] !== undefined,
    documented: endsWithComment(source.slice(0, match.index)),
  }))
}

/** Whether a doc comment with words in it is the last thing in a text. */
function endsWithComment(text: string): boolean {
  const [, words = ''] = /^\/\*\*([\s\S]*)\*\/\n$/.exec(text.slice(text.lastIndexOf('/**'))) ?? []
  return /\w/.test(words) && !words.includes('*/')
}

function nameFaults(statements: readonly Named[]): string[] {
  const seen = new Set<string>()
  return statements.flatMap(({ name }) => {
    const faults = [
      ...(seen.has(name) ? [`${name} is the name of two statements`] : []),
      ...(Buffer.byteLength(name) > 63 ? [`${name} is longer than the 63 bytes that Postgres keeps`] : []),
      ...(/^[a-z][a-z0-9_]*$/.test(name) ? [] : [`${name} is not made of small letters, digits and _`]),
    ]
    seen.add(name)
    return faults
  })
}

/**
 * What is wrong with a statement under a role, in words; undefined when nothing is. EXPLAIN of the generic
 * plan checks every privilege, on tables, columns and functions, and runs nothing.
 */
async function faultOf(client: pg.Client, role: string, { name, text }: Named): Promise<string | undefined> {
  const id = pg.escapeIdentifier(name)
  await client.query('BEGIN')
  try {
    await client.query(enterScope.text, [role, '00000000-0000-0000-0000-000000000001', '10000', '10000'])
    await client.query(`PREPARE ${id} AS ${text}`)
    const prepared = await client.query<{ count: number }>(
      'SELECT cardinality(parameter_types) AS count FROM pg_prepared_statements WHERE name = $1',
      [name],
    )
    await client.query("SELECT set_config('plan_cache_mode', 'force_generic_plan', true)")
    const nulls = Array.from({ length: prepared.rows[0]?.count ?? 0 }, () => 'NULL').join(', ')
    const plan = await client.query<{ 'QUERY PLAN': string }>(
      `EXPLAIN EXECUTE ${id}${nulls === '' ? '' : ` (${nulls})`}`,
    )
    const blind = plan.rows.some((row) => row['QUERY PLAN'].includes('One-Time Filter: false'))
    return blind ? `${name} as ${role}: no policy lets it see a row` : undefined
  } catch (error) {
    return `${name} as ${role}: ${error instanceof Error ? error.message : String(error)}`
  } finally {
    await client.query('ROLLBACK')
    await client.query('DEALLOCATE ALL')
  }
}

/**
 * Grants without a policy: such a role finds nothing, or may write nothing, and learns it at run time only.
 */
const grantsWithoutPolicy = `
SELECT t.relname AS table, r.rolname AS role, p.privilege
FROM pg_class t
CROSS JOIN pg_roles r
CROSS JOIN (VALUES ('SELECT', 'r'), ('INSERT', 'a'), ('UPDATE', 'w'), ('DELETE', 'd'))
  AS p (privilege, command)
WHERE t.relnamespace = 'belfry'::regnamespace AND t.relkind IN ('r', 'p') AND t.relrowsecurity
  AND r.rolname IN ('belfry_app', 'belfry_engine', 'belfry_platform')
  AND CASE p.privilege WHEN 'DELETE' THEN has_table_privilege(r.oid, t.oid, 'DELETE')
      ELSE has_any_column_privilege(r.oid, t.oid, p.privilege) END
  AND NOT EXISTS (
    SELECT FROM pg_policy y
    WHERE y.polrelid = t.oid AND y.polpermissive AND r.oid = ANY (y.polroles)
      AND y.polcmd IN ('*', p.command::"char"))`

/**
 * The suite on one migrated database. `connect` opens a connection as the superuser or as the login `belfry`.
 */
function describeStatements(connect: (user: 'postgres' | 'belfry') => Promise<pg.Client>): void {
  let admin: pg.Client
  let login: pg.Client
  beforeAll(async () => {
    admin = await connect('postgres')
    login = await connect('belfry')
  })
  afterAll(async () => {
    await login?.end()
    await admin?.end()
  })

  it.each(files)('%s prepares, and its roles may run it', async (file) => {
    for (const statement of await findStatements(file)) {
      expect(await faultOf(admin, 'postgres', statement)).toBeUndefined()
      for (const role of usersOfStatement[statement.name] ?? usersOfFile[file] ?? []) {
        expect(await faultOf(login, role, statement)).toBeUndefined()
      }
    }
  })

  it('every grant to a role comes with a policy for the same command', async () => {
    expect((await admin.query(grantsWithoutPolicy)).rows).toEqual([])
  })

  it('a statement that is wrong would be found', async () => {
    const fault = (role: Role, text: string) => faultOf(login, role, { name: 'wrong', text })
    expect(await fault('belfry_app', 'SELECT nothing FROM belfry.job')).toMatch(
      /column "nothing" does not exist/,
    )
    expect(await fault('belfry_app', 'SELECT 1 FROM belfry.nothing WHERE id = $1')).toMatch(/does not exist/)
    expect(await fault('belfry_app', 'SELECT id FROM belfry.job WHERE name =')).toMatch(/syntax error/)
    expect(await fault('belfry_app', 'SELECT $2::int AS gap')).toMatch(/could not determine data type/)
    expect(await fault('belfry_app', 'SELECT queue FROM belfry.queue_progress')).toMatch(
      /permission denied for table queue_progress/,
    )
    expect(await fault('belfry_app', 'UPDATE belfry.ready SET tag = $1')).toMatch(/permission denied/)
    expect(await fault('belfry_app', 'SELECT belfry.drop_partitions($1)')).toMatch(
      /permission denied for function/,
    )
    expect(await fault('belfry_platform', 'DELETE FROM belfry.tenant')).toMatch(/permission denied/)
    expect(await fault('belfry', 'SELECT id FROM belfry.job')).toMatch(/permission denied/)
  })

  it('a grant without a policy would be found', async () => {
    await admin.query('BEGIN')
    try {
      await admin.query('CREATE TABLE belfry.blind (id int)')
      await admin.query('ALTER TABLE belfry.blind ENABLE ROW LEVEL SECURITY')
      await admin.query('GRANT SELECT ON belfry.blind TO belfry_app')
      const expected = [{ table: 'blind', role: 'belfry_app', privilege: 'SELECT' }]
      expect((await admin.query(grantsWithoutPolicy)).rows).toEqual(expected)
      await admin.query('SET LOCAL ROLE belfry_app')
      const plan = await admin.query<{ 'QUERY PLAN': string }>('EXPLAIN SELECT id FROM belfry.blind')
      expect(plan.rows.map((row) => row['QUERY PLAN'].trim())).toContain('One-Time Filter: false')
    } finally {
      await admin.query('ROLLBACK')
    }
  })
}

async function connectAs(connection: TestConnection, user: string): Promise<pg.Client> {
  const client = new pg.Client({ ...connection, user })
  await client.connect()
  return client
}

describe('the sources of the statements', () => {
  it.each(files)('%s: all exported, each with a comment of its own', async (file) => {
    const declared = scan(sourceOf(file))
    expect(declared.filter((each) => !each.exported || !each.documented)).toEqual([])
    const loaded = (await findStatements(file)).map((each) => each.constant)
    expect(loaded.sort()).toEqual(declared.map((each) => each.constant).sort())
  })

  it.each(files)('%s has users', async (file) => {
    const isUsed = (await findStatements(file)).length === 0 || usersOfFile[file] !== undefined
    expect(isUsed, `name the roles that use ${file} in usersOfFile, above`).toBe(true)
  })

  it('names are unique and short enough to be told apart by Postgres', async () => {
    const all = (await Promise.all(files.map(findStatements))).flat()
    expect(all.length).toBeGreaterThan(60)
    expect(nameFaults(all)).toEqual([])
    const known = new Set(all.map((each) => each.name))
    expect(Object.keys(usersOfStatement).filter((name) => !known.has(name))).toEqual([])
    expect(Object.keys(usersOfFile).filter((file) => !files.includes(file))).toEqual([])
  })

  it('finds bad names', () => {
    const named = (name: string) => ({ name, text: '' })
    expect(nameFaults([named('a'), named('b'), named('a')])).toEqual(['a is the name of two statements'])
    expect(nameFaults([named('n'.repeat(63))])).toEqual([])
    expect(nameFaults([named('n'.repeat(64))])).toHaveLength(1)
    expect(nameFaults([named('jobList')])).toHaveLength(1)
  })

  it('finds a statement without a comment, or one that is not exported', () => {
    const source = [
      '/** The header. */',
      "import { statement } from '../statement.ts'",
      '/** Of its own. */',
      "export const one = statement<{ n: number }>('one', 'SELECT 1 AS n')",
      "export const two = statement('two', 'SELECT 2')",
      '/** Of three. */',
      '',
      "export const three = statement('three', 'SELECT 3')",
      '/**',
      ' * Of four.',
      ' */',
      "const four = statement('four', 'SELECT 4')",
      '/***/',
      "export const five = statement('five', 'SELECT 5')",
    ].join('\n')
    const found = scan(source).map((each) => [each.constant, each.exported, each.documented])
    expect(found).toEqual([
      ['one', true, true],
      ['two', true, false],
      ['three', true, false],
      ['four', false, true],
      ['five', true, false],
    ])
  })
})

describe('the statements on the embedded Postgres', () => {
  let database: TestDatabase
  beforeAll(async () => {
    database = await createTestDatabase()
  })
  afterAll(() => database.drop())
  describeStatements((user) => connectAs(database.connection, user))
})

describeNeeding('system-postgres', 'the statements on the Postgres of the system', (binDir) => {
  let server: SystemPostgres
  beforeAll(async () => {
    server = await startSystemPostgres(binDir)
    const admin = await connectAs(server.adminConnection, 'postgres')
    await admin.query('CREATE ROLE belfry LOGIN NOINHERIT')
    await admin.end()
    await migrate(server.adminConnection, { log: () => undefined, runtimeLogin: 'belfry' })
  })
  afterAll(() => server?.stop())
  describeStatements((user) => connectAs(server.adminConnection, user))
})

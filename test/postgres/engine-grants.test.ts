// What the engine's role may do across tenants, table by table, and nothing more; read from the catalog, so a
// table that somebody adds tomorrow is held to it too.
import { afterAll, beforeAll, expect, test } from 'vitest'
import { asRole } from '../support/as-role.ts'
import { createRunningFixture, type RunningFixture } from '../support/running.ts'

let fixture: RunningFixture
beforeAll(async () => {
  fixture = await createRunningFixture()
})
afterAll(() => fixture.drop())

const as = (role: string, tenantId: string, text: string) =>
  asRole(fixture.database.connection, role, tenantId, text)

/** All that the engine may do, by table. A longer list needs a reason. */
const engineGrants: Readonly<Record<string, string>> = {
  backfill:
    'DELETE SELECT UPDATE(alive,canceled,ended_at,failed,next_at,reason,skipped,started,started_at,state,' +
    'succeeded)',
  // what the gatekeeper keeps, and what it reads; slots are freed by whoever ends a run
  bucket: 'DELETE INSERT SELECT UPDATE',
  gate_group: 'DELETE INSERT SELECT UPDATE',
  pool: 'SELECT',
  queue_pause: 'SELECT',
  regate: 'DELETE SELECT UPDATE',
  slot: 'DELETE INSERT SELECT UPDATE',
  // secrets are opened where a run is executed, by its grants; nobody but the engine reads what is sealed
  secret: 'SELECT(id,name,tenant_id,version)',
  secret_grant: 'SELECT',
  secret_version: 'SELECT(sealed,secret_id,tenant_id,version)',
  tenant_key: 'SELECT',
  // as whom a run is executed
  service_account: 'SELECT',
  // whoever reports on a run that a target took over has nothing but a token
  callback: 'DELETE INSERT SELECT UPDATE(accepted_at,due_at,heard_at,heartbeat_ms,report_by)',
  cancel_note: 'DELETE SELECT',
  claim: 'DELETE INSERT SELECT UPDATE',
  dead_letter: 'DELETE INSERT SELECT',
  extra_run: 'DELETE INSERT SELECT UPDATE(ended_as)',
  // moved from the inbox into the chain, where nobody changes it; checkpoints go with what they attest
  audit_checkpoint: 'DELETE INSERT SELECT',
  audit_cut: 'INSERT SELECT',
  audit_export: 'INSERT SELECT UPDATE',
  audit_head: 'INSERT SELECT UPDATE',
  audit_inbox:
    'DELETE INSERT(action,actor_id,actor_kind,actor_name,address,claimed_at,code,details,key_id,outcome,' +
    'request_id,subject_id,subject_kind,subject_name,tenant_id) SELECT',
  audit_key: 'INSERT SELECT',
  audit_log: 'INSERT SELECT',
  attempt: 'INSERT SELECT',
  calendar: 'SELECT',
  // keys that nobody holds any more are deleted, locked before: a row lock takes a right to update something
  dedupe: 'DELETE SELECT UPDATE(key)',
  // runs that wait for another are put off and let go; those that gather inputs are sealed
  delayed: 'DELETE INSERT SELECT UPDATE(after_run_id,depends_rule,due_at,followed,gathers)',
  // how the runs ended that others depend on; events of that are deleted when they are taken in
  dependency: 'DELETE SELECT UPDATE(state)',
  dependency_event: 'DELETE INSERT SELECT UPDATE(at)',
  // the pruner deletes old ones
  event: 'DELETE SELECT',
  gathered: 'DELETE SELECT',
  gathering: 'DELETE SELECT UPDATE(key)',
  idempotency_key: 'DELETE SELECT',
  job: 'SELECT',
  job_version: 'SELECT',
  node: 'DELETE INSERT SELECT UPDATE',
  occurrence: 'INSERT SELECT',
  outgoing_position: 'INSERT SELECT UPDATE',
  queue_pace: 'DELETE INSERT SELECT UPDATE',
  queue_progress: 'DELETE INSERT SELECT UPDATE',
  ready: 'DELETE INSERT SELECT UPDATE',
  // zones are of all tenants; those of calendars are asked for by their tenant
  replan: 'DELETE INSERT SELECT UPDATE',
  // the inputs that it gathered, and when it was due in the end
  run: 'INSERT SELECT UPDATE(due_at,input)',
  run_log: 'INSERT SELECT',
  // what a fire, a pause after failures and a replan change
  schedule:
    'SELECT UPDATE(deleted_at,gen,paused_at,paused_from,paused_reason,run_count,state,timing_since,' +
    'updated_at,version,zone_data_version)',
  schedule_calendar: 'SELECT',
  scheduler_node: 'DELETE INSERT SELECT UPDATE',
  session: 'DELETE INSERT SELECT UPDATE',
  shard_term: 'SELECT UPDATE',
  // the external id, for roles in accounts of AWS; the limits, for the gate
  tenant: 'SELECT(aws_external_id,id,run_cap,run_limit,start_rate,weight)',
  timer: 'DELETE SELECT UPDATE',
  task_run: 'DELETE INSERT SELECT',
  task_wait: 'DELETE INSERT SELECT UPDATE(ended_at,ended_by,output,reason,state)',
  workflow: 'SELECT',
  workflow_event: 'DELETE INSERT SELECT',
  workflow_progress: 'DELETE INSERT SELECT UPDATE(admitted_at,deadline,items,notes,states,stop,turn,waits)',
  workflow_run: 'INSERT SELECT UPDATE(ended_at,items,notes,output,state,states,stop)',
  workflow_signal: 'DELETE SELECT',
  workflow_trigger: 'SELECT',
  workflow_version: 'SELECT',
  zone_data: 'INSERT SELECT UPDATE',
}

test('the engine role may do what its loops do, and no more', async () => {
  const rows = await fixture.database.sql<{ name: string; rights: string }>(
    `WITH whole AS (
       SELECT table_name AS name, privilege_type::text AS right, NULL AS cols
         FROM information_schema.role_table_grants
       WHERE grantee = 'belfry_engine' AND table_schema = 'belfry'
     ), part AS (
       SELECT table_name, privilege_type::text, string_agg(column_name, ',' ORDER BY column_name)
       FROM information_schema.role_column_grants AS c
       WHERE grantee = 'belfry_engine' AND table_schema = 'belfry'
         AND NOT EXISTS (SELECT FROM whole WHERE whole.name = c.table_name AND whole.right = c.privilege_type)
       GROUP BY 1, 2
     ), each AS (SELECT * FROM whole UNION ALL SELECT * FROM part)
     SELECT name, string_agg("right" || coalesce('(' || cols || ')', ''), ' ' ORDER BY "right") AS rights
     FROM each GROUP BY name ORDER BY name`,
  )
  expect(Object.fromEntries(rows.map((row) => [row.name, row.rights]))).toEqual(engineGrants)
  await expect(as('belfry_engine', '', 'SELECT * FROM belfry.api_key')).rejects.toThrow(/permission denied/)
  await expect(as('belfry_engine', '', 'CREATE TABLE belfry.mine ()')).rejects.toThrow(/permission denied/)
})

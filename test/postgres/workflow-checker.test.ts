// The checker of workflow runs finds what it is there for: records that were bent by hand, one way each.
import { afterAll, beforeAll, expect, test } from 'vitest'
import pg from 'pg'
import { type DrawnWorkflow, drawWorkflow } from '../support/drawn-workflow.ts'
import { drawer } from '../support/random-draws.ts'
import { openWorkflowRig, type WorkflowRig } from '../support/workflow-rig.ts'
import { findWorkflowFaults } from '../cluster/support/workflow-checker.ts'

let rig: WorkflowRig
let sql: pg.Client
let begun: Map<string, DrawnWorkflow>

beforeAll(async () => {
  rig = await openWorkflowRig()
  sql = new pg.Client(rig.fixture.database.adminConnection)
  await sql.connect()
  const drawn = drawWorkflow({ draw: drawer(7), tasks: 12, jobs: { works: 'work', breaks: 'work' } })
  begun = new Map([[await rig.begin(drawn.definition), drawn]])
  for (;;) {
    await rig.resolver.runOnce()
    const held = await rig.claim()
    if (held.length === 0) break
    for (const run of held) await rig.end(run, drawn.failing.has(run.task) ? 'failed' : 'succeeded')
  }
})
afterAll(async () => {
  await sql.end()
  await rig.close()
})

/** What it finds once the records were bent so; they are as before afterwards. */
async function faultsAfter(bend: string, copies = 1): Promise<string[]> {
  const { rows } = await sql.query<{ id: string }>('SELECT id FROM belfry.run')
  const calls = rows.flatMap(({ id }) =>
    Array.from({ length: copies }, () => ({ runId: id, idempotencyKey: id })),
  )
  await sql.query('BEGIN')
  try {
    await sql.query(bend)
    return await findWorkflowFaults({ sql, begun, calls })
  } finally {
    await sql.query('ROLLBACK')
  }
}

test('nothing where all is as it had to be', async () => {
  expect(await faultsAfter('SELECT')).toEqual([])
})

test.each([
  ["UPDATE belfry.workflow_run SET state = 'canceled'", /is canceled, not/],
  ['UPDATE belfry.workflow_run SET state = NULL, ended_at = NULL, states = NULL', /has not ended/],
  [String.raw`UPDATE belfry.workflow_run SET states = set_byte(states, 0, 6)`, /t0 is .+, not/],
  ['DELETE FROM belfry.run WHERE task = 0', /t0 was started 0 times, not 1/],
  ['DELETE FROM belfry.workflow_run', /there is no workflow run/],
  [
    "UPDATE belfry.attempt SET started_at = started_at - interval '1 day'",
    /began before its parents had ended/,
  ],
  ['DELETE FROM belfry.attempt', /ended 0 times/],
  [
    `INSERT INTO belfry.workflow_event (workflow_run_id, tenant_id, kind)
     SELECT id, tenant_id, 'begin' FROM belfry.workflow_run`,
    /an event is left/,
  ],
])('%s', async (bend, words) => {
  expect((await faultsAfter(bend)).join('\n')).toMatch(words)
})

test('calls that no attempt on record explains', async () => {
  expect((await faultsAfter('SELECT', 3)).join('\n')).toMatch(/was called 3 times, but only \d attempts/)
})

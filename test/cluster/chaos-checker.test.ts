/**
 * The checker of chaos cells must be able to fail: a world in which every promise held is clean, and each
 * kind of fault, put into it by hand, is named, and nothing else with it. (Faults of schedules and of single
 * runs are those of checker.test.ts.)
 */
import { randomUUID } from 'node:crypto'
import { workflowDefinitionSchema } from '@belfry/contract'
import type pg from 'pg'
import { describe, expect, it } from 'vitest'
import { packStates } from '../../packages/server/src/domain/workflow/stored-states.ts'
import type { DrawnWorkflow } from '../support/drawn-workflow.ts'
import { type ChaosRecord, judge } from './chaos/chaos-checker.ts'
import type { AskedRun, WorkflowSchedule } from './chaos/load.ts'
import { arenaHarness } from './support/arena.ts'
import type { RecordedCall } from './support/ledger.ts'

const harness = arenaHarness()
const at = Date.UTC(2026, 0, 1, 12, 0, 0)
const tenantId = randomUUID()
const jobId = randomUUID()
const flow = { scheduleId: randomUUID(), runId: randomUUID(), tasks: [randomUUID(), randomUUID()] as const }
const scheduled = { scheduleId: randomUUID(), runId: randomUUID() }
const [alone, parent, child] = [randomUUID(), randomUUID(), randomUUID()]

const drawn: DrawnWorkflow = {
  definition: workflowDefinitionSchema.parse({
    tasks: [
      { id: 'a', job: 'works' },
      { id: 'b', job: 'works', needs: ['a'] },
    ],
  }),
  parents: [[], [0]],
  failing: new Set(),
  expected: {
    run: 'succeeded',
    states: { a: 'succeeded', b: 'succeeded' },
    starts: new Map([
      ['a', 1],
      ['b', 1],
    ]),
  },
}

interface World extends ChaosRecord {
  readonly calls: RecordedCall[]
  readonly load: Omit<ChaosRecord['load'], 'workflows'> & {
    readonly workflows: readonly (Omit<WorkflowSchedule, 'times'> & { readonly times: number[] })[]
    readonly asked: AskedRun[]
    readonly refused: string[]
  }
}

const iso = (ms: number): Date => new Date(ms)

const call = (runId: string, path: string, atMs: number, attempt = 1): RecordedCall => {
  return { runId, idempotencyKey: runId, path, attempt, atMs, began: 0, ended: 1 }
}

const insertRun = `
  INSERT INTO belfry.run (id, tenant_id, job_id, job_version, source, queue, priority, due_at,
    workflow_run_id, task)
  VALUES ($1, $2, $3, 1, $4, 'default', 0, $5, $6, $7)`

async function run(sql: pg.Client, id: string, dueMs: number, task?: number): Promise<void> {
  const of = task === undefined ? [jobId, 'manual'] : [randomUUID(), 'workflow']
  const flowId = task === undefined ? null : flow.runId
  await sql.query(insertRun, [id, tenantId, ...of, iso(dueMs), flowId, task ?? null])
}

async function attempt(
  sql: pg.Client,
  runId: string,
  endedMs: number,
  { number = 1, outcome = 'succeeded' }: { number?: number; outcome?: string } = {},
): Promise<void> {
  const state = outcome === 'succeeded' ? outcome : null
  await sql.query(
    `INSERT INTO belfry.attempt
       (run_id, number, tenant_id, lease_epoch, outcome, run_state, started_at, ended_at, retry_at)
     VALUES ($1, $2::int, $3, $2::int, $4, $5::text, $6, $7, CASE WHEN $5::text IS NULL THEN now() END)`,
    [runId, number, tenantId, outcome, state, iso(endedMs - 100), iso(endedMs)],
  )
}

async function occurrence(sql: pg.Client, scheduleId: string, runId: string): Promise<void> {
  await sql.query(
    `INSERT INTO belfry.occurrence (schedule_id, scheduled_for, tenant_id, outcome, run_id, due_at)
     VALUES ($1, $2, $3, 'ran', $4, $2)`,
    [scheduleId, iso(at), tenantId, runId],
  )
}

async function beginFlow(sql: pg.Client, id: string): Promise<void> {
  await sql.query(
    `INSERT INTO belfry.workflow_run (id, tenant_id, workflow_id, version, source, created_at, state,
       ended_at, states, schedule_id, scheduled_for)
     VALUES ($1, $2, $1, 1, 'schedule', $3, 'succeeded', $3, $4, $5, $3)`,
    [id, tenantId, iso(at), Buffer.from(packStates(['succeeded', 'succeeded'])), flow.scheduleId],
  )
}

/** A schedule with a run, a schedule with a workflow run, and runs that were asked for: one after another. */
async function goodWorld(sql: pg.Client): Promise<World> {
  const calls: RecordedCall[] = []
  const did = async (id: string, path: string, startMs: number): Promise<void> => {
    await attempt(sql, id, startMs + 200)
    calls.push(call(id, path, startMs + 10))
  }
  await occurrence(sql, scheduled.scheduleId, scheduled.runId)
  await sql.query(insertRun, [scheduled.runId, tenantId, randomUUID(), 'schedule', iso(at), null, null])
  await did(scheduled.runId, '/work', at)
  await occurrence(sql, flow.scheduleId, flow.runId)
  await beginFlow(sql, flow.runId)
  for (const [task, id] of flow.tasks.entries()) {
    await run(sql, id, at + task * 200, task)
    await did(id, '/task', at + task * 200)
  }
  for (const [id, startMs] of [
    [alone, at],
    [parent, at],
    [child, at + 200],
  ] as const) {
    await run(sql, id, at)
    await did(id, '/asked', startMs)
  }
  await sql.query(
    `INSERT INTO belfry.dependency (child_id, parent_id, tenant_id, rule, state)
     VALUES ($1, $2, $3, 'all_succeeded', 'succeeded')`,
    [child, parent, tenantId],
  )
  const asked = [alone, parent, child].map((runId) => {
    return { runId, atMostOnce: false, notBeforeMs: at, parentIds: runId === child ? [parent] : [] }
  })
  const load = {
    expected: [{ scheduleId: scheduled.scheduleId, times: [at] }],
    atMostOnce: new Set<string>(),
    workflows: [{ scheduleId: flow.scheduleId, times: [at], drawn }],
    asked,
    askedJobIds: [jobId],
    refused: [],
  }
  return { sql, calls, load, lateMs: 1_000 }
}

const forget = (sql: pg.Client, table: string, column: string, id: string) =>
  sql.query(`DELETE FROM belfry.${table} WHERE ${column} = $1`, [id])

function move(calls: RecordedCall[], runId: string, change: Partial<RecordedCall>): void {
  const index = calls.findIndex((each) => each.runId === runId)
  const found = calls[index]
  if (found !== undefined) calls[index] = { ...found, ...change }
}

const stranger = randomUUID()
const [first, second] = flow.tasks

interface Fault {
  readonly kind: string
  readonly commit: (world: World) => Promise<unknown> | void
  readonly named: readonly string[]
}

const faults: readonly Fault[] = [
  {
    kind: 'a run that was accepted and is lost',
    async commit({ sql, calls }) {
      await forget(sql, 'run', 'id', alone)
      await forget(sql, 'attempt', 'run_id', alone)
      calls.splice(
        calls.findIndex(({ runId }) => runId === alone),
        1,
      )
    },
    named: [`asked ${alone} was accepted and is lost`, `asked ${alone} was never attempted`],
  },
  {
    kind: 'a run that was made twice for one that asked',
    commit: ({ sql }) => run(sql, stranger, at),
    named: [`run ${stranger} was made, and nobody was told of it`],
  },
  {
    kind: 'a run that was refused',
    commit: ({ load }) => void load.refused.push('run 7 was never accepted: 503'),
    named: ['run 7 was never accepted: 503'],
  },
  {
    kind: 'one answer for two that asked',
    commit: ({ load }) =>
      void load.asked.push({ runId: alone, atMostOnce: false, notBeforeMs: at, parentIds: [] }),
    named: ['one run was answered to two that asked'],
  },
  {
    kind: 'a run that began before what it depends on had ended',
    commit: ({ calls }) => move(calls, child, { atMs: at + 150 }),
    named: [
      `asked ${child} was called before ${parent} had ended, on which it depends`,
      `a run of job after others (${child}) was called 50 ms before it was due`,
    ],
  },
  {
    kind: 'a run that began before its time',
    commit: ({ calls }) => move(calls, alone, { atMs: at - 20 }),
    named: [
      `asked ${alone} was called before its time`,
      `a run of job (${alone}) was called 20 ms before it was due`,
    ],
  },
  {
    kind: 'a dependent that was started twice',
    commit: ({ calls }) => void calls.push(call(child, '/asked', at + 300)),
    named: [`asked ${child} was called 2 times, but only 0 attempts on record explain it`],
  },
  {
    kind: 'a call of an attempt that is not on record',
    commit: ({ calls }) => move(calls, alone, { attempt: 3 }),
    named: [
      `the target saw attempt 3 of run ${alone}, which is not on record`,
      `attempt 1 of run ${alone} succeeded, and the target never saw it`,
    ],
  },
  {
    kind: 'a call of a run that is not on record',
    commit: ({ calls }) => void calls.push(call(stranger, '/asked', at)),
    named: [`the target saw run ${stranger}, of which no attempt is on record`],
  },
  {
    kind: 'a success that the target never saw',
    async commit({ sql }) {
      await forget(sql, 'attempt', 'run_id', alone)
      await attempt(sql, alone, at + 100, { outcome: 'lost' })
      await attempt(sql, alone, at + 200, { number: 2 })
    },
    named: [`attempt 2 of run ${alone} succeeded, and the target never saw it`],
  },
  {
    kind: 'a run that is later than promised',
    commit: ({ calls }) => move(calls, alone, { atMs: at + 1_500 }),
    named: [`a run of job (${alone}) was called 1500 ms late, not 1000`],
  },
  {
    kind: 'an occurrence that fires early',
    commit: ({ calls }) => move(calls, scheduled.runId, { atMs: at - 30 }),
    named: [`a run of job (${scheduled.runId}) was called 30 ms before it was due`],
  },
  {
    kind: 'a planned time without a workflow run',
    async commit({ sql, calls }) {
      await forget(sql, 'occurrence', 'schedule_id', flow.scheduleId)
      await forget(sql, 'workflow_run', 'id', flow.runId)
      for (const id of flow.tasks) {
        await forget(sql, 'run', 'id', id)
        await forget(sql, 'attempt', 'run_id', id)
      }
      calls.splice(0, calls.length, ...calls.filter(({ path }) => path !== '/task'))
    },
    named: [`no occurrence: workflow ${flow.scheduleId} at ${at}`],
  },
  {
    kind: 'a planned time with two workflow runs',
    commit: ({ sql }) => beginFlow(sql, stranger),
    named: [
      `workflow ${flow.scheduleId} at ${at} was begun 2 times`,
      `nobody asked for ${flow.runId}`,
      `nobody asked for ${stranger}`,
    ],
  },
  {
    kind: 'a workflow run that nobody planned',
    commit: ({ load }) => {
      for (const { times } of load.workflows) times.splice(0)
    },
    named: [`nobody planned: workflow ${flow.scheduleId} at ${at}`, `nobody asked for ${flow.runId}`],
  },
  {
    kind: 'a task that was started twice',
    async commit({ sql, calls }) {
      await run(sql, stranger, at, 1)
      await attempt(sql, stranger, at + 600)
      calls.push(call(stranger, '/task', at + 400))
    },
    named: [`${flow.runId} b was started 2 times, not 1`],
  },
  {
    kind: 'a task that began before its parents had ended',
    commit: ({ calls }) => move(calls, second, { atMs: at + 150 }),
    named: [`task 1 of workflow run ${flow.runId} (${second}) was called 50 ms before it was due`],
  },
  {
    kind: 'a task that is later than promised',
    commit: ({ calls }) => move(calls, first, { atMs: at + 2_000 }),
    named: [`task 0 of workflow run ${flow.runId} (${first}) was called 2000 ms late, not 1000`],
  },
  {
    kind: 'a workflow run that ended otherwise than it had to',
    commit: ({ sql }) =>
      sql.query('UPDATE belfry.workflow_run SET states = $1', [
        Buffer.from(packStates(['succeeded', 'skipped'])),
      ]),
    named: [`${flow.runId} b is skipped, not succeeded`],
  },
  {
    kind: 'an event that nobody looked at',
    commit: ({ sql }) =>
      sql.query('INSERT INTO belfry.dependency_event (child_id, tenant_id) VALUES ($1, $2)', [
        child,
        tenantId,
      ]),
    named: ['1 rows are left in dependency_event'],
  },
  {
    kind: 'a timer that is left',
    commit: ({ sql }) =>
      sql.query(
        `INSERT INTO belfry.timer (schedule_id, tenant_id, due_at, scheduled_for, gen, shard)
         VALUES ($1, $2, now(), now(), 1, 0)`,
        [scheduled.scheduleId, tenantId],
      ),
    named: ['1 rows are left in timer'],
  },
]

describe('the checker of chaos cells', () => {
  it('finds nothing in a good world, names each kind of fault, and nothing else', async () => {
    const arena = await harness.open()
    const sql = await arena.connect()
    harness.defer(() => sql.end())
    for (const { kind, commit, named } of [{ kind: 'none', commit: () => undefined, named: [] }, ...faults]) {
      await sql.query('BEGIN')
      const world = await goodWorld(sql)
      await commit(world)
      const { faults: found, worst } = await judge(world)
      expect.soft(found, kind).toEqual(named)
      expect.soft(worst?.lateMs, kind).toBeGreaterThanOrEqual(10)
      await sql.query('ROLLBACK')
    }
  })
})

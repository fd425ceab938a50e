// Resolvers that die while tasks wait: cut off before any one of their statements, again and again, many at
// once, or asleep until an instant that only the database remembers.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { WorkflowResolving } from '../../packages/server/src/ports/workflow-runs.ts'
import type { Database, Transaction } from '../../packages/server/src/postgres/database.ts'
import { createPostgresMaintenance } from '../../packages/server/src/postgres/maintenance.ts'
import { createPostgresWorkflowResolving } from '../../packages/server/src/postgres/workflow-resolving.ts'
import { eventually } from '../support/running.ts'
import { openWorkflowApi, type WorkflowApi } from '../support/workflow-api.ts'

let rig: WorkflowApi
beforeAll(async () => {
  rig = await openWorkflowApi()
})
afterAll(() => rig.close())

const handler = { kind: 'http', url: 'https://example.com/hook' }
const task = (id: string, needs: readonly string[] = [], more: object = {}) => ({
  id,
  handler,
  needs,
  ...more,
})
const sql = <Row extends Record<string, unknown>>(text: string, params: readonly unknown[] = []) =>
  rig.t.database.sql<Row>(text, [...params])

const approvalTask = { id: 'ask', approval: { message: 'ok?' } }

class CutOff extends Error {}

/** All that it sends after so many statements fails, also what it would have committed. */
function cutAfter(statements: number): {
  readonly resolving: WorkflowResolving
  readonly wasCut: () => boolean
} {
  let left = statements
  let cut = false
  const spend = (): void => {
    if (left-- > 0) return
    cut = true
    throw new CutOff('cut off')
  }
  const { db } = rig.t
  const dying: Database = {
    ...db,
    async run(scope, statement, params) {
      spend()
      return db.run(scope, statement, params)
    },
    transaction: (scope, work) =>
      db.transaction(scope, async (tx) => {
        const query: Transaction['query'] = async (statement, params) => {
          spend()
          return tx.query(statement, params)
        }
        const result = await work({ ...tx, query })
        spend()
        return result
      }),
  }
  return { resolving: createPostgresWorkflowResolving(dying), wasCut: () => cut }
}

/** Resolvers that die one statement later each, until one has done all that there is to do. */
async function resolveThroughCrashes(): Promise<number> {
  for (let statements = 0; ; statements++) {
    const { resolving, wasCut } = cutAfter(statements)
    await rig
      .newResolver(resolving)
      .runOnce()
      .catch((error: unknown) => {
        if (!(error instanceof CutOff) && !String(error).includes('cut off')) throw error
      })
    if (!wasCut()) return statements
  }
}

const counts = (id: string) =>
  sql<{ what: string; count: number }>(
    `SELECT 'run' AS what, task, item, count(*)::int AS count FROM belfry.run WHERE workflow_run_id = $1
     GROUP BY task, item
     UNION ALL
     SELECT 'wait', task, item, count(*)::int FROM belfry.task_wait WHERE workflow_run_id = $1 
     GROUP BY task, item`,
    [id],
  )
const leftovers = (id: string) =>
  sql(
    `SELECT 'progress' FROM belfry.workflow_progress WHERE workflow_run_id = $1
     UNION ALL SELECT 'task' FROM belfry.task_run WHERE workflow_run_id = $1
     UNION ALL SELECT 'event' FROM belfry.workflow_event WHERE workflow_run_id = $1
     UNION ALL SELECT 'wait' FROM belfry.task_wait WHERE workflow_run_id = $1 AND state IS NULL`,
    [id],
  )

const tasksOf = (child: string) => [
  { id: 'ask', approval: { message: 'ok?' } },
  { id: 'past', wait: { until: { at: '2020-01-01T00:00:00Z' } } },
  {
    id: 'each',
    wait: { until: { item: '' } },
    forEach: { from: { items: ['2020-01-01T00:00:00Z', '2020-01-02T00:00:00Z'] } },
  },
  { id: 'pay', wait: { signal: 'paid' }, needs: ['past'] },
  { id: 'sub', workflow: child, needs: ['ask', 'pay', 'each'] },
  task('last', ['sub'], { inputFrom: [{ to: '', task: 'sub' }] }),
]

describe('a resolver that dies at any statement', () => {
  it('loses no wait, and begins and ends each once', async () => {
    const child = await rig.store({ tasks: [task('inner')], outputFrom: [{ to: '/x', task: 'inner' }] })
    const { name } = await rig.store({ tasks: tasksOf(child.name), concurrency: { limit: 1 } })
    const [id, next] = [await rig.ask(name), await rig.ask(name)]
    let crashes = await resolveThroughCrashes()
    expect((await rig.act(id, 'approve', { task: 'ask' })).status).toBe(200)
    expect((await rig.act(id, 'signal', { signal: 'paid', payload: 1 })).status).toBe(202)
    crashes += await resolveThroughCrashes()
    const [row] = await sql<{ child_id: string }>(
      `SELECT child_id FROM belfry.task_wait WHERE workflow_run_id = $1 AND kind = 'workflow'`,
      [id],
    )
    for (const run of [row?.child_id ?? '', id]) {
      const [held] = await rig.claim(run)
      if (held === undefined) throw new Error('Nothing was started.')
      expect(held.input).toEqual(run === id ? { x: 7 } : null)
      await rig.end(held, { output: 7 })
      crashes += await resolveThroughCrashes()
    }
    expect(crashes).toBeGreaterThan(40)
    expect((await rig.standing(id)).state).toBe('succeeded')
    expect((await counts(id)).map(({ count }) => count)).toEqual([1, 1, 1, 1, 1, 1, 1])
    expect(await leftovers(id)).toEqual([])
    expect((await rig.standing(next)).state).toBe('running')
    await rig.act(next, 'cancel')
    await resolveThroughCrashes()
    expect((await rig.standing(next)).state).toBe('canceled')
    expect(await leftovers(next)).toEqual([])
  })
})

describe('many resolvers at once', () => {
  it('end what is due once', async () => {
    const later = new Date(Date.now() + 3_600_000).toISOString()
    const each = { id: 'each', wait: { until: { item: '' } }, forEach: { from: { input: '' } } }
    const { name } = await rig.store({ tasks: [each, task('after', ['each'])] })
    const ids = await Promise.all(
      Array.from({ length: 6 }, () => rig.ask(name, { input: Array.from({ length: 200 }, () => later) })),
    )
    await rig.resolver.runOnce()
    await sql(`UPDATE belfry.task_wait SET due_at = belfry.now() WHERE workflow_run_id = ANY ($1)`, [ids])
    const resolvers = Array.from({ length: 4 }, () => rig.newResolver())
    await Promise.all(resolvers.map((resolver) => resolver.runOnce()))
    await rig.resolver.runOnce()
    for (const id of ids) {
      expect(await rig.play(id)).toEqual(['after'])
      expect((await rig.standing(id)).state).toBe('succeeded')
      expect(await leftovers(id)).toEqual([])
    }
  })

  it('an end that nobody told of is found', async () => {
    const { name } = await rig.store({ tasks: [{ id: 'ask', approval: { message: 'ok?' } }] })
    const id = await rig.ask(name)
    await rig.resolver.runOnce()
    await rig.act(id, 'approve', { task: 'ask' })
    await sql(`DELETE FROM belfry.workflow_event WHERE workflow_run_id = $1`, [id])
    await rig.resolver.runOnce()
    expect((await rig.standing(id)).state).toBe('running')
    await createPostgresWorkflowResolving(rig.t.db).mend()
    await rig.resolver.runOnce()
    expect((await rig.standing(id)).state).toBe('succeeded')
  })
})

describe('a resolver that sleeps', () => {
  it('wakes when a wait is due that another began, who is gone, and never before', async () => {
    const { name } = await rig.store({ tasks: [{ id: 'wait', wait: { forMs: 700 } }] })
    const mine = await rig.ask(name)
    const sleeper = rig.newResolver()
    await rig.resolver.runOnce()
    await sleeper.start()
    try {
      await eventually(async () => (await rig.standing(mine)).state === 'succeeded', 'the end of the wait')
      const [row] = await sql<{ late_ms: number }>(
        `SELECT extract(epoch FROM ended_at - due_at)::float8 * 1000 AS late_ms FROM belfry.task_wait
         WHERE workflow_run_id = $1`,
        [mine],
      )
      expect(row?.late_ms).toBeGreaterThanOrEqual(0)
      expect(row?.late_ms).toBeLessThan(5_000)
    } finally {
      await sleeper.stop()
    }
  })
})

describe('retention', () => {
  it('drops waits and signals of workflow runs that are over, and keeps those that are alive', async () => {
    const { name } = await rig.store({ tasks: [{ id: 'pay', wait: { signal: 'paid' } }, approvalTask] })
    const [over, alive] = [await rig.ask(name), await rig.ask(name)]
    await rig.resolver.runOnce()
    for (const id of [over, alive]) await rig.act(id, 'signal', { signal: 'paid' })
    await rig.act(over, 'approve', { task: 'ask' })
    await rig.resolver.runOnce()
    const maintenance = createPostgresMaintenance(rig.t.db)
    const left = async (id: string) => {
      const [row] = await sql<{ waits: number; signals: number }>(
        `SELECT (SELECT count(*)::int FROM belfry.task_wait WHERE workflow_run_id = $1) AS waits,
                (SELECT count(*)::int FROM belfry.workflow_signal WHERE workflow_run_id = $1) AS signals`,
        [id],
      )
      return row
    }
    await maintenance.deleteOldTaskWaits(30, 100)
    expect(await left(over)).toEqual({ waits: 2, signals: 1 })
    // of yesterday, to one who looks from the day after tomorrow
    expect(await maintenance.deleteOldTaskWaits(-1, 10_000)).toBeGreaterThan(0)
    expect([await left(over), await left(alive)]).toEqual([
      { waits: 0, signals: 0 },
      { waits: 2, signals: 1 },
    ])
  })
})

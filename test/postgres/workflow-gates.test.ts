// Workflow runs that wait for their turn: their time does not run yet, and whoever gives on a place behind a
// gate holds that gate.
import { afterAll, beforeAll, expect, it } from 'vitest'
import { holdWorkflowGates } from '../../packages/server/src/postgres/statements/workflow-gates.ts'
import { newId } from '../support/running.ts'
import { task } from '../support/workflow-acts.ts'
import { openWorkflowApi, type WorkflowApi } from '../support/workflow-api.ts'

let w: WorkflowApi
beforeAll(async () => {
  w = await openWorkflowApi()
})
afterAll(() => w.close())

interface Time extends Record<string, unknown> {
  readonly has_deadline: boolean
}
const hasDeadline = async (id: string): Promise<boolean | undefined> => {
  const [row] = await w.t.database.sql<Time>(
    `SELECT deadline IS NOT NULL AS has_deadline FROM belfry.workflow_progress WHERE workflow_run_id = $1`,
    [id],
  )
  return row?.has_deadline
}
const waitsForTurn = (id: string, waits: boolean) =>
  w.t.database.sql(
    `UPDATE belfry.workflow_progress SET waits = $2, schedule_id = $3,
            deadline = CASE WHEN NOT $2 THEN belfry.now() + interval '1 h' END
     WHERE workflow_run_id = $1`,
    [id, waits, newId()],
  )
const timeouts = { tasks: [task('a'), task('b', ['a'])], timeoutMs: 60_000 }

it('an act on one behind its gate lets its time not begin', async () => {
  const { name } = await w.store({ ...timeouts, concurrency: { limit: 1 } })
  const [first, second] = [await w.ask(name), await w.ask(name)]
  await w.resolver.runOnce()
  expect((await w.act(second, 'skip', { tasks: ['b'] })).status).toBe(200)
  expect([await hasDeadline(first), await hasDeadline(second)]).toEqual([true, false])
  // nor is it handed over in every round where it has one
  await w.t.database.sql(
    `UPDATE belfry.workflow_progress SET deadline = belfry.now() - interval '1 s' WHERE workflow_run_id = $1`,
    [second],
  )
  expect(await w.resolver.runOnce()).toBe(1)
  expect(await w.resolver.runOnce()).toBe(0)
  await w.play(first)
  await w.play(second)
  expect(await w.standing(second)).toEqual({ state: 'succeeded', tasks: { a: 'succeeded', b: 'skipped' } })
})

it('an act on one that waits for its schedule lets its time not begin', async () => {
  const { name } = await w.store(timeouts)
  const id = await w.ask(name)
  await waitsForTurn(id, true)
  await w.resolver.runOnce().catch(() => undefined)
  await waitsForTurn(id, true)
  expect((await w.act(id, 'skip', { tasks: ['b'] })).status).toBe(200)
  expect(await hasDeadline(id)).toBe(false)
  await waitsForTurn(id, false)
  await w.play(id)
})

it('a cancel of one that waits for its schedule looks at its gate under the lock of that', async () => {
  const { name, id: workflowId } = await w.store({ tasks: [task('a')], concurrency: { limit: 1 } })
  const id = await w.ask(name)
  await waitsForTurn(id, true)
  await w.t.database.sql(`DELETE FROM belfry.workflow_event WHERE workflow_run_id = $1`, [id])
  await w.t.call('POST', `/v1/workflow-runs/${id}/cancel`, { body: {} })
  const own = w.t.database.open({ maxConnections: 1 })
  const [held, letGo] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const holding = own.transaction({ role: 'belfry_engine' }, async (tx) => {
    await tx.query(holdWorkflowGates, [[`${workflowId}/`]])
    held.resolve()
    await letGo.promise
  })
  await held.promise
  let isOver = false
  const resolving = w.resolver.runOnce().then(() => (isOver = true))
  while (!isOver && (await w.t.database.waiting()) === 0)
    await new Promise((resolve) => setImmediate(resolve))
  expect(isOver).toBe(false)
  letGo.resolve()
  await Promise.all([holding, resolving])
  expect((await w.standing(id)).state).toBe('canceled')
})

// A workflow run is stopped while a run of one of its tasks moves from one table to another: it is found
// where it then stands, or by the next that looks.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Statement } from '../../packages/server/src/postgres/statement.ts'
import { statement } from '../../packages/server/src/postgres/statement.ts'
import { completeAttempts } from '../../packages/server/src/postgres/statements/completion.ts'
import { retriedEnd } from '../support/running.ts'
import { type ClaimedTask, openWorkflowRig, type WorkflowRig } from '../support/workflow-rig.ts'

let rig: WorkflowRig
beforeAll(async () => {
  rig = await openWorkflowRig()
})
afterAll(() => rig.close())

const sql = (text: string, params: readonly unknown[] = []) => rig.fixture.database.sql(text, [...params])
const oneTask = { tasks: [{ id: 'a', job: 'x' }] }

/** Claims what is ready; answers what is held of this workflow run. */
async function claimOf(id: string): Promise<readonly ClaimedTask[]> {
  const rows = await rig.fixture.database.sql<{ id: string }>(
    'SELECT id FROM belfry.run WHERE workflow_run_id = $1',
    [id],
  )
  const its = new Set(rows.map((row) => row.id))
  return (await rig.claim()).filter(({ runId }) => its.has(runId))
}

async function beginOne(): Promise<{ id: string; task: ClaimedTask }> {
  const id = await rig.begin(oneTask)
  await rig.resolver.runOnce()
  const [task] = await claimOf(id)
  if (task === undefined) throw new Error('The task was not claimed.')
  return { id, task }
}

/** The resolver stops it while this statement has been done, but is not committed. */
async function stopBeside<P extends readonly unknown[]>(
  stop: () => Promise<unknown>,
  moves: Statement<unknown, P>,
  params: P,
): Promise<void> {
  const own = rig.fixture.database.open({ maxConnections: 1 })
  const goOn = Promise.withResolvers<void>()
  const written = Promise.withResolvers<void>()
  const moving = own.transaction({ role: 'belfry_engine' }, async (tx) => {
    await tx.query(moves, params)
    written.resolve()
    await goOn.promise
  })
  await written.promise
  await stop()
  let isOver = false
  const resolving = rig.resolver.runOnce().finally(() => (isOver = true))
  while (!isOver && (await rig.fixture.database.waiting()) === 0)
    await new Promise((resolve) => setImmediate(resolve))
  goOn.resolve()
  await Promise.all([moving, resolving])
  await rig.resolver.runOnce()
}

const cancel = (id: string) => rig.cancel(id)
const timeOut = (id: string) =>
  sql(
    `UPDATE belfry.workflow_progress SET deadline = belfry.now() - interval '1 s' WHERE workflow_run_id = $1`,
    [id],
  )
const stops = [
  { name: 'cancel', stop: cancel, state: 'canceled' },
  { name: 'timeout', stop: timeOut, state: 'failed' },
]

/** As the service that releases retries does it. */
const release = statement<unknown, [runId: string]>(
  'test_release',
  `WITH gone AS (DELETE FROM belfry.delayed WHERE run_id = $1 RETURNING *)
   INSERT INTO belfry.ready (run_id, tenant_id, job_id, job_version, queue, handler, tag, priority,
     available_at, timeout_ms, lease_epoch, attempt, crash_count, failure_count, followed)
   SELECT run_id, tenant_id, job_id, job_version, queue, handler, 1, priority, belfry.now(), timeout_ms,
     lease_epoch, attempt, crash_count, failure_count, followed FROM gone`,
)

describe.each(stops)('a $name', ({ stop, state }) => {
  it('ends a task that moves from its attempt to its retry', async () => {
    const { id, task } = await beginOne()
    const { runId, leaseEpoch } = task
    const now = Date.now()
    await stopBeside(() => stop(id), completeAttempts, [
      [runId],
      [leaseEpoch],
      ['failed'],
      [null],
      [null],
      [1],
      ['failure'],
      [now - 5],
      [now],
      ['x'],
      ['x'],
      [500],
      [null],
      [false],
      [null],
      [null],
      rig.sessionId,
    ])
    expect(await rig.standing(id)).toMatchObject({ state, tasks: { a: 'canceled' } })
  })

  it('ends a task whose retry is released', async () => {
    const { id, task } = await beginOne()
    await rig.fixture.store.complete(rig.sessionId, [retriedEnd(task)])
    await stopBeside(() => stop(id), release, [task.runId])
    expect(await rig.standing(id)).toMatchObject({ state, tasks: { a: 'canceled' } })
  })
})

describe('a task that a stop missed', () => {
  const missed = async (runId: string): Promise<void> => {
    await sql('UPDATE belfry.ready SET cancel_requested_at = NULL WHERE run_id = $1', [runId])
  }
  const asked = async (id: string) => (await claimOf(id)).map(({ cancelRequested }) => cancelRequested)

  it('is asked by a second cancel, and by whoever looks for what nobody told of', async () => {
    const { id, task } = await beginOne()
    await rig.cancel(id)
    await rig.resolver.runOnce()
    expect(await asked(id)).toEqual([true])
    await missed(task.runId)
    await rig.cancel(id)
    await rig.resolver.runOnce()
    expect(await asked(id)).toEqual([true])
    await missed(task.runId)
    // those that are stopped are not counted: most of them clean up
    expect(await rig.resolving.mend()).toBe(0)
    await rig.resolver.runOnce()
    expect(await asked(id)).toEqual([true])
    // nothing is left to ask
    expect(await rig.resolving.mend()).toBe(0)
    expect(await sql('SELECT * FROM belfry.workflow_event')).toEqual([])
    await rig.end(task, 'canceled')
    await rig.resolver.runOnce()
    expect((await rig.standing(id)).state).toBe('canceled')
  })

  it('is left alone where it cleans up', async () => {
    const tasks = [
      { id: 'a', job: 'x' },
      { id: 'b', job: 'x', needs: ['a'], rule: 'all_done' },
    ]
    const id = await rig.begin({ tasks, finally: [{ id: 'tidy', job: 'x' }] })
    await rig.resolver.runOnce()
    const [task] = await claimOf(id)
    await rig.cancel(id)
    await rig.resolver.runOnce()
    if (task !== undefined) await rig.end(task, 'canceled')
    await rig.resolver.runOnce()
    for (const again of [() => rig.cancel(id), () => rig.resolving.mend()]) {
      await again()
      await rig.resolver.runOnce()
      expect((await claimOf(id)).map((run) => [run.task, run.cancelRequested])).toEqual([['tidy', false]])
    }
    const [tidy] = await claimOf(id)
    if (tidy !== undefined) await rig.end(tidy, 'succeeded')
    await rig.resolver.runOnce()
    expect(await rig.standing(id)).toMatchObject({ state: 'canceled', tasks: { tidy: 'succeeded' } })
  })
})

it('lets events of what is over hold up nobody', async () => {
  const put = (kind: string, count: number) =>
    sql(
      `INSERT INTO belfry.workflow_event (at, workflow_run_id, tenant_id, kind)
       SELECT belfry.now() - interval '1 h', gen_random_uuid(), $1, $2 FROM generate_series(1, $3::int)`,
      [rig.fixture.tenantId, kind, count],
    )
  const alive = await rig.begin(oneTask)
  await put('begin', 4_500)
  await put('cancel', 4_500)
  await rig.cancel(alive)
  await rig.resolver.runOnce()
  expect((await rig.standing(alive)).state).toBe('canceled')
  // seen beside some that it hides
  const [one, two] = [await rig.begin(oneTask), await rig.begin(oneTask)]
  await sql(`UPDATE belfry.workflow_event SET at = at - interval '2 h' WHERE workflow_run_id = $1`, [one])
  await put('begin', 600)
  const { runs } = await rig.resolving.within((tx) => tx.lockDue({ runs: 500, events: 2_000, without: [] }))
  expect(runs.map(({ id }) => id).toSorted()).toEqual([one, two].toSorted())
  await rig.cancel(one)
  await rig.cancel(two)
  await rig.resolver.runOnce()
})

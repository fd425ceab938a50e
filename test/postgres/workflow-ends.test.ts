// Whoever ends a run of a task, the resolver is told in the same transaction: each way in which a run can
// end, by the service that ends it. Nothing here is found by looking (mend): what waits for the end starts
// at once.
import { concurrencySchema, type JobDefinition } from '@belfry/contract'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { cancelRuns, type CanceledRuns } from '../../packages/server/src/engine/catalog/run-canceler.ts'
import { createExpirer } from '../../packages/server/src/engine/expirer.ts'
import { createGatekeeper } from '../../packages/server/src/engine/gatekeeper.ts'
import { createCancelStore } from '../../packages/server/src/postgres/catalog/cancel-store.ts'
import { createPostgresGate } from '../../packages/server/src/postgres/gate/gate.ts'
import { realClock } from '../support/real-clock.ts'
import { rescueRig } from '../support/rescue-rig.ts'
import { recordEvents, recordHints, retriedEnd, succeededEnd } from '../support/running.ts'
import { type ClaimedTask, openWorkflowRig, type WorkflowRig } from '../support/workflow-rig.ts'

let rig: WorkflowRig
beforeAll(async () => {
  rig = await openWorkflowRig()
})
afterAll(() => rig.close())

const told = { topic: 'workflows', key: 'any' }
const sql = <Row extends Record<string, unknown>>(text: string, params: readonly unknown[] = []) =>
  rig.fixture.database.sql<Row>(text, [...params])

/** A workflow run of which the first task was started; the second starts when that has ended. */
async function startFirst(definition: Partial<JobDefinition> = {}) {
  const job = await rig.fixture.addJob(definition)
  const tasks = [
    { id: 'first', job: 'x' },
    { id: 'then', job: 'x', needs: ['first'], rule: 'all_done' },
  ]
  const id = await rig.begin({ tasks }, undefined, job)
  await rig.resolver.runOnce()
  const [run] = await sql<{ id: string }>(
    `SELECT id FROM belfry.run WHERE workflow_run_id = $1 AND task = 0`,
    [id],
  )
  if (run === undefined) throw new Error('The first task was not started.')
  return { id, job, runId: run.id }
}

async function claimFirst(runId: string): Promise<ClaimedTask> {
  const found = (await rig.claim()).find((run) => run.runId === runId)
  if (found === undefined) throw new Error('The run was not claimed.')
  return found
}

/** How the first task ended, and whether the other was started because of it. */
async function afterwards(id: string) {
  await rig.resolver.runOnce()
  const { tasks } = await rig.standing(id)
  const [then] = await sql<{ count: number }>(
    `SELECT count(*)::int AS count FROM belfry.run WHERE workflow_run_id = $1 AND task = 1`,
    [id],
  )
  return { first: tasks['first'], started: then?.count }
}

const cancel = (runIds: readonly string[]): Promise<CanceledRuns> =>
  rig.db.transaction({ role: 'belfry_app', tenantId: rig.fixture.tenantId }, (tx) =>
    cancelRuns(createCancelStore(tx), runIds, undefined),
  )

const limitOf = (onLimit: 'skip' | 'replace') => concurrencySchema.parse({ limit: 1, onLimit })

function openGate() {
  const hints = recordHints()
  const gate = createPostgresGate(rig.db)
  return {
    hints,
    keeper: createGatekeeper({
      gate,
      clock: realClock,
      random: { next: () => 0.5 },
      events: recordEvents(),
      hints,
    }),
  }
}

describe('a worker', () => {
  it('that reports successes alone, or with other ends', async () => {
    const [one, two] = [await startFirst(), await startFirst()]
    const [a, b] = [await claimFirst(one.runId), await claimFirst(two.runId)]
    await rig.fixture.store.complete(rig.sessionId, [succeededEnd(a)])
    expect(await afterwards(one.id)).toEqual({ first: 'succeeded', started: 1 })
    const other = await claimFirst((await startFirst()).runId)
    const applied = await rig.fixture.store.complete(rig.sessionId, [succeededEnd(b), retriedEnd(other)])
    expect(applied.timerShards).toContain(-1)
    expect(await afterwards(two.id)).toEqual({ first: 'succeeded', started: 1 })
  })

  it('that fails it after a retry, to which being followed was handed on', async () => {
    const { id, runId } = await startFirst()
    await rig.fixture.store.complete(rig.sessionId, [
      retriedEnd(await claimFirst(runId), { retryDelayMs: 0 }),
    ])
    expect(await afterwards(id)).toEqual({ first: 'started', started: 0 })
    await sql(
      `WITH due AS (DELETE FROM belfry.delayed WHERE run_id = $1 RETURNING *)
       INSERT INTO belfry.ready (run_id, tenant_id, job_id, job_version, queue, handler, tag, priority,
         available_at, timeout_ms, lease_epoch, attempt, crash_count, failure_count, followed)
       SELECT run_id, tenant_id, job_id, job_version, queue, handler, 1, priority, belfry.now(), timeout_ms,
         lease_epoch, attempt, crash_count, failure_count, followed FROM due`,
      [runId],
    )
    await rig.end(await claimFirst(runId), 'failed')
    expect(await afterwards(id)).toEqual({ first: 'failed', started: 1 })
  })

  it('that claimed it too late', async () => {
    const { id, runId } = await startFirst({ startWithinMs: 60_000 })
    const late = { outcome: 'expired', runState: 'failed', reason: 'expired' } as const
    await rig.fixture.store.complete(rig.sessionId, [succeededEnd(await claimFirst(runId), late)])
    expect(await afterwards(id)).toEqual({ first: 'failed', started: 1 })
  })

  it('that hands it back when it was canceled meanwhile', async () => {
    const { id, runId } = await startFirst()
    const { leaseEpoch } = await claimFirst(runId)
    expect(await cancel([runId])).toMatchObject({ asked: 1 })
    const back = await rig.fixture.store.handBack(rig.sessionId, [{ runId, leaseEpoch, queue: 'default' }])
    expect(back.timerShards).toEqual([-1])
    expect(await afterwards(id)).toEqual({ first: 'canceled', started: 1 })
  })

  it('that is lost, its run not to be tried again', async () => {
    const { id, job, runId } = await startFirst({ delivery: 'at_most_once' })
    const rescue = rescueRig(() => rig.fixture)
    const session = await rig.fixture.openSession()
    expect((await rescue.claim(session, job, 500)).map((run) => run.runId)).toContain(runId)
    await rescue.expire(session)
    const rescuer = rescue.rescuer()
    await rescuer.runOnce()
    expect(rescuer.hints.published).toContainEqual(told)
    expect(await afterwards(id)).toEqual({ first: 'failed', started: 1 })
  })
})

describe('time', () => {
  it.each(['start_by', 'run_deadline'])('that is over while it waits: %s', async (column) => {
    const { id, runId } = await startFirst({ startWithinMs: 60_000, runDeadlineMs: 120_000 })
    const [limits] = await sql(
      `SELECT round(extract(epoch FROM start_by - available_at))::int AS start,
              round(extract(epoch FROM run_deadline - available_at))::int AS deadline
       FROM belfry.ready WHERE run_id = $1`,
      [runId],
    )
    expect(limits).toEqual({ start: 60, deadline: 120 })
    await sql(`UPDATE belfry.ready SET ${column} = belfry.now() - interval '1 s' WHERE run_id = $1`, [runId])
    const hints = recordHints()
    await createExpirer({ overdueRuns: rig.fixture.overdueRuns, hints, events: recordEvents() })()
    expect(hints.published).toContainEqual(told)
    expect(await afterwards(id)).toEqual({ first: 'failed', started: 1 })
  })

  it('that is over in its retry delay', async () => {
    const { id, runId } = await startFirst({ runDeadlineMs: 120_000 })
    await rig.fixture.store.complete(rig.sessionId, [retriedEnd(await claimFirst(runId))])
    await sql(`UPDATE belfry.delayed SET run_deadline = belfry.now() WHERE run_id = $1`, [runId])
    const hints = recordHints()
    await createExpirer({ overdueRuns: rig.fixture.overdueRuns, hints, events: recordEvents() })()
    expect(await afterwards(id)).toEqual({ first: 'failed', started: 1 })
  })
})

describe('a limit', () => {
  it('that skips what comes', async () => {
    const first = await startFirst({
      concurrency: limitOf('skip'),
    })
    const { keeper, hints } = openGate()
    await keeper.runOnce()
    const second = await rig.begin({ tasks: [{ id: 'first', job: 'x' }] }, undefined, first.job)
    await rig.resolver.runOnce()
    await keeper.runOnce()
    expect(hints.published).toContainEqual(told)
    await rig.resolver.runOnce()
    expect((await rig.standing(second)).tasks).toEqual({ first: 'skipped' })
    await rig.end(await claimFirst(first.runId), 'succeeded')
    await keeper.runOnce()
    await rig.resolver.runOnce()
    expect(
      await sql(`SELECT run_id FROM belfry.slot WHERE NOT freed AND run_id = $1`, [first.runId]),
    ).toEqual([])
  })

  it('that puts what comes in its place, while it waits', async () => {
    const first = await startFirst({
      concurrency: limitOf('replace'),
    })
    const { keeper, hints } = openGate()
    await keeper.runOnce()
    await rig.begin({ tasks: [{ id: 'first', job: 'x' }] }, undefined, first.job)
    await rig.resolver.runOnce()
    await keeper.runOnce()
    expect(hints.published).toContainEqual(told)
    expect(await afterwards(first.id)).toEqual({ first: 'canceled', started: 1 })
  })
})

describe('a person', () => {
  it('who cancels it while it waits, with others', async () => {
    const [one, two] = [await startFirst(), await startFirst()]
    const [plain] = await rig.fixture.addRuns(one.job, 1)
    const done = await cancel([one.runId, two.runId, plain ?? ''])
    expect(done).toMatchObject({ canceled: 3, missed: [] })
    expect(done.hints).toEqual([told])
    expect(await afterwards(one.id)).toEqual({ first: 'canceled', started: 1 })
    expect(await afterwards(two.id)).toEqual({ first: 'canceled', started: 1 })
  })

  it('who cancels it in its retry delay', async () => {
    const { id, runId } = await startFirst()
    await rig.fixture.store.complete(rig.sessionId, [retriedEnd(await claimFirst(runId))])
    expect((await cancel([runId])).hints).toEqual([told])
    expect(await afterwards(id)).toEqual({ first: 'canceled', started: 1 })
  })

  it('who cancels it while it runs', async () => {
    const { id, runId } = await startFirst()
    const run = await claimFirst(runId)
    expect(await cancel([runId])).toMatchObject({ canceled: 0, asked: 1 })
    await rig.end(run, 'canceled')
    expect(await afterwards(id)).toEqual({ first: 'canceled', started: 1 })
  })
})

it('the record is empty, and nothing was to be found by looking', async () => {
  expect(await rig.resolving.mend()).toBe(0)
  expect(await sql(`SELECT * FROM belfry.workflow_event`)).toEqual([])
})

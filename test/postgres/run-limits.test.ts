// The time-to-start limit and the deadline of a whole run on a real Postgres: who waits past his time is
// ended by the sweep, who is claimed too late by the worker, who runs is cut off, and whose retry comes too
// late ends at once. `clock` is the database's real one; limits are set on the rows.
import { type JobDefinition, retryPolicySchema } from '@belfry/contract'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { createExpirer } from '../../packages/server/src/engine/expirer.ts'
import { createRescuer } from '../../packages/server/src/engine/rescuer.ts'
import type { OverdueRuns } from '../../packages/server/src/ports/overdue-runs.ts'
import { realClock } from '../support/real-clock.ts'
import {
  createRunningFixture,
  eventually,
  recordEvents,
  recordHints,
  type RunningFixture,
  success,
  testHandler,
  untilAborted,
} from '../support/running.ts'
import { workerRigs } from '../support/worker-rig.ts'

let fixture: RunningFixture
const rigs = workerRigs(() => fixture)

beforeAll(async () => {
  fixture = await createRunningFixture()
})
afterAll(() => fixture.drop())
beforeEach(() =>
  fixture.database.sql('TRUNCATE belfry.ready, belfry.session, belfry.delayed, belfry.attempt'),
)
afterEach(rigs.stopAll)

type Limits = { readonly startBy?: string; readonly runDeadline?: string }

/** Runs in `ready`; limits are intervals from now, such as '-1 s'. */
async function addRuns(
  count: number,
  limits: Limits,
  definition: Partial<JobDefinition> = {},
): Promise<string[]> {
  const ids = await fixture.addRuns(await fixture.addJob(definition), count)
  await limit(ids, limits)
  return ids
}

async function addRun(limits: Limits, definition: Partial<JobDefinition> = {}): Promise<string> {
  const [id = ''] = await addRuns(1, limits, definition)
  return id
}

const limit = (ids: readonly string[], { startBy, runDeadline }: Limits, place = 'ready') =>
  fixture.database.sql(
    `UPDATE belfry.${place}
     SET start_by = belfry.now() + $2::interval, run_deadline = belfry.now() + $3::interval
     WHERE run_id = ANY($1::uuid[])`,
    [ids, startBy ?? null, runDeadline ?? null],
  )

/** Takes runs out of `ready` into `delayed`, due in an hour; after another one, where that is said. */
const delay = (ids: readonly string[], afterRunId: string | null = null) =>
  fixture.database.sql(
    `WITH gone AS (DELETE FROM belfry.ready WHERE run_id = ANY($1::uuid[]) RETURNING *)
     INSERT INTO belfry.delayed (run_id, tenant_id, job_id, job_version, due_at, shard, queue, handler,
       priority, timeout_ms, lease_epoch, attempt, crash_count, failure_count, start_by, run_deadline,
       after_run_id, schedule_id)
     SELECT run_id, tenant_id, job_id, job_version, belfry.now() + interval '1 hour', belfry.shard_of(run_id),
       queue, handler, priority, timeout_ms, lease_epoch, attempt, 0, 0, start_by, run_deadline, $2::uuid,
       CASE WHEN $2::uuid IS NOT NULL THEN $2::uuid END
     FROM gone`,
    [ids, afterRunId],
  )

function expirer(overdueRuns: OverdueRuns = fixture.overdueRuns) {
  const [events, hints] = [recordEvents(), recordHints()]
  return { sweep: createExpirer({ overdueRuns, hints, events }), events, hints }
}

const expired = (reason: 'expired' | 'deadline_exceeded') => ({
  number: 0,
  outcome: 'expired',
  run_state: 'failed',
  reason,
  error_code: reason,
  session_id: null,
})

describe('the sweep', () => {
  test('ends what waits past its time, with a record, and leaves the rest', async () => {
    const late = await addRun({ startBy: '-1 s' })
    const over = await addRun({ startBy: '-1 s', runDeadline: '-1 s' })
    const [retry = '', sleeping = ''] = await addRuns(2, { runDeadline: '-1 s' })
    await delay([retry, sleeping])
    await limit([sleeping], { startBy: '-1 s' }, 'delayed')
    const inTime = await addRun({ startBy: '1 hour', runDeadline: '1 hour' })
    const unlimited = await addRun({})
    const { sweep, events } = expirer()
    expect(await sweep()).toBe(4)
    expect(await fixture.attempts(late)).toMatchObject([expired('expired')])
    expect(await fixture.attempts(over)).toMatchObject([expired('deadline_exceeded')])
    expect(await fixture.attempts(retry)).toMatchObject([expired('deadline_exceeded')])
    expect(await fixture.attempts(sleeping)).toMatchObject([expired('expired')])
    for (const id of [inTime, unlimited]) expect(await fixture.place(id)).toMatchObject({ place: 'ready' })
    expect(events.of('attempt_ended').map(({ errorCode }) => errorCode)).toHaveLength(4)
    expect(await sweep()).toBe(0)
  })

  test('gets through more than a page, and two at once end each run once', async () => {
    const ids = await addRuns(1_203, { startBy: '-1 s' })
    const [one, two] = [expirer(), expirer()]
    const counts = await Promise.all([one.sweep(), two.sweep()])
    expect((counts[0] ?? 0) + (counts[1] ?? 0) + (await one.sweep())).toBe(1_203)
    const [row] = await fixture.database.sql<{ count: number }>(
      'SELECT count(*)::int AS count FROM belfry.attempt WHERE run_id = ANY($1::uuid[])',
      [ids],
    )
    expect(row?.count).toBe(1_203)
  })

  test('does not touch one that runs', async () => {
    const id = await addRun({ startBy: '1 hour' })
    const { worker } = await rigs.start(testHandler(untilAborted))
    await eventually(async () => (await fixture.place(id)).place === 'running', 'the claim')
    await limit([id], { startBy: '-1 s' })
    expect(await expirer().sweep()).toBe(0)
    expect(await fixture.place(id)).toMatchObject({ place: 'running' })
    await worker.stop()
  })

  test('lets those go that waited for it', async () => {
    const first = await addRun({ startBy: '-1 s' })
    const second = await addRun({})
    await delay([second], first)
    await fixture.database.sql('UPDATE belfry.ready SET followed = true WHERE run_id = $1', [first])
    const { sweep, hints } = expirer()
    expect(await sweep()).toBe(1)
    const rows = await fixture.database.sql(
      'SELECT after_run_id, due_at <= belfry.now() AS due FROM belfry.delayed WHERE run_id = $1',
      [second],
    )
    expect(rows).toEqual([{ after_run_id: null, due: true }])
    expect(hints.published).toContainEqual({
      topic: 'timers',
      key: String(Number.parseInt(second.slice(-2), 16) & 63),
    })
  })

  test('closes the chain over one in its midst', async () => {
    const [first = '', second = '', third = ''] = await addRuns(3, {})
    await delay([second], first)
    await delay([third], second)
    await limit([second], { startBy: '-1 s' }, 'delayed')
    const { sweep } = expirer()
    expect(await sweep()).toBe(1)
    expect(await fixture.attempts(second)).toMatchObject([expired('expired')])
    const rows = await fixture.database.sql('SELECT run_id, after_run_id FROM belfry.delayed')
    expect(rows).toEqual([{ run_id: third, after_run_id: first }])
    expect(await fixture.place(first)).toMatchObject({ place: 'ready' })
  })

  test('names the one before it as the last of its schedule again, where it was the last', async () => {
    const [first = '', second = '', third = ''] = await addRuns(3, {})
    await delay([second, third], first)
    // `delay` names the schedule after the first run
    await fixture.database.sql(
      `WITH made AS (
         INSERT INTO belfry.schedule
           (id, tenant_id, name, job_id, spec, zone, zone_data_version, catch_up, overlap)
         SELECT $1, tenant_id, 's', job_id, '{}', 'UTC', '1', '{}', 'buffer_all' FROM belfry.run WHERE id = $1
         RETURNING id, tenant_id)
       INSERT INTO belfry.timer (schedule_id, tenant_id, due_at, scheduled_for, gen, shard, last_run_id)
       SELECT id, tenant_id, now(), now(), 1, 0, $2 FROM made`,
      [first, third],
    )
    const last = () =>
      fixture.database.sql('SELECT last_run_id FROM belfry.timer WHERE schedule_id = $1', [first])
    const { sweep } = expirer()
    await limit([second], { startBy: '-1 s' }, 'delayed')
    expect([await sweep(), await last()]).toEqual([1, [{ last_run_id: third }]])
    await limit([third], { startBy: '-1 s' }, 'delayed')
    expect([await sweep(), await last()]).toEqual([1, [{ last_run_id: first }]])
  })

  test('a run that cannot be ended keeps no other from being ended', async () => {
    const ids = await addRuns(5, { startBy: '-1 s' })
    const { overdueRuns } = fixture
    const { sweep, events } = expirer({
      list: (most) => overdueRuns.list(most),
      end: async (runs) => {
        const fault = Object.assign(new Error('check'), { code: '23514' })
        if (runs.some((run) => run.runId === ids[2])) throw fault
        return overdueRuns.end(runs)
      },
    })
    expect(await sweep()).toBe(4)
    expect(events.of('role_failed')).toMatchObject([{ role: 'rescuer' }])
    expect(await fixture.place(ids[2] ?? '')).toMatchObject({ place: 'ready' })
  })

  test('is part of the rounds of the rescuer', async () => {
    const id = await addRun({ startBy: '-1 s' })
    const { store, overdueRuns } = fixture
    const parts = { store, overdueRuns, hints: recordHints(), clock: realClock, events: recordEvents() }
    await createRescuer({ ...parts, random: { next: Math.random } }).runOnce()
    expect(await fixture.attempts(id)).toMatchObject([expired('expired')])
  })

  test('asks its indexes alone, and nothing where there are none', async () => {
    await delay(await addRuns(500, {}))
    await addRuns(500, {})
    await fixture.database.sql('ANALYZE belfry.ready, belfry.delayed')
    expect(await fixture.overdueRuns.list(500)).toEqual([])
    const { listOverdueRuns } = await import('../../packages/server/src/postgres/statements/expiry.ts')
    const rows = await fixture.database.sql<{ 'QUERY PLAN': string }>(
      `EXPLAIN ${listOverdueRuns.text.replaceAll('$1', '500')}`,
    )
    const plan = rows.map((row) => row['QUERY PLAN']).join('\n')
    for (const index of ['ready_start_by', 'ready_run_deadline', 'delayed_start_by', 'delayed_run_deadline'])
      expect(plan).toContain(index)
  })
})

describe('a worker', () => {
  test.each([
    [{ startBy: '-1 ms' }, 'expired'],
    [{ runDeadline: '-1 ms', startBy: '1 hour' }, 'deadline_exceeded'],
  ] as const)('that claims a run too late (%j) never calls its handler', async (limits, reason) => {
    const handler = testHandler(() => success)
    const id = await addRun(limits)
    const { events } = await rigs.start(handler)
    await eventually(async () => (await fixture.place(id)).place === 'ended', 'the end')
    expect(await fixture.attempts(id)).toMatchObject([
      { ...expired(reason), session_id: expect.any(String) as string },
    ])
    expect(handler.requests).toEqual([])
    expect(events.of('attempt_started')).toEqual([])
    expect(events.of('attempt_ended')).toMatchObject([{ outcome: 'expired', state: 'failed' }])
  })

  test('gets everything else done beside runs whose time is over', async () => {
    const late = await addRuns(40, { startBy: '-1 ms' })
    const fresh = await addRuns(40, { startBy: '1 hour', runDeadline: '1 hour' })
    const handler = testHandler(() => success)
    await rigs.start(handler, { settings: { slots: 5 } })
    await eventually(async () => {
      const rows = await fixture.database.sql('SELECT 1 FROM belfry.ready')
      return rows.length === 0
    }, 'the end of all')
    expect(handler.requests.map((request) => request.runId).toSorted()).toEqual(fresh.toSorted())
    const rows = await fixture.database.sql<{ run_id: string }>(
      `SELECT run_id FROM belfry.attempt WHERE outcome = 'expired'`,
    )
    expect(rows.map((row) => row.run_id).toSorted()).toEqual(late.toSorted())
  })

  test('cuts an attempt off when the whole run must be over', async () => {
    const id = await addRun({ runDeadline: '400 ms' })
    const reasons: unknown[] = []
    const handler = testHandler((request) => {
      request.signal.addEventListener('abort', () => reasons.push(request.signal.reason))
      return untilAborted(request)
    })
    await rigs.start(handler)
    await eventually(async () => (await fixture.place(id)).place === 'ended', 'the end')
    expect(reasons).toEqual(['timeout'])
    expect(handler.requests[0]?.timeoutMs).toBeLessThanOrEqual(400)
    expect(await fixture.attempts(id)).toMatchObject([
      {
        number: 1,
        outcome: 'timed_out',
        run_state: 'failed',
        reason: 'deadline_exceeded',
        error_code: 'deadline_exceeded',
        error_message: expect.stringContaining('The time for the whole run was over') as string,
      },
    ])
  })

  test('ends a run at once whose next attempt would come too late', async () => {
    const retry = retryPolicySchema.parse({ backoff: 'fixed', baseMs: 60_000, jitter: 'none' })
    const id = await addRun({ runDeadline: '30 s' }, { retry })
    await rigs.start(
      testHandler(() => ({ outcome: 'failed', retryable: true, error: { code: 'busy', message: 'busy' } })),
    )
    await eventually(async () => (await fixture.place(id)).place === 'ended', 'the end')
    expect(await fixture.attempts(id)).toMatchObject([
      { number: 1, outcome: 'failed', run_state: 'failed', reason: 'deadline_exceeded', error_code: 'busy' },
    ])
  })

  test('hands the deadline on to the next attempt, and the limit of the first start not', async () => {
    const retry = retryPolicySchema.parse({ backoff: 'list', delaysMs: [1_000, 9_000], jitter: 'none' })
    const id = await addRun({ startBy: '1 hour', runDeadline: '1 hour' }, { retry })
    await rigs.start(
      testHandler(() => ({ outcome: 'failed', retryable: true, error: { code: 'busy', message: 'busy' } })),
    )
    await eventually(async () => (await fixture.place(id)).place === 'delayed', 'the retry')
    const rows = await fixture.database.sql(
      `SELECT start_by, run_deadline > belfry.now() + interval '59 minutes' AS later,
              round(extract(epoch FROM due_at - belfry.now()))::int <= 1 AS soon
       FROM belfry.delayed WHERE run_id = $1`,
      [id],
    )
    expect(rows).toEqual([{ start_by: null, later: true, soon: true }])
  })

  test('that is lost leaves a run whose time is over to end as such', async () => {
    const id = await addRun({ runDeadline: '1 hour' })
    const { worker } = await rigs.start(testHandler(untilAborted))
    await eventually(async () => (await fixture.place(id)).place === 'running', 'the claim')
    const [row] = await fixture.database.sql<{ margin: number }>(
      `SELECT extract(epoch FROM deadline - run_deadline)::float8 AS margin
       FROM belfry.ready WHERE run_id = $1`,
      [id],
    )
    // the attempt has a minute; the run an hour
    expect(row?.margin).toBeLessThan(0)
    await limit([id], { runDeadline: '-1 ms' })
    await fixture.database.sql(`UPDATE belfry.session SET expires_at = '-infinity'`)
    const { store, overdueRuns } = fixture
    const parts = { store, overdueRuns, hints: recordHints(), clock: realClock, events: recordEvents() }
    await createRescuer({ ...parts, random: { next: Math.random } }).runOnce()
    expect(await fixture.attempts(id)).toMatchObject([
      { number: 1, outcome: 'lost', run_state: 'failed', reason: 'deadline_exceeded' },
    ])
    await worker.stop()
  })
})

test('the deadline of a claim is that of the run where that is the sooner', async () => {
  const id = await addRun({ runDeadline: '10 s' })
  const sessionId = await fixture.openSession()
  const shares = [{ queue: 'default', minTag: -Infinity, limit: 1 }]
  const claimed = { sessionId, shares, routes: ['http'], deadlineMarginMs: 5_000 }
  const { runs } = await fixture.queue.claim(claimed)
  expect(runs).toMatchObject([{ runId: id, overdue: null, timeoutMs: 60_000 }])
  const [row] = await fixture.database.sql<{ margin: number; deadline_ms: number }>(
    `SELECT extract(epoch FROM deadline - run_deadline)::float8 AS margin,
            (extract(epoch FROM run_deadline) * 1000)::float8 AS deadline_ms
     FROM belfry.ready WHERE run_id = $1`,
    [id],
  )
  expect(row?.margin).toBeCloseTo(5, 3)
  expect(runs[0]?.runDeadlineMs).toBeCloseTo(row?.deadline_ms ?? 0, 0)
  // handed back unstarted, it is still to start in time
  await limit([id], { startBy: '1 hour' })
  await fixture.store.handBack(sessionId, runs)
  await limit([id], { startBy: '-1 ms' })
  expect((await fixture.queue.claim(claimed)).runs).toMatchObject([{ runId: id, overdue: 'expired' }])
})

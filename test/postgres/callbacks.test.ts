// Runs that their target took over, in the store: parked, reported on, silent, canceled, pruned.
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { parkedSession } from '../../packages/server/src/domain/parked.ts'
import type { AttemptName, CallbackStore } from '../../packages/server/src/ports/callbacks.ts'
import type { ClaimedRun } from '../../packages/server/src/ports/run-queue.ts'
import { createPostgresCallbackStore } from '../../packages/server/src/postgres/callback-store.ts'
import { createPostgresMaintenance } from '../../packages/server/src/postgres/maintenance.ts'
import { callbackTokens } from '../../packages/server/src/security/callback-token.ts'
import { rescueRig } from '../support/rescue-rig.ts'
import {
  createRunningFixture,
  newId,
  type RunningFixture,
  succeededEnd,
  type TestJob,
} from '../support/running.ts'

let fixture: RunningFixture
let callbacks: CallbackStore
let job: TestJob
let once: TestJob
const { rescuer, claim, expire } = rescueRig(() => fixture)

beforeAll(async () => {
  fixture = await createRunningFixture()
  callbacks = createPostgresCallbackStore(fixture.db)
  job = await fixture.addJob({ queue: 'many' })
  once = await fixture.addJob({ queue: 'once', delivery: 'at_most_once' })
})
afterAll(() => fixture.drop())
beforeEach(async () => {
  await fixture.database.sql('TRUNCATE belfry.ready, belfry.session, belfry.claim, belfry.callback')
})

interface Opened {
  readonly run: ClaimedRun
  readonly sessionId: string
  readonly token: string
  readonly hash: Uint8Array
}

async function opened(from = job): Promise<Opened> {
  await fixture.addRuns(from, 1)
  const sessionId = await fixture.openSession()
  const [run] = await claim(sessionId, from)
  if (run === undefined) throw new Error('nothing was claimed')
  const { token, hash } = callbackTokens.mint()
  expect(await callbacks.open(sessionId, run, hash)).toBe(true)
  return { run, sessionId, token, hash }
}

const minute = 60_000
const limits = { deadlineMs: 10 * minute, heartbeatMs: null }

async function parked(
  from = job,
  asked: { deadlineMs: number; heartbeatMs: number | null } = limits,
): Promise<Opened> {
  const all = await opened(from)
  expect(await callbacks.park(all.sessionId, all.run, asked)).toBe(true)
  return all
}

/** As if the deadlines of the run were so long past. */
const makeDue = ({ runId }: AttemptName, column: 'report_by' | 'due_at'): Promise<unknown> =>
  fixture.database.sql(
    `WITH past AS (
       UPDATE belfry.callback SET due_at = now() - interval '1 s'
         ${column === 'report_by' ? ", report_by = now() - interval '1 s'" : ''} WHERE run_id = $1
     ) UPDATE belfry.ready SET deadline = now() - interval '1 s' WHERE run_id = $1`,
    [runId],
  )

describe('a token', () => {
  test('is opened only for who holds the run, under his epoch', async () => {
    const { run } = await opened()
    const { hash } = callbackTokens.mint()
    expect(await callbacks.open(newId(), run, hash)).toBe(false)
    expect(await callbacks.open(newId(), { ...run, leaseEpoch: run.leaseEpoch + 1 }, hash)).toBe(false)
    expect(await callbacks.find(hash)).toBeUndefined()
  })

  test('stands in the database as a hash alone', async () => {
    const { token, hash } = await opened()
    const again = callbackTokens.hashOf(token)
    expect(again && Buffer.from(again).equals(Buffer.from(hash))).toBe(true)
    const [row] = await fixture.database.sql<{ text: string }>(
      'SELECT json_agg(c)::text AS text FROM belfry.callback c',
    )
    expect(row?.text).toContain(Buffer.from(hash).toString('hex'))
    expect(row?.text).not.toContain(token.slice(4, 20))
  })

  test('with a character changed, cut or of another kind is no token', () => {
    const { token } = callbackTokens.mint()
    const changed = `${token.slice(0, 10)}${token[10] === 'a' ? 'b' : 'a'}${token.slice(11)}`
    for (const text of [changed, token.slice(0, -1), `${token}0`, 'null', '', 'bfr_', token.toUpperCase()])
      expect(callbackTokens.hashOf(text)).toBeUndefined()
  })

  test('says who holds the run, and nobody once the attempt is over', async () => {
    const { run, sessionId, hash } = await opened()
    expect(await callbacks.find(hash)).toMatchObject({ runId: run.runId, sessionId, reportByMs: null })
    await callbacks.park(sessionId, run, limits)
    const found = await callbacks.find(hash)
    expect(found).toMatchObject({ sessionId: parkedSession, heartbeatByMs: null })
    expect((found?.reportByMs ?? 0) - (found?.nowMs ?? 0)).toBeGreaterThan(9 * minute)
    await fixture.store.complete(parkedSession, [succeededEnd(run)])
    expect(await callbacks.find(hash)).toMatchObject({ sessionId: null, cancelRequested: false })
  })
})

describe('a parked run', () => {
  test('is running, held by no worker, and survives the end of the session that took it', async () => {
    const { run, sessionId, hash } = await parked()
    expect(await fixture.store.heldRuns(sessionId)).toEqual([])
    await expire(sessionId)
    expect(await rescuer().runOnce()).toBe(0)
    expect(await fixture.place(run.runId)).toMatchObject({ place: 'running', attempt: 1, lease_epoch: 1 })
    expect((await callbacks.find(hash))?.sessionId).toBe(parkedSession)
  })

  test('is parked once: a repeated call changes nothing, nor one of another epoch or session', async () => {
    const { run, sessionId, hash } = await parked(job, { deadlineMs: minute, heartbeatMs: null })
    const before = await callbacks.find(hash)
    expect(await callbacks.park(sessionId, run, { deadlineMs: 9 * minute, heartbeatMs: null })).toBe(true)
    expect((await callbacks.find(hash))?.reportByMs).toBe(before?.reportByMs)
    const other = { ...run, leaseEpoch: run.leaseEpoch + 1 }
    expect(await callbacks.park(sessionId, other, limits)).toBe(false)
    const { run: held } = await opened()
    expect(await callbacks.park(newId(), held, limits)).toBe(false)
    expect(await fixture.place(held.runId)).toMatchObject({ place: 'running' })
  })

  test('must be reported on before the deadline of the whole run, where that is earlier', async () => {
    const { run, sessionId, hash } = await opened()
    await fixture.database.sql(
      "UPDATE belfry.ready SET run_deadline = now() + interval '30 s' WHERE run_id = $1",
      [run.runId],
    )
    await callbacks.park(sessionId, run, limits)
    const found = await callbacks.find(hash)
    expect((found?.reportByMs ?? 0) - (found?.nowMs ?? 0)).toBeLessThan(31_000)
  })

  test('without a report in time it has failed as one that timed out, and is tried again', async () => {
    const { run, hash } = await parked()
    expect(await callbacks.anyDue()).toBe(false)
    await makeDue(run, 'report_by')
    expect(await callbacks.anyDue()).toBe(true)
    const { runOnce, events } = rescuer()
    expect(await runOnce()).toBe(1)
    expect(await fixture.attempts(run.runId)).toMatchObject([
      { outcome: 'timed_out', run_state: null, error_code: 'callback_overdue', session_id: parkedSession },
    ])
    expect(await fixture.place(run.runId)).toMatchObject({
      place: 'delayed',
      failure_count: 1,
      crash_count: 0,
    })
    expect(events.of('runs_rescued')).toEqual([{ count: 1, reason: 'deadline', requeued: 1, failed: 0 }])
    expect((await callbacks.find(hash))?.sessionId).toBe(null)
    expect(await callbacks.anyDue()).toBe(false)
  })

  test('at most once: nobody knows what the silent target did, and nobody calls it again', async () => {
    const { run } = await parked(once)
    await makeDue(run, 'report_by')
    await rescuer().runOnce()
    expect(await fixture.attempts(run.runId)).toMatchObject([
      { run_state: 'failed', reason: 'outcome_unknown', error_code: 'callback_overdue' },
    ])
  })

  test('a missed heartbeat is told from a missed deadline', async () => {
    const { run } = await parked(job, { deadlineMs: 10 * minute, heartbeatMs: 5_000 })
    await makeDue(run, 'due_at')
    await rescuer().runOnce()
    expect(await fixture.attempts(run.runId)).toMatchObject([{ error_code: 'heartbeat_missed' }])
  })

  test('signs of life put off the next one, never beyond the deadline', async () => {
    const { run, hash } = await parked(job, { deadlineMs: minute, heartbeatMs: 50_000 })
    await makeDue(run, 'due_at')
    await callbacks.hear(run)
    const found = await callbacks.find(hash)
    const left = (found?.heartbeatByMs ?? 0) - (found?.nowMs ?? 0)
    expect(left).toBeGreaterThan(45_000)
    expect(await rescuer().runOnce()).toBe(0)
    await fixture.database.sql("UPDATE belfry.callback SET report_by = now() + interval '3 s'")
    await callbacks.hear(run)
    const [row] = await fixture.database.sql<{ left: number }>(
      'SELECT extract(epoch FROM deadline - now())::float8 AS left FROM belfry.ready',
    )
    expect(row?.left).toBeLessThan(3.1)
  })

  test('a sign of life before the 202 leaves the deadline of the worker alone', async () => {
    const { run, sessionId } = await opened()
    const deadline = (): Promise<unknown> => fixture.database.sql('SELECT deadline FROM belfry.ready')
    const before = await deadline()
    await callbacks.hear(run)
    expect(await deadline()).toEqual(before)
    await callbacks.park(sessionId, run, limits)
    expect(await fixture.place(run.runId)).toMatchObject({ place: 'running' })
  })
})

describe('a cancel', () => {
  const cancel = (runId: string, secondsAgo = 0): Promise<unknown> =>
    fixture.database.sql(
      "UPDATE belfry.ready SET cancel_requested_at = now() - $2 * interval '1 s' WHERE run_id = $1",
      [runId, secondsAgo],
    )

  test('ends a parked run at once where its target cannot be told', async () => {
    const { run } = await parked()
    await cancel(run.runId)
    await rescuer().runOnce()
    expect(await fixture.attempts(run.runId)).toMatchObject([
      { outcome: 'canceled', run_state: 'canceled', reason: 'canceled_by_request', error_code: 'canceled' },
    ])
  })

  test('leaves a target that sends heartbeats a minute to hear of it', async () => {
    const { run, hash } = await parked(job, { deadlineMs: 10 * minute, heartbeatMs: 30_000 })
    await cancel(run.runId, 30)
    expect(await rescuer().runOnce()).toBe(0)
    expect((await callbacks.find(hash))?.cancelRequested).toBe(true)
    await cancel(run.runId, 61)
    expect(await rescuer().runOnce()).toBe(1)
  })
})

test('tokens of attempts that are over go a week later, those of parked runs stay', async () => {
  const over = await parked()
  await fixture.store.complete(parkedSession, [succeededEnd(over.run)])
  const live = await parked()
  const maintenance = createPostgresMaintenance(fixture.db)
  expect(await maintenance.deleteOldCallbacks(100)).toBe(0)
  await fixture.database.sql("UPDATE belfry.callback SET created_at = now() - interval '8 days'")
  expect(await maintenance.deleteOldCallbacks(100)).toBe(1)
  expect(await callbacks.find(over.hash)).toBeUndefined()
  expect(await callbacks.find(live.hash)).toBeDefined()
})

test('each tenant has an external id of its own, which nobody may change', async () => {
  const other = await fixture.addTenant()
  const rows = await fixture.database.sql<{ id: string; aws_external_id: string }>(
    'SELECT id, aws_external_id FROM belfry.tenant WHERE id = ANY ($1)',
    [[fixture.tenantId, other]],
  )
  const ids = rows.map((row) => row.aws_external_id)
  expect(new Set(ids).size).toBe(2)
  for (const id of ids) expect(id).toMatch(/^belfry-[0-9a-f-]{36}$/)
})

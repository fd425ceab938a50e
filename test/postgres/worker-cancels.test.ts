// What others do to a run while a worker runs it: a cancel that a person or its schedule asked for, and an
// end that was put on record without the worker.
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { HandlerResult } from '../../packages/server/src/ports/handler.ts'
import {
  createRunningFixture,
  eventually,
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

async function addRun(): Promise<string> {
  const [runId = ''] = await fixture.addRuns(await fixture.addJob(), 1)
  return runId
}

const ended = (runId: string) =>
  eventually(async () => {
    const attempts = await fixture.attempts(runId)
    return attempts.length > 0 && attempts
  }, `an attempt of ${runId}`)

describe('a cancel', () => {
  test('reaches the handler at the hint, and the run ends canceled', async () => {
    const runId = await addRun()
    const handler = testHandler(untilAborted)
    const { worker, hints } = await rigs.start(handler, {
      settings: { heartbeatMs: 60_000, leaseMs: 300_000 },
    })
    await eventually(() => handler.requests.length === 1, 'the start')
    await fixture.database.sql('UPDATE belfry.ready SET cancel_requested_at = now() WHERE run_id = $1', [
      runId,
    ])
    hints.publish({ topic: 'cancel', key: worker.stats().sessionId ?? '' })
    expect(await ended(runId)).toMatchObject([
      { outcome: 'canceled', run_state: 'canceled', reason: 'canceled_by_request' },
    ])
    expect(handler.requests[0]?.signal.reason).toBe('cancel')
  })

  test('that the handler ignores leaves it behind after its grace; a late answer goes nowhere', async () => {
    const runId = await addRun()
    const answer = Promise.withResolvers<HandlerResult>()
    const handler = testHandler(() => answer.promise)
    const { worker } = await rigs.start(handler, { settings: { heartbeatMs: 100, abortGraceMs: 50 } })
    await eventually(() => handler.requests.length === 1, 'the start')
    await fixture.database.sql('UPDATE belfry.ready SET cancel_requested_at = now() WHERE run_id = $1', [
      runId,
    ])
    const attempts = await ended(runId)
    expect(attempts).toMatchObject([{ outcome: 'canceled', run_state: 'canceled' }])
    expect(attempts[0]?.error_message).toContain('left behind')
    expect(handler.requests[0]?.signal.reason).toBe('cancel')
    expect(worker.stats().abandoned).toBe(1)
    answer.resolve(success)
    await eventually(() => worker.stats().abandoned === 0, 'the late answer')
    expect(await fixture.attempts(runId)).toEqual(attempts)
  })

  test('reaches it without a hint too, with the heartbeat', async () => {
    const runId = await addRun()
    const handler = testHandler(untilAborted)
    await rigs.start(handler, { settings: { heartbeatMs: 100 } })
    await eventually(() => handler.requests.length === 1, 'the start')
    await fixture.database.sql('UPDATE belfry.ready SET cancel_requested_at = now() WHERE run_id = $1', [
      runId,
    ])
    expect(await ended(runId)).toMatchObject([{ outcome: 'canceled' }])
  })

  test('that a schedule asked for is told from one that a person asked for', async () => {
    const runId = await addRun()
    const handler = testHandler(untilAborted)
    await rigs.start(handler, { settings: { heartbeatMs: 100 } })
    await eventually(() => handler.requests.length === 1, 'the start')
    await fixture.database.sql(
      "UPDATE belfry.ready SET cancel_requested_at = now(), cancel_reason = 'overlap' WHERE run_id = $1",
      [runId],
    )
    expect(await ended(runId)).toMatchObject([{ outcome: 'canceled', reason: 'overlap' }])
  })
})

describe('a run that others ended', () => {
  test.each([
    ['at the hint', 60_000],
    ['with the heartbeat', 100],
  ])(
    '%s its handler is aborted, nothing of it is written, and its slot is free',
    async (when, heartbeatMs) => {
      const [runId, other] = [await addRun(), await addRun()]
      const handler = testHandler(untilAborted)
      const { worker, hints, events } = await rigs.start(handler, {
        settings: { heartbeatMs, leaseMs: 300_000 },
      })
      await eventually(() => handler.requests.length === 2, 'both to start')
      await fixture.database.sql(
        `WITH gone AS (DELETE FROM belfry.ready WHERE run_id = $1 RETURNING *)
       INSERT INTO belfry.attempt (run_id, number, tenant_id, lease_epoch, session_id, outcome, run_state,
         reason, started_at)
       SELECT run_id, attempt, tenant_id, lease_epoch, session_id, 'canceled', 'canceled', 'overlap',
         claimed_at
       FROM gone`,
        [runId],
      )
      if (when === 'at the hint') hints.publish({ topic: 'cancel', key: worker.stats().sessionId ?? '' })
      await eventually(() => worker.stats().busy === 1, 'its slot')
      const aborted = handler.requests.filter(({ signal }) => signal.aborted)
      expect(aborted.map((request) => request.runId)).toEqual([runId])
      expect(aborted[0]?.signal.reason).toBe('lease_lost')
      expect(events.of('lease_lost')).toMatchObject([{ runId, at: 'heartbeat' }])
      expect(await fixture.attempts(runId)).toHaveLength(1)
      expect(await fixture.attempts(other)).toEqual([])
    },
  )
})

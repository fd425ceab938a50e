// No run is held for good: at any instant a held row is settled or listed in a row of `claim`, whatever fails
// between a worker and the database; and what breaks that all the same, as statements of the version before
// do, is healed by the rescuer.
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { createClaimBook } from '../../packages/server/src/engine/claim-book.ts'
import { createSlots } from '../../packages/server/src/engine/slots.ts'
import { createWaitingRuns } from '../../packages/server/src/engine/waiting-runs.ts'
import { realClock } from '../support/real-clock.ts'
import { rescueRig } from '../support/rescue-rig.ts'
import { createRunningFixture, newId, type RunningFixture, type TestJob } from '../support/running.ts'

let fixture: RunningFixture
let job: TestJob
const { rescuer, claim, expire } = rescueRig(() => fixture)

beforeAll(async () => {
  fixture = await createRunningFixture()
  job = await fixture.addJob({ queue: 'many' })
})
afterAll(() => fixture.drop())
beforeEach(() => fixture.database.sql('TRUNCATE belfry.ready, belfry.session, belfry.claim'))

async function addRun(): Promise<string> {
  const [runId = ''] = await fixture.addRuns(job, 1)
  return runId
}

/** As the claim of the version before does it. */
const claimOldWay = (sessionId: string, runId: string, agoMs: number) =>
  fixture.database.sql(
    `UPDATE belfry.ready SET session_id = $1, claimed_at = now() - $3 * interval '1 ms',
       deadline = now() + interval '1 min', attempt = attempt + 1, lease_epoch = lease_epoch + 1
     WHERE run_id = $2`,
    [sessionId, runId, agoMs],
  )

const giveBackOldWay = (runId: string) =>
  fixture.database.sql(
    `UPDATE belfry.ready SET session_id = NULL, claimed_at = NULL, deadline = NULL, progress = NULL,
       attempt = attempt - 1
     WHERE run_id = $1`,
    [runId],
  )

describe('a run that waited for a handler', () => {
  /** Claims one, gives it back in a way that fails, and claims again, which tells which claims are over. */
  async function loseHandBack(
    outcome: 'fails' | 'never answers',
  ): Promise<{ runId: string; sessionId: string }> {
    const runId = await addRun()
    const sessionId = await fixture.openSession()
    const book = createClaimBook()
    const slots = createSlots(0, realClock, book)
    const giveBack = () => (outcome === 'fails' ? Promise.resolve(false) : new Promise<boolean>(() => {}))
    const waiting = createWaitingRuns({ clock: realClock, slots, giveBack })
    const shares = [{ queue: 'many', minTag: -Infinity, limit: 10 }]
    const claimNext = () =>
      fixture.queue.claim({
        sessionId,
        shares,
        routes: ['http'],
        deadlineMarginMs: 60_000,
        ...book.open(sessionId),
      })
    const { runs } = await claimNext()
    for (const run of runs) {
      waiting.add({ sessionId, run, begin() {} })
      book.started(run.claim)
    }
    waiting.giveBack()
    await Promise.resolve()
    await addRun()
    await claimNext()
    return { runId, sessionId }
  }

  test.each(['fails', 'never answers'] as const)('is not lost when giving it back %s', async (outcome) => {
    const { runId, sessionId } = await loseHandBack(outcome)
    expect((await fixture.store.heldRuns(sessionId)).map((run) => run.runId)).toContain(runId)
    await expire(sessionId)
    expect(await rescuer().runOnce()).toBe(2)
    expect(await fixture.place(runId)).toMatchObject({ place: 'delayed', crash_count: 1 })
  })
})

describe('while servers of the version before are at work', () => {
  test('what they claim is rescued, a minute after the claim', async () => {
    const [fresh, old] = [await addRun(), await addRun()]
    const sessionId = newId()
    await claimOldWay(sessionId, fresh, 50_000)
    await claimOldWay(sessionId, old, 61_000)
    expect(await rescuer().runOnce()).toBe(1)
    expect((await fixture.place(old)).place).toBe('delayed')
    expect((await fixture.place(fresh)).place).toBe('running')
  })

  test('what they give back can be claimed again, after the next sweep', async () => {
    const runId = await addRun()
    const sessionId = await fixture.openSession()
    await claim(sessionId, job)
    await fixture.store.settleClaims(10)
    await giveBackOldWay(runId)
    expect(await fixture.store.heldRuns(sessionId)).toEqual([])
    expect(await rescuer().runOnce()).toBe(0)
    expect((await claim(sessionId, job)).map((run) => run.runId)).toEqual([runId])
  })

  test('what another takes of that is not taken for lost with the session that had it before', async () => {
    const runId = await addRun()
    const [gone, other] = [await fixture.openSession(), await fixture.openSession()]
    await claim(gone, job)
    await fixture.store.settleClaims(10)
    await giveBackOldWay(runId)
    await claimOldWay(other, runId, 0)
    await expire(gone)
    expect((await fixture.store.stuckRuns(null, 10)).runs).toEqual([])
    expect(await rescuer().runOnce()).toBe(0)
    expect((await fixture.store.heldRuns(other)).map((run) => run.runId)).toEqual([runId])
  })
})

test('the walk that heals goes on page by page, and begins anew', async () => {
  const runIds = (await fixture.addRuns(job, 5)).toSorted()
  const sessionId = newId()
  for (const runId of runIds) await claimOldWay(sessionId, runId, 61_000)
  const { store } = fixture
  expect(await store.healHeldRuns(null, 2)).toEqual({ next: runIds[1], healed: 2 })
  expect(await store.healHeldRuns(runIds[1] ?? null, 2)).toEqual({ next: runIds[3], healed: 2 })
  expect(await store.healHeldRuns(runIds[3] ?? null, 2)).toEqual({ next: null, healed: 1 })
  expect(await store.healHeldRuns(null, 10)).toEqual({ next: null, healed: 0 })
  expect(await store.heldRuns(sessionId)).toHaveLength(5)
})

// A worker whose handler says that its target took the run over: the run is parked, whatever happens at that
// moment, and its slot is free.
import { BelfryError } from '@belfry/contract'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import { parkedSession } from '../../packages/server/src/domain/parked.ts'
import type { CallbackStore } from '../../packages/server/src/ports/callbacks.ts'
import type { HandlerRequest, HandlerResult } from '../../packages/server/src/ports/handler.ts'
import { createPostgresCallbackStore } from '../../packages/server/src/postgres/callback-store.ts'
import { callbackTokens } from '../../packages/server/src/security/callback-token.ts'
import {
  createRunningFixture,
  eventually,
  type RunningFixture,
  succeededEnd,
  type TestJob,
  testHandler,
} from '../support/running.ts'
import { workerRigs } from '../support/worker-rig.ts'

let fixture: RunningFixture
let callbacks: CallbackStore
let job: TestJob
const rigs = workerRigs(() => fixture)

beforeAll(async () => {
  fixture = await createRunningFixture()
  callbacks = createPostgresCallbackStore(fixture.db)
  job = await fixture.addJob()
})
afterAll(() => fixture.drop())
beforeEach(() =>
  fixture.database.sql(
    'TRUNCATE belfry.ready, belfry.session, belfry.claim, belfry.delayed, belfry.attempt, belfry.callback',
  ),
)
afterEach(rigs.stopAll)

const taken: HandlerResult = { outcome: 'accepted', limits: { deadlineMs: 60_000, heartbeatMs: null } }
const opened = async (request: HandlerRequest): Promise<HandlerResult> => {
  await callbacks.open(request.sessionId, request, callbackTokens.mint().hash)
  return taken
}

async function holderOf(runId: string): Promise<string | null | undefined> {
  const [row] = await fixture.database.sql<{ session_id: string | null }>(
    'SELECT session_id FROM belfry.ready WHERE run_id = $1',
    [runId],
  )
  return row?.session_id
}
const isParked = (runId: string): Promise<boolean> =>
  eventually(async () => (await holderOf(runId)) === parkedSession, `${runId} to be parked`)

const away = (): BelfryError => new BelfryError('database_unavailable', 'The database is away.')
/** The first `count` calls fail. */
function failing(count: number, error: () => Error, lateToo = false): Pick<CallbackStore, 'park'> {
  let calls = 0
  return {
    async park(...args) {
      if (++calls > count) return callbacks.park(...args)
      if (lateToo) await callbacks.park(...args)
      throw error()
    },
  }
}

test('while the database is away it is tried again, and the slot is kept', async () => {
  const [runId = ''] = await fixture.addRuns(job, 1)
  const { worker, events } = await rigs.start(testHandler(opened), { callbacks: failing(3, away) })
  await isParked(runId)
  await eventually(() => worker.stats().busy === 0, 'the slot')
  expect(events.of('role_failed').map(({ role }) => role)).toEqual(['parker', 'parker', 'parker'])
  expect(await fixture.attempts(runId)).toEqual([])
})

test('a lost answer is no harm: it was parked, and is not parked again', async () => {
  const [runId = ''] = await fixture.addRuns(job, 1)
  const { worker } = await rigs.start(testHandler(opened), { callbacks: failing(2, away, true) })
  await isParked(runId)
  await eventually(() => worker.stats().busy === 0, 'the slot')
  expect(await fixture.attempts(runId)).toEqual([])
})

test('one that cannot be parked stays with its session on paper, and takes no slot', async () => {
  const [runId = ''] = await fixture.addRuns(job, 1)
  const broken = failing(Infinity, () => new BelfryError('internal', 'broken'))
  const { worker, events } = await rigs.start(testHandler(opened), { callbacks: broken })
  await eventually(() => events.of('role_failed').length === 1, 'the failure')
  await eventually(() => worker.stats().busy === 0, 'the slot')
  expect(await holderOf(runId)).not.toBe(parkedSession)
  expect(await fixture.place(runId)).toMatchObject({ place: 'running' })
})

test('a 202 that comes after the signal of a shutdown is kept', async () => {
  const [runId = ''] = await fixture.addRuns(job, 1)
  const handler = testHandler(async (request) => {
    await new Promise((resolve) => request.signal.addEventListener('abort', resolve, { once: true }))
    return opened(request)
  })
  const { worker } = await rigs.start(handler, { settings: { drainMs: 50 } })
  await eventually(() => handler.requests.length === 1, 'the start')
  await worker.stop()
  expect(await holderOf(runId)).toBe(parkedSession)
  expect(await fixture.attempts(runId)).toEqual([])
})

test('a lease that was lost meanwhile parks nothing', async () => {
  const [runId = ''] = await fixture.addRuns(job, 1)
  const held = Promise.withResolvers<void>()
  const handler = testHandler(async (request) => {
    await opened(request)
    await held.promise
    return taken
  })
  const { worker } = await rigs.start(handler)
  await eventually(() => handler.requests.length === 1, 'the start')
  await fixture.database.sql('UPDATE belfry.ready SET lease_epoch = lease_epoch + 1')
  held.resolve()
  await eventually(() => worker.stats().busy === 0, 'the slot')
  expect(await holderOf(runId)).not.toBe(parkedSession)
})

test('an end that was reported before is left as it is', async () => {
  const [runId = ''] = await fixture.addRuns(job, 1)
  const handler = testHandler(async (request) => {
    await opened(request)
    await fixture.store.complete(request.sessionId, [succeededEnd(request)])
    return taken
  })
  const { worker, events } = await rigs.start(handler)
  await eventually(() => handler.requests.length === 1 && worker.stats().busy === 0, 'the slot')
  expect(await fixture.attempts(runId)).toMatchObject([{ outcome: 'succeeded', run_state: 'succeeded' }])
  expect(events.of('lease_lost')).toEqual([])
})

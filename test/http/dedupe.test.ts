// Dedupe keys of runs: one run for a key at a time, whoever asks and however many at once, and an answer that
// says of what it is a duplicate.
import type { RunCreated } from '@belfry/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createPostgresMaintenance } from '../../packages/server/src/postgres/maintenance.ts'
import { httpJob, startTestApi, type TestApi } from '../support/api.ts'

let api: TestApi
let names = 0

beforeAll(async () => {
  api = await startTestApi()
})
afterAll(() => api.close())

async function makeJob(more: Record<string, unknown> = {}): Promise<string> {
  const name = `dedupe-${names++}`
  expect((await api.call('POST', '/v1/jobs', { body: httpJob(name, more) })).status).toBe(201)
  return name
}

async function ask(body: Record<string, unknown>, path = '/v1/runs') {
  const { status, body: answer } = await api.call('POST', path, { body })
  return { status, run: answer as unknown as RunCreated, problem: answer }
}

const end = (id: string) => api.call('POST', `/v1/runs/${id}/cancel`, { body: {} })
const runsOf = async (job: string) =>
  (await api.call('GET', `/v1/runs?job=${job}&limit=1000`)).body.items.map(({ id }) => id)

test('while a run is active, a request with its key answers that run', async () => {
  const job = await makeJob()
  const first = await ask({ job, dedupeKey: 'a', input: 1 })
  expect(first).toMatchObject({ status: 201, run: { duplicate: false, duplicateOf: null, gathered: null } })
  const again = await ask({ job, dedupeKey: 'a', input: 2, dedupe: { while: 'active' } })
  expect(again).toMatchObject({
    status: 200,
    run: { id: first.run.id, duplicate: true, duplicateOf: first.run.id, input: 1, state: 'pending' },
  })
  expect((await ask({ job, dedupeKey: 'b' })).status).toBe(201)
  await end(first.run.id)
  const next = await ask({ job, dedupeKey: 'a' })
  expect(next).toMatchObject({ status: 201, run: { duplicate: false } })
  expect(next.run.id).not.toBe(first.run.id)
})

test('a key is of one job and of one tenant', async () => {
  const [one, other] = [await makeJob(), await makeJob()]
  const first = await ask({ job: one, dedupeKey: 'k' })
  expect((await ask({ job: other, dedupeKey: 'k' })).status).toBe(201)
  const key = await api.keyFor('globex', ['admin'])
  await api.call('POST', '/v1/jobs', { key, body: httpJob(one) })
  const foreign = await api.call('POST', '/v1/runs', { key, body: { job: one, dedupeKey: 'k' } })
  expect(foreign.status).toBe(201)
  expect(foreign.body.id).not.toBe(first.run.id)
})

test('a window holds the key also after the end of the run, and then no more', async () => {
  const job = await makeJob()
  const first = await ask({ job, dedupeKey: 'w', dedupe: { windowMs: 60_000 } })
  await end(first.run.id)
  expect(await ask({ job, dedupeKey: 'w' })).toMatchObject({
    status: 200,
    run: { duplicateOf: first.run.id, state: 'canceled' },
  })
  await api.database.sql("UPDATE belfry.dedupe SET held_until = belfry.now() WHERE key = 'w'")
  expect((await ask({ job, dedupeKey: 'w' })).status).toBe(201)
})

test('of many requests at once one makes a run, and all others answer it', async () => {
  const job = await makeJob()
  const answers = await Promise.all(Array.from({ length: 40 }, () => ask({ job, dedupeKey: 'race' })))
  expect(answers.filter(({ status }) => status === 201)).toHaveLength(1)
  expect(new Set(answers.map(({ run }) => run.id)).size).toBe(1)
  expect(await runsOf(job)).toHaveLength(1)
})

test('a request waits for one under way, and makes the run where that fails', async () => {
  const job = await makeJob()
  const first = await ask({ job, dedupeKey: 'held' })
  await end(first.run.id)
  const lock = await api.database.hold(`SELECT 1 FROM belfry.dedupe WHERE key = 'held' FOR UPDATE`)
  await lock.take()
  const waiting = ask({ job, dedupeKey: 'held' })
  await expect.poll(() => api.database.waiting()).toBe(1)
  await lock.release()
  expect((await waiting).status).toBe(201)
})

test('what is asked for by a dry run or with a fault holds no key', async () => {
  const job = await makeJob()
  expect((await ask({ job, dedupeKey: 'dry' }, '/v1/runs?dryRun=true')).status).toBe(201)
  const [row] = await api.database.sql<{ count: number }>(
    "SELECT count(*)::int AS count FROM belfry.dedupe WHERE key = 'dry'",
  )
  expect(row?.count).toBe(0)
  expect((await ask({ job, dedupeKey: 'dry' })).status).toBe(201)
  for (const [body, pointer] of [
    [{ dedupe: { while: 'active' } }, '/dedupe'],
    [{ dedupeKey: '' }, '/dedupeKey'],
    [{ dedupeKey: 'x'.repeat(257) }, '/dedupeKey'],
    [{ dedupeKey: 'x', dedupe: {} }, '/dedupe'],
    [{ dedupeKey: 'x', dedupe: { windowMs: 60_000, while: 'active' } }, '/dedupe'],
    [{ dedupeKey: 'x', dedupe: { windowMs: 999 } }, '/dedupe/windowMs'],
  ] as const) {
    const refused = await ask({ job, ...body })
    expect({ status: refused.status, pointer: refused.problem.errors[0]?.pointer }).toEqual({
      status: 400,
      pointer,
    })
  }
})

test('a trigger of a schedule takes a dedupe key too', async () => {
  const name = await makeJob()
  const schedule = await api.call('POST', '/v1/schedules', { body: { name, job: name, every: '1d' } })
  const path = `/v1/schedules/${schedule.body.id}/trigger`
  const first = await ask({ dedupeKey: 't' }, path)
  expect(first.status).toBe(201)
  expect(await ask({ dedupeKey: 't' }, path)).toMatchObject({
    status: 200,
    run: { duplicateOf: first.run.id },
  })
})

test('an Idempotency-Key answers as the first time, a duplicate with its status too', async () => {
  const job = await makeJob()
  await ask({ job, dedupeKey: 'i' })
  const headers = { 'idempotency-key': 'same' }
  const send = () => api.call('POST', '/v1/runs', { body: { job, dedupeKey: 'i' }, headers })
  const first = await send()
  const second = await send()
  expect([first.status, second.status]).toEqual([200, 200])
  expect(second.headers['idempotency-replayed']).toBe('true')
  expect(second.body).toEqual(first.body)
})

test('the pruner deletes keys that nothing holds, and no other', async () => {
  const job = await makeJob()
  const ended = await ask({ job, dedupeKey: 'prune-ended' })
  await ask({ job, dedupeKey: 'prune-alive' })
  await ask({ job, dedupeKey: 'prune-window', dedupe: { windowMs: 60_000 } })
  await ask({ job, dedupeKey: 'prune-over', dedupe: { windowMs: 60_000 } })
  await end(ended.run.id)
  await api.database.sql("UPDATE belfry.dedupe SET held_until = belfry.now() WHERE key = 'prune-over'")
  // as if an hour had passed
  await api.database.sql(
    `UPDATE belfry.dedupe SET run_id = belfry.uuid_floor(belfry.now() - interval '1 hour')
     WHERE key = 'prune-ended'`,
  )
  await createPostgresMaintenance(api.db).deleteOldRequests(30, 1_000)
  const left = await api.database.sql<{ key: string }>(
    "SELECT key FROM belfry.dedupe WHERE key LIKE 'prune-%' ORDER BY key",
  )
  expect(left.map(({ key }) => key)).toEqual(['prune-alive', 'prune-window'])
})

// Jobs that debounce or collect: many requests, one run. Writers, a scheduler that releases and people who
// cancel work at the same time; no input is lost, and none is in two runs.
import type { RunBatchResult, RunCreated } from '@belfry/contract'
import fc from 'fast-check'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createPostgresFiring } from '../../packages/server/src/postgres/firing.ts'
import { createPostgresMaintenance } from '../../packages/server/src/postgres/maintenance.ts'
import { createPostgresOverdueRuns } from '../../packages/server/src/postgres/overdue-runs.ts'
import { httpJob, startTestApi, type TestApi } from '../support/api.ts'

let api: TestApi
let firing: ReturnType<typeof createPostgresFiring>
let names = 0

beforeAll(async () => {
  api = await startTestApi()
  firing = createPostgresFiring(api.db)
})
afterAll(() => api.close())

const hour = 3_600_000

async function makeJob(more: Record<string, unknown>): Promise<string> {
  const name = `gather-${names++}`
  expect((await api.call('POST', '/v1/jobs', { body: httpJob(name, more) })).status).toBe(201)
  return name
}

async function ask(job: string, input: unknown) {
  const { status, body } = await api.call('POST', '/v1/runs', { body: { job, input } })
  return { status, ...(body as unknown as RunCreated) }
}

async function askMany(items: readonly object[], more: object = {}) {
  const { status, body } = await api.call('POST', '/v1/runs/batch', { body: { items, ...more } })
  expect(status, JSON.stringify(body)).toBe(200)
  return body as unknown as RunBatchResult
}

const runOf = async (id: string) => (await api.call('GET', `/v1/runs/${id}`)).body as unknown as RunCreated

/** Ids of all runs of a job, page by page. */
async function runsOf(job: string): Promise<readonly string[]> {
  const ids: string[] = []
  let after = ''
  do {
    const { body } = await api.call('GET', `/v1/runs?job=${job}&limit=1000${after}`)
    ids.push(...body.items.map(({ id }) => id))
    after = body.nextCursor === null ? '' : `&cursor=${body.nextCursor}`
  } while (after !== '')
  return ids
}

/** As a scheduler does with what is due. */
async function release(): Promise<readonly string[]> {
  const due = await api.database.sql<{ run_id: string }>(
    'SELECT run_id FROM belfry.delayed WHERE due_at <= belfry.now()',
  )
  if (due.length === 0) return []
  return (await firing.release(due.map(({ run_id }) => ({ runId: run_id, tag: 1 })))).releasedRunIds
}

async function releaseAll(): Promise<readonly string[]> {
  await api.database.sql('UPDATE belfry.delayed SET due_at = belfry.now()')
  return release()
}

test('a job that collects: one run, whose input is the list', async () => {
  const job = await makeJob({ collect: { maxItems: 3, windowMs: hour } })
  const first = await ask(job, { n: 1 })
  expect(first).toMatchObject({ status: 201, state: 'pending', gathered: { kind: 'collect', position: 1 } })
  expect(first.input).toEqual([{ n: 1 }])
  const second = await ask(job, { n: 2 })
  expect(second).toMatchObject({ status: 200, id: first.id, gathered: { position: 2 }, duplicate: false })
  expect(Date.parse(second.dueAt) - Date.parse(first.dueAt)).toBe(0)
  expect(await release()).toEqual([])
  const third = await ask(job, null)
  expect(third).toMatchObject({ id: first.id, gathered: { position: 3 } })
  expect(Date.parse(third.dueAt)).toBeLessThan(Date.parse(first.dueAt))
  // full, and not released yet: the next request begins another
  const next = await ask(job, { n: 4 })
  expect(next).toMatchObject({ status: 201, gathered: { position: 1 } })
  expect(next.id).not.toBe(first.id)
  expect(await release()).toEqual([first.id])
  expect(await runOf(first.id)).toMatchObject({ input: [{ n: 1 }, { n: 2 }, null], state: 'pending' })
  const left = await api.database.sql('SELECT 1 FROM belfry.gathered WHERE run_id = $1', [first.id])
  expect(left).toEqual([])
})

test('a job that debounces: the newest input, a window after it, at most maxWait late', async () => {
  const job = await makeJob({ debounce: { windowMs: 60_000, maxWaitMs: 90_000 }, startWithinMs: 10_000 })
  const first = await ask(job, 'old')
  expect(first).toMatchObject({ status: 201, input: 'old', gathered: { kind: 'debounce', position: 1 } })
  const gap = (run: RunCreated) => Date.parse(run.startBy ?? '') - Date.parse(run.dueAt)
  expect(gap(first)).toBe(10_000)
  await api.database.sql(
    "UPDATE belfry.gathering SET opened_at = opened_at - interval '50 seconds' WHERE run_id = $1",
    [first.id],
  )
  const second = await ask(job, 'new')
  expect(second).toMatchObject({ status: 200, id: first.id, input: 'new', gathered: { position: 2 } })
  const movedMs = Date.parse(second.dueAt) - Date.parse(first.dueAt)
  expect(movedMs).toBe(-20_000)
  expect(gap(second)).toBe(10_000)
  await releaseAll()
  expect(await runOf(first.id)).toMatchObject({ input: 'new' })
  const next = await ask(job, undefined)
  expect(next).toMatchObject({ status: 201, input: null })
})

test('a run that moved on is not released at its old time; the scheduler is told the new', async () => {
  const job = await makeJob({ debounce: { windowMs: hour, maxWaitMs: 2 * hour } })
  const { id, dueAt } = await ask(job, 1)
  expect(await firing.release([{ runId: id, tag: 1 }])).toMatchObject({
    releasedRunIds: [],
    movedRuns: [{ runId: id, dueAtMs: Date.parse(dueAt) }],
  })
})

test('requests with another value at the key are another run', async () => {
  const job = await makeJob({ collect: { maxItems: 10, windowMs: hour, key: '/who/id' } })
  const { results } = await askMany(
    [{ who: { id: 'a' }, n: 1 }, { who: { id: 'b' }, n: 2 }, { n: 3 }, { who: { id: 'a' }, n: 4 }].map(
      (input) => ({
        job,
        input,
      }),
    ),
  )
  const [a, b, none, again] = results.map(({ run }) => run)
  expect(again).toMatchObject({ id: a?.id, gathered: { position: 2 } })
  expect(new Set([a?.id, b?.id, none?.id]).size).toBe(3)
})

test('a thousand requests of one key in one call fill runs, in their order', async () => {
  const job = await makeJob({ collect: { maxItems: 300, windowMs: hour } })
  await askMany(Array.from({ length: 100 }, (_, n) => ({ job, input: n })))
  const answer = await askMany(Array.from({ length: 1_000 }, (_, n) => ({ job, input: 100 + n })))
  expect(answer).toMatchObject({ created: 3, gathered: 1_000, refused: 0 })
  const ids = [...new Set(answer.results.map(({ run }) => run?.id ?? ''))]
  expect(ids).toHaveLength(4)
  await releaseAll()
  const inputs = await Promise.all(ids.map(async (id) => (await runOf(id)).input as number[]))
  expect(inputs.map(({ length }) => length)).toEqual([300, 300, 300, 200])
  expect(inputs.flat()).toEqual(Array.from({ length: 1_100 }, (_, n) => n))
})

test('a request that would pass the cap of an input begins the next run', async () => {
  const job = await makeJob({ collect: { maxItems: 1_000, windowMs: hour } })
  const large = 'x'.repeat(100_000)
  const { results } = await askMany(Array.from({ length: 5 }, () => ({ job, input: large })))
  expect(results.map(({ run }) => run?.gathered?.position)).toEqual([1, 2, 1, 2, 1])
  const tooLarge = await api.call('POST', '/v1/runs', { body: { job, input: 'x'.repeat(262_141) } })
  expect(tooLarge).toMatchObject({ status: 400, body: { errors: [{ pointer: '/input' }] } })
})

test('after a cancel of the run that waits the next request begins another', async () => {
  const job = await makeJob({ collect: { maxItems: 10, windowMs: hour } })
  const first = await ask(job, 1)
  await ask(job, 2)
  await api.call('POST', `/v1/runs/${first.id}/cancel`, { body: {} })
  expect(await runOf(first.id)).toMatchObject({ state: 'canceled', input: [1, 2] })
  const next = await ask(job, 3)
  expect(next).toMatchObject({ status: 201, input: [3] })
})

test('a run that expires while it gathers keeps its inputs, for a look and for a replay', async () => {
  const job = await makeJob({ collect: { maxItems: 10, windowMs: hour }, startWithinMs: 60_000 })
  const first = await ask(job, { n: 1 })
  await ask(job, { n: 2 })
  await api.database.sql(
    `UPDATE belfry.delayed SET due_at = due_at - interval '2 hours', start_by = start_by - interval '2 hours'
     WHERE run_id = $1`,
    [first.id],
  )
  const overdue = createPostgresOverdueRuns(api.db)
  const { ended } = await overdue.end(await overdue.list(10))
  expect(ended).toMatchObject([{ runId: first.id, reason: 'expired' }])
  const input = [{ n: 1 }, { n: 2 }]
  expect(await runOf(first.id)).toMatchObject({ state: 'failed', reason: 'expired', input })
  const { body } = await api.call('POST', `/v1/dead-letters/${first.id}/replay`, { body: {} })
  const { run } = body as unknown as { run: RunCreated }
  expect(run).toMatchObject({ replayOf: first.id, input })
  const next = await ask(job, { n: 3 })
  expect(next).toMatchObject({ status: 201, input: [{ n: 3 }] })
  expect([first.id, run.id]).not.toContain(next.id)
})

test('a duplicate adds nothing to the list', async () => {
  const job = await makeJob({ collect: { maxItems: 10, windowMs: hour } })
  const items = ['a', 'b', 'a'].map((dedupeKey, input) => ({ job, input, dedupeKey }))
  const { results, duplicates } = await askMany(items)
  expect(duplicates).toBe(1)
  expect(results[2]?.run).toMatchObject({ duplicateOf: results[0]?.run?.id, gathered: null })
  expect((await runOf(results[0]?.run?.id ?? '')).input).toEqual([0, 1])
})

test('what does not go together is refused', async () => {
  const collect = { maxItems: 2, windowMs: hour }
  const debounce = { windowMs: 1_000, maxWaitMs: 1_000 }
  const create = (more: object) =>
    api.call('POST', '/v1/jobs', { body: httpJob('refused-gathering', { ...more }) })
  for (const [more, pointer] of [
    [{ collect, debounce }, '/collect'],
    [{ collect: { ...collect, maxItems: 1_001 } }, '/collect/maxItems'],
    [{ debounce: { windowMs: 2_000, maxWaitMs: 1_000 } }, '/debounce/maxWaitMs'],
    [{ debounce: { ...debounce, key: '/a~2' } }, '/debounce/key'],
  ] as const) {
    expect(await create(more)).toMatchObject({ status: 400, body: { errors: [{ pointer }] } })
  }
  const job = await makeJob({ collect })
  const schedule = await api.call('POST', '/v1/schedules', { body: { name: job, job, every: '1d' } })
  expect(schedule).toMatchObject({ status: 400, body: { errors: [{ pointer: '/job' }] } })
  const runAt = new Date(Date.now() + hour).toISOString()
  const later = await api.call('POST', '/v1/runs', { body: { job, runAt } })
  expect(later).toMatchObject({ status: 400, body: { errors: [{ pointer: '/runAt' }] } })
  const plain = await makeJob({})
  await api.call('POST', '/v1/schedules', { body: { name: plain, job: plain, every: '1d' } })
  const { items } = (await api.call('GET', `/v1/jobs?name=${plain}`)).body
  const change = await api.call('PATCH', `/v1/jobs/${items[0]?.id}`, { body: { collect } })
  expect(change).toMatchObject({ status: 400, body: { errors: [{ pointer: '/collect' }] } })
})

test('the pruner leaves what gathers, and takes the rest', async () => {
  const job = await makeJob({ collect: { maxItems: 10, windowMs: hour, key: 'k' } })
  const [open, over] = [await ask(job, { k: 1 }), await ask(job, { k: 2 })]
  await api.database.sql("UPDATE belfry.gathering SET opened_at = belfry.now() - interval '1 hour'")
  await api.database.sql('UPDATE belfry.delayed SET due_at = belfry.now() WHERE run_id = $1', [over.id])
  await release()
  await createPostgresMaintenance(api.db).deleteOldRequests(30, 1_000)
  const rows = await api.database.sql<{ run_id: string }>(
    'SELECT run_id FROM belfry.gathering WHERE run_id = ANY($1)',
    [[open.id, over.id]],
  )
  expect(rows.map(({ run_id }) => run_id)).toEqual([open.id])
})

test('writers, schedulers and cancels at once: each input is in one run, as answered', async () => {
  const scenario = fc.record({
    maxItems: fc.integer({ min: 1, max: 12 }),
    keys: fc.integer({ min: 1, max: 3 }),
    writers: fc.integer({ min: 2, max: 5 }),
    calls: fc.integer({ min: 3, max: 12 }),
    batch: fc.integer({ min: 1, max: 25 }),
    cancels: fc.boolean(),
  })
  await fc.assert(
    fc.asyncProperty(scenario, async ({ maxItems, keys, writers, calls, batch, cancels }) => {
      const job = await makeJob({ collect: { maxItems, windowMs: 100, key: 'key' } })
      const places = new Map<number, string>()
      const canceled = new Set<string>()
      let inputs = 0
      let writing = true
      const write = async (): Promise<void> => {
        for (let call = 0; call < calls; call++) {
          const items = Array.from({ length: batch }, () => {
            const n = inputs++
            return { job, input: { n, key: n % keys } }
          })
          const { results } = await askMany(items)
          for (const [index, { run }] of results.entries())
            places.set(items[index]?.input.n ?? -1, `${run?.id} ${run?.gathered?.position}`)
        }
      }
      const schedule = async (): Promise<void> => {
        while (writing) {
          await release()
          if (cancels) {
            const [any] = await api.database.sql<{ run_id: string }>(
              'SELECT run_id FROM belfry.delayed ORDER BY random() LIMIT 1',
            )
            if (any !== undefined) {
              const answer = await api.call('POST', `/v1/runs/${any.run_id}/cancel`, { body: {} })
              if (answer.status === 202) canceled.add(any.run_id)
            }
          }
          await new Promise((resolve) => setImmediate(resolve))
        }
      }
      const scheduling = [schedule(), schedule()]
      await Promise.all(Array.from({ length: writers }, write)).finally(() => {
        writing = false
      })
      await Promise.all(scheduling)
      await releaseAll()
      const ids = await runsOf(job)
      const found = new Map<number, string>()
      for (const id of ids) {
        const { input } = await runOf(id)
        const list = input as { n: number }[]
        expect(list.length).toBeLessThanOrEqual(maxItems)
        for (const [index, { n }] of list.entries()) {
          expect(found.has(n)).toBe(false)
          found.set(n, `${id} ${index + 1}`)
        }
      }
      expect(found.size).toBe(inputs)
      expect(found).toEqual(places)
    }),
    { numRuns: 8, endOnFailure: true },
  )
}, 120_000)

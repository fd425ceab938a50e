// Dead letters over the API, of runs that a worker of functions reports as failed: put on record with the
// end, listed, grouped, replayed once whoever asks how often, deleted; by filter in bounded steps, after a
// preview.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { DeadLetter, DeadLetterGroups, DeadLettersReplayed, Run } from '@belfry/contract'
import { startTestApi, type TestApi } from '../support/api.ts'
import { enqueue, openHandWorker, registerFunctions, type HandWorker } from '../support/remote-worker.ts'

let t: TestApi
let worker: HandWorker
const retry = { maxAttempts: 1 }
beforeAll(async () => {
  t = await startTestApi()
  await registerFunctions(t, { name: 'mail', retry }, { name: 'report', retry })
  worker = await openHandWorker(t, { functions: ['mail', 'report'] })
})
afterAll(() => t.close())

type Replayed = { readonly deadLetter: DeadLetter; readonly run: Run; readonly created: boolean }

async function ask<T>(method: string, path: string, body?: unknown, key?: string): Promise<T> {
  const answer = await t.call(method, path, {
    ...(body === undefined ? {} : { body }),
    ...(key === undefined ? {} : { key }),
  })
  if (answer.status >= 300) throw new Error(`${answer.status} ${answer.body.code}: ${answer.body.detail}`)
  return answer.body as unknown as T
}

/** A run of a job that fails for good with these words. */
async function fail(job: string, message: string, input?: unknown): Promise<string> {
  const id = await enqueue(t, job, input)
  await end(id, message)
  return id
}

async function end(id: string, message: string): Promise<void> {
  const runs = await worker.claim()
  const run = runs.find(({ runId }) => runId === id)
  if (run === undefined) throw new Error(`the run ${id} was not claimed`)
  const error = { code: 'no_such_order', message }
  await worker.complete(run, { outcome: 'failed', error })
}

const list = async (query = '') =>
  (await ask<{ items: DeadLetter[]; nextCursor: string | null }>('GET', `/v1/dead-letters${query}`)).items
const get = (id: string) => ask<DeadLetter>('GET', `/v1/dead-letters/${id}`)
const replay = (id: string, body: object = {}) => ask<Replayed>('POST', `/v1/dead-letters/${id}/replay`, body)
const clear = () => ask('POST', '/v1/dead-letters/delete', { filter: { state: 'open' } })

describe('a run that ends as failed', () => {
  it('is a dead letter at once, with its error and how long it is kept', async () => {
    const id = await fail('mail', 'order 17 was not found', { to: 'a' })
    const letter = await get(id)
    expect(letter).toMatchObject({
      runId: id,
      job: 'mail',
      queue: 'default',
      source: 'manual',
      reason: 'attempts_exhausted',
      errorCode: 'no_such_order',
      errorMessage: 'order 17 was not found',
      attempts: 1,
      state: 'open',
      replayedAs: null,
    })
    expect(Date.parse(letter.keptUntil) - Date.parse(letter.createdAt)).toBeGreaterThan(30 * 86_400_000)
    expect(await list()).toEqual([expect.objectContaining({ runId: id, fingerprint: letter.fingerprint })])
    expect((await t.call('GET', `/v1/runs/${id}`)).body).toMatchObject({ state: 'failed', replayedAs: null })
  })

  it('is none while it is tried again, nor when it succeeds', async () => {
    await clear()
    await registerFunctions(t, { name: 'retried', retry: { maxAttempts: 2 } })
    const other = await openHandWorker(t, { functions: ['retried'] })
    await enqueue(t, 'retried')
    const [run] = await other.claim()
    if (run === undefined) throw new Error('nothing was claimed')
    await other.complete(run, { outcome: 'failed', error: { code: 'x', message: 'y' } })
    const good = await enqueue(t, 'mail')
    const [claimed] = await worker.claim()
    if (claimed === undefined) throw new Error('nothing was claimed')
    await worker.complete(claimed, { outcome: 'succeeded' })
    expect(await list()).toEqual([])
    expect((await t.call('GET', `/v1/dead-letters/${good}`)).status).toBe(404)
  })
})

describe('groups', () => {
  it('gather the same error over jobs, most first, whatever its numbers', async () => {
    await clear()
    await fail('mail', 'order 1 was not found')
    await fail('mail', 'order 2 was not found')
    const last = await fail('report', 'order 3 was not found')
    await fail('report', 'the printer is out of "blue"')
    const { items, exact, looked, groupsTotal } = await ask<DeadLetterGroups>(
      'GET',
      '/v1/dead-letters/groups',
    )
    expect({ exact, looked, groupsTotal }).toEqual({ exact: true, looked: 4, groupsTotal: 2 })
    expect(items).toMatchObject([
      {
        errorCode: 'no_such_order',
        pattern: 'order <n> was not found',
        count: 3,
        sampleRunId: last,
        sampleMessage: 'order 3 was not found',
        jobs: [
          { job: 'mail', count: 2 },
          { job: 'report', count: 1 },
        ],
        jobsTotal: 2,
      },
      { pattern: 'the printer is out of <value>', count: 1 },
    ])
    expect(Date.parse(items[0]?.firstAt ?? '')).toBeLessThanOrEqual(Date.parse(items[0]?.lastAt ?? ''))
    const ofOne = await list(`?fingerprint=${items[0]?.fingerprint}&job=report`)
    expect(ofOne.map(({ runId }) => runId)).toEqual([last])
    expect(await list('?errorCode=other')).toEqual([])
    expect(await list('?queue=default&job=mail')).toHaveLength(2)
    expect(await list('?failedAfter=2090-01-01T00:00:00Z')).toEqual([])
    expect(await list('?failedBefore=1990-01-01T00:00:00Z')).toEqual([])
  })

  it('and lists go page by page, each dead letter once', async () => {
    const seen: string[] = []
    let cursor = ''
    do {
      const page = await ask<{ items: DeadLetter[]; nextCursor: string | null }>(
        'GET',
        `/v1/dead-letters?limit=1${cursor}`,
      )
      seen.push(...page.items.map(({ runId }) => runId))
      cursor = page.nextCursor === null ? '' : `&cursor=${page.nextCursor}`
    } while (cursor !== '')
    expect(seen).toEqual((await list()).map(({ runId }) => runId))
    expect(new Set(seen).size).toBe(4)
  })
})

describe('a replay', () => {
  it('makes a new run with the same input, and says so on both', async () => {
    const id = await fail('mail', 'gone', { to: 'b' })
    t.hints.length = 0
    const { deadLetter, run, created } = await replay(id)
    expect(created).toBe(true)
    expect(run).toMatchObject({ source: 'replay', replayOf: id, state: 'pending', input: { to: 'b' } })
    expect(deadLetter).toMatchObject({ state: 'replayed', replayedAs: run.id })
    expect(t.hints).toContainEqual({ topic: 'ready', key: 'default' })
    expect(await list(`?state=replayed`)).toContainEqual(deadLetter)
    expect((await list()).map(({ runId }) => runId)).not.toContain(id)
    expect((await t.call('GET', `/v1/runs/${id}`)).body).toMatchObject({ replayedAs: run.id })
    await end(run.id, 'gone again')
    expect(await get(run.id)).toMatchObject({ state: 'open', source: 'replay' })
  })

  it('takes another input where one is given', async () => {
    const id = await fail('mail', 'bad address', { to: 'x' })
    const { run } = await replay(id, { input: { to: 'y' } })
    expect(run).toMatchObject({ input: { to: 'y' } })
    expect((await replay(id, { input: { to: 'y' } })).run.id).toBe(run.id)
    const other = await t.call('POST', `/v1/dead-letters/${id}/replay`, { body: { input: { to: 'z' } } })
    expect(other).toMatchObject({
      status: 409,
      body: { code: 'invalid_state', errors: [{ pointer: '/input' }] },
    })
  })

  it('is one, however often and however many ask at once', async () => {
    const id = await fail('mail', 'gone', 1)
    const all = await Promise.all(Array.from({ length: 8 }, () => replay(id)))
    expect(new Set(all.map(({ run }) => run.id)).size).toBe(1)
    expect(all.filter(({ created }) => created)).toHaveLength(1)
    expect((await replay(id)).created).toBe(false)
  })

  it('is none of a deleted one, nor of a job that is gone', async () => {
    const id = await fail('mail', 'gone')
    await ask('DELETE', `/v1/dead-letters/${id}`)
    expect(await t.call('POST', `/v1/dead-letters/${id}/replay`)).toMatchObject({
      status: 409,
      body: { code: 'invalid_state' },
    })
    await registerFunctions(t, { name: 'short-lived', retry })
    const other = await openHandWorker(t, { functions: ['short-lived'] })
    const orphan = await enqueue(t, 'short-lived')
    const [run] = await other.claim()
    if (run === undefined) throw new Error('nothing was claimed')
    await other.complete(run, { outcome: 'failed', error: { code: 'x', message: 'y' } })
    const job = await t.call('GET', '/v1/jobs?name=short-lived')
    await ask('DELETE', `/v1/jobs/${job.body.items[0]?.id}`)
    expect((await t.call('POST', `/v1/dead-letters/${orphan}/replay`)).body.detail).toContain('was deleted')
    const many = { filter: { jobId: (await get(orphan)).jobId } }
    expect(await ask('POST', '/v1/dead-letters/replay', many)).toMatchObject({
      replayed: 0,
      refused: [{ runId: orphan }],
    })
    expect(await get(orphan)).toMatchObject({ state: 'open' })
  })
})

describe('many', () => {
  it('are replayed in steps after a preview, each once also when two do it at the same time', async () => {
    await clear()
    const ids: string[] = []
    for (let n = 0; n < 5; n++) ids.push(await fail('mail', `order ${n} was not found`, n))
    await fail('report', 'another')
    const filter = { job: 'mail' }
    const before = await t.counts()
    const { preview } = await ask<DeadLettersReplayed>('POST', '/v1/dead-letters/replay?dryRun=true', {
      filter,
    })
    expect(preview).toMatchObject({
      count: 5,
      exact: true,
      byJob: [{ job: 'mail', count: 5 }],
      byError: [{ errorCode: 'no_such_order', count: 5 }],
    })
    expect(preview?.sample.map(({ runId }) => runId)).toEqual(ids.toReversed())
    expect(await t.counts()).toEqual(before)
    const tooFew = await t.call('POST', '/v1/dead-letters/replay', { body: { filter, expectedCount: 4 } })
    expect(tooFew).toMatchObject({ status: 412, body: { code: 'precondition_failed' } })
    expect(await t.counts()).toEqual(before)

    const through = async (): Promise<number> => {
      let replayed = 0
      let next: object | null = { expectedCount: 5 }
      while (next !== null) {
        const step: DeadLettersReplayed = await ask('POST', '/v1/dead-letters/replay', {
          filter,
          limit: 2,
          ...next,
        })
        replayed += step.replayed
        next = step.nextCursor === null ? null : { cursor: step.nextCursor }
      }
      return replayed
    }
    const sums = await Promise.all([through(), through()])
    expect(sums[0] + sums[1]).toBe(5)
    expect(await list('?job=mail')).toEqual([])
    const letters = await list('?job=mail&state=replayed')
    for (const id of ids) expect(letters.map(({ runId }) => runId)).toContain(id)
    expect(await through()).toBe(0)
    for (const run of await worker.claim()) await worker.complete(run, { outcome: 'succeeded' })
  })

  it('are deleted, and their runs stay', async () => {
    const id = (await list('?job=report'))[0]?.runId
    const { preview } = await ask<{ preview: unknown }>('POST', '/v1/dead-letters/delete?dryRun=true', {
      filter: { job: 'report' },
    })
    expect(preview).toMatchObject({ count: 1 })
    expect(await list('?job=report')).toHaveLength(1)
    expect(await ask('POST', '/v1/dead-letters/delete', { filter: { job: 'report' } })).toMatchObject({
      deleted: 1,
    })
    expect(await ask('POST', '/v1/dead-letters/delete', { filter: { job: 'report' } })).toMatchObject({
      deleted: 0,
    })
    expect(await get(id ?? '')).toMatchObject({ state: 'deleted', run: { state: 'failed' } })
  })

  it('need a filter that says something', async () => {
    for (const path of ['dead-letters/replay', 'dead-letters/delete', 'runs/cancel']) {
      const answer = await t.call('POST', `/v1/${path}`, { body: { filter: {} } })
      expect(answer).toMatchObject({ status: 400, body: { errors: [{ pointer: '/filter' }] } })
    }
  })
})

it("belongs to its tenant: for another's key there is none", async () => {
  const id = await fail('mail', 'mine')
  const key = await t.keyFor('stranger', ['read', 'operate'])
  for (const [method, path] of [
    ['GET', ''],
    ['POST', '/replay'],
    ['DELETE', ''],
  ] as const)
    expect((await t.call(method, `/v1/dead-letters/${id}${path}`, { key })).status).toBe(404)
  expect((await t.call('GET', '/v1/dead-letters', { key })).body.items).toEqual([])
  const filter = { state: 'open' }
  expect(await ask('POST', '/v1/dead-letters/replay', { filter }, key)).toMatchObject({ replayed: 0 })
  expect(await ask('POST', '/v1/dead-letters/delete', { filter }, key)).toMatchObject({ deleted: 0 })
  expect(await get(id)).toMatchObject({ state: 'open' })
})

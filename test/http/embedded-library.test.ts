// `createBelfry`: schedules, runs and functions in the program's own process, on a real Postgres, and
// enqueueing inside the program's own transactions.
import { type Belfry, type BelfryOptions, createBelfry, defineJob, fail } from 'belfry'
import pg from 'pg'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts'

let database: TestDatabase
const started: Belfry[] = []

beforeAll(async () => {
  database = await createTestDatabase()
})
afterEach(async () => {
  await Promise.all(started.splice(0).map((belfry) => belfry.stop()))
})
afterAll(() => database.drop())

function urlOf({ host, port, user, database: name }: TestDatabase['connection']): string {
  return `postgres://${user}@localhost:${port}/${name}?host=${encodeURIComponent(host)}`
}

async function start(options: BelfryOptions = {}): Promise<Belfry> {
  const belfry = createBelfry({
    databaseUrl: urlOf(database.connection),
    migrate: false,
    logLevel: 'error',
    drainMs: 2_000,
    ...options,
  })
  started.push(belfry)
  await belfry.start()
  return belfry
}

let names = 0
const nameOf = (word: string): string => `${word}-${names++}`
const ended = (belfry: Belfry, id: string) => belfry.client.waitForRun(id, { timeoutMs: 20_000 })

test('a job runs in this process: typed input, result, log, progress', async () => {
  const seen: unknown[] = []
  const job = defineJob({
    name: nameOf('sum'),
    input: z.object({ a: z.number(), b: z.number().default(1) }),
    run: ({ a, b }, ctx) => {
      seen.push(ctx.attempt, ctx.leaseEpoch, ctx.scheduledFor, ctx.signal.aborted)
      ctx.log.info('adding', { a, b })
      ctx.heartbeat('half')
      return a + b
    },
  })
  const belfry = await start({ jobs: [job] })
  const { id } = await belfry.enqueue(job, { a: 2 })
  expect(await ended(belfry, id)).toMatchObject({ state: 'succeeded', attemptList: [{ result: 3 }] })
  expect(seen).toEqual([1, 1, null, false])
  expect((await belfry.client.logs.get(id)).lines).toMatchObject([
    { message: 'adding', fields: { a: 2, b: 1 } },
  ])
})

test('a failed function is tried again, a permanent failure is not', async () => {
  let tries = 0
  const flaky = defineJob({
    name: nameOf('flaky'),
    retry: { baseMs: 10, capMs: 10 },
    run: () => {
      tries++
      if (tries < 3) throw new Error('not yet')
      return tries
    },
  })
  const broken = defineJob({ name: nameOf('broken'), run: () => fail('never') })
  const belfry = await start({ jobs: [flaky, broken] })
  const first = await belfry.enqueue(flaky)
  const second = await belfry.enqueue(broken)
  expect(await ended(belfry, first.id)).toMatchObject({ state: 'succeeded', attempts: 3 })
  expect(await ended(belfry, second.id)).toMatchObject({
    state: 'failed',
    reason: 'not_retryable',
    attempts: 1,
  })
})

test('a run that nobody can start in time expires, with a record', async () => {
  const job = defineJob({ name: nameOf('too-late'), startWithinMs: 1_000, run: () => 'ran' })
  // it has no worker for this function
  const belfry = await start({ settings: { rescueMs: 200 } })
  await belfry.client.functions.register([job])
  const { id } = await belfry.client.enqueue(job)
  expect(await ended(belfry, id)).toMatchObject({
    state: 'failed',
    reason: 'expired',
    attempts: 0,
    startedAt: null,
    attemptList: [{ number: 0, outcome: 'expired', error: { code: 'expired' } }],
  })
})

test('only the failures that a job names are tried again', async () => {
  let calls = 0
  const job = defineJob({
    name: nameOf('picky'),
    retry: { maxAttempts: 9, backoff: 'list', delaysMs: [0, 10], retryOn: ['busy_*'] },
    run: () => {
      calls++
      throw Object.assign(new Error('no'), { code: calls < 3 ? `busy_${calls}` : 'broken' })
    },
  })
  const belfry = await start({ jobs: [job] })
  const { id } = await belfry.enqueue(job)
  const run = await ended(belfry, id)
  expect(run).toMatchObject({ state: 'failed', reason: 'not_retryable', attempts: 3 })
  expect(run.attemptList.map(({ error }) => error?.code)).toEqual(['busy_1', 'busy_2', 'broken'])
})

test('a schedule fires into a function, which is told the planned time', async () => {
  const fired = Promise.withResolvers<Date | null>()
  const job = defineJob({ name: nameOf('tick'), run: (_, { scheduledFor }) => fired.resolve(scheduledFor) })
  const belfry = await start({ jobs: [job] })
  // full seconds: a fraction would be rounded up
  const at = new Date(Math.ceil(Date.now() / 1_000 + 1) * 1_000).toISOString()
  await belfry.client.schedules.create({ name: nameOf('once'), at, job: job.name })
  expect((await fired.promise)?.toISOString()).toBe(at)
})

test('a schedule ends a function that is in its way, which is told so', async () => {
  const heard = Promise.withResolvers<unknown>()
  let calls = 0
  const job = defineJob({
    name: nameOf('displaced'),
    async run(_, { signal }) {
      if (++calls > 1) return 'last'
      await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()))
      heard.resolve(signal.reason)
      throw new Error('cut off')
    },
  })
  const { client } = await start({ jobs: [job] })
  const timing = { every: '1s', runLimit: 2, overlap: 'terminate_other' as const }
  const { id } = await client.schedules.create({ name: nameOf('seconds'), job: job.name, ...timing })
  expect(await heard.promise).toBe('lease_lost')
  const newestFirst = async () => (await client.runs.list({ scheduleId: id }).page()).items
  const [last] = await newestFirst()
  if (last !== undefined) await client.waitForRun(last.id, { timeoutMs: 20_000 })
  expect(await newestFirst()).toMatchObject([
    { state: 'succeeded' },
    { state: 'canceled', reason: 'overlap' },
  ])
})

test('a backfill runs functions of this process', async () => {
  const seen: (string | undefined)[] = []
  const job = defineJob({
    name: nameOf('past'),
    run: (_, { scheduledFor }) => void seen.push(scheduledFor?.toISOString()),
  })
  const { client } = await start({ jobs: [job] })
  const startAt = '2026-01-01T00:00:00.000Z'
  const timing = { every: '1h', startAt }
  const { id } = await client.schedules.create({ name: nameOf('hourly'), job: job.name, ...timing })
  const range = { from: startAt, to: '2026-01-01T03:00:00.000Z', concurrency: 1 }
  const backfill = await client.schedules.backfill(id, range)
  const done = await client.waitForBackfill(backfill.id, { timeoutMs: 20_000 })
  expect(done).toMatchObject({ state: 'completed', succeeded: 3 })
  expect(seen).toEqual(['00', '01', '02'].map((hour) => `2026-01-01T${hour}:00:00.000Z`))
})

describe('enqueue inside a transaction of the caller', () => {
  const job = defineJob({ name: 'inside', input: z.object({ order: z.number() }), run: ({ order }) => order })
  let client: pg.Client
  let belfry: Belfry

  beforeAll(async () => {
    await database.sql('CREATE SCHEMA shop AUTHORIZATION belfry')
    await database.sql('CREATE TABLE shop.orders (id int PRIMARY KEY)')
    await database.sql('GRANT ALL ON shop.orders TO belfry')
    client = new pg.Client(database.connection)
    await client.connect()
  })
  afterAll(() => client.end())

  async function transaction(end: 'COMMIT' | 'ROLLBACK', order: number): Promise<string> {
    belfry = await start({ jobs: [job] })
    await client.query('BEGIN')
    await client.query('INSERT INTO shop.orders VALUES ($1)', [order])
    const { id } = await belfry.enqueue(job, { order }, { client })
    // still the caller's own role, and its own tables
    await client.query('UPDATE shop.orders SET id = id WHERE id = $1', [order])
    await client.query(end)
    return id
  }

  test('the run is there when that commits, and runs soon', async () => {
    const id = await transaction('COMMIT', 1)
    const run = await ended(belfry, id)
    expect(run).toMatchObject({ state: 'succeeded', input: { order: 1 }, attemptList: [{ result: 1 }] })
    expect(run.lateMs).toBeLessThan(1_000)
  })

  test('and is not when it is rolled back', async () => {
    const id = await transaction('ROLLBACK', 2)
    await expect(belfry.client.runs.get(id)).rejects.toMatchObject({ code: 'not_found' })
    expect((await client.query('SELECT * FROM shop.orders WHERE id = 2')).rows).toEqual([])
  })

  test('nobody sees it before the commit', async () => {
    belfry = await start({ jobs: [job] })
    await client.query('BEGIN')
    const { id } = await belfry.enqueue(job, { order: 3 }, { client })
    await expect(belfry.client.runs.get(id)).rejects.toMatchObject({ code: 'not_found' })
    await client.query('COMMIT')
    expect((await ended(belfry, id)).state).toBe('succeeded')
  })

  test('later, at its time', async () => {
    belfry = await start({ jobs: [job] })
    await client.query('BEGIN')
    const runAt = new Date(Date.now() + 3_600_000)
    const { id, dueAt } = await belfry.enqueue(job, { order: 4 }, { client, runAt, priority: 5 })
    await client.query('COMMIT')
    expect(dueAt).toBe(runAt.toISOString())
    expect(await belfry.client.runs.get(id)).toMatchObject({ state: 'pending', dueAt, priority: 5 })
  })

  test('with limits of its own for the whole run', async () => {
    belfry = await start({ jobs: [job] })
    await client.query('BEGIN')
    const runAt = new Date(Date.now() + 3_600_000)
    const limits = { startWithinMs: 5_000, runDeadlineMs: 60_000 }
    const { id } = await belfry.enqueue(job, { order: 6 }, { client, runAt, ...limits })
    await client.query('COMMIT')
    const run = await belfry.client.runs.get(id)
    expect(Date.parse(run.startBy ?? '') - Date.parse(run.dueAt)).toBe(5_000)
    expect(Date.parse(run.runDeadline ?? '') - Date.parse(run.dueAt)).toBe(60_000)
  })

  test('without a transaction nothing is stored, and the error says so', async () => {
    belfry = await start({ jobs: [job] })
    const before = await database.sql('SELECT count(*)::int FROM belfry.run')
    await expect(belfry.enqueue(job, { order: 5 }, { client })).rejects.toMatchObject({
      code: 'invalid_request',
      message: expect.stringContaining('BEGIN') as string,
    })
    expect(await database.sql('SELECT count(*)::int FROM belfry.run')).toEqual(before)
    expect((await client.query("SELECT current_setting('role') AS role")).rows).toEqual([{ role: 'none' }])
  })

  test('an unknown job and an input that does not fit are refused before anything is sent', async () => {
    belfry = await start({ jobs: [job] })
    const unknown = defineJob({ name: 'nobody-has-this', run: () => 1 })
    await client.query('BEGIN')
    await expect(belfry.enqueue(unknown, null, { client })).rejects.toMatchObject({ code: 'not_found' })
    // @ts-expect-error: the compiler refuses what the schema would
    const wrong = belfry.enqueue(job, { order: 'x' }, { client })
    await expect(wrong).rejects.toMatchObject({ errors: [{ pointer: '/input/order' }] })
    await client.query('COMMIT')
  })
})

test('two of them share the work, and one stops without losing any', async () => {
  const runs = new Map<string, number>()
  const job = defineJob({
    name: nameOf('shared'),
    run: async (_, { runId, signal }) => {
      await new Promise((resolve) => setTimeout(resolve, 5, signal))
      runs.set(runId, (runs.get(runId) ?? 0) + 1)
    },
  })
  const first = await start({ jobs: [job], slots: 4 })
  const second = await start({ jobs: [job], slots: 4 })
  const asked = await Promise.all(Array.from({ length: 60 }, () => second.enqueue(job)))
  await first.stop()
  await Promise.all(asked.map(({ id }) => ended(second, id)))
  expect([...runs.values()]).toEqual(asked.map(() => 1))
})

test('one that only asks runs nothing itself', async () => {
  const job = defineJob({ name: nameOf('asked'), run: () => 'ran' })
  const asking = await start({ jobs: [job], work: false })
  const { id } = await asking.enqueue(job)
  expect((await asking.client.runs.get(id)).state).toBe('pending')
  await start({ jobs: [job] })
  expect((await ended(asking, id)).state).toBe('succeeded')
})

test('before its start and after its stop it says so', async () => {
  const belfry = createBelfry({ databaseUrl: urlOf(database.connection) })
  await expect(belfry.client.whoami()).rejects.toMatchObject({
    message: expect.stringContaining('start') as string,
  })
  const running = await start()
  expect((await running.client.whoami()).tenant.name).toBe('main')
  await running.stop()
  await running.stop()
  await expect(running.start()).rejects.toMatchObject({
    code: 'invalid_state',
    message: 'This Belfry was stopped; make another with createBelfry.',
  })
})

test('a database that is not there is an error with words', async () => {
  const belfry = createBelfry({ databaseUrl: 'mysql://nowhere/x' })
  await expect(belfry.start()).rejects.toMatchObject({ code: 'invalid_config' })
  await belfry.stop()
})

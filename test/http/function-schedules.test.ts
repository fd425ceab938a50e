// What schedules do with their runs when these are functions of a worker outside: a whole server on a
// database of its own, and the SDK's worker over its API. Overlap reaches the function by its signal, those
// who wait are let go by its end, failures pause, and backfills go on from run to run.
import { type Client, createClient, createWorker, defineJob, fail } from '@belfry/sdk'
import type { AnyJob, Worker } from '@belfry/sdk'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { makeOwnerKey } from '../../packages/server/src/compose/first-key.ts'
import type { BelfryServer } from '../../packages/server/src/compose/server.ts'
import { startServer } from '../../packages/server/src/compose/server.ts'
import { loadConfig } from '../../packages/server/src/config/load.ts'
import { createLogger } from '../../packages/server/src/telemetry/logger.ts'
import { eventually } from '../support/api.ts'
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts'

let database: TestDatabase
let server: BelfryServer
let client: Client
let url: string
const started: Worker[] = []

beforeAll(async () => {
  database = await createTestDatabase()
  const { host, port } = database.connection
  const databaseUrl = `postgres://belfry@${encodeURIComponent(host)}:${port}/${database.name}`
  const { config } = loadConfig({
    flags: { databaseUrl, port: 0, opsPort: 0, drainMs: 500, roles: ['api', 'scheduler'] },
  })
  server = await startServer({ config, logger: createLogger({ level: 'fatal', version: '0' }) })
  url = server.apiUrl ?? ''
  const { key } = await makeOwnerKey(server.store.db, 'acme', 'test')
  client = createClient({ url, apiKey: key })
})
afterEach(async () => {
  await Promise.all(started.splice(0).map((worker) => worker.stop()))
})
afterAll(async () => {
  await server.stop()
  await database.drop()
})

let names = 0
const nameOf = (word: string): string => `${word}-${names++}`

async function serve(job: AnyJob): Promise<void> {
  const name = nameOf('worker')
  const { secret } = await client.keys.create({ name, scopes: ['worker'] })
  const worker = createWorker({ url, token: secret ?? '', jobs: [job], handleSignals: false, drainMs: 1_000 })
  started.push(worker)
  await worker.start()
}

/** Each second from now on, so many times. */
const eachSecond = (job: AnyJob, runLimit: number, more: object) =>
  client.schedules.create({ name: nameOf('seconds'), every: '1s', job: job.name, runLimit, ...more })

/** Runs of a schedule, by planned time. */
async function runsOf(scheduleId: string) {
  const { items } = await client.runs.list({ scheduleId }).page()
  return items.toSorted((a, b) => ((a.scheduledFor ?? '') < (b.scheduledFor ?? '') ? -1 : 1))
}
const statesOf = async (scheduleId: string) =>
  (await runsOf(scheduleId)).map(({ state, reason }) => `${state} ${reason ?? ''}`.trim())

describe('overlap', () => {
  test('buffer_all: runs wait for each other, and each end lets the next one go', async () => {
    const gate = Promise.withResolvers<undefined>()
    const order: number[] = []
    let atOnce = 0
    let most = 0
    const job = defineJob({
      name: nameOf('chain'),
      async run(_, { scheduledFor }) {
        most = Math.max(most, ++atOnce)
        order.push(scheduledFor?.getTime() ?? 0)
        await gate.promise
        atOnce--
      },
    })
    await serve(job)
    const { id } = await eachSecond(job, 4, { overlap: 'buffer_all' })
    await eventually(async () => (await runsOf(id)).length === 4)
    expect(await statesOf(id)).toEqual(['running', 'pending', 'pending', 'pending'])
    const openedMs = performance.now()
    gate.resolve(undefined)
    const done = Array.from({ length: 4 }, () => 'succeeded')
    await eventually(async () => (await statesOf(id)).join() === done.join())
    // nobody had to look by itself after those who wait (every 20 s)
    expect(performance.now() - openedMs).toBeLessThan(8_000)
    expect(most).toBe(1)
    expect(order).toEqual(order.toSorted((a, b) => a - b))
  })

  test.each([
    ['cancel_other', 'cancel'],
    ['terminate_other', 'lease_lost'],
  ])('%s: the function is told (%s), and the next one takes its place', async (overlap, told) => {
    const heard: unknown[] = []
    let calls = 0
    const job = defineJob({
      name: nameOf('displaced'),
      async run(_, { signal }) {
        if (++calls > 1) return 'last'
        await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()))
        heard.push(signal.reason)
        throw new Error('cut off')
      },
    })
    await serve(job)
    const { id } = await eachSecond(job, 2, { overlap })
    await eventually(async () => (await statesOf(id)).join() === 'canceled overlap,succeeded')
    await eventually(async () => heard.length === 1)
    expect(heard).toEqual([told])
  })
})

test('failures of functions pause their schedule', async () => {
  const job = defineJob({ name: nameOf('broken'), run: () => fail('never') })
  await serve(job)
  const { id } = await eachSecond(job, 20, { pauseAfterFailures: 2 })
  const paused = await eventually(async () => {
    const schedule = await client.schedules.get(id)
    return schedule.state === 'paused' && schedule
  })
  expect(paused.runCount).toBe(2)
})

test('a backfill runs functions, so many at a time, and goes on with each end', async () => {
  const seen = new Set<string>()
  let atOnce = 0
  let most = 0
  const job = defineJob({
    name: nameOf('past'),
    async run(_, { scheduledFor }) {
      most = Math.max(most, ++atOnce)
      await new Promise((resolve) => setImmediate(resolve))
      seen.add(scheduledFor?.toISOString() ?? '')
      atOnce--
    },
  })
  await serve(job)
  const startAt = '2026-01-01T00:00:00.000Z'
  const { id } = await client.schedules.create({
    name: nameOf('hourly'),
    every: '1h',
    startAt,
    job: job.name,
  })
  const to = '2026-01-02T06:00:00.000Z'
  const backfill = await client.schedules.backfill(id, { from: startAt, to, concurrency: 2 })
  const begunMs = performance.now()
  const done = await client.waitForBackfill(backfill.id, { timeoutMs: 20_000 })
  expect(done).toMatchObject({ state: 'completed', started: 30, succeeded: 30, failed: 0 })
  // fifteen steps, none of which waited for the backfiller to look by itself
  expect(performance.now() - begunMs).toBeLessThan(10_000)
  expect(seen.size).toBe(30)
  expect(most).toBeLessThanOrEqual(2)
})

// Limits of jobs as code, in a program that runs them itself: the whole way, from the definition through the
// gatekeeper of the process to the functions.
import { type Belfry, createBelfry, defineJob } from 'belfry'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts'
import { eventually } from '../support/running.ts'

let database: TestDatabase
let belfry: Belfry
const running = new Map<string, number>()
let most = 0

const enter = (name: string): void => {
  running.set(name, (running.get(name) ?? 0) + 1)
  most = Math.max(most, running.get(name) ?? 0)
}
const leave = (name: string): void => void running.set(name, (running.get(name) ?? 0) - 1)

const tight = defineJob({
  name: 'tight',
  concurrency: 2,
  run: async () => {
    enter('tight')
    await new Promise((resolve) => setTimeout(resolve, 10))
    leave('tight')
  },
})
const keyed = defineJob({
  name: 'keyed',
  concurrencyKey: 'customer',
  run: async (input) => {
    const key = `keyed-${JSON.stringify(input)}`
    enter(key)
    await new Promise((resolve) => setTimeout(resolve, 10))
    leave(key)
  },
})
const rated = defineJob({
  name: 'rated',
  rateLimit: { count: 1, perMs: 3_600_000, burst: 2 },
  run: () => 'done',
})

beforeAll(async () => {
  database = await createTestDatabase()
  const { host, port, user, database: name } = database.connection
  belfry = createBelfry({
    databaseUrl: `postgres://${user}@localhost:${port}/${name}?host=${encodeURIComponent(host)}`,
    migrate: false,
    logLevel: 'error',
    drainMs: 2_000,
    jobs: [tight, keyed, rated],
  })
  await belfry.start()
})
afterAll(async () => {
  await belfry.stop()
  await database.drop()
})

const ended = (ids: readonly string[]) =>
  Promise.all(ids.map((id) => belfry.client.waitForRun(id, { timeoutMs: 30_000 })))

test('a number is a limit of the job: no more of its runs go at once, and all of them end', async () => {
  most = 0
  const runs = await Promise.all(Array.from({ length: 20 }, () => belfry.enqueue(tight, null)))
  const done = await ended(runs.map(({ id }) => id))
  expect(done.map(({ state }) => state)).toEqual(runs.map(() => 'succeeded'))
  expect(most).toBe(2)
})

test('a key lets runs of one customer go one at a time', async () => {
  most = 0
  const inputs = Array.from({ length: 12 }, (_, place) => ({ customer: place % 3 }))
  const runs = await Promise.all(inputs.map((input) => belfry.enqueue(keyed, input)))
  await ended(runs.map(({ id }) => id))
  expect(most).toBe(1)
})

test('a rate lets in its burst, and the next shows what holds it', async () => {
  const ids: string[] = []
  for (let count = 0; count < 3; count++) ids.push((await belfry.enqueue(rated, null)).id)
  await ended(ids.slice(0, 2))
  const held = await eventually(async () => {
    const { heldGroups } = await belfry.client.queues.get('default')
    return heldGroups.find(({ job, hold }) => job === 'rated' && hold.kind === 'rate')
  }, 'the third is held')
  expect(held).toMatchObject({ runs: 1, firstRunId: ids[2] })
  expect(Date.parse(held.hold.until ?? '') - Date.now()).toBeGreaterThan(3_000_000)
})

test('a pool is shared, a pause holds, and a resume lets go, while the program runs', async () => {
  const { client } = belfry
  const [job] = await client.jobs.list({ name: 'tight' }).take(1)
  await client.jobs.pause(job?.id ?? '', { reason: 'repair' })
  const run = await belfry.enqueue(tight, null)
  await eventually(async () => {
    const { heldGroups } = await client.queues.get('default')
    return heldGroups.some(({ job: name, hold }) => name === 'tight' && hold.kind === 'paused_job')
  }, 'it is held by the pause')
  expect((await client.runs.get(run.id)).state).toBe('pending')
  await client.jobs.resume(job?.id ?? '')
  expect(await ended([run.id])).toMatchObject([{ state: 'succeeded' }])
})

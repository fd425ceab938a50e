// The short way of runs that a program asks for in its own process (compose/direct-enqueue.ts): what it
// answers is what is on record; it never goes by a job of yesterday, and a lost answer stores nothing twice.
import { BelfryError } from '@belfry/contract'
import { type Belfry, createBelfry, defineJob } from 'belfry'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createSystemIds } from '../../packages/server/src/adapters/system/ids.ts'
import { systemClock } from '../../packages/server/src/adapters/system/clock.ts'
import { createDirectEnqueue } from '../../packages/server/src/compose/direct-enqueue.ts'
import { createDatabaseClock } from '../../packages/server/src/engine/database-clock.ts'
import { createFairTags } from '../../packages/server/src/engine/fair-tags.ts'
import { createPostgresCatalog } from '../../packages/server/src/postgres/catalog/catalog.ts'
import { createDirectIntake } from '../../packages/server/src/postgres/direct-intake.ts'
import { createPostgresQueueProgress } from '../../packages/server/src/postgres/queue-progress.ts'
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts'

let database: TestDatabase
let belfry: Belfry

const run = () => undefined
const plain = defineJob({ name: 'plain', run })
const strict = defineJob({ name: 'strict', priority: 5, startWithinMs: 60_000, runDeadlineMs: 120_000, run })
const held = defineJob({ name: 'held', concurrency: { limit: 1 }, run })

beforeAll(async () => {
  database = await createTestDatabase()
  const { host, port, user, database: name } = database.connection
  belfry = createBelfry({
    databaseUrl: `postgres://${user}@localhost:${port}/${name}?host=${encodeURIComponent(host)}`,
    migrate: false,
    logLevel: 'error',
    jobs: [plain, strict, held],
    work: false,
  })
  await belfry.start()
  await belfry.client.functions.register([plain, strict, held])
})
afterAll(async () => {
  await belfry.stop()
  await database.drop()
})

const count = async (): Promise<number> => {
  const [row] = await database.sql<{ count: number }>('SELECT count(*)::int AS count FROM belfry.run')
  return row?.count ?? 0
}

test.each([
  [plain, { a: [1, null, 'ü'] }, {}],
  [plain, null, { queue: 'elsewhere', priority: -3, startWithinMs: 5_000 }],
  [plain, undefined, {}],
  [strict, 7, { runDeadlineMs: null }],
  [held, { key: 1 }, {}],
] as const)('the answer is what is on record: %o', async (job, input, options) => {
  const { duplicate, duplicateOf, gathered, ...made } = await belfry.enqueue(job, input as never, options)
  expect({ duplicate, duplicateOf, gathered }).toEqual({
    duplicate: false,
    duplicateOf: null,
    gathered: null,
  })
  const stored = await belfry.client.runs.get(made.id)
  expect(withoutTimes(made)).toEqual(withoutTimes(stored))
})

/** How long it has waited stands in words. */
const withoutTimes = (view: unknown): unknown =>
  JSON.parse(JSON.stringify(view).replaceAll(/\d+ ms so far/g, 'so long'))

test('many of them, with their inputs in order, also such as one statement does not take', async () => {
  const large = 'x'.repeat(200_000)
  for (const inputs of [
    [1, 'two', null, { three: 3 }],
    Array.from({ length: 90 }, (_, n) => ({ n, large })),
  ]) {
    const receipts = await belfry.enqueueMany(plain, inputs)
    expect(receipts.map(({ job, duplicate }) => [job, duplicate])).toEqual(inputs.map(() => ['plain', false]))
    const rows = await database.sql<{ id: string; input: unknown; due_at: Date }>(
      `SELECT id, input, due_at FROM belfry.run JOIN belfry.ready ON run_id = id
       WHERE id = ANY ('{${receipts.map(({ id }) => id).join()}}') ORDER BY id`,
    )
    expect(rows.map(({ id }) => id)).toEqual(receipts.map(({ id }) => id))
    expect(rows.map(({ input }) => input)).toEqual(inputs)
    expect(rows.map(({ due_at }) => due_at.toISOString())).toEqual(receipts.map(({ dueAt }) => dueAt))
  }
  const mixed = await belfry.enqueueMany(plain, [undefined, { a: 1 }])
  expect(await Promise.all(mixed.map(async ({ id }) => (await belfry.client.runs.get(id)).input))).toEqual([
    null,
    { a: 1 },
  ])
})

test('a job that was changed meanwhile: the next run is of its new version', async () => {
  const before = await belfry.enqueue(plain)
  await belfry.client.functions.register([defineJob({ name: 'plain', queue: 'other', run })])
  const after = await belfry.enqueue(plain)
  expect(after).toMatchObject({ queue: 'other', jobVersion: before.jobVersion + 1 })
  const [many] = await belfry.enqueueMany(plain, [1])
  expect(await belfry.client.runs.get(many?.id ?? '')).toMatchObject({ queue: 'other' })
})

test('a job that was deleted meanwhile: nothing is stored', async () => {
  const gone = defineJob({ name: 'gone', run })
  await belfry.client.functions.register([gone])
  await belfry.enqueue(gone)
  for await (const job of belfry.client.jobs.list())
    if (job.name === 'gone') await belfry.client.jobs.delete(job.id)
  const before = await count()
  await expect(belfry.enqueue(gone)).rejects.toMatchObject({ code: 'not_found' })
  await expect(belfry.enqueueMany(gone, [1, 2])).rejects.toMatchObject({ code: 'not_found' })
  expect(await count()).toBe(before)
})

test('a limit that was set meanwhile: the run stands behind the gate', async () => {
  const late = defineJob({ name: 'late', run })
  await belfry.client.functions.register([late])
  await belfry.enqueue(late)
  await belfry.client.queues.pause('default', { reason: 'stock-taking' })
  try {
    const { id } = await belfry.enqueue(late)
    const [row] = await database.sql<{ held: boolean }>(
      `SELECT gate IS NOT NULL AS held FROM belfry.ready WHERE run_id = '${id}'`,
    )
    expect(row?.held).toBe(true)
  } finally {
    await belfry.client.queues.resume('default')
  }
})

test('what cannot be meant is refused as over the API', async () => {
  const before = await count()
  const refusal = async (asked: Promise<unknown>) => {
    const error = await asked.then(
      () => undefined,
      (thrown: unknown) => thrown,
    )
    return error instanceof BelfryError ? { code: error.code, errors: error.errors } : error
  }
  for (const body of [{ priority: 101 }, { queue: 'no spaces' }, { startWithinMs: 1 }]) {
    const here = await refusal(belfry.enqueue(plain, { a: 1 }, body))
    expect(here).toMatchObject({ code: 'invalid_request' })
    expect(here).toEqual(await refusal(belfry.client.runs.create({ job: 'plain', input: { a: 1 }, ...body })))
  }
  expect(await refusal(belfry.enqueue(plain, { a: { b: ['\u0000'] } }))).toMatchObject({
    errors: [{ pointer: '/input/a/b/0' }],
  })
  expect(await refusal(belfry.enqueueMany(plain, [1, { a: [Number.NaN] }]))).toMatchObject({
    errors: [{ pointer: '/inputs/1/a/0' }],
  })
  await expect(belfry.enqueue(plain, 1, { signal: AbortSignal.abort(new Error('no more')) })).rejects.toThrow(
    'no more',
  )
  expect(await count()).toBe(before)
})

/** What becomes of one run, where the tries to store it end like this. */
async function storeThrough(ways: readonly ('lost' | 'stored' | 'stored twice' | 'answered')[]) {
  const db = database.open()
  const real = createDirectIntake(db)
  const left = [...ways]
  const [tenant] = await database.sql<{ tenant_id: string }>('SELECT tenant_id FROM belfry.job LIMIT 1')
  const direct = createDirectEnqueue(
    {
      intake: {
        async insert(...all) {
          const way = left.shift()
          const stored = way === 'lost' ? undefined : await real.insert(...all)
          if (way === 'stored twice') return real.insert(...all)
          if (way !== 'answered') throw new BelfryError('database_unavailable', 'The answer was lost.')
          return stored
        },
      },
      catalog: createPostgresCatalog({ db }),
      ids: createSystemIds(),
      tags: createFairTags({ clock: systemClock, progress: createPostgresQueueProgress(db) }),
      hints: { publish: () => undefined },
      events: { emit: () => undefined },
      databaseClock: createDatabaseClock(systemClock),
      clock: systemClock,
      random: { next: () => 0 },
    },
    tenant?.tenant_id ?? '',
  )
  try {
    return await direct.store({ job: 'strict' }, ['once'])
  } finally {
    await db.close()
  }
}

test.each([
  ['it was stored, but nobody was told', ['stored', 'answered']],
  ['it was not stored', ['lost', 'answered']],
  ['it was stored late, while it was sent again', ['lost', 'stored twice', 'answered']],
] as const)('an answer that was lost is asked for again: %s', async (_, ways) => {
  const before = await count()
  const stored = await storeThrough(ways)
  const run = await belfry.client.runs.get(stored?.ids[0] ?? '')
  expect(run).toMatchObject({ job: 'strict', input: 'once', priority: 5, dueAt: iso(stored?.dueAtMs) })
  expect(await count()).toBe(before + 1)
})

const iso = (ms: number | undefined): string => new Date(ms ?? 0).toISOString()

test('a database that stays away is told of after three tries', async () => {
  const before = await count()
  await expect(storeThrough(['lost', 'lost', 'lost', 'answered'])).rejects.toMatchObject({
    code: 'database_unavailable',
  })
  expect(await count()).toBe(before)
})

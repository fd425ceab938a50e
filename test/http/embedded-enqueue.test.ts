// Asking for runs from within a program: many at once, dedupe keys inside its own transactions, jobs that
// collect; and the same through the client.
import { type Belfry, createBelfry, defineJob } from 'belfry'
import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { z } from 'zod'
import { insideTransaction } from '../../packages/server/src/postgres/enqueue-inside.ts'
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts'

let database: TestDatabase
let belfry: Belfry
const lists: unknown[] = []

const add = defineJob({ name: 'add', input: z.object({ n: z.number() }), run: ({ n }) => n })
const digest = defineJob({
  name: 'digest',
  input: z.object({ user: z.string(), n: z.number().default(0) }),
  collect: { maxItems: 3, windowMs: 60_000, key: 'user' },
  run: (inputs) => {
    lists.push(inputs.map(({ n }) => n))
    return inputs.length
  },
})

beforeAll(async () => {
  database = await createTestDatabase()
  belfry = createBelfry({
    databaseUrl: urlOf(database.connection),
    migrate: false,
    logLevel: 'error',
    drainMs: 2_000,
    jobs: [add, digest],
  })
  await belfry.start()
})
afterAll(async () => {
  await belfry.stop()
  await database.drop()
})

function urlOf({ host, port, user, database: name }: TestDatabase['connection']): string {
  return `postgres://${user}@localhost:${port}/${name}?host=${encodeURIComponent(host)}`
}

async function withClient<T>(work: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client(database.connection)
  await client.connect()
  try {
    return await work(client)
  } finally {
    await client.end()
  }
}

const ended = (id: string) => belfry.client.waitForRun(id, { timeoutMs: 20_000 })
const count = async () => {
  const [row] = await database.sql<{ count: number }>('SELECT count(*)::int AS count FROM belfry.run')
  return row?.count ?? 0
}

test('an error of ours leaves the role and tenant of the caller as they were', async () => {
  await withClient(async (client) => {
    await client.query('BEGIN')
    const who = async () => {
      const { rows } = await client.query<{ role: string; tenant: string | null }>(
        "SELECT current_user AS role, current_setting('belfry.tenant_id', true) AS tenant",
      )
      return rows[0]
    }
    const before = await who()
    const tenantId = '019ad0c1-7f3e-7c63-9a52-6e4d8c1b2a3f'
    const broken = insideTransaction(client, tenantId, () => Promise.reject(new Error('no tags')))
    await expect(broken).rejects.toThrow('no tags')
    expect({ ...(await who()), tenant: null }).toEqual({ ...before, tenant: null })
    expect((await who())?.tenant ?? '').toBe(before?.tenant ?? '')
    await client.query('ROLLBACK')
  })
})

test('many runs at once, more than a call of the API takes, each with its input', async () => {
  const inputs = Array.from({ length: 2_500 }, (_, n) => ({ n }))
  const runs = await belfry.enqueueMany(add, inputs)
  expect(new Set(runs.map(({ id }) => id)).size).toBe(2_500)
  expect(await ended(runs[2_400]?.id ?? '')).toMatchObject({
    state: 'succeeded',
    attemptList: [{ result: 2_400 }],
  })
  const sent = await belfry.client.enqueueMany(add, inputs.slice(0, 1_200))
  expect(sent).toHaveLength(1_200)
  expect(await ended(sent[1_199]?.id ?? '')).toMatchObject({ attemptList: [{ result: 1_199 }] })
})

test('all or none: one input that does not fit, and nothing is stored', async () => {
  const before = await count()
  const wrong = [{ n: 1 }, { n: 'two' as unknown as number }]
  await expect(belfry.enqueueMany(add, wrong)).rejects.toMatchObject({
    code: 'invalid_request',
    errors: [{ pointer: '/inputs/1/n' }],
  })
  const big = [{ n: 1, more: 'x'.repeat(300_000) }]
  await expect(belfry.enqueueMany(add, big)).rejects.toMatchObject({ errors: [{ pointer: '/inputs/0' }] })
  await expect(belfry.enqueueMany(add, [{ n: 1 }], { priority: 101 })).rejects.toMatchObject({
    errors: [{ pointer: '/priority' }],
  })
  expect(await count()).toBe(before)
})

test('inside the own transaction: there if and only if that commits, keys as well', async () => {
  await withClient(async (client) => {
    for (const end of ['ROLLBACK', 'COMMIT']) {
      const before = await count()
      await client.query('BEGIN')
      const options = {
        client,
        dedupeKey: ({ n }: { n: number }) => `tx-${n % 2}`,
        runAt: new Date(Date.now() + 3_600_000),
      }
      const runs = await belfry.enqueueMany(add, [{ n: 1 }, { n: 2 }, { n: 3 }], options)
      expect(runs.map(({ duplicate }) => duplicate)).toEqual([false, false, true])
      expect(await count()).toBe(before)
      await client.query(end)
      expect(await count()).toBe(before + (end === 'COMMIT' ? 2 : 0))
    }
  })
  const again = await belfry.enqueue(add, { n: 1 }, { dedupeKey: 'tx-1' })
  expect(again.duplicate).toBe(true)
})

test.each(['COMMIT', 'ROLLBACK'])(
  'a request of the same key waits for the transaction, to its %s',
  async (end) => {
    const dedupeKey = `waits-${end}`
    const later = { dedupeKey, runAt: new Date(Date.now() + 3_600_000) }
    await withClient(async (client) => {
      await client.query('BEGIN')
      const first = await belfry.enqueue(add, { n: 1 }, { ...later, client })
      expect(first).toMatchObject({ duplicate: false, duplicateOf: null })
      let answered = false
      const second = belfry.enqueue(add, { n: 2 }, later).finally(() => {
        answered = true
      })
      await expect.poll(() => database.waiting()).toBe(1)
      expect(answered).toBe(false)
      await client.query(end)
      expect(await second).toMatchObject(
        end === 'COMMIT'
          ? { duplicate: true, duplicateOf: first.id, input: { n: 1 } }
          : { duplicate: false, input: { n: 2 } },
      )
    })
  },
)

test('two transactions with the same key: the second waits, and is told of the first', async () => {
  await withClient((one) =>
    withClient(async (other) => {
      const later = { dedupeKey: 'two', runAt: new Date(Date.now() + 3_600_000) }
      await one.query('BEGIN')
      await other.query('BEGIN')
      const first = await belfry.enqueue(add, { n: 1 }, { ...later, client: one })
      const waiting = belfry.enqueue(add, { n: 2 }, { ...later, client: other })
      await expect.poll(() => database.waiting()).toBe(1)
      await one.query('COMMIT')
      expect(await waiting).toMatchObject({ id: first.id, duplicate: true, dueAt: null })
      await other.query('COMMIT')
    }),
  )
})

test('a job that collects is called once with the list, each item with its defaults', async () => {
  const [first] = await belfry.enqueueMany(digest, [{ user: 'a' }, { user: 'b', n: 5 }])
  expect(first?.gathered).toEqual({ kind: 'collect', position: 1 })
  const last = await withClient(async (client) => {
    await client.query('BEGIN')
    await belfry.enqueue(digest, { user: 'a', n: 1 }, { client })
    const receipt = await belfry.enqueue(digest, { user: 'a', n: 2 }, { client })
    // the transaction goes on: whoever was told of the run looks before it is there to be seen
    await client.query('SELECT pg_sleep(0.3)')
    await client.query('COMMIT')
    return receipt
  })
  expect(last).toMatchObject({ id: first?.id, gathered: { position: 3 } })
  expect(await ended(last.id)).toMatchObject({
    state: 'succeeded',
    input: [{ user: 'a' }, { user: 'a', n: 1 }, { user: 'a', n: 2 }],
    attemptList: [{ result: 3 }],
  })
  expect(lists).toEqual([[0, 1, 2]])
})

// Quotas of a program with Belfry inside it: the short way, the client's own transaction, and many at once
// are held as requests over the API are, and what is refused leaves nothing behind.
import { type Belfry, createBelfry, defineJob } from 'belfry'
import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { eventually } from '../support/api.ts'
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts'

let database: TestDatabase
let belfry: Belfry
const job = defineJob({ name: 'held', queue: 'nobody', run: () => null })

beforeAll(async () => {
  database = await createTestDatabase()
  const { host, port, user, database: name } = database.connection
  belfry = createBelfry({
    databaseUrl: `postgres://${user}@localhost:${port}/${name}?host=${encodeURIComponent(host)}`,
    migrate: false,
    logLevel: 'error',
    drainMs: 2_000,
    queues: ['other'],
    jobs: [job],
  })
  await belfry.start()
})
afterAll(async () => {
  await belfry.stop()
  await database.drop()
})

const count = async (): Promise<number> => {
  const [row] = await database.sql<{ count: number }>('SELECT count(*)::int AS count FROM belfry.run')
  return row?.count ?? 0
}
const set = (quota: string, most: number) =>
  database.sql(
    `INSERT INTO belfry.tenant_quota (tenant_id, quota, most) SELECT id, $1, $2 FROM belfry.tenant
     ON CONFLICT (tenant_id, quota) DO UPDATE SET most = excluded.most`,
    [quota, most],
  )
const refused = (quota: string) => expect.objectContaining({ code: 'quota_exceeded', quota }) as unknown

test('the short way, the own transaction, and many', async () => {
  await belfry.enqueue(job)
  await set('runs', 2)
  // within five seconds
  await eventually(async () => {
    await belfry.enqueueMany(job, [undefined, undefined, undefined]).catch(() => undefined)
    return (
      (await belfry.enqueue(job).then(
        () => 'stored',
        () => 'refused',
      )) === 'refused'
    )
  })
  const before = await count()
  await expect(belfry.enqueue(job)).rejects.toEqual(refused('runs'))
  await expect(belfry.enqueueMany(job, [undefined, undefined])).rejects.toEqual(refused('runs'))
  const client = new pg.Client(database.connection)
  await client.connect()
  try {
    await client.query('BEGIN')
    await expect(belfry.enqueue(job, undefined, { client })).rejects.toEqual(refused('runs'))
    await client.query('COMMIT')
  } finally {
    await client.end()
  }
  expect(await count()).toBe(before)
})

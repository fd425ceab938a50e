// What a transaction keeps for its end (`atEnd`): it leaves with the COMMIT, in one packet, and is part of
// the transaction like all else.
import { afterAll, beforeAll, expect, it } from 'vitest'
import type { Database, Scope } from '../../packages/server/src/postgres/database.ts'
import { statement } from '../../packages/server/src/postgres/statement.ts'
import type { TestDatabase } from '../support/postgres.ts'
import { createTestDatabase } from '../support/postgres.ts'

const app: Scope = { role: 'belfry_app', tenantId: '0190c8a0-0000-7000-8000-000000000001' }
const divide = statement<{ n: number }, [number]>('test_divide', 'SELECT 1 / $1::int AS n')
const insert = statement<unknown, [number]>('test_insert', 'INSERT INTO scratch (n) VALUES ($1)')
const list = statement<{ n: number }>('test_list', 'SELECT n FROM scratch ORDER BY n')

let database: TestDatabase
let db: Database

beforeAll(async () => {
  database = await createTestDatabase()
  await database.sql('CREATE TABLE scratch (n int PRIMARY KEY)')
  await database.sql('GRANT SELECT, INSERT ON scratch TO belfry_app')
  db = database.open({ maxConnections: 1 })
})
afterAll(async () => {
  await database.drop()
})

const stored = async () => (await db.run(app, list, [])).map(({ n }) => n)

it('goes out after all else, in the order in which it was given', async () => {
  const before = await db.transaction(app, async (tx) => {
    tx.atEnd(insert, [1])
    tx.atEnd(insert, [2])
    return tx.query(list, [])
  })
  expect(before).toEqual([])
  expect(await stored()).toEqual([1, 2])
})

it('fails the transaction where it fails, and the connection serves on', async () => {
  const failing = db.transaction(app, async (tx) => {
    await tx.query(insert, [3])
    tx.atEnd(divide, [0])
    tx.atEnd(insert, [4])
  })
  await expect(failing).rejects.toThrow('division by zero')
  expect(await stored()).toEqual([1, 2])
})

it('does not go out where the work throws', async () => {
  const failing = db.transaction(app, async (tx) => {
    tx.atEnd(insert, [5])
    await Promise.reject(new Error('changed my mind'))
  })
  await expect(failing).rejects.toThrow('changed my mind')
  expect(await stored()).toEqual([1, 2])
})

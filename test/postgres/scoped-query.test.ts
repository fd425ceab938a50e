// A statement with its scope in one message group (postgres/scoped-query.ts): as much a transaction as one
// with BEGIN and COMMIT, and nothing is sent after a scope that was refused.
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest'
import type { Database, Scope } from '../../packages/server/src/postgres/database.ts'
import { violatedConstraint } from '../../packages/server/src/postgres/database-error.ts'
import { byHash, byIndex, statement } from '../../packages/server/src/postgres/statement.ts'
import type { TestDatabase } from '../support/postgres.ts'
import { createTestDatabase } from '../support/postgres.ts'

const app: Scope = { role: 'belfry_app', tenantId: '0190c8a0-0000-7000-8000-000000000001' }
const login = statement<{ who: string; tenant: string | null; readonly: string; timeout: string }>(
  'test_login',
  `SELECT current_user::text AS who, current_setting('belfry.tenant_id', true) AS tenant,
          current_setting('transaction_read_only') AS readonly,
          current_setting('statement_timeout') AS timeout`,
)
const insertTwo = statement<unknown, [number, number]>(
  'test_insert_two',
  'INSERT INTO scratch (n, twin) VALUES ($1, $1 + 1), ($1 + $2, $1)',
)
const write = statement<unknown, [number]>('test_write', 'INSERT INTO scratch (n) VALUES ($1) RETURNING n')
const sleepLong = statement<unknown>('test_sleep_long', 'SELECT pg_sleep(30)')
const begins = statement<{ begun: boolean }>(
  'test_begins',
  `SELECT statement_timestamp() >= now() AND pg_current_xact_id_if_assigned() IS NULL AS begun`,
)

let database: TestDatabase
let db: Database

beforeAll(async () => {
  database = await createTestDatabase()
  await database.sql(`CREATE TABLE scratch (
    n int PRIMARY KEY, twin int REFERENCES scratch DEFERRABLE INITIALLY DEFERRED)`)
  await database.sql('GRANT SELECT, INSERT ON scratch TO belfry_app')
  await database.sql('GRANT UPDATE (n) ON scratch TO belfry_app')
})
afterAll(() => database.drop())

beforeEach(async () => {
  db = database.open({ maxConnections: 1 })
  // from now on the connection knows the scopes
  for (const hints of [{}, byIndex, byHash])
    for (const readOnly of [true, false])
      await db.run(
        { ...app, readOnly },
        { ...begins, ...hints, name: `test_begins_${Object.values(hints).join()}` },
        [],
      )
})

const rows = async (): Promise<number> =>
  (await database.sql<{ n: number }>('SELECT count(*)::int AS n FROM scratch'))[0]?.n ?? 0

it.each([
  ['a write of one who may only read', { ...app, readOnly: true }, write, [90], '25006'],
  ['a role that there is not', { role: 'nobody' as 'belfry_app' }, write, [91], '22023'],
  ['a write without the right to it', { role: 'belfry_platform' }, write, [92], '42501'],
  ['a duplicate in the middle', app, insertTwo, [1, 0], '23505'],
  ['a constraint that is looked at with the commit', app, insertTwo, [93, 7], '23503'],
] as const)(
  '%s: an error, nothing is stored, and the connection serves on',
  async (_, scope, sent, params, code) => {
    const before = await rows()
    const error: unknown = await db
      .run<unknown, readonly number[]>(scope, sent, params)
      .catch((thrown: unknown) => thrown)
    const { cause } = error as { cause?: unknown }
    expect((cause ?? error) as { code: string }).toMatchObject({ code })
    expect(await rows()).toBe(before)
    expect(await db.asLogin(login, [])).toMatchObject([{ who: 'belfry', readonly: 'off' }])
    expect(await db.run(app, write, [before + 1_000])).toEqual([{ n: before + 1_000 }])
    expect(db.stats().open).toBe(1)
  },
)

it('ends in time, by the limit of its own scope', async () => {
  const startedMs = performance.now()
  await expect(db.run({ ...app, timeoutMs: 100 }, sleepLong, [])).rejects.toMatchObject({
    code: 'database_timeout',
  })
  expect(performance.now() - startedMs).toBeLessThan(1_500)
  expect(db.stats().open).toBe(1)
})

it('leaves nothing on the connection, and many at once keep to their own', async () => {
  const asked = Array.from({ length: 50 }, (_, each) =>
    db.run(
      {
        role: each % 2 === 0 ? 'belfry_app' : 'belfry_engine',
        timeoutMs: 5_000 + each,
        readOnly: each % 3 === 0,
      },
      login,
      [],
    ),
  )
  const answers = (await Promise.all(asked)).flat()
  expect(answers).toEqual(
    answers.map((_, each) => ({
      who: each % 2 === 0 ? 'belfry_app' : 'belfry_engine',
      tenant: '',
      readonly: each % 3 === 0 ? 'on' : 'off',
      timeout: each === 0 ? '5s' : `${5_000 + each}ms`,
    })),
  )
  expect(await db.asLogin(login, [])).toMatchObject([{ who: 'belfry', tenant: '', readonly: 'off' }])
})

it('a statement that cannot be prepared is an error each time, and others go on', async () => {
  const broken = statement<unknown>('test_broken', 'SELECT nothing FROM nowhere')
  for (let each = 0; each < 2; each++)
    await expect(db.run(app, broken, [])).rejects.toMatchObject({ code: '42P01' })
  expect(await db.run(app, begins, [])).toEqual([{ begun: true }])
  expect(violatedConstraint(await db.run(app, write, [-1]).catch((error: unknown) => error))).toBeUndefined()
})

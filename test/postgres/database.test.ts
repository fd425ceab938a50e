// The door to Postgres: roles and tenants that end with the transaction, one meaning for each kind of
// failure, values that come back exact, and a pool that heals.
import { createServer } from 'node:net'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import type { Clock } from '../../packages/server/src/ports/clock.ts'
import type { Database, Scope } from '../../packages/server/src/postgres/database.ts'
import { openDatabase } from '../../packages/server/src/postgres/database.ts'
import {
  classifyDatabaseError,
  toDatabaseError,
  violatedConstraint,
} from '../../packages/server/src/postgres/database-error.ts'
import { describeTarget } from '../../packages/server/src/postgres/hosts.ts'
import { byIndex, statement } from '../../packages/server/src/postgres/statement.ts'
import { waitForDatabase } from '../../packages/server/src/postgres/wait-for-database.ts'
import type { TestDatabase } from '../support/postgres.ts'
import { createTestDatabase } from '../support/postgres.ts'
import { realClock, realRandom } from '../support/real-clock.ts'

const tenantId = '0190c8a0-0000-7000-8000-000000000001'
const app: Scope = { role: 'belfry_app', tenantId }

const who = statement<{ who: string; tenant: string | null }>(
  'test_who',
  'SELECT current_user::text AS who, belfry.tenant_id()::text AS tenant',
)
const divide = statement<{ n: number }, [number]>('test_divide', 'SELECT 1 / $1::int AS n')
const insert = statement<unknown, [number]>('test_insert', 'INSERT INTO scratch (n) VALUES ($1)')
const sleepLong = statement<unknown>('test_sleep', 'SELECT pg_sleep(30)')

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

const count = async (n: number) => {
  const rows = await database.sql<{ count: number }>(
    'SELECT count(*)::int AS count FROM scratch WHERE n = $1',
    [n],
  )
  return rows[0]?.count
}

describe('scope', () => {
  it('sets role and tenant for the transaction and leaves nothing on the connection', async () => {
    expect(await db.run(app, who, [])).toEqual([{ who: 'belfry_app', tenant: tenantId }])
    expect(await db.run({ role: 'belfry_engine' }, who, [])).toEqual([{ who: 'belfry_engine', tenant: null }])
    const login = statement<{ who: string }>('test_login', 'SELECT current_user::text AS who')
    expect(await db.asLogin(login, [])).toEqual([{ who: 'belfry' }])
  })

  it('tells the planner to walk indexes only for statements that ask for it', async () => {
    const text = `SELECT current_setting('enable_seqscan') AS seqscan,
      current_setting('enable_sort') AS sort,
      current_setting('enable_bitmapscan') AS bitmapscan`
    type Settings = { seqscan: string; sort: string; bitmapscan: string }
    const free = statement<Settings>('test_planner_free', text)
    const marked = statement<Settings>('test_planner_marked', text, byIndex)
    const engine: Scope = { role: 'belfry_engine' }
    const off = { seqscan: 'off', sort: 'off', bitmapscan: 'off' }
    const on = { seqscan: 'on', sort: 'on', bitmapscan: 'on' }
    expect(await db.run(engine, free, [])).toEqual([on])
    expect(await db.run(engine, marked, [])).toEqual([off])
    expect(await db.run(engine, free, [])).toEqual([on])
    await db.transaction(engine, async (tx) => {
      expect(await tx.query(free, [])).toEqual([on])
      expect(await tx.query(marked, [])).toEqual([off])
    })
    expect(await db.run(engine, free, [])).toEqual([on])
  })

  it('reports a refused role as the cause, not what follows from it', async () => {
    const scope = { role: 'nobody_at_all' } as unknown as Scope
    await expect(db.run(scope, who, [])).rejects.toThrow(/role "nobody_at_all" does not exist/)
    await expect(db.transaction(scope, (tx) => tx.query(who, []))).rejects.toThrow(
      /"nobody_at_all" does not exist/,
    )
    expect(await db.run(app, who, [])).toHaveLength(1)
  })

  it('works without prepared statements', async () => {
    const plain = database.open({ preparedStatements: false })
    expect(await plain.run(app, who, [])).toEqual([{ who: 'belfry_app', tenant: tenantId }])
    const names = statement<{ n: number }>(
      'test_names',
      'SELECT count(*)::int AS n FROM pg_prepared_statements',
    )
    expect(await plain.run(app, names, [])).toEqual([{ n: 0 }])
  })
})

describe('transactions', () => {
  it('commit when the work resolves and return what it returns', async () => {
    const result = await db.transaction(app, async (tx) => {
      await tx.query(insert, [1])
      await tx.query(insert, [2])
      return 'done'
    })
    expect([result, await count(1), await count(2)]).toEqual(['done', 1, 1])
  })

  it('roll back when the work throws, and when a statement fails', async () => {
    const work = db.transaction(app, async (tx) => {
      await tx.query(insert, [10])
      throw new Error('changed my mind')
    })
    await expect(work).rejects.toThrow('changed my mind')
    const failing = db.transaction(app, async (tx) => {
      await tx.query(insert, [11])
      await tx.query(divide, [0])
    })
    await expect(failing).rejects.toThrow('division by zero')
    expect([await count(10), await count(11)]).toEqual([0, 0])
  })

  it('never report success for a transaction whose failed statement was swallowed', async () => {
    const work = db.transaction(app, async (tx) => {
      await tx.query(insert, [20])
      await tx.query(divide, [0]).catch(() => undefined)
    })
    await expect(work).rejects.toThrow('division by zero')
    expect(await count(20)).toBe(0)
  })

  it('run leaves nothing behind when its statement fails', async () => {
    await db.run(app, insert, [30])
    const error = await db.run(app, insert, [30]).catch((each: unknown) => each)
    expect(violatedConstraint(error)).toBe('scratch_pkey')
    expect(await count(30)).toBe(1)
    expect(await db.run(app, divide, [1])).toEqual([{ n: 1 }])
  })
})

describe('values', () => {
  it('come back exact', async () => {
    const values = statement<Record<string, unknown>>(
      'test_values',
      `SELECT 9007199254740991::bigint AS big, ARRAY[1, NULL]::bigint[] AS bigs, '{}'::bigint[] AS none,
              '2026-03-29T01:30:00.123456Z'::timestamptz AS at, '2026-03-29'::date AS day,
              '{"a":[1]}'::jsonb AS doc`,
    )
    expect(await db.run(app, values, [])).toEqual([
      {
        big: 9_007_199_254_740_991,
        bigs: [1, null],
        none: [],
        at: new Date('2026-03-29T01:30:00.123Z'),
        day: '2026-03-29',
        doc: { a: [1] },
      },
    ])
  })

  it('fail rather than lose digits', async () => {
    const big = statement<unknown>('test_big', 'SELECT 9007199254740993::bigint AS n')
    await expect(db.run(app, big, [])).rejects.toThrow(/does not fit a JavaScript number/)
    expect(await db.run(app, divide, [1])).toEqual([{ n: 1 }])
  })
})

const codesOf = (error: unknown) => {
  const { code, cause } = error as { code: string; cause: { code: string } }
  return [code, cause.code]
}

/** What a caller gets that needs a second connection while the database lets nobody in. */
async function failedConnect(two: Database, elsewhere: TestDatabase): Promise<unknown> {
  return two.transaction(app, async (tx) => {
    await tx.query(divide, [1])
    await elsewhere.sql(`ALTER DATABASE ${database.name} ALLOW_CONNECTIONS false`)
    try {
      return await two.ping().catch((error: unknown) => error)
    } finally {
      await elsewhere.sql(`ALTER DATABASE ${database.name} ALLOW_CONNECTIONS true`)
    }
  })
}

describe('failures', () => {
  it('have one code each', () => {
    const codes = {
      ECONNREFUSED: 'database_unavailable',
      ENOENT: 'database_unavailable',
      EPIPE: 'database_unavailable',
      '08006': 'database_unavailable',
      '57P01': 'database_unavailable',
      '57P03': 'database_unavailable',
      '57P04': 'database_unavailable',
      '3D000': 'database_unavailable',
      '28P01': 'database_unavailable',
      '53300': 'database_unavailable',
      '25006': 'database_read_only',
      '53100': 'database_full',
      '57014': 'database_timeout',
      '40001': 'serialization_conflict',
      '40P01': 'serialization_conflict',
      '23505': undefined,
      '42P01': undefined,
      '55000': undefined,
    }
    for (const [code, expected] of Object.entries(codes)) {
      expect(classifyDatabaseError(Object.assign(new Error('x'), { code })), code).toBe(expected)
    }
    expect(
      classifyDatabaseError(new AggregateError([Object.assign(new Error('x'), { code: 'ECONNREFUSED' })])),
    ).toBe('database_unavailable')
    expect(classifyDatabaseError('text')).toBeUndefined()
    const plain = new Error('of ours')
    expect(toDatabaseError(plain)).toBe(plain)
  })

  it('a statement that takes too long ends in time, and the connection serves on', async () => {
    await expect(db.run({ ...app, timeoutMs: 100 }, sleepLong, [])).rejects.toMatchObject({
      code: 'database_timeout',
    })
    expect(await db.run(app, divide, [1])).toEqual([{ n: 1 }])
  })

  it('a write in a read-only transaction is refused', async () => {
    const write = db.run({ ...app, readOnly: true }, insert, [40])
    await expect(write).rejects.toMatchObject({ code: 'database_read_only' })
  })

  it('a waiting caller gives up when no connection comes free', async () => {
    const one = database.open({ maxConnections: 1, connectTimeoutMs: 100 })
    await one.transaction(app, async (tx) => {
      await tx.query(divide, [1])
      expect(one.stats()).toEqual({ open: 1, idle: 0, waiting: 0, max: 1 })
      await expect(one.run(app, divide, [1])).rejects.toMatchObject({ code: 'database_timeout' })
    })
  })

  it('a connection that the server ends is replaced', async () => {
    const rows = statement<{ pid: number }>('test_pid', 'SELECT pg_backend_pid() AS pid')
    const [before] = await db.run(app, rows, [])
    const work = db.transaction(app, async (tx) => {
      await tx.query(insert, [50])
      await database.sql('SELECT pg_terminate_backend($1)', [before?.pid])
      await tx.query(insert, [51])
    })
    await expect(work).rejects.toMatchObject({ code: 'database_unavailable' })
    const [after] = await db.run(app, rows, [])
    expect(after?.pid).not.toBe(before?.pid)
    expect(await count(50)).toBe(0)
  })

  it('a server that accepts and never answers is given up', async () => {
    const silent = createServer((socket) => socket.resume())
    await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve))
    const { port } = silent.address() as { port: number }
    const connection = { host: '127.0.0.1', port, user: 'x', database: 'x' }
    const deaf = openDatabase({ connection, clock: realClock, random: realRandom, connectTimeoutMs: 100 })
    await expect(deaf.ping()).rejects.toMatchObject({ code: 'database_unavailable' })
    await deaf.close()
    await new Promise((resolve) => silent.close(resolve))
  })

  it('a server that stops answering in the middle is given up soon after the limit', async () => {
    const pid = statement<{ pid: number }>('test_frozen', 'SELECT pg_backend_pid() AS pid')
    const frozen = database.open({ maxConnections: 1 })
    const backend = (await frozen.run(app, pid, []))[0]?.pid ?? 0
    process.kill(backend, 'SIGSTOP')
    try {
      const startedAt = performance.now()
      await expect(frozen.run({ ...app, timeoutMs: 100 }, pid, [])).rejects.toMatchObject({
        code: 'database_timeout',
      })
      expect(performance.now() - startedAt).toBeGreaterThan(100)
      const [other] = await frozen.run(app, pid, [])
      expect(other?.pid).not.toBe(backend)
    } finally {
      process.kill(backend, 'SIGCONT')
    }
  })

  it('a database that takes no connections, or was dropped, is out of reach', async () => {
    const own = await createTestDatabase()
    const away = own.open()
    const refusal = () =>
      away.ping().then(
        () => undefined,
        (error: unknown) => codesOf(error),
      )
    await database.sql(`ALTER DATABASE ${own.name} ALLOW_CONNECTIONS false`)
    expect(await refusal()).toEqual(['database_unavailable', '55000'])
    await database.sql(`ALTER DATABASE ${own.name} ALLOW_CONNECTIONS true`)
    expect(await refusal()).toBeUndefined()
    await own.drop()
    const gone = openDatabase({ connection: own.connection, clock: realClock, random: realRandom })
    await expect(gone.ping()).rejects.toMatchObject({
      code: 'database_unavailable',
      cause: { code: '3D000' },
    })
    await gone.close()
  })

  it('after a failed connect, who finds an idle connection does not wait', async () => {
    const sleep = vi.fn<Clock['sleep']>(() => Promise.resolve())
    const elsewhere = await createTestDatabase({ empty: true })
    const two = database.open({ maxConnections: 2, clock: { ...realClock, sleep } })
    await two.run(app, divide, [1])
    const failing = await failedConnect(two, elsewhere)
    expect(failing).toMatchObject({ code: 'database_unavailable' })
    sleep.mockClear()
    await two.run(app, divide, [1])
    expect(sleep).not.toHaveBeenCalled()
    await expect(failedConnect(two, elsewhere)).resolves.toMatchObject({ code: 'database_unavailable' })
    expect(sleep).toHaveBeenCalledOnce()
    await elsewhere.drop()
  })

  it('a closed database says that the server is shutting down', async () => {
    const closed = database.open()
    await closed.close()
    await expect(closed.ping()).rejects.toMatchObject({ code: 'shutting_down' })
  })
})

describe('waiting for the database', () => {
  const connection = { connectionString: 'postgres://me:s3cret@127.0.0.1:1/belfry' }

  it('says where it tried, without the password, and ends at its deadline', async () => {
    const absent = openDatabase({ connection, clock: realClock, random: realRandom })
    const messages: string[] = []
    const onAttempt = ({ message }: { message: string }) => void messages.push(message)
    const waiting = waitForDatabase({
      db: absent,
      connection,
      clock: realClock,
      random: realRandom,
      deadlineMs: 300,
      onAttempt,
    })
    await expect(waiting).rejects.toMatchObject({ code: 'database_unavailable' })
    await expect(waiting).rejects.toThrow(/Postgres at 127.0.0.1:1, database "belfry" did not answer/)
    expect(messages.length).toBeGreaterThan(0)
    expect(messages.join() + describeTarget(connection)).not.toContain('s3cret')
    await absent.close()
  })

  it('ends at once when waiting cannot help, and when it is stopped', async () => {
    const wrong = { ...database.connection, database: 'no_such_database' }
    const db2 = openDatabase({ connection: wrong, clock: realClock, random: realRandom })
    const refused = waitForDatabase({
      db: db2,
      connection: wrong,
      clock: realClock,
      random: realRandom,
      deadlineMs: 60_000,
    })
    await expect(refused).rejects.toMatchObject({ code: 'invalid_config' })
    await db2.close()
    const absent = openDatabase({ connection, clock: realClock, random: realRandom })
    const signal = AbortSignal.timeout(50)
    const stopped = waitForDatabase({
      db: absent,
      connection,
      clock: realClock,
      random: realRandom,
      deadlineMs: 60_000,
      signal,
    })
    await expect(stopped).rejects.toMatchObject({ code: 'shutting_down' })
    await absent.close()
  })

  it('resolves as soon as it answers', async () => {
    const waiting = waitForDatabase({
      db,
      connection: database.connection,
      clock: realClock,
      random: realRandom,
      deadlineMs: 1_000,
    })
    await expect(waiting).resolves.toBeUndefined()
  })
})

it('the clock of a test database can be set and then stands still', async () => {
  const own = await createTestDatabase()
  try {
    await own.useVirtualNow(new Date('2030-01-01T00:00:00Z'))
    const now = statement<{ now: Date }>('test_now', 'SELECT belfry.now() AS now')
    const client = own.open()
    expect(await client.run(app, now, [])).toEqual([{ now: new Date('2030-01-01T00:00:00Z') }])
    await own.setNow(new Date('2031-06-01T12:00:00.250Z'))
    expect(await client.run(app, now, [])).toEqual([{ now: new Date('2031-06-01T12:00:00.250Z') }])
  } finally {
    await own.drop()
  }
})

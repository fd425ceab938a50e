// The login of DATABASE_URL: what it may do by itself should be nothing, and where it is more, or less than
// it takes to migrate, words say what to run. The test runs just that.
import { randomBytes } from 'node:crypto'
import pg from 'pg'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { openDatabase } from '../../packages/server/src/postgres/database.ts'
import { loginWarning } from '../../packages/server/src/postgres/login-rights.ts'
import { migrate } from '../../packages/server/src/postgres/migrate.ts'
import { describeNeeding } from '../support/needs.ts'
import type { SystemPostgres, TestConnection, TestDatabase } from '../support/postgres.ts'
import { createTestDatabase, startSystemPostgres } from '../support/postgres.ts'
import { realClock, realRandom } from '../support/real-clock.ts'

const quiet = () => undefined
const roles = 'belfry_app, belfry_engine, belfry_platform'
const newLogin = () => `login_${randomBytes(4).toString('hex')}`

async function warningFor(connection: TestConnection, user: string): Promise<string | undefined> {
  const db = openDatabase({ connection: { ...connection, user }, clock: realClock, random: realRandom })
  try {
    return await loginWarning(db)
  } finally {
    await db.close()
  }
}

/** The command at the end of words that say what to run. */
function commandIn(words: string | undefined): string {
  const [, command = ''] = /run: (.*?)(?:\. Belfry works|$)/s.exec(words ?? '') ?? []
  expect(command).not.toBe('')
  return command
}

describe('the login of a server', () => {
  let database: TestDatabase
  const logins: string[] = []
  const warning = (user: string) => warningFor(database.connection, user)

  async function makeLogin(attributes = ''): Promise<string> {
    const login = newLogin()
    await database.sql(`CREATE ROLE ${login} LOGIN ${attributes}`)
    logins.push(login)
    return login
  }

  beforeAll(async () => {
    database = await createTestDatabase()
  })
  afterEach(async () => {
    for (const login of logins.splice(0)) {
      await database.sql(`REASSIGN OWNED BY ${login} TO postgres`)
      await database.sql(`DROP OWNED BY ${login}; DROP ROLE ${login}`)
    }
  })
  afterAll(() => database.drop())

  it('that the embedded Postgres has can do nothing by itself', async () => {
    expect(await warning('belfry')).toBeUndefined()
    const client = new pg.Client(database.connection)
    await client.connect()
    for (const text of ['SELECT 1 FROM belfry.run', 'SELECT 1 FROM belfry.api_key', 'CREATE SCHEMA mine']) {
      await expect(client.query(text)).rejects.toThrow(/permission denied/)
    }
    await client.end()
  })

  it('is let in without the rights of the roles, also one that inherits', async () => {
    const login = await makeLogin('INHERIT')
    await migrate(database.adminConnection, { log: quiet, runtimeLogin: login })
    expect(await warning(login)).toBeUndefined()
    const db = database.open({ connection: { ...database.connection, user: login } })
    expect(await db.run({ role: 'belfry_app' }, { name: 'one', text: 'SELECT 1 AS one' }, [])).toHaveLength(1)
    const read = db.asLogin({ name: 'read', text: 'SELECT 1 FROM belfry.tenant' }, [])
    await expect(read).rejects.toThrow(/permission denied/)
  })

  it('that inherits them is told what to run', async () => {
    const login = await makeLogin('INHERIT')
    await database.sql(`GRANT ${roles} TO ${login}`)
    const words = await warning(login)
    expect(words).toMatch(new RegExp(`"${login}" .* has the rights of ${roles} also where`))
    await database.sql(commandIn(words))
    expect(await warning(login)).toBeUndefined()
  })

  it('that bypasses row-level security is told what to run', async () => {
    const login = await makeLogin('BYPASSRLS')
    const words = await warning(login)
    expect(words).toMatch(/bypasses row-level security/)
    await database.sql(commandIn(words))
    expect(await warning(login)).toBeUndefined()
  })

  it('that owns tables, or is a superuser, is told so', async () => {
    const login = await makeLogin('NOINHERIT')
    await database.sql(`GRANT CREATE ON SCHEMA belfry TO ${login}`)
    await database.sql(`ALTER TABLE belfry.session OWNER TO ${login}`)
    expect(await warning(login)).toMatch(/owns Belfry's tables/)
    expect(await warning('postgres')).toMatch(/is a superuser/)
  })
})

/** A login that owns its database and may make no roles: migrates after what the error says was run. */
async function migratesAfterTheWords(admin: TestConnection, login: string, expected: RegExp): Promise<void> {
  const connection = { ...admin, user: login }
  const refused = await migrate(connection, { log: quiet }).catch((error: unknown) => error)
  expect(refused).toBeInstanceOf(Error)
  const { message } = refused as Error
  expect(message).toMatch(expected)
  const client = new pg.Client(admin)
  await client.connect()
  await client.query(commandIn(message))
  await client.end()
  expect((await migrate(connection, { log: quiet })).length).toBeGreaterThan(0)
}

describe('a login that may not make or take the roles', () => {
  it('is told what an administrator has to run, on 18', async () => {
    const database = await createTestDatabase({ empty: true })
    const login = newLogin()
    await database.sql(`CREATE ROLE ${login} LOGIN`)
    await database.sql(`ALTER DATABASE ${database.name} OWNER TO ${login}`)
    try {
      await migratesAfterTheWords(
        database.adminConnection,
        login,
        new RegExp(`login ${login} may not .* run: GRANT ${roles} TO ${login} WITH INHERIT FALSE, SET TRUE$`),
      )
      expect(await warningFor(database.connection, login)).toMatch(/owns Belfry's tables/)
    } finally {
      await database.drop()
      const other = await createTestDatabase({ empty: true })
      await other.sql(`REVOKE ${roles} FROM ${login}; DROP ROLE ${login}`)
      await other.drop()
    }
  })

  describeNeeding('system-postgres', 'on the Postgres of the system', (binDir) => {
    let server: SystemPostgres
    beforeAll(async () => {
      server = await startSystemPostgres(binDir)
    })
    afterAll(() => server?.stop())

    it('is told to make the roles too, where there are none', async () => {
      const admin = new pg.Client(server.adminConnection)
      await admin.connect()
      await admin.query('CREATE ROLE owner LOGIN; CREATE ROLE runtime LOGIN INHERIT')
      await admin.query('ALTER DATABASE belfry OWNER TO owner')
      const words = /run: CREATE ROLE belfry_app; CREATE ROLE belfry_engine; .*GRANT .* TO owner\b/
      await migratesAfterTheWords(server.adminConnection, 'owner', words)
      await admin.query(`GRANT ${roles} TO runtime`)
      await admin.query(commandIn(await warningFor(server.adminConnection, 'runtime')))
      expect(await warningFor(server.adminConnection, 'runtime')).toBeUndefined()
      await admin.end()
    })
  })
})

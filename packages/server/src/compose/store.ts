/**
 * Opens the store that the configuration asks for: the embedded Postgres, or the one of DATABASE_URL; waits
 * for it, with words; brings the schema up to date where that is allowed, and refuses one that does not fit.
 */
import { systemClock } from '../adapters/system/clock.ts'
import { systemRandom } from '../adapters/system/ids.ts'
import { connectionShares } from '../config/connection-shares.ts'
import type { Config } from '../config/schema.ts'
import type { Database } from '../postgres/database.ts'
import { openDatabase } from '../postgres/database.ts'
import { startEmbeddedPostgres } from '../postgres/embedded/embedded-postgres.ts'
import { checkSchema, migrate, schemaMismatch } from '../postgres/migrate.ts'
import type { ConnectionOptions } from '../postgres/pool.ts'
import { describeTarget } from '../postgres/pool.ts'
import { waitForDatabase } from '../postgres/wait-for-database.ts'

/** How long a server waits for its database at start before it gives up with an error. */
const databaseDeadlineMs = 10 * 60_000

/** Says something to whoever watches the start. */
export type StartLog = (level: 'info' | 'warn' | 'error', message: string) => void

export interface Store {
  /** A few connections for what must not wait behind requests and runs: leases, elections, checks. */
  readonly db: Database
  /** Further connections, apart from the others; `close` closes them too. */
  readonly open: (name: 'api' | 'engine', maxConnections: number) => Database
  readonly connection: ConnectionOptions
  /** Where the data is, for people; never with a password. */
  readonly description: string
  /** Called when the embedded Postgres ended unasked and is being started again. */
  readonly onRestart: (listener: (reason: string) => void) => void
  readonly close: () => Promise<void>
}

export interface StoreOptions {
  readonly config: Config
  readonly log: StartLog
  readonly signal?: AbortSignal
}

/**
 * Throws BelfryError `invalid_config`, `database_unavailable`, `schema_mismatch`, `in_use` or
 * `shutting_down`; nothing stays open then.
 */
export async function openStore(options: StoreOptions): Promise<Store> {
  return options.config.databaseUrl === undefined ? openEmbedded(options) : openRemote(options)
}

async function openEmbedded(options: StoreOptions): Promise<Store> {
  const { config, log } = options
  const embedded = await startEmbeddedPostgres({ dataDir: config.dataDir, log, port: config.embeddedPort })
  try {
    await migrate(embedded.adminConnection, { log, runtimeLogin: embedded.connection.user })
    const pools = await openChecked(options, embedded.connection)
    return {
      db: pools.db,
      open: pools.open,
      connection: embedded.connection,
      description: `embedded Postgres, data in ${config.dataDir}`,
      onRestart: (listener) => {
        embedded.onExit((exit) => {
          if (!exit.expected) listener(String(exit.signal ?? exit.code))
        })
      },
      close: () => pools.close().finally(embedded.stop),
    }
  } catch (error) {
    await embedded.stop()
    throw error
  }
}

async function openRemote(options: StoreOptions): Promise<Store> {
  const connection = { connectionString: options.config.databaseUrl }
  if (options.config.migrateAtStart) await migrateWhenReachable(options, connection)
  const pools = await openChecked(options, connection)
  return { ...pools, connection, description: describeTarget(connection), onRestart: () => {} }
}

async function migrateWhenReachable(options: StoreOptions, connection: ConnectionOptions): Promise<void> {
  const db = open(options.config, connection, 'migrate', 1)
  try {
    await waitFor(options, connection, db)
  } finally {
    await db.close()
  }
  await migrate(connection, { log: options.log })
}

/**
 * Applies the migrations to DATABASE_URL, or to the embedded Postgres; answers the names of those that were
 * missing.
 */
export async function migrateStore(options: StoreOptions): Promise<readonly string[]> {
  const { config, log } = options
  if (config.databaseUrl !== undefined) return migrate({ connectionString: config.databaseUrl }, { log })
  const embedded = await startEmbeddedPostgres({ dataDir: config.dataDir, log })
  try {
    return await migrate(embedded.adminConnection, { log, runtimeLogin: embedded.connection.user })
  } finally {
    await embedded.stop()
  }
}

type Pools = Pick<Store, 'db' | 'open' | 'close'>

async function openChecked(options: StoreOptions, connection: ConnectionOptions): Promise<Pools> {
  const { config } = options
  const db = open(config, connection, 'leases', connectionShares(config).leases)
  const all = [db]
  const close = async () => void (await Promise.all(all.map((each) => each.close())))
  try {
    await waitFor(options, connection, db)
    const mismatch = schemaMismatch(await checkSchema(db))
    if (mismatch !== undefined) throw mismatch
  } catch (error) {
    await close()
    throw error
  }
  return {
    db,
    open: (name, maxConnections) => {
      const further = open(config, connection, name, maxConnections)
      all.push(further)
      return further
    },
    close,
  }
}

/** `name` is what people see in pg_stat_activity. */
function open(config: Config, connection: ConnectionOptions, name: string, size: number): Database {
  return openDatabase({
    connection,
    clock: systemClock,
    random: systemRandom,
    maxConnections: size,
    applicationName: `belfry-${name}`,
    preparedStatements: config.databasePreparedStatements,
  })
}

async function waitFor(options: StoreOptions, connection: ConnectionOptions, db: Database): Promise<void> {
  await waitForDatabase({
    db,
    connection,
    clock: systemClock,
    random: systemRandom,
    deadlineMs: databaseDeadlineMs,
    signal: options.signal,
    onAttempt: ({ message }) => options.log('warn', message),
  })
}

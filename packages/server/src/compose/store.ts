/**
 * Opens the store that the configuration asks for: the embedded Postgres, or the one of DATABASE_URL; waits
 * for it, with words; brings the schema up to date where that is allowed, and refuses one that does not fit.
 */
import { BelfryError } from '@belfry/contract'
import { systemClock } from '../adapters/system/clock.ts'
import { systemRandom } from '../adapters/system/ids.ts'
import { connectionShares } from '../config/connection-shares.ts'
import type { Config } from '../config/schema.ts'
import type { Database } from '../postgres/database.ts'
import { openDatabase } from '../postgres/database.ts'
import type { EmbeddedPostgres } from '../postgres/embedded/embedded-postgres.ts'
import { startEmbeddedPostgres } from '../postgres/embedded/embedded-postgres.ts'
import { readInstallationId } from '../postgres/health.ts'
import { checkSchema, migrate, schemaMismatch } from '../postgres/migrate.ts'
import type { ConnectionOptions } from '../postgres/hosts.ts'
import { describeTarget } from '../postgres/hosts.ts'
import type { SettableNow } from '../postgres/settable-now.ts'
import { openSettableNow } from '../postgres/settable-now.ts'
import { waitForDatabase } from '../postgres/wait-for-database.ts'

/** How long a server waits for its database at start before it gives up with an error. */
const databaseDeadlineMs = 10 * 60_000

/** Says something to whoever watches the start. */
export type StartLog = (level: 'info' | 'warn' | 'error', message: string) => void

type MoveListener = (move: { readonly host: string; readonly connections: string }) => void

export interface Store {
  /** A few connections for what must not wait behind requests and runs: leases, elections, checks. */
  readonly db: Database
  /** Further connections, apart from the others; `close` closes them too. */
  readonly open: (name: 'api' | 'engine', maxConnections: number) => Database
  /** Tells this installation from others, beside Postgres. */
  readonly installation: string
  readonly connection: ConnectionOptions
  /** Where the data is, for people; never with a password. */
  readonly description: string
  /** Called when the embedded Postgres ended unasked and is being started again. */
  readonly onRestart: (listener: (reason: string) => void) => void
  /** Called when connections of a kind begin to go to another host of `databaseUrl`. */
  readonly onMoved: (listener: MoveListener) => void
  /** Where the time was made settable. */
  readonly now?: SettableNow | undefined
  readonly close: () => Promise<void>
}

export interface StoreOptions {
  readonly config: Config
  readonly log: StartLog
  readonly signal?: AbortSignal
  /**
   * Epoch ms: makes the time of the database settable, from there on. Only of a database that this start
   * makes: it can never be real again.
   */
  readonly settableFromMs?: number | undefined
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
    const now = await settableNow(options, embedded)
    const pools = await openChecked(options, embedded.connection)
    return {
      db: pools.db,
      open: pools.open,
      onMoved: pools.onMoved,
      installation: pools.installation,
      connection: embedded.connection,
      description: `embedded Postgres, data in ${config.dataDir}`,
      onRestart: (listener) => {
        embedded.onExit((exit) => {
          if (!exit.expected) listener(String(exit.signal ?? exit.code))
        })
      },
      now,
      close: async () => {
        try {
          await pools.close()
          await now?.close()
        } finally {
          await embedded.stop()
        }
      },
    }
  } catch (error) {
    await embedded.stop()
    throw error
  }
}

async function settableNow(
  { settableFromMs }: StoreOptions,
  { created, adminConnection }: EmbeddedPostgres,
): Promise<SettableNow | undefined> {
  if (settableFromMs === undefined) return undefined
  if (created) return openSettableNow(adminConnection, settableFromMs)
  const message =
    'The time of a database that was there before is not made settable; use a new data directory.'
  throw new BelfryError('invalid_config', message)
}

async function openRemote(options: StoreOptions): Promise<Store> {
  if (options.settableFromMs !== undefined) {
    const message =
      'The time of a database that others may use is not made settable; leave "databaseUrl" out.'
    throw new BelfryError('invalid_config', message)
  }
  const connection = { connectionString: options.config.databaseUrl }
  if (options.config.migrateAtStart) await migrateWhenReachable(options, connection)
  const pools = await openChecked(options, connection)
  return { ...pools, connection, description: describeTarget(connection), onRestart: () => {} }
}

async function migrateWhenReachable(
  options: StoreOptions,
  connection: ConnectionOptions,
): Promise<readonly string[]> {
  const db = open(options.config, connection, 'migrate', 1)
  try {
    await waitFor(options, connection, db)
  } finally {
    await db.close()
  }
  return migrate(connection, { log: options.log })
}

/**
 * Applies the migrations to DATABASE_URL, or to the embedded Postgres; answers the names of those that were
 * missing.
 */
export async function migrateStore(options: StoreOptions): Promise<readonly string[]> {
  const { config, log } = options
  const connection = { connectionString: config.databaseUrl }
  if (config.databaseUrl !== undefined) return migrateWhenReachable(options, connection)
  const embedded = await startEmbeddedPostgres({ dataDir: config.dataDir, log })
  try {
    return await migrate(embedded.adminConnection, { log, runtimeLogin: embedded.connection.user })
  } finally {
    await embedded.stop()
  }
}

type Pools = Pick<Store, 'db' | 'open' | 'onMoved' | 'installation' | 'close'>

async function openChecked(options: StoreOptions, connection: ConnectionOptions): Promise<Pools> {
  const { config } = options
  const listeners: MoveListener[] = []
  const openOne = (name: string, size: number): Database =>
    open(config, connection, name, size, (host) => {
      for (const listener of listeners) listener({ host, connections: name })
    })
  const db = openOne('leases', connectionShares(config).leases)
  const all = [db]
  let installation: string
  const close = async () => void (await Promise.all(all.map((each) => each.close())))
  try {
    await waitFor(options, connection, db)
    const mismatch = schemaMismatch(await checkSchema(db))
    if (mismatch !== undefined) throw mismatch
    installation = await readInstallationId(db)
  } catch (error) {
    await close()
    throw error
  }
  return {
    db,
    installation,
    open: (name, maxConnections) => {
      const further = openOne(name, maxConnections)
      all.push(further)
      return further
    },
    onMoved: (listener) => void listeners.push(listener),
    close,
  }
}

/** `name` is what people see in pg_stat_activity. */
function open(
  config: Config,
  connection: ConnectionOptions,
  name: string,
  size: number,
  onMoved?: (host: string) => void,
): Database {
  return openDatabase({
    connection,
    clock: systemClock,
    random: systemRandom,
    maxConnections: size,
    applicationName: `belfry-${name}`,
    preparedStatements: config.databasePreparedStatements,
    onMoved,
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

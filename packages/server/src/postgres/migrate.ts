/**
 * Brings the schema up to date: forward only, each file once, in order, whoever else tries at the same time.
 *
 *   1 a transaction on a connection of its own takes the advisory lock and keeps it (no session lock, so
 *     PgBouncer in transaction mode does no harm; a migrator that dies frees it)
 *   2 the ledger `belfry.migration` is read and compared with the files: a changed or unknown entry ends it
 *   3 each new file: one transaction in which the ledger row comes first, so that even two migrators without
 *     a common lock could not both apply it
 *
 * A file with the header `-- transaction: none` (for CREATE INDEX CONCURRENTLY) runs outside, statement by
 * statement, separated by lines `-- next`; it must be safe to run again, because its ledger row comes last.
 */
import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { BelfryError } from '@belfry/contract'
import pg from 'pg'
import type { Database } from './database.ts'
import type { ConnectionOptions } from './hosts.ts'
import { connectToOne, cut, hostsOf } from './hosts.ts'
import type { LedgerRow, RoleBeyondRow } from './statements/migrate.ts'
import * as sql from './statements/migrate.ts'

export type Migration = {
  readonly id: number
  /** Name of the file without `.sql`, for example `0001_roles_and_clock`. */
  readonly name: string
  readonly checksum: string
  readonly text: string
  readonly inTransaction: boolean
}

export type MigrateOptions = {
  readonly log: (level: 'info' | 'warn', message: string) => void
  /** The login of the running servers: it is made a member of Belfry's roles. Default: only who migrates. */
  readonly runtimeLogin?: string | undefined
  /** Default: the migrations of this version. */
  readonly directory?: string | undefined
  /** How long to wait for another migrator, or for a table that others use. Default 10 minutes. */
  readonly lockTimeoutMs?: number | undefined
}

/**
 * `behind`: files not applied yet; `ahead`: entries of a newer Belfry; `changed`: applied from another text;
 * `barred`: the schema fits, but the login may not become the roles that it is for.
 */
export type SchemaState =
  | 'current'
  | { readonly behind: readonly string[] }
  | { readonly ahead: readonly string[] }
  | { readonly changed: string }
  | { readonly barred: string; readonly from: readonly string[]; readonly selective: boolean }

const lockPollMs = 100
const usualLockTimeoutMs = 600_000
const longestPauseMs = 5_000
const ownDirectory = fileURLToPath(new URL('./migrations/', import.meta.url))

/**
 * Applies what is missing and returns the names of what it applied. `connection` must own the database.
 * Throws BelfryError `schema_mismatch` (changed, or newer than this version) or `database_timeout` (lock),
 * or the SQL error.
 */
export async function migrate(
  connection: ConnectionOptions,
  options: MigrateOptions,
): Promise<readonly string[]> {
  const files = readMigrations(options.directory ?? ownDirectory)
  const guard = await connect(connection)
  const worker = await connect(connection).catch(async (error: unknown) => {
    cut(guard)
    throw error
  })
  try {
    await holdMigratorLock(guard, options)
    await worker.query(sql.createLedger)
    const { rows } = await worker.query<LedgerRow>(sql.readLedger.text)
    const missing = missingOf(files, rows)
    for (const file of missing) {
      options.log('info', `Applying migration ${file.name}.`)
      await applyBetween(worker, file, options)
    }
    await admit(worker, options.runtimeLogin)
    return missing.map((file) => file.name)
  } finally {
    // Nothing is under way, or the server does not answer: neither needs a goodbye.
    for (const client of [worker, guard]) cut(client)
  }
}

/**
 * Compares the database with the files of this version. Works as the runtime login, also on an empty
 * database.
 */
export function checkSchema(db: Database, directory: string = ownDirectory): Promise<SchemaState> {
  return readState(db, readMigrations(directory))
}

/**
 * For readiness, again and again: throws what `schemaMismatch` says, and the errors of a Database. A newer
 * schema is none of them while a server runs: migrations add first, so that it may go on.
 */
export function createSchemaCheck(db: Database): () => Promise<void> {
  const files = readMigrations(ownDirectory)
  return async () => {
    const state = await readState(db, files)
    if (state !== 'current' && !('ahead' in state)) throw mismatchError(state)
  }
}

async function readState(db: Database, files: readonly Migration[]): Promise<SchemaState> {
  const [ledger] = await db.asLogin(sql.findLedger, [])
  const rows = ledger?.found === true ? await db.asLogin(sql.readLedger, []) : []
  const state = compareSchema(files, rows)
  if (state !== 'current') return state
  const beyond = await db.asLogin(sql.listRolesBeyond, [])
  const [first] = beyond
  if (first === undefined) return state
  return { barred: first.login, from: beyond.map((row) => row.role), selective: first.selective }
}

/**
 * Pure part of `checkSchema`. A changed entry is worse than a newer one, which is worse than a missing one.
 */
export function compareSchema(files: readonly Migration[], ledger: readonly LedgerRow[]): SchemaState {
  const known = new Map(files.map((file) => [file.id, file]))
  const changed = ledger.find((row) => {
    const file = known.get(row.id)
    return file !== undefined && (file.checksum !== row.checksum || file.name !== row.name)
  })
  if (changed !== undefined) return { changed: changed.name }
  const ahead = ledger.filter((row) => !known.has(row.id)).map((row) => row.name)
  if (ahead.length > 0) return { ahead }
  const applied = new Set(ledger.map((row) => row.id))
  const behind = files.filter((file) => !applied.has(file.id)).map((file) => file.name)
  return behind.length > 0 ? { behind } : 'current'
}

/** The error for a schema that does not fit; undefined when it does. */
export function schemaMismatch(state: SchemaState): BelfryError | undefined {
  return state === 'current' ? undefined : mismatchError(state)
}

function mismatchError(state: Exclude<SchemaState, 'current'>): BelfryError {
  if ('changed' in state) {
    const message =
      `Migration ${state.changed} was applied to this database from another text than this version brings. ` +
      'Applied migrations never change: install the version that applied it, or restore the file.'
    return new BelfryError('schema_mismatch', message)
  }
  if ('ahead' in state) {
    const message =
      `The database schema is newer than this Belfry (it has ${state.ahead.join(', ')}). ` +
      'Upgrade Belfry to the version that migrated it, or a later one.'
    return new BelfryError('schema_mismatch', message)
  }
  if ('barred' in state) {
    const roles = state.from.join(', ')
    const grant = sql.grantRoles(roles, pg.escapeIdentifier(state.barred), state.selective)
    const message =
      `The login "${state.barred}" of DATABASE_URL may not become ${roles}, as which Belfry works. ` +
      `As the login that migrated run: ${grant}`
    return new BelfryError('invalid_config', message)
  }
  const lacks = state.behind.join(', ')
  const message = `The database schema is older than this Belfry (lacks ${lacks}). Run: belfry server migrate`
  return new BelfryError('schema_mismatch', message)
}

/**
 * The migrations of a directory, in order. Throws when names do not fit `NNNN_name.sql` or numbers have a
 * gap.
 */
export function readMigrations(directory: string): readonly Migration[] {
  const names = readdirSync(directory)
    .filter((name) => name.endsWith('.sql'))
    .sort()
  return names.map((name, index) => {
    const id = Number(/^(\d{4})_[a-z0-9_]+\.sql$/.exec(name)?.[1])
    if (id !== index + 1) {
      throw new Error(
        `${name} in ${directory} is not migration number ${index + 1}; files are NNNN_name.sql without gaps`,
      )
    }
    const text = readFileSync(`${directory}/${name}`, 'utf8').replaceAll('\r\n', '\n')
    const checksum = createHash('sha256').update(text).digest('hex')
    const inTransaction = !/^-- transaction: none$/m.test(text.split('\n\n')[0] ?? '')
    return { id, name: name.slice(0, -'.sql'.length), checksum, text, inTransaction }
  })
}

function missingOf(files: readonly Migration[], ledger: readonly LedgerRow[]): readonly Migration[] {
  const state = compareSchema(files, ledger)
  if (state === 'current') return []
  if (!('behind' in state)) throw mismatchError(state)
  const behind = new Set(state.behind)
  return files.filter((file) => behind.has(file.name))
}

/**
 * Applies a file between the queries of others. While it queued for a table that a long query reads, all that
 * comes after it would queue behind it: so it waits for a lock two seconds at a time, gives way, and tries
 * again.
 */
async function applyBetween(client: pg.Client, file: Migration, options: MigrateOptions): Promise<void> {
  const deadline = performance.now() + (options.lockTimeoutMs ?? usualLockTimeoutMs)
  for (let attempt = 1; ; attempt += 1) {
    try {
      await apply(client, file)
      return
    } catch (error) {
      const { cause } = error as { cause?: unknown }
      // what waits for it, or each for the other
      const busy = cause instanceof pg.DatabaseError && ['55P03', '40P01'].includes(cause.code ?? '')
      if (!busy || !file.inTransaction || performance.now() > deadline) throw error
      if (attempt === 1)
        options.log('info', `A table that ${file.name} changes is in use by a long query; waiting for it.`)
      await sleep(Math.min(longestPauseMs, 250 * 2 ** Math.min(attempt, 10)))
    }
  }
}

async function apply(client: pg.Client, file: Migration): Promise<void> {
  const ledgerRow = [file.id, file.name, file.checksum]
  try {
    if (!file.inTransaction) {
      for (const part of file.text.split(/^-- next$/m)) await client.query(part)
      await client.query(sql.insertLedgerRow, ledgerRow)
      return
    }
    await client.query(sql.begin)
    await client.query(sql.boundLockWaits)
    await client.query(sql.insertLedgerRow, ledgerRow)
    await client.query(file.text)
    await client.query(sql.commit)
  } catch (error) {
    if (file.inTransaction) await client.query(sql.rollback).catch(() => undefined)
    const reason = error instanceof Error ? error.message : String(error)
    const extent = file.inTransaction
      ? 'nothing of it was applied'
      : 'it may be applied in part, and is safe to repeat'
    throw new Error(`Migration ${file.name} failed (${extent}): ${reason}`, { cause: error })
  }
}

/** Lets who migrates become the roles that it made, and the runtime login become all of them. */
async function admit(client: pg.Client, login: string | undefined): Promise<void> {
  const own = await client.query<RoleBeyondRow>(sql.rolesToTake)
  const runtime =
    login === undefined ? undefined : await client.query<RoleBeyondRow>(sql.rolesWithoutMember, [login])
  for (const grant of [...own.rows, ...(runtime?.rows ?? [])]) {
    const [role, member] = [pg.escapeIdentifier(grant.role), pg.escapeIdentifier(grant.login)]
    await client.query(sql.grantRoles(role, member, grant.selective))
  }
}

async function holdMigratorLock(guard: pg.Client, options: MigrateOptions): Promise<void> {
  const deadline = performance.now() + (options.lockTimeoutMs ?? usualLockTimeoutMs)
  await guard.query(sql.begin)
  await guard.query(sql.letLockHolderIdle)
  for (let attempt = 0; ; attempt += 1) {
    const { rows } = await guard.query<{ locked: boolean }>(sql.tryMigratorLock)
    if (rows[0]?.locked === true) return
    if (attempt === 0) options.log('info', 'Another process migrates this database; waiting for it.')
    if (performance.now() > deadline) {
      const message =
        'Another process holds the lock of the migrations for too long. Look for a hanging "server migrate".'
      throw new BelfryError('database_timeout', message)
    }
    await sleep(lockPollMs)
  }
}

/**
 * A lost connection makes the query under way fail, and has a listener, else it would end the process too.
 */
async function connect(connection: ConnectionOptions): Promise<pg.Client> {
  const settings = {
    application_name: 'belfry-migrate',
    connectionTimeoutMillis: 10_000,
    keepAlive: true,
    keepAliveInitialDelayMillis: 10_000,
  }
  return (await connectToOne(hostsOf(connection), settings)).client
}

/**
 * The one pool of connections of a process: driver options, types of values, jittered reconnects.
 * database.ts builds transactions on it; nothing else touches the driver at run time.
 * Invariant: connections run in the driver's pipeline mode, so queries issued together travel together.
 */
import pg from 'pg'
import type { Clock } from '../ports/clock.ts'
import { classifyDatabaseError } from './database-error.ts'

/** `connectionString`, or host, port, user, database, password and ssl. */
export type ConnectionOptions = Pick<
  pg.ClientConfig,
  'connectionString' | 'host' | 'port' | 'user' | 'database' | 'password' | 'ssl'
>

export type PoolOptions = {
  readonly connection: ConnectionOptions
  readonly clock: Clock
  readonly maxConnections: number
  readonly applicationName: string
  /** Limit for making a connection, and for waiting for a free one. */
  readonly connectTimeoutMs: number
}

export type PoolStats = {
  readonly open: number
  readonly idle: number
  /** Callers that wait for a connection. */
  readonly waiting: number
  readonly max: number
}

export type Pool = {
  /**
   * Takes a connection. After failures it waits a random moment first, so that a restarted server is not
   * stormed.
   */
  readonly acquire: () => Promise<pg.PoolClient>
  readonly stats: () => PoolStats
  /** Waits for connections that are in use, but no longer than 15 s. */
  readonly close: () => Promise<void>
}

const firstReconnectMs = 50
const maxReconnectMs = 2_000
const idleCloseMs = 60_000
const closeWithinMs = 15_000

export function openPool(options: PoolOptions): Pool {
  const pool = new pg.Pool({
    ...options.connection,
    application_name: options.applicationName,
    max: options.maxConnections,
    connectionTimeoutMillis: options.connectTimeoutMs,
    idleTimeoutMillis: idleCloseMs,
    keepAlive: true,
    keepAliveInitialDelayMillis: 10_000,
    pipeline: true,
    types: valueTypes,
  })
  // An idle connection that breaks is dropped by the pool; the next caller gets a new one.
  pool.on('error', () => undefined)
  let failures = 0

  const acquire = async () => {
    if (failures > 0) await options.clock.sleep(Math.random() * reconnectLimitMs(failures))
    try {
      const client = await pool.connect()
      failures = 0
      return client
    } catch (error) {
      if (classifyDatabaseError(error) === 'database_unavailable') failures += 1
      throw error
    }
  }
  const stats = () => ({
    open: pool.totalCount,
    idle: pool.idleCount,
    waiting: pool.waitingCount,
    max: options.maxConnections,
  })
  let closing: Promise<void> | undefined
  const close = () => {
    const bound = new AbortController()
    closing ??= Promise.race([pool.end(), options.clock.sleep(closeWithinMs, bound.signal)])
    return closing.finally(() => bound.abort())
  }
  return { acquire, stats, close }
}

function reconnectLimitMs(failures: number): number {
  return Math.min(maxReconnectMs, firstReconnectMs * 2 ** Math.min(failures, 10))
}

/** Where a connection leads, for people: never with the password. */
export function describeTarget(connection: ConnectionOptions): string {
  const { host, port, database, user } = new pg.Client(connection)
  const place = host.startsWith('/') ? host : `${host}:${port}`
  return `Postgres at ${place}, database "${database ?? user ?? ''}"`
}

const { builtins } = pg.types
const int8Array = 1016

const ownParsers: Readonly<Record<number, (text: string) => unknown>> = {
  [builtins.INT8]: parseInt8,
  [int8Array]: parseInt8Array,
  [builtins.DATE]: (text) => text,
}

/**
 * `bigint` becomes a number and fails when it is not exact (epochs, counters and sizes stay far below
 * 2^53); `date` stays text, because a JavaScript Date would shift it by the local zone. `timestamptz` is a
 * Date (milliseconds).
 */
const valueTypes: pg.CustomTypesConfig = {
  getTypeParser: ((oid: number, format?: 'text' | 'binary'): unknown => {
    if (format !== 'binary' && oid in ownParsers) return ownParsers[oid]
    return pg.types.getTypeParser(oid, format)
  }) as typeof pg.types.getTypeParser,
}

export function parseInt8(text: string): number {
  const value = Number(text)
  if (Number.isSafeInteger(value)) return value
  throw new RangeError(`The bigint ${text} does not fit a JavaScript number exactly.`)
}

/** One dimension, as in `{1,2,NULL}`. */
function parseInt8Array(text: string): (number | null)[] {
  if (text === '{}') return []
  return text
    .slice(1, -1)
    .split(',')
    .map((each) => (each === 'NULL' ? null : parseInt8(each)))
}

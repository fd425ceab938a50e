/**
 * A pool of connections: driver options, types of values, jittered reconnects. database.ts builds
 * transactions on it; nothing else touches the driver at run time. A process has a few of them, so that what
 * must not wait does not (config/connection-shares.ts). Invariant: connections run in the driver's pipeline
 * mode, so queries issued together travel together.
 */
import pg from 'pg'
import type { Clock } from '../ports/clock.ts'
import type { Random } from '../ports/random.ts'
import { classifyDatabaseError } from './database-error.ts'

/** `connectionString`, or host, port, user, database, password and ssl. */
export type ConnectionOptions = Pick<
  pg.ClientConfig,
  'connectionString' | 'host' | 'port' | 'user' | 'database' | 'password' | 'ssl'
>

export type PoolOptions = {
  readonly connection: ConnectionOptions
  readonly clock: Clock
  readonly random: Random
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
   * Takes a connection. Where a new one has to be made after failures, it waits a random moment first, so
   * that a restarted server is not stormed.
   */
  readonly acquire: () => Promise<pg.PoolClient>
  readonly stats: () => PoolStats
  /**
   * Waits for connections that are in use, but no longer than 15 s, and for each to say goodbye, but no
   * longer than 1 s: a server that is frozen or out of reach answers neither, and must not keep the process.
   */
  readonly close: () => Promise<void>
}

const firstReconnectMs = 50
const maxReconnectMs = 2_000
const idleCloseMs = 60_000
const closeWithinMs = 15_000
const goodbyeWithinMs = 1_000

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
  const open = new Set<pg.PoolClient>()
  let emptied = (): void => undefined
  let failures = 0
  pool.on('connect', (client) => {
    // The pool takes its listener off before its caller is told, and a connection may break in between, even
    // in the packet that lets it in: without any listener that would end the process. The next query fails.
    client.on('error', () => undefined)
    failures = 0
    open.add(client)
  })
  pool.on('remove', (client) => {
    open.delete(client)
    if (open.size === 0) emptied()
  })

  const acquire = async () => {
    if (failures > 0 && pool.idleCount === 0) {
      await options.clock.sleep(options.random.next() * reconnectLimitMs(failures))
    }
    try {
      return await pool.connect()
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
  const closeAll = async () => {
    await within(options.clock, closeWithinMs, pool.end())
    const gone = new Promise<void>((resolve) => {
      emptied = resolve
      if (open.size === 0) resolve()
    })
    await within(options.clock, goodbyeWithinMs, gone)
    for (const client of open) cut(client)
  }
  let closing: Promise<void> | undefined
  const close = () => {
    closing ??= closeAll()
    return closing
  }
  return { acquire, stats, close }
}

/** Ends a connection that is outside of any pool: says goodbye, and after a second just hangs up. */
export async function endClient(client: pg.Client, clock: Clock): Promise<void> {
  await within(
    clock,
    goodbyeWithinMs,
    client.end().catch(() => undefined),
  )
  cut(client)
}

/** Hangs up; harmless where it has ended. */
export function cut(client: pg.ClientBase): void {
  const { stream } = (client as unknown as { connection: { stream: { destroy: () => void } } }).connection
  stream.destroy()
}

async function within(clock: Clock, limitMs: number, work: Promise<unknown>): Promise<void> {
  const done = new AbortController()
  await Promise.race([work, clock.sleep(limitMs, done.signal)]).finally(() => done.abort())
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

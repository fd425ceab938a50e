/**
 * The door to Postgres: short transactions under a narrow role, for one tenant, with limits on time.
 * Everything that Belfry stores at run time passes here.
 *
 *   db.run          scope and statement in one message group, which is a transaction: one round trip
 *   db.transaction  BEGIN and scope travel with the first statement; COMMIT (or ROLLBACK) is the last trip
 *
 * Invariants: role, tenant and timeouts are local to the transaction (safe behind PgBouncer). In a message
 * group nothing follows a scope that failed; if BEGIN failed, what follows would run as the login role, which
 * should have no rights of its own: the embedded one has none, and of another the start says so in words
 * (login-rights.ts). A connection that broke is never used again. An error while COMMIT is on its way leaves
 * open whether it happened: callers must be safe to repeat.
 */
import type pg from 'pg'
import type { Clock } from '../ports/clock.ts'
import type { Random } from '../ports/random.ts'
import { breaksConnection, classifyDatabaseError, toDatabaseError } from './database-error.ts'
import type { ConnectionOptions } from './hosts.ts'
import type { PoolStats } from './pool.ts'
import { openPool } from './pool.ts'
import { knowsScope, queryWithin } from './scoped-query.ts'
import type { Statement } from './statement.ts'
import {
  begin,
  beginReadOnly,
  commit,
  enterScope,
  enterScopeByHash,
  enterScopeByHashToRead,
  enterScopeByIndex,
  enterScopeByIndexToRead,
  enterScopeToRead,
  joinByHash,
  ping,
  rollback,
  walkIndexes,
} from './statements/transaction.ts'

/**
 * `belfry_app` acts for one tenant, `belfry_engine` runs the loops across tenants, `belfry_platform`
 * manages tenants.
 */
export type DatabaseRole = 'belfry_app' | 'belfry_engine' | 'belfry_platform'

export type Scope = {
  readonly role: DatabaseRole
  readonly tenantId?: string | undefined
  /** Limit for each statement. Default: `defaultTimeoutMs` of the database. */
  readonly timeoutMs?: number | undefined
  readonly readOnly?: boolean | undefined
}

export type Transaction = {
  readonly query: <Row, Params extends readonly unknown[]>(
    statement: Statement<Row, Params>,
    params: Params,
  ) => Promise<Row[]>
  /**
   * Has a statement sent in one packet with the COMMIT: for what nothing in the transaction waits for. It is
   * awaited with the COMMIT; if it fails, so does the transaction.
   */
  readonly atEnd: <Row, Params extends readonly unknown[]>(
    statement: Statement<Row, Params>,
    params: Params,
  ) => void
}

export type DatabaseOptions = {
  readonly connection: ConnectionOptions
  readonly clock: Clock
  readonly random: Random
  /** Default 10. */
  readonly maxConnections?: number | undefined
  /** Default `belfry`. */
  readonly applicationName?: string | undefined
  /** False for PgBouncer before 1.21 in transaction mode. Default true. */
  readonly preparedStatements?: boolean | undefined
  /** Default 10,000. */
  readonly defaultTimeoutMs?: number | undefined
  /** Default 5,000. */
  readonly connectTimeoutMs?: number | undefined
  /** Of several hosts: called with `host:port` when connections begin to go to another one than before. */
  readonly onMoved?: ((place: string) => void) | undefined
}

/**
 * Every method throws BelfryError `database_*`, `serialization_conflict` or `shutting_down`, or the
 * driver's error.
 */
export type Database = {
  readonly run: <Row, Params extends readonly unknown[]>(
    scope: Scope,
    statement: Statement<Row, Params>,
    params: Params,
  ) => Promise<Row[]>
  /**
   * Commits when `work` resolves, rolls back when it throws. `work` must await every query that it starts.
   */
  readonly transaction: <Result>(scope: Scope, work: (tx: Transaction) => Promise<Result>) => Promise<Result>
  /** One statement as the login role, which owns nothing: for the migration ledger and for health checks. */
  readonly asLogin: <Row, Params extends readonly unknown[]>(
    statement: Statement<Row, Params>,
    params: Params,
    timeoutMs?: number,
  ) => Promise<Row[]>
  readonly ping: (timeoutMs?: number) => Promise<void>
  readonly stats: () => PoolStats
  /** How often a connection was lost: each time a standby may have taken over that lacks the last commits. */
  readonly doubts: () => number
  /** Waits for what is under way, at most 15 s, and closes all connections. */
  readonly close: () => Promise<void>
}

const clientMarginMs = 2_000
const idleTimeoutMs = '30000'
const pingTimeoutMs = 2_000

export function openDatabase(options: DatabaseOptions): Database {
  const defaultTimeoutMs = options.defaultTimeoutMs ?? 10_000
  const prepared = options.preparedStatements ?? true
  const pool = openPool({
    connection: options.connection,
    clock: options.clock,
    random: options.random,
    maxConnections: options.maxConnections ?? 10,
    applicationName: options.applicationName ?? 'belfry',
    connectTimeoutMs: options.connectTimeoutMs ?? 5_000,
    onMoved: options.onMoved,
  })

  const withClient = async <Result>(work: (client: pg.PoolClient) => Promise<Result>): Promise<Result> => {
    let client: pg.PoolClient | undefined
    let fault: Error | undefined
    // One that broke while it was out is not given back for others.
    const onError = (error: Error) => {
      fault = error
    }
    try {
      client = await pool.acquire()
      client.on('error', onError)
      return await work(client)
    } catch (error) {
      // a server that was made a standby does not become the primary again by waiting
      const other = pool.chooses && classifyDatabaseError(error) === 'database_read_only'
      if ((other || breaksConnection(error)) && error instanceof Error) fault = error
      throw toDatabaseError(error)
    } finally {
      client?.off('error', onError)
      if (client !== undefined) pool.release(client, fault)
    }
  }

  return {
    run: (scope, statement, params) =>
      withClient((client) => {
        const timeoutMs = scope.timeoutMs ?? defaultTimeoutMs
        return runStatement(client, { scope, timeoutMs, prepared }, statement, params)
      }),
    transaction: (scope, work) =>
      withClient((client) =>
        runTransaction(openWire(client, scope.timeoutMs ?? defaultTimeoutMs, prepared), scope, work),
      ),
    asLogin: (statement, params, timeoutMs) =>
      withClient(async (client) => {
        const wire = openWire(client, timeoutMs ?? defaultTimeoutMs, prepared)
        return (await wire.send(statement, params)).rows
      }),
    ping: (timeoutMs) =>
      withClient(async (client) => {
        await openWire(client, timeoutMs ?? pingTimeoutMs, false).send(ping, [])
      }),
    stats: pool.stats,
    doubts: pool.losses,
    close: pool.close,
  }
}

interface Running {
  readonly scope: Scope
  readonly timeoutMs: number
  readonly prepared: boolean
}

async function runStatement<Row, Params extends readonly unknown[]>(
  client: pg.PoolClient,
  { scope, timeoutMs, prepared }: Running,
  statement: Statement<Row, Params>,
  params: Params,
): Promise<Row[]> {
  const entry = entryOf(scope, statement.planner, timeoutMs)
  if (prepared && knowsScope(client, entry.statement)) {
    const { name, text } = statement
    const query = { name, text, values: [...params] }
    return (await queryWithin(client, entry, query, timeoutMs + clientMarginMs)).rows as Row[]
  }
  // the first time on a connection
  const wire = openWire(client, timeoutMs, prepared)
  const opened = wire.open(scope, statement.planner)
  const result = wire.send(statement, params)
  await settle([opened, result, wire.text(commit)])
  return (await result).rows
}

async function runTransaction<Result>(
  wire: Wire,
  scope: Scope,
  work: (tx: Transaction) => Promise<Result>,
): Promise<Result> {
  const opened = wire.open(scope)
  let failure: { readonly error: unknown } | undefined
  const query: Transaction['query'] = async (statement, params) => {
    try {
      // travels with the statement; if it fails, so does that
      if (statement.planner !== undefined) wire.send(hints[statement.planner], []).catch(() => undefined)
      return (await wire.send(statement, params)).rows
    } catch (error) {
      failure ??= { error }
      throw error
    }
  }
  const last: (() => Promise<unknown>)[] = []
  const atEnd: Transaction['atEnd'] = (statement, params) => void last.push(() => query(statement, params))
  try {
    const result = await work({ query, atEnd })
    await opened
    // A caught error of a statement does not make the transaction whole again: Postgres would answer COMMIT
    // by a rollback.
    if (failure !== undefined) throw failure.error
    await settle([...last.map((send) => send()), wire.text(commit)])
    return result
  } catch (error) {
    // When the scope itself was refused, that is the cause; later statements only report an aborted
    // transaction.
    const cause = await opened.then(
      () => error,
      (refused: unknown) => refused,
    )
    if (breaksConnection(cause)) throw cause
    await wire.text(rollback)
    throw cause
  }
}

type Wire = {
  readonly open: (scope: Scope, planner?: Statement['planner']) => Promise<void>
  readonly send: <Row, Params extends readonly unknown[]>(
    statement: Statement<Row, Params>,
    params: Params,
  ) => Promise<{ rows: Row[] }>
  readonly text: (text: string) => Promise<unknown>
}

const hints = { index: walkIndexes, hash: joinByHash } as const
const entries = {
  none: { toWrite: enterScope, toRead: enterScopeToRead },
  index: { toWrite: enterScopeByIndex, toRead: enterScopeByIndexToRead },
  hash: { toWrite: enterScopeByHash, toRead: enterScopeByHashToRead },
} as const

/** How a transaction is entered, and with what. */
function entryOf({ role, tenantId, readOnly }: Scope, planner: Statement['planner'], timeoutMs: number) {
  const { toWrite, toRead } = entries[planner ?? 'none']
  const values = [role, tenantId ?? '', String(timeoutMs), idleTimeoutMs] as const
  return { statement: readOnly === true ? toRead : toWrite, values: [...values] as [...typeof values] }
}

type TimedQuery = pg.QueryConfig<unknown[]> & { readonly query_timeout: number }

/** Sends on one connection with a limit on each answer; what is sent in one tick leaves in one packet. */
function openWire(client: pg.PoolClient, timeoutMs: number, prepared: boolean): Wire {
  const limit = { query_timeout: timeoutMs + clientMarginMs }
  const send: Wire['send'] = (statement, params) => {
    holdPacket(client)
    const named = prepared ? { name: statement.name } : {}
    const query: TimedQuery = { ...named, ...limit, text: statement.text, values: [...params] }
    return client.query(query) as Promise<never>
  }
  const text: Wire['text'] = (sql) => {
    holdPacket(client)
    const query: TimedQuery = { ...limit, text: sql }
    return client.query(query)
  }
  const open: Wire['open'] = (scope, planner) => {
    const begun = text(scope.readOnly === true ? beginReadOnly : begin)
    const entry = entryOf(scope, planner, timeoutMs)
    const opened = settle([begun, send(entry.statement, entry.values)])
    // It is awaited by whoever opened it, but maybe only after a later statement has failed.
    opened.catch(() => undefined)
    return opened
  }
  return { open, send, text }
}

/**
 * Waits for all and throws the first failure in the order of sending, which is the cause of the later ones.
 */
async function settle(sent: readonly Promise<unknown>[]): Promise<void> {
  const outcomes = await Promise.allSettled(sent)
  const failed = outcomes.find((outcome) => outcome.status === 'rejected')
  if (failed !== undefined) throw failed.reason
}

type Corkable = { readonly cork: () => void; readonly uncork: () => void; readonly writableCorked: number }

function holdPacket(client: pg.PoolClient): void {
  const { stream } = (client as unknown as { connection: { stream: Corkable } }).connection
  if (stream.writableCorked > 0) return
  stream.cork()
  process.nextTick(() => stream.uncork())
}

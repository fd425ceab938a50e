/**
 * A transaction of one statement in one message group: the scope, the statement, Sync. Up to the Sync
 * Postgres holds all of it together in a transaction that it ends by itself, so BEGIN and COMMIT need not be
 * sent, read and answered, and an idle server wakes once (docs/decisions/0017-enqueue.md).
 *
 * The driver sends one statement a query. This one sends two: it needs a connection that has prepared the
 * scope before, because what the server says of a statement that it prepares is taken for the query's own.
 */
import pg from 'pg'
import type { Statement } from './statement.ts'

/** What the driver has besides what its types say. */
interface DriverConnection {
  readonly parsedStatements: Readonly<Record<string, unknown>>
  bind(config: { readonly statement: string; readonly values: readonly unknown[] }): void
  execute(config: { readonly portal: string }): void
}
interface DriverQuery {
  prepare(connection: DriverConnection): void
  handleCommandComplete(message: unknown, connection: DriverConnection): void
}
type Answered = (error: Error | null | undefined, result: pg.QueryResult) => void
const DriverQuery = pg.Query as unknown as new (config: pg.QueryConfig, answered: Answered) => DriverQuery

interface Entry {
  readonly statement: Statement
  readonly values: readonly string[]
}

class ScopedQuery extends DriverQuery {
  readonly query_timeout: number
  readonly #entry: Entry
  #isInside = false

  constructor(config: pg.QueryConfig, timeoutMs: number, entry: Entry, answered: Answered) {
    super(config, answered)
    this.query_timeout = timeoutMs
    this.#entry = entry
  }

  override prepare(connection: DriverConnection): void {
    const { statement, values } = this.#entry
    connection.bind({ statement: statement.name, values })
    connection.execute({ portal: '' })
    super.prepare(connection)
  }

  override handleCommandComplete(message: unknown, connection: DriverConnection): void {
    if (this.#isInside) super.handleCommandComplete(message, connection)
    this.#isInside = true
  }
}

const connectionOf = (client: pg.ClientBase): DriverConnection =>
  (client as unknown as { connection: DriverConnection }).connection

/** Whether this connection has prepared the scope. */
export function knowsScope(client: pg.ClientBase, scope: Statement): boolean {
  return connectionOf(client).parsedStatements[scope.name] !== undefined
}

/** On a connection that knows the scope, which answers no rows. Rejects as the driver does. */
export function queryWithin(
  client: pg.ClientBase,
  entry: Entry,
  config: pg.QueryConfig,
  timeoutMs: number,
): Promise<pg.QueryResult> {
  return new Promise((resolve, reject) => {
    const answered: Answered = (error, result) => (error ? reject(error) : resolve(result))
    client.query(new ScopedQuery(config, timeoutMs, entry, answered) as unknown as pg.Submittable)
  })
}

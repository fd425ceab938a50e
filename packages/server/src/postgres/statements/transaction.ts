/**
 * The frame of every transaction (postgres/database.ts). All settings are local to the transaction, so
 * nothing leaks to the next user of a connection, also behind PgBouncer in transaction mode.
 */
import { statement } from '../statement.ts'

export const begin = 'BEGIN'
export const beginReadOnly = 'BEGIN READ ONLY'
export const commit = 'COMMIT'
export const rollback = 'ROLLBACK'

type Entry = [role: string, tenantId: string, statementTimeoutMs: string, idleTimeoutMs: string]

/** Sets for this transaction, and answers nothing: rows would have to be read. */
const setting = (settings: Readonly<Record<string, string>>): string =>
  `SELECT WHERE ${Object.entries(settings)
    .map(([name, value]) => `set_config('${name}', ${value}, true) IS NULL`)
    .join('\n   OR ')}`

const scope = {
  role: '$1',
  'belfry.tenant_id': '$2',
  statement_timeout: '$3',
  idle_in_transaction_session_timeout: '$4',
  jit: "'off'",
}
const indexesOnly = {
  enable_seqscan: "'off'",
  enable_bitmapscan: "'off'",
  enable_sort: "'off'",
  plan_cache_mode: "'force_generic_plan'",
}
const readOnly = { transaction_read_only: "'on'" }
const noLoops = { enable_nestloop: "'off'" }

/**
 * Who acts, for which tenant, and for how long a statement may take and the transaction may stand idle. An
 * empty tenant means none; policies read it as `nullif(current_setting('belfry.tenant_id', true), '')`.
 */
export const enterScope = statement<unknown, Entry>('belfry_enter_scope', setting(scope))

/** The same to read only, for a transaction without BEGIN READ ONLY. */
export const enterScopeToRead = statement<unknown, Entry>(
  'belfry_enter_scope_to_read',
  setting({ ...scope, ...readOnly }),
)

/**
 * The same for statements that are made for their indexes (`planner: 'index'`). A plan that was cached while
 * `ready` was nearly empty would read the whole table, and go on doing so when a million runs arrive
 * (measured: 11 s to complete 500); so the planner is told to walk indexes, in their order. Only where a
 * statement asks for it: moving rows between partitions, say, is better off with a plan of its own.
 *
 * And one plan for all calls: else a claim is planned anew each time, because the planner thinks better of a
 * limit that it knows (measured: 2 ms a claim, a third of what 500 runs take).
 */
export const enterScopeByIndex = statement<unknown, Entry>(
  'belfry_enter_scope_by_index',
  setting({ ...scope, ...indexesOnly }),
)

/** The same to read only. */
export const enterScopeByIndexToRead = statement<unknown, Entry>(
  'belfry_enter_scope_by_index_to_read',
  setting({ ...scope, ...indexesOnly, ...readOnly }),
)

/**
 * The same for statements that join lists which they were given (`planner: 'hash'`): the planner takes a list
 * for a handful of rows, and would go through one list for each element of the other.
 */
export const enterScopeByHash = statement<unknown, Entry>(
  'belfry_enter_scope_by_hash',
  setting({ ...scope, ...indexesOnly, ...noLoops }),
)

/** The same to read only. */
export const enterScopeByHashToRead = statement<unknown, Entry>(
  'belfry_enter_scope_by_hash_to_read',
  setting({ ...scope, ...indexesOnly, ...noLoops, ...readOnly }),
)

/** For the rest of a transaction that began with `enterScope` and comes to such a statement. */
export const walkIndexes = statement<unknown>(
  'belfry_walk_indexes',
  setting({ ...indexesOnly, enable_nestloop: "'on'" }),
)

/** Likewise, for a statement that joins lists. */
export const joinByHash = statement<unknown>('belfry_join_by_hash', setting({ ...indexesOnly, ...noLoops }))

/** Whether the server answers. */
export const ping = statement<{ readonly ok: number }>('belfry_ping', 'SELECT 1 AS ok')

/** Whether writes are refused: a standby, or a database that was made read-only. */
export const readReadOnly = statement<{ readonly read_only: boolean }>(
  'belfry_read_read_only',
  "SELECT pg_is_in_recovery() OR current_setting('default_transaction_read_only')::boolean AS read_only",
)

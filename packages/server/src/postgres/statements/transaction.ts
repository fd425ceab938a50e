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

const scope = `
SELECT set_config('role', $1, true),
       set_config('belfry.tenant_id', $2, true),
       set_config('statement_timeout', $3, true),
       set_config('idle_in_transaction_session_timeout', $4, true),
       set_config('jit', 'off', true)`

const indexesOnly = `set_config('enable_seqscan', 'off', true),
       set_config('enable_bitmapscan', 'off', true),
       set_config('enable_sort', 'off', true)`

/**
 * Who acts, for which tenant, and for how long a statement may take and the transaction may stand idle. An
 * empty tenant means none; policies read it as `nullif(current_setting('belfry.tenant_id', true), '')`.
 */
export const enterScope = statement<unknown, Entry>('belfry_enter_scope', scope)

/**
 * The same for statements that are made for their indexes (`planner: 'index'`). A plan that was cached while
 * `ready` was nearly empty would read the whole table, and go on doing so when a million runs arrive
 * (measured: 11 s to complete 500); so the planner is told to walk indexes, in their order. Only where a
 * statement asks for it: moving rows between partitions, say, is better off with a plan of its own.
 */
export const enterScopeByIndex = statement<unknown, Entry>(
  'belfry_enter_scope_by_index',
  `${scope},
       ${indexesOnly}`,
)

/** For the rest of a transaction that began with `enterScope` and comes to such a statement. */
export const walkIndexes = statement<unknown>('belfry_walk_indexes', `SELECT ${indexesOnly}`)

/** Whether the server answers. */
export const ping = statement<{ readonly ok: number }>('belfry_ping', 'SELECT 1 AS ok')

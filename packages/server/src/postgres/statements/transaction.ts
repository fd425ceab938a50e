/**
 * The frame of every transaction (postgres/database.ts). All settings are local to the transaction, so
 * nothing leaks to the next user of a connection, also behind PgBouncer in transaction mode.
 */
import { statement } from '../statement.ts'

export const begin = 'BEGIN'
export const beginReadOnly = 'BEGIN READ ONLY'
export const commit = 'COMMIT'
export const rollback = 'ROLLBACK'

/**
 * Who acts, for which tenant, and for how long a statement may take and the transaction may stand idle. An
 * empty tenant means none; policies read it as `nullif(current_setting('belfry.tenant_id', true), '')`.
 *
 * The engine's statements are made for their indexes. A plan that was cached while `ready` was nearly empty
 * would read the whole table, and go on doing so when a million runs arrive (measured: 11 s to complete 500);
 * so for the engine the planner is told to walk indexes, in their order.
 */
export const enterScope = statement<
  unknown,
  [role: string, tenantId: string, statementTimeoutMs: string, idleTimeoutMs: string]
>(
  'belfry_enter_scope',
  `
SELECT set_config('role', $1, true),
       set_config('belfry.tenant_id', $2, true),
       set_config('statement_timeout', $3, true),
       set_config('idle_in_transaction_session_timeout', $4, true),
       set_config('jit', 'off', true),
       set_config('enable_seqscan', CASE $1 WHEN 'belfry_engine' THEN 'off' ELSE 'on' END, true),
       set_config('enable_bitmapscan', CASE $1 WHEN 'belfry_engine' THEN 'off' ELSE 'on' END, true),
       set_config('enable_sort', CASE $1 WHEN 'belfry_engine' THEN 'off' ELSE 'on' END, true)`,
)

/** Whether the server answers. */
export const ping = statement<{ readonly ok: number }>('belfry_ping', 'SELECT 1 AS ok')

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
       set_config('idle_in_transaction_session_timeout', $4, true)`,
)

/** Whether the server answers. */
export const ping = statement<{ readonly ok: number }>('belfry_ping', 'SELECT 1 AS ok')

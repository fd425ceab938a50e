/**
 * Enqueueing on a connection that is not ours, inside a transaction that somebody else began and will end
 * (postgres/enqueue-inside.ts): for that while it takes the role and the tenant that a request would have,
 * and gives back what it found.
 */
import { statement } from '../statement.ts'

/** What the caller's transaction has now. */
export const readCaller = statement<{ readonly role: string; readonly tenant: string | null }>(
  'enqueue_read_caller',
  `SELECT current_setting('role') AS role, current_setting('belfry.tenant_id', true) AS tenant`,
)

/** Local to the transaction. The role `none` is that of the login. */
export const takeScope = statement<unknown, [role: string, tenantId: string]>(
  'enqueue_take_scope',
  `SELECT set_config('role', $1, true), set_config('belfry.tenant_id', $2, true)`,
)

/**
 * For readiness: whether the database takes writes. A server on a read-only database still answers reads, but
 * it can fire, claim and complete nothing, so it is not ready.
 */
import { BelfryError } from '@belfry/contract'
import type { Database } from './database.ts'
import { readReadOnly } from './statements/transaction.ts'

/** Throws `database_read_only`, and the errors of a Database. */
export async function checkWritable(db: Database): Promise<void> {
  const [row] = await db.asLogin(readReadOnly, [])
  if (row?.read_only !== true) return
  throw new BelfryError(
    'database_read_only',
    'the database is read-only (a standby, or made so); writes are refused',
  )
}

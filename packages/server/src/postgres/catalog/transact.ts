/**
 * The transactions of the catalog: on the primary, or on a replica where the answer may be a little old and
 * the replica shows all that its reader knows. What a replica fails to answer the primary is asked. A dry run
 * does everything and then throws its own result out of the transaction, which rolls it back.
 */
import { BelfryError } from '@belfry/contract'
import pg from 'pg'
import type { Access } from '../../ports/catalog.ts'
import type { Database, DatabaseRole, Transaction } from '../database.ts'
import type { ReadReplica } from '../read-replica.ts'

export type Transact = <T>(
  role: DatabaseRole,
  access: Access,
  work: (tx: Transaction) => Promise<T>,
) => Promise<T>

export function createTransact(options: {
  readonly db: Database
  readonly timeoutMs?: number
  readonly replica?: ReadReplica | undefined
}): Transact {
  const { replica } = options

  const on =
    (db: Database): Transact =>
    (role, access, work) => {
      const scope = {
        role,
        tenantId: access.tenantId,
        readOnly: access.readOnly,
        timeoutMs: options.timeoutMs,
      }
      if (!access.dryRun) return db.transaction(scope, work)
      return takingBack((rollBack) =>
        db.transaction(scope, async ({ query }) => {
          // what would go out with the COMMIT is tried as well
          const last: Promise<unknown>[] = []
          const result = await work({
            query,
            atEnd: (statement, params) => void last.push(query(statement, params)),
          })
          await Promise.all(last)
          return rollBack(result)
        }),
      )
    }

  const onPrimary = on(options.db)
  if (replica === undefined) return onPrimary
  return async (role, access, work) => {
    const { readerId, mayLag } = access
    if (readerId === undefined) return onPrimary(role, access, work)
    const taken = mayLag === undefined ? undefined : replica.take(readerId)
    if (taken !== undefined) {
      try {
        const answer = await on(taken.db)(role, access, work)
        mayLag?.(taken.lagMs)
        return answer
      } catch (error) {
        if (!isOfDatabase(error)) throw error
        replica.failed(error)
      }
    }
    try {
      return await onPrimary(role, access, work)
    } finally {
      // a commit that failed may have happened all the same; and a list must not be older than the one before
      if (!access.readOnly || mayLag !== undefined) replica.saw(readerId)
    }
  }
}

/** Whether the store did not answer as it should; what it answers may be an error of the caller's. */
function isOfDatabase(error: unknown): boolean {
  if (error instanceof BelfryError) return /^(database_|serialization_)/.test(error.code)
  return error instanceof pg.DatabaseError
}

/** Gives `work` a way to end its transaction by a throw and still answer. */
async function takingBack<T>(work: (rollBack: (result: T) => never) => Promise<T>): Promise<T> {
  let kept: { readonly result: T } | undefined
  const signal = new Error('The dry run ends here.')
  try {
    return await work((result) => {
      kept = { result }
      throw signal
    })
  } catch (error) {
    if (error === signal && kept !== undefined) return kept.result
    throw error
  }
}

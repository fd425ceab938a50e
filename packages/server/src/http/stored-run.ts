/**
 * A run as it is shown in full, with the newest of its attempts; for every endpoint that answers one. The
 * list of all attempts goes its own way.
 */
import { maxShownAttempts } from '@belfry/contract'
import type { CatalogTx, RunRecord } from '../ports/catalog.ts'
import { noSuchRun } from './missing.ts'

/** Throws `not_found`. */
export async function storedRun(tx: CatalogTx, id: string): Promise<RunRecord> {
  const run = await tx.runs.find(id, { before: null, limit: maxShownAttempts })
  if (run === undefined) throw await noSuchRun(tx, 'run', id)
  return run
}

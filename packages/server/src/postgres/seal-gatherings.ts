/**
 * Ends the taking of inputs of runs that are due. Two statements: only the second one's snapshot, taken when
 * the runs are locked, sees every input that was added. Whoever comes later finds them sealed and begins the
 * next run. Left half-way, they are sealed runs that wait to be released.
 */
import type { Database } from './database.ts'
import { lockDueGatherings, sealGatherings } from './statements/gatherings.ts'

/** Answers those that were sealed: due still, and not canceled or sealed by another node meanwhile. */
export function sealDueGatherings(db: Database, runIds: readonly string[]): Promise<ReadonlySet<string>> {
  return db.transaction({ role: 'belfry_engine' }, async (tx) => {
    const due = await tx.query(lockDueGatherings, [runIds])
    if (due.length === 0) return new Set<string>()
    const sealed = await tx.query(sealGatherings, [due.map(({ run_id }) => run_id)])
    return new Set(sealed.map(({ run_id }) => run_id))
  })
}

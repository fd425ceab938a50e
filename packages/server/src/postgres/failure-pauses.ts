/**
 * Ends of runs, together with the pause of schedules whose last runs all failed. The order of the statements,
 * and why nobody waits in a circle, stands with them (statements/failure-pauses.ts).
 */
import type { AttemptEnd, PausedSchedule } from '../ports/run-store.ts'
import type { Transaction } from './database.ts'
import { lockFailing, pauseFailing } from './statements/failure-pauses.ts'

/** Does `write`, which ends these attempts in `tx`, and answers with it which schedules that paused. */
export async function pausingAfterFailures<Result>(
  tx: Transaction,
  ends: readonly AttemptEnd[],
  write: () => Promise<Result>,
): Promise<{ result: Result; paused: readonly PausedSchedule[] }> {
  const failedRunIds = ends.filter(({ runState }) => runState === 'failed').map(({ runId }) => runId)
  const limited = failedRunIds.length === 0 ? [] : await tx.query(lockFailing, [failedRunIds])
  const result = await write()
  if (limited.length === 0) return { result, paused: [] }
  const rows = await tx.query(pauseFailing, [limited.map((row) => row.schedule_id)])
  const paused = rows.map(({ id, tenant_id, failures }) => ({
    scheduleId: id,
    tenantId: tenant_id,
    failures,
  }))
  return { result, paused }
}

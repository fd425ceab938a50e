/**
 * Ends of runs, together with the pause of schedules whose last runs all failed. The order of the statements,
 * and why nobody waits in a circle, stands with them (statements/failure-pauses.ts).
 */
import type { AttemptEnd, PausedSchedule } from '../ports/run-store.ts'
import type { Database, Transaction } from './database.ts'
import type { PausedRow } from './statements/failure-pauses.ts'
import {
  findFailed,
  findFailedWorkflows,
  findFailing,
  lockTimersOf,
  pauseFailing,
} from './statements/failure-pauses.ts'

const engine = { role: 'belfry_engine', readOnly: true } as const

type Ends = Pick<AttemptEnd, 'runId' | 'runState'>
type FailedRuns = [runIds: readonly string[], firstId: string, lastId: string]

function failedRuns(ends: readonly Ends[]): FailedRuns | undefined {
  const ids = ends.flatMap(({ runState, runId }) => (runState === 'failed' ? [runId] : [])).sort()
  const [first] = ids
  return first === undefined ? undefined : [ids, first, ids.at(-1) ?? first]
}

/** Whether any of these ends may pause the schedule that started the run. */
export async function mayPause(db: Database, ends: readonly AttemptEnd[]): Promise<boolean> {
  const failed = failedRuns(ends)
  return failed !== undefined && (await db.run(engine, findFailing, failed)).length > 0
}

/** Does `write`, which ends these attempts in `tx`, and answers with it which schedules that paused. */
export async function pausingAfterFailures<Result>(
  tx: Transaction,
  ends: readonly Ends[],
  write: () => Promise<Result>,
): Promise<{ result: Result; paused: readonly PausedSchedule[] }> {
  const failed = failedRuns(ends)
  const limited = failed === undefined ? [] : await tx.query(findFailing, failed)
  const timers = limited.length === 0 ? [] : await tx.query(lockTimersOf, [limited.map(({ id }) => id)])
  const result = await write()
  const scheduleIds = timers.map((row) => row.schedule_id)
  return { result, paused: await pause(tx, findFailed, scheduleIds) }
}

/** Pauses those of these schedules of workflows whose last runs all failed, after the ends are committed. */
export function pauseFailingWorkflowSchedules(
  db: Database,
  scheduleIds: readonly string[],
): Promise<readonly PausedSchedule[]> {
  return db.transaction({ role: 'belfry_engine' }, async (tx) => {
    await tx.query(lockTimersOf, [scheduleIds])
    return pause(tx, findFailedWorkflows, scheduleIds)
  })
}

async function pause(
  tx: Transaction,
  find: typeof findFailed,
  scheduleIds: readonly string[],
): Promise<readonly PausedSchedule[]> {
  if (scheduleIds.length === 0) return []
  const failed = await tx.query(find, [scheduleIds])
  if (failed.length === 0) return []
  const rows = await tx.query(pauseFailing, [
    failed.map(({ id }) => id),
    failed.map(({ failures }) => failures),
  ])
  return rows.map(pausedSchedule)
}

const pausedSchedule = ({ id, tenant_id: tenantId, failures }: PausedRow): PausedSchedule => ({
  scheduleId: id,
  tenantId,
  failures,
})

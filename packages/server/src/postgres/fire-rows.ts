/**
 * Between the engine's decisions and the arrays of a fire statement, and back. Used by the scheduler's fire
 * and by the one within a request.
 */
import type { FireResult, TimerFire } from '../ports/firing.ts'
import type { FireColumns, FireRow } from './statements/fire.ts'

/** Timers are locked in the order of their ids, the same in every process. */
const inOrder = (fires: readonly TimerFire[]): TimerFire[] =>
  fires.toSorted((a, b) => (a.scheduleId < b.scheduleId ? -1 : 1))

/** Of schedules that run workflows: where the data interval of each occurrence begins, in their order. */
export const intervalColumn = (fires: readonly TimerFire[]): (number | null)[] =>
  inOrder(fires).flatMap(({ occurrences }) =>
    occurrences.map(({ intervalStartMs }) => intervalStartMs ?? null),
  )

export function toFireColumns(unordered: readonly TimerFire[]): FireColumns {
  const fires = inOrder(unordered)
  const occurrences = fires.flatMap(({ scheduleId, occurrences }) =>
    occurrences.map((occurrence) => ({ scheduleId, ...occurrence })),
  )
  return [
    fires.map(({ scheduleId }) => scheduleId),
    fires.map(({ gen }) => gen),
    fires.map(({ version }) => version),
    fires.map(({ expectedDueAtMs }) => expectedDueAtMs),
    fires.map(({ occurrences }) => Math.max(...occurrences.map(({ dueAtMs }) => dueAtMs))),
    fires.map(({ next }) => next?.scheduledForMs ?? null),
    fires.map(({ next }) => next?.dueAtMs ?? null),
    occurrences.map(({ scheduleId }) => scheduleId),
    occurrences.map(({ scheduledForMs }) => scheduledForMs),
    occurrences.map(({ dueAtMs }) => dueAtMs),
    occurrences.map(({ outcome }) => outcome),
    occurrences.map(({ reason }) => reason),
    occurrences.map(({ detail }) => detail),
    occurrences.map(({ missedCount }) => missedCount),
    occurrences.map(({ runId }) => runId),
    occurrences.map(({ tag }) => tag),
  ]
}

export function toFireResult(row: FireRow | undefined): FireResult {
  if (row === undefined) throw new Error('The fire statement answered no row.')
  return {
    fired: row.fired.map(([scheduleId, scheduledForMs, outcome, runId, queue, dueAtMs, waits, ...why]) => {
      const [reason, missedCount] = why
      return { scheduleId, scheduledForMs, outcome, runId, queue, dueAtMs, waits, reason, missedCount }
    }),
    displaced: row.displaced.map(
      ([runId, tenantId, jobId, queue, attempt, sessionId, startedAtMs, ended]) => {
        return { runId, tenantId, jobId, queue, attempt, sessionId, startedAtMs, ended }
      },
    ),
    toldDependents: row.told_dependents === true,
    movedScheduleIds: row.moved,
    endedScheduleIds: row.ended,
    changedScheduleIds: row.changed,
    heldShards: row.held,
    nowMs: row.now_ms,
  }
}

/**
 * Tells the backfillers that a backfill of a schedule may go on: it was made or resumed, or a run of it
 * ended. Those that hold the shard of the schedule listen.
 */
import { shardOf } from '../domain/shard.ts'
import type { Hint, Hints } from '../ports/hints.ts'
import type { AppliedEnd } from '../ports/run-store.ts'

export const backfillHint = (scheduleId: string): Hint => ({
  topic: 'backfills',
  key: String(shardOf(scheduleId)),
})

/** Tells of those of these runs that have ended, and that backfills made: the next may start. */
export function hintEnded(
  hints: Pick<Hints, 'publish'>,
  runs: Iterable<{ readonly runId: string; readonly backfillOf: string | null }>,
  states: ReadonlyMap<string, AppliedEnd['runState']>,
): void {
  const scheduleIds = new Set<string>()
  for (const { runId, backfillOf } of runs) {
    const hasEnded = (states.get(runId) ?? null) !== null
    if (hasEnded && backfillOf !== null) scheduleIds.add(backfillOf)
  }
  for (const scheduleId of scheduleIds) hints.publish(backfillHint(scheduleId))
}

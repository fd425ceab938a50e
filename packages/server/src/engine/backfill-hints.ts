/**
 * Tells the backfillers that a backfill of a schedule may go on: it was made or resumed, or a run of it
 * ended. Those that hold the shard of the schedule listen.
 */
import { shardOf } from '../domain/shard.ts'
import type { Hint } from '../ports/hints.ts'

export const backfillHint = (scheduleId: string): Hint => ({
  topic: 'backfills',
  key: String(shardOf(scheduleId)),
})

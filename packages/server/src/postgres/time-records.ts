/**
 * What is on record of planned times, from rows to the port's shape: the catalog reads it for previews, the
 * backfiller within its steps.
 */
import type { RunState } from '@belfry/contract'
import type { TimeRecord } from '../ports/backfills.ts'
import type { TimeRecordRow } from './statements/backfills.ts'

export function timeRecord(row: TimeRecordRow): TimeRecord {
  return {
    scheduledForMs: row.scheduled_ms,
    recorded: row.recorded,
    runId: row.run_id,
    alive: row.alive,
    endedAs: row.ended_as as RunState | null,
  }
}

/**
 * Rows of limits as records: pools, and pauses of jobs and queues. Shared by the stores of the catalog; rates
 * were checked when they came.
 */
import type { Rate } from '@belfry/contract'
import type { PauseRecord, PoolRecord } from '../../ports/limits.ts'
import type { PoolRow } from '../statements/gate-changes.ts'
import { msOf } from './values.ts'

export function pauseRecord(at: Date | null, reason: string | null): PauseRecord | null {
  return at === null ? null : { sinceMs: msOf(at), reason: reason ?? '' }
}

export function poolRecord(row: PoolRow): PoolRecord {
  return {
    id: row.id,
    name: row.name,
    slots: row.slots,
    rate: row.rate as Rate | null,
    host: row.host,
    version: row.version,
    used: row.used,
    waiting: row.waiting,
    createdAtMs: msOf(row.created_at),
    updatedAtMs: msOf(row.updated_at),
  }
}

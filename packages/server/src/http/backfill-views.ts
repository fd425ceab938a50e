/**
 * Backfills as the contract describes them: instants in RFC 3339, absent things null. Lists leave out the
 * input.
 */
import type { Backfill, BackfillPreview, BackfillSummary } from '@belfry/contract'
import type { BackfillRecord } from '../ports/backfills.ts'

const iso = (instantMs: number): string => new Date(instantMs).toISOString()
const isoOrNull = (instantMs: number | null): string | null => (instantMs === null ? null : iso(instantMs))

export function backfillView(record: BackfillRecord, preview: BackfillPreview | null = null): Backfill {
  return { ...backfillSummaryView(record), input: record.input ?? null, preview }
}

export function backfillSummaryView(record: BackfillRecord): BackfillSummary {
  return {
    id: record.id,
    scheduleId: record.scheduleId,
    schedule: record.scheduleName,
    from: iso(record.fromMs),
    to: iso(record.toMs),
    order: record.order,
    concurrency: record.concurrency,
    reprocess: record.reprocess,
    state: record.state,
    reason: record.reason,
    total: record.total,
    started: record.started,
    skipped: record.skipped,
    alive: record.alive,
    succeeded: record.succeeded,
    failed: record.failed,
    canceled: record.canceled,
    nextAt: isoOrNull(record.nextAtMs),
    createdAt: iso(record.createdAtMs),
    startedAt: isoOrNull(record.startedAtMs),
    endedAt: isoOrNull(record.endedAtMs),
  }
}

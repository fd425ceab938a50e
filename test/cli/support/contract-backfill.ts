// A backfill as the test server of the contract answers it: made, and not begun.
import type { Backfill } from '@belfry/contract'

export const newBackfill = (
  parts: Pick<Backfill, 'id' | 'scheduleId' | 'schedule'> & Partial<Backfill>,
): Backfill => ({
  from: '2026-11-28T12:00:00.000Z',
  to: '2026-11-29T12:00:00.000Z',
  order: 'oldest_first',
  concurrency: 4,
  reprocess: 'none',
  input: null,
  state: 'pending',
  reason: null,
  total: 24,
  started: 0,
  skipped: 0,
  alive: 0,
  succeeded: 0,
  failed: 0,
  canceled: 0,
  nextAt: '2026-11-28T12:00:00.000Z',
  preview: null,
  createdAt: '2026-11-29T12:00:00.000Z',
  startedAt: null,
  endedAt: null,
  ...parts,
})

/** Of a dry run of it: five have run, one of them failed. */
export const somePreview: NonNullable<Backfill['preview']> = {
  exact: true,
  looked: 24,
  wouldRun: 19,
  excluded: 0,
  leftToSchedule: 0,
  without: 19,
  alive: 0,
  succeeded: 4,
  failed: 1,
  canceled: 0,
  unknown: 0,
  first: ['2026-11-28T12:00:00.000Z', '2026-11-28T13:00:00.000Z'],
  last: ['2026-11-29T11:00:00.000Z'],
  notes: [],
}

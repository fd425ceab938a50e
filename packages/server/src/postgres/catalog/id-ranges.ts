/**
 * Ranges of ids for lists of one tenant: ids are UUIDv7, so the time at which something was made bounds where
 * it stands in the index that a list walks.
 */
import type { PageRequest } from '../../ports/paging.ts'
import { isoOrNull, lastId } from './values.ts'

export interface CreatedRange {
  readonly createdAfterMs: number | null
  readonly createdBeforeMs: number | null
}

/** Ids carry the time of their making; how far it may lie from `created_at`, which another clock wrote. */
export const idMarginMs = 3_600_000

/** The least id that was made at this instant. */
export const idFloor = (ms: number): string => {
  const hex = Math.min(Math.max(0, Math.floor(ms)), 2 ** 48 - 1)
    .toString(16)
    .padStart(12, '0')
  return `${hex.slice(0, 8)}-${hex.slice(8)}-0000-0000-000000000000`
}

/** The first columns of a walk (statements/runs.ts): lowest and highest id, and the two times. */
export function createdBetween(
  { beforeId }: PageRequest,
  { createdAfterMs, createdBeforeMs }: CreatedRange,
): readonly [string, string, string, string] {
  const low = createdAfterMs === null ? idFloor(0) : idFloor(createdAfterMs - idMarginMs)
  const before = createdBeforeMs === null ? lastId : idFloor(createdBeforeMs + idMarginMs)
  const cursor = beforeId ?? lastId
  const high = cursor < before ? cursor : before
  return [low, high, isoOrNull(createdAfterMs) ?? '-infinity', isoOrNull(createdBeforeMs) ?? 'infinity']
}

/**
 * Makes a backfill of a schedule within a transaction of the catalog: reads the range, counts its planned
 * times by arithmetic, refuses what is out of bounds. The backfiller does the rest (engine/backfiller.ts).
 */
import type { BackfillOrder, BackfillReprocess, JsonValue } from '@belfry/contract'
import { BelfryError, maxBackfillTimes, maxOpenBackfills } from '@belfry/contract'
import { firstOfRange } from '../../domain/backfill.ts'
import type { CompiledSchedule } from '../../domain/schedule/schedule-spec.ts'
import type { BackfillStore, NewBackfill } from '../../ports/backfills.ts'
import type { Ids } from '../../ports/ids.ts'
import type { ScheduleRecord } from '../../ports/schedule-store.ts'
import { pastGraceMs } from './run-maker.ts'

export interface WantedBackfill {
  readonly fromMs: number
  /** Null: until now, a planned time at this very instant included. */
  readonly toMs: number | null
  readonly order: BackfillOrder
  readonly concurrency: number
  readonly reprocess: BackfillReprocess
  /** Undefined: the input of the schedule. */
  readonly input: JsonValue | undefined
}

/** What is not said otherwise. */
export const backfillDefaults = {
  order: 'oldest_first',
  concurrency: 4,
  reprocess: 'none',
  input: undefined,
} as const

/** The fields of the request that the bounds come from, for faults. */
export interface BoundPointers {
  readonly from: string
  readonly to: string
}

export interface BackfillParts {
  readonly backfills: Pick<BackfillStore, 'insert' | 'countOpen'>
  readonly ids: Ids
  /** Database time. */
  readonly nowMs: number
  /** The timing of the schedule, compiled with its calendars. */
  readonly times: CompiledSchedule
}

/**
 * Stores a backfill of the schedule and answers it. After the commit the hint of `backfillHint` should go
 * out. Throws `invalid_request` for a range that is empty, lies ahead or holds too many planned times, and
 * `invalid_state` where too many backfills are open.
 */
export async function startBackfill(
  { backfills, ids, nowMs, times }: BackfillParts,
  schedule: ScheduleRecord,
  wanted: WantedBackfill,
  pointers: BoundPointers = { from: '/from', to: '/to' },
): Promise<NewBackfill> {
  const { fromMs, toMs } = readRange(wanted, nowMs, pointers)
  const { spec, zone, startAtMs, endAtMs } = schedule
  const backfill: NewBackfill = {
    id: ids.uuidv7(nowMs),
    scheduleId: schedule.id,
    fromMs,
    toMs,
    order: wanted.order,
    concurrency: wanted.concurrency,
    reprocess: wanted.reprocess,
    input: wanted.input,
    timing: { spec, zone, startAtMs, endAtMs },
    total: countTimes(times, fromMs, toMs, pointers),
    nextAtMs: firstOfRange(times, { order: wanted.order, fromMs, toMs }),
  }
  if ((await backfills.countOpen(maxOpenBackfills)) >= maxOpenBackfills) {
    const words = `${maxOpenBackfills} backfills are not over yet, which is the most there may be`
    throw new BelfryError('invalid_state', `${words}. Wait for one, or cancel one: GET /v1/backfills.`)
  }
  await backfills.insert(backfill)
  return backfill
}

function readRange(
  { fromMs, toMs }: WantedBackfill,
  nowMs: number,
  pointers: BoundPointers,
): { fromMs: number; toMs: number } {
  const now = new Date(nowMs).toISOString()
  if (toMs !== null && toMs > nowMs + pastGraceMs) {
    throw refused(
      pointers.to,
      `lies ahead of now (${now}); what is planned ahead runs by itself: leave it out`,
    )
  }
  const endMs = Math.min(toMs ?? Infinity, nowMs + 1)
  if (fromMs > nowMs) throw refused(pointers.from, `lies ahead of now (${now}); give a time that is over`)
  if (fromMs >= endMs) throw refused(pointers.to, 'is not after the start of the range: nothing lies between')
  return { fromMs, toMs: endMs }
}

function countTimes(times: CompiledSchedule, fromMs: number, toMs: number, pointers: BoundPointers): number {
  const { count, capped } = times.countBetween(fromMs - 1, toMs - 1)
  if (count <= maxBackfillTimes && !capped) return count
  const most = `one backfill takes ${maxBackfillTimes.toLocaleString('en-US')} at most`
  const least = capped ? 'at least ' : ''
  throw refused(pointers.from, `${least}${count} planned times lie in this range, and ${most}; shorten it`)
}

function refused(pointer: string, message: string): BelfryError {
  const words = `The range of the backfill cannot be taken: ${pointer} ${message}.`
  return new BelfryError('invalid_request', words, { errors: [{ pointer, message }] })
}

/**
 * Replans: future times that are computed again because what they were computed with has changed, the rules
 * of a zone or a calendar of a tenant.
 *
 *   asked for    by the start of a scheduler with newer zone data (`ReplanStore.recordZoneData`), or in the
 *                transaction that changes a calendar (`ReplanRequests`)
 *   worked off   by engine/replanner.ts on any scheduler node, a batch a transaction
 *
 * Never retroactive: only a planned time that lies ahead moves, and only to one that lies ahead.
 */
import type { PlannedTime } from '../domain/fire-policy.ts'
import type { Replanned } from '../domain/replan.ts'
import type { ZoneDataRecord, ZoneDataVerdict } from '../domain/zone/zone-data.ts'
import type { SchedulePlan } from './firing.ts'
import type { PageRequest } from './paging.ts'

/** What the catalog of a tenant may ask for, within its transaction. */
export interface ReplanRequests {
  /**
   * The calendar has another version: next times of the schedules that use it are to be computed again. Asked
   * for in the transaction that changes the calendar and counts up the version of those schedules; begins
   * after its commit, at once where the hint `{ topic: 'replans', key: 'asked' }` follows, else within a
   * minute.
   */
  requestForCalendar(request: CalendarReplanRequest): Promise<void>
  /** The newest release of the zone data that a scheduler came with. */
  newestZoneData(): Promise<string | null>
  /** The last one of a calendar, to show its progress. */
  lastOfCalendar(calendarId: string): Promise<ReplanRecord | undefined>
}

/** Those of zones, which are of all tenants. */
export interface ReplanList {
  /** Newest first: what has an id below `beforeId`, at most `limit`. */
  list(page: PageRequest): Promise<readonly ReplanRecord[]>
}

export interface CalendarReplanRequest {
  /** Id of the replan, a UUIDv7. */
  readonly id: string
  readonly calendarId: string
  readonly fromVersion: number
  readonly toVersion: number
  /** How many schedules use it. */
  readonly total: number
}

export type ReplanKind = 'zone' | 'calendar'

/** `superseded`: newer zone data, or a newer version of the calendar, came before it was done. */
export type ReplanState = 'pending' | 'running' | 'done' | 'superseded'

export interface ReplanRecord {
  readonly id: string
  readonly kind: ReplanKind
  /** Name of the zone, or id of the calendar. */
  readonly subject: string
  /** Null for a zone: those are of all tenants. */
  readonly tenantId: string | null
  readonly state: ReplanState
  /** Null where zone data was never on record before. For a calendar, its versions as decimals. */
  readonly fromVersion: string | null
  readonly toVersion: string
  /** About how many schedules there are to look at; null until the first batch. */
  readonly total: number | null
  /** How many were looked at. */
  readonly done: number
  /** How many of those have another next time now. */
  readonly moved: number
  /** How many cannot be evaluated by the new data; they keep the time they had. */
  readonly failed: number
  /** What is wrong with one of those. */
  readonly error: string | null
  readonly requestedAtMs: number
  readonly startedAtMs: number | null
  readonly endedAtMs: number | null
}

/** What the engine does with them. Every method throws as the Database does. */
export interface ReplanStore {
  /**
   * Puts the zone data of this process on record, in one transaction under a lock: `judge` gets what is there
   * and says how the two stand to each other.
   */
  recordZoneData(judge: (stored: readonly ZoneDataRecord[], nowMs: number) => ZoneDataVerdict): Promise<{
    readonly verdict: ZoneDataVerdict
    /** Replans of zones that changed again before they were done. */
    readonly superseded: readonly ReplanRecord[]
  }>
  /**
   * Asks for a replan of each zone with schedules whose next time was computed by rules that a newer release
   * has changed, unless one is open; answers those that are new. Reads little where there is none.
   */
  requestForZones(makeId: (nowMs: number) => string): Promise<readonly ReplanRecord[]>
  /**
   * One batch of one open replan that nobody else works on and that this zone data is new enough for, in one
   * transaction: `decide` says what becomes of each schedule. Without one, answers when to look again at the
   * latest.
   */
  batch(options: BatchOptions, decide: DecideBatch): Promise<BatchOutcome | IdleOutcome>
}

export interface BatchOptions {
  /** Release of the zone data that next times are computed with. */
  readonly dataVersion: string
  /** Schedules at most. */
  readonly limit: number
  /** What was left, because it was about to fire, is looked at again after this. */
  readonly againMs: number
}

/** A schedule that is to be looked at, its timer locked. */
export interface ReplanItem {
  readonly plan: SchedulePlan
  readonly timer: PlannedTime
  /** When it was made, edited, resumed or replanned last. */
  readonly sinceMs: number
}

export type ReplanDecision = Replanned | { readonly kind: 'failed'; readonly error: string }

export type DecideBatch = (batch: {
  readonly items: readonly ReplanItem[]
  readonly nowMs: number
  /** Which of these schedules have a planned time on record from the given one until now. */
  readonly onRecord: (asked: ReadonlyMap<string, number>) => Promise<ReadonlySet<string>>
}) => Promise<ReadonlyMap<string, ReplanDecision>>

export interface BatchOutcome {
  readonly idle: false
  /** As it is after the batch. */
  readonly replan: ReplanRecord
  /** Whether the batch was the first. */
  readonly began: boolean
  readonly looked: number
  readonly moved: readonly { readonly scheduleId: string; readonly dueAtMs: number }[]
  /** How many have no planned time left, and are completed. */
  readonly ended: number
  readonly failed: number
  readonly nowMs: number
}

export interface IdleOutcome {
  readonly idle: true
  /** In how many ms the next one may go on; null where none is open for this process. */
  readonly waitMs: number | null
}

/**
 * The firing transaction: the only place where a planned time becomes an occurrence and a run.
 *
 * 1. check that the caller still holds each shard under the term it names (locked until commit);
 * 2. move (or end) the timer where due instant and generation are still the ones that were read, and it is due;
 * 3. insert the occurrences, ON CONFLICT DO NOTHING; 4. insert runs and ready rows for those that are new.
 * All or nothing. Crash before commit: nothing happened. Crash after: everything did.
 */
import type { HeldShard } from './leadership.ts'

/** What the scheduler must know of a schedule to fire it. Instants are epoch ms. */
export interface SchedulePlan {
  readonly scheduleId: string
  readonly tenantId: string
  readonly gen: number
  /** As stored: {at} | {every, everyMs, anchorMs} | {cron, dialect}. */
  readonly spec: unknown
  readonly zone: string
  readonly startAtMs: number | null
  readonly endAtMs: number | null
  readonly jitterMs: number
  readonly catchUp: { readonly policy: 'latest' | 'all' | 'none'; readonly windowMs: number; readonly maxRuns: number }
  readonly overlap: 'skip' | 'allow'
  readonly queue: string
  readonly priority: number
  readonly tenantWeight: number
}

/** One occurrence to write. A `ran` may still become `skipped`/`overlap` inside the transaction. */
export interface PlannedOccurrence {
  readonly scheduledForMs: number
  readonly dueAtMs: number
  readonly outcome: 'ran' | 'skipped' | 'missed'
  readonly reason: 'overlap' | 'catch_up_latest' | 'catch_up_none' | 'catch_up_window' | null
  readonly missedCount: number
  /** For `ran`: the id of the run to make, and its place in the fair order. */
  readonly runId: string | null
  readonly tag: number
}

export interface TimerFire {
  readonly scheduleId: string
  readonly shard: number
  readonly gen: number
  readonly expectedDueAtMs: number
  /** Null: no planned time is left; the timer goes and the schedule is `completed`. */
  readonly next: { readonly scheduledForMs: number; readonly dueAtMs: number } | null
  readonly overlap: 'skip' | 'allow'
  readonly occurrences: readonly PlannedOccurrence[]
}

export interface FiredOccurrence {
  readonly scheduleId: string
  readonly scheduledForMs: number
  readonly outcome: 'ran' | 'skipped' | 'missed'
  readonly runId: string | null
  readonly queue: string
  readonly dueAtMs: number
}

export interface FireResult {
  readonly fired: readonly FiredOccurrence[]
  /** Ids of timers that moved; the others were refused (stale, not yet due by database time, or the term was lost). */
  readonly movedScheduleIds: readonly string[]
  readonly heldShards: readonly number[]
  readonly nowMs: number
}

export interface Firing {
  plans(scheduleIds: readonly string[]): Promise<readonly SchedulePlan[]>
  fire(nodeId: string, terms: readonly HeldShard[], fires: readonly TimerFire[]): Promise<FireResult>
  /** Moves delayed runs that are due to `ready`; guarded by existence only, so any node may do it twice. */
  release(runs: readonly { runId: string; tag: number }[]): Promise<{ releasedQueues: readonly string[]; count: number; nowMs: number }>
}

/**
 * Events that the engine's roles emit. They carry facts, not words: logs, metrics and traces subscribe to
 * them (`server/src/telemetry`), and nothing in the engine depends on who listens. Each row is documented in
 * `docs/reference/events.md`. Ids are strings; `…Ms` are milliseconds.
 */
import type { AttemptOutcome, OccurrenceOutcome, RunSource, RunState } from './states.ts'

export type EngineEvents = {
  /** One fire transaction was committed. `lateMs` per occurrence, against its due instant. */
  occurrences_fired: {
    outcomes: readonly {
      scheduleId: string
      scheduledFor: number
      outcome: OccurrenceOutcome
      lateMs: number
    }[]
    durationMs: number
  }
  /** Planned times that another node had fired, or that an edit took away; harmless. */
  fire_refused: { count: number; reason: 'term_lost' | 'timer_moved' }
  runs_enqueued: { count: number; queue: string; source: RunSource }
  /** Delayed runs (retries, `runAt`) became ready. */
  runs_released: { count: number }
  runs_claimed: { queue: string; count: number; durationMs: number; waitsMs: readonly number[] }
  attempt_started: { runId: string; tenantId: string; jobId: string; attempt: number; leaseEpoch: number }
  attempt_ended: {
    runId: string
    tenantId: string
    jobId: string
    queue: string
    attempt: number
    outcome: AttemptOutcome
    state: RunState
    durationMs: number
    errorCode: string | null
  }
  /** A completion named a lease that is no longer held; it was refused. */
  lease_lost: { runId: string; leaseEpoch: number; at: 'complete' | 'heartbeat' }
  runs_rescued: { count: number; reason: 'session_lost' | 'deadline'; requeued: number; failed: number }
  session_started: { sessionId: string; role: 'worker' | 'scheduler' }
  session_lost: { sessionId: string; role: 'worker' | 'scheduler' }
  shards_changed: { held: number; gained: readonly number[]; lost: readonly number[] }
  partitions_changed: { made: readonly string[]; dropped: readonly string[] }
  /** A loop of a role failed and will try again. */
  role_failed: { role: string; error: unknown; retryInMs: number }
  /** The local clock and the database's differ; positive: the local one is ahead. */
  clock_skew: { skewMs: number }
  database_restarted: { reason: string }
}

export type EngineEventName = keyof EngineEvents

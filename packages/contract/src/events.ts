/**
 * Events that the engine's roles emit. They carry facts, not words: logs, metrics and traces subscribe to
 * them (`server/src/telemetry`), and nothing in the engine depends on who listens. Each row is documented in
 * `docs/reference/events.md`. Ids are strings; `…Ms` are milliseconds.
 */
import type { AttemptOutcome, OccurrenceOutcome, OccurrenceReason, RunSource, RunState } from './states.ts'

export type EngineEvents = {
  /** One fire transaction was committed. `lateMs` per occurrence, against its due instant. */
  occurrences_fired: {
    outcomes: readonly {
      scheduleId: string
      scheduledFor: number
      outcome: OccurrenceOutcome
      reason: OccurrenceReason | null
      /** How many planned times the row stands for. */
      count: number
      lateMs: number
    }[]
    /** Null: it was part of a request that changed the schedule. */
    durationMs: number | null
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
  runs_rescued: {
    count: number
    reason: 'session_lost' | 'deadline' | 'cancel_ignored'
    requeued: number
    failed: number
  }
  session_started: { sessionId: string; role: 'worker' | 'scheduler' }
  session_lost: { sessionId: string; role: 'worker' | 'scheduler' }
  /** The last runs of a schedule failed, as many as it was told to take. */
  schedule_paused: { scheduleId: string; tenantId: string; failures: number }
  shards_changed: { held: number; gained: readonly number[]; lost: readonly number[] }
  /** The gate was looked at: runs that may start now, and those that a limit ended. */
  gate_passed: {
    tenantId: string
    opened: number
    skipped: number
    replaced: number
    durationMs: number
  }
  /** One step of a backfill was committed. */
  backfill_stepped: {
    backfillId: string
    scheduleId: string
    tenantId: string
    started: number
    /** Planned times that were passed over. */
    skipped: number
    /** Runs whose end was taken in. */
    ended: number
    durationMs: number
  }
  /** By itself, or because its schedule was deleted; not the cancel by a person. */
  backfill_ended: {
    backfillId: string
    scheduleId: string
    tenantId: string
    state: 'completed' | 'canceled'
  }
  /** A round of the resolver was committed. */
  workflows_moved: {
    /** Workflow runs that something had happened to. */
    moved: number
    /** How many of them ended, by their state. */
    ended: Readonly<Record<string, number>>
    /** Of each thing that had happened: from then until what follows from it was committed. */
    waitsMs: readonly number[]
    durationMs: number
  }
  /** Something had happened to workflow runs and nobody had told of it; they go on now. */
  workflow_events_found: { count: number }
  partitions_changed: { made: readonly string[]; dropped: readonly string[] }
  /**
   * A process came with zone data newer than any before it. `zones`: those whose rules differ from now on; in
   * them future times are computed again.
   */
  zone_data_changed: {
    nodeId: string
    source: 'system' | 'bundled'
    fromVersion: string | null
    toVersion: string
    zones: readonly string[]
  }
  /**
   * In `zones` this process computes times by other rules than were put on record: its data is older than
   * `newest`, or says it is of the same release and is not.
   */
  zone_data_differs: {
    nodeId: string
    source: 'system' | 'bundled'
    version: string
    newest: string
    zones: readonly string[]
  }
  /** Future times of a zone's schedules, or of those that use a calendar, are computed again from here on. */
  replan_started: ReplanFacts
  replan_advanced: ReplanFacts & { looked: number; movedNow: number; failedNow: number }
  /** `failed` schedules cannot be evaluated by the new data and keep the time they had; `error` names one. */
  replan_ended: ReplanFacts & { state: 'done' | 'superseded'; error: string | null; requestedAtMs: number }
  /** A loop of a role failed and will try again. */
  /** What dead workers had left on an engine was removed. */
  containers_removed: { count: number }
  role_failed: { role: string; error: unknown; retryInMs: number }
  /** The local clock and the database's differ; positive: the local one is ahead. */
  clock_skew: { skewMs: number }
  database_restarted: { reason: string }
  /** Of several hosts in `databaseUrl`, connections of this kind go to another one from here on. */
  database_moved: { host: string; connections: string }
  /**
   * Events of what has ended were sent on (contract/cloud-events.ts). `lagMs`: from the end of the oldest
   * until it was read.
   */
  events_sent: { count: number; lagMs: number; durationMs: number }
  /** One that Kafka does not take as it is, whoever sends it again; those behind it were sent. */
  event_skipped: { id: string; type: string; fault: string }
  /** Timers that stand in Postgres and that the index beside it did not know. */
  timers_missed: { count: number }
  /** It is there, and said that it is asked too much; what was asked is tried again later. */
  part_throttled: { part: 'sqs' }
  /**
   * Things were thrown away in Redis because no process of Belfry writes such; `at` is how their keys
   * begin.
   */
  redis_mended: { at: string; count: number }
  /**
   * How many shards this process leads by Postgres, because Redis gives them to nobody who fires; 0: no
   * more.
   */
  redis_overruled: { shards: number }
  /** A queue or topic is missing or not for this process, and is left alone for a while. */
  carrier_refused: { part: 'kafka' | 'sqs'; at: string; fault: string }
  /** Messages that are none of Belfry's were found where announcements come from, and got rid of. */
  announcements_discarded: { part: 'kafka' | 'sqs'; at: string; count: number }
  /**
   * Runs were announced over Kafka or SQS; `again`: of them, those that nobody had claimed since they were
   * before.
   */
  runs_announced: { queue: string; count: number; again: number }
  /**
   * A claim where runs are announced: `claimed` by what was announced; `gone`: announced, but not to be
   * claimed any more; `direct`: claimed without, as it is done once a second, and while nothing is announced.
   */
  announced_claim: { queue: string; claimed: number; gone: number; direct: number }
  /** A part that Belfry can do without for a while, went away or came back. */
  part_changed: {
    part: 'redis' | 'kafka' | 'sqs' | 'read_replica'
    state: 'up' | 'away'
    fault: string | null
  }
}

/** Counts are totals of all nodes so far. */
type ReplanFacts = {
  replanId: string
  /** The scheduler node that did it. */
  nodeId: string
  kind: 'zone' | 'calendar'
  /** Name of the zone, or id of the calendar. */
  subject: string
  /** Null for a zone: those are of all tenants. */
  tenantId: string | null
  fromVersion: string | null
  toVersion: string
  total: number | null
  done: number
  moved: number
  failed: number
}

export type EngineEventName = keyof EngineEvents

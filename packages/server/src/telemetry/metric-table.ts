/**
 * The one table of metrics: name, type, labels, words. metrics.ts makes them of it, docs/reference/metrics.md
 * is generated from it, alert rules and dashboards are checked against it. Base units; labels are bounded,
 * never ids.
 */

export type MetricType = 'counter' | 'gauge' | 'histogram'

export interface MetricRow {
  readonly type: MetricType
  readonly labels: readonly string[]
  readonly help: string
  /** Upper bounds of a histogram, in the unit of the metric. */
  readonly buckets?: readonly number[]
}

const fast = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]
const wide = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1_800, 7_200]

export const metricTable = {
  belfry_build_info: { type: 'gauge', labels: ['version', 'node'], help: 'Always 1; what is running.' },
  belfry_runs_enqueued_total: {
    type: 'counter',
    labels: ['queue', 'source'],
    help: 'Runs that were asked for, by who asked (schedule, manual, trigger, backfill, replay, workflow).',
  },
  belfry_runs_finished_total: {
    type: 'counter',
    labels: ['queue', 'outcome'],
    help: 'Runs that ended in this process, by their final state.',
  },
  belfry_run_wait_seconds: {
    type: 'histogram',
    labels: ['queue'],
    buckets: wide,
    help: 'From when a run could start to when it was claimed. The signal to scale by.',
  },
  belfry_run_duration_seconds: {
    type: 'histogram',
    labels: ['queue', 'outcome'],
    buckets: wide,
    help: 'How long an attempt took, by how it ended.',
  },
  belfry_schedule_lag_seconds: {
    type: 'histogram',
    labels: [],
    buckets: wide,
    help: 'From when an occurrence was due to when it was fired.',
  },
  belfry_occurrences_total: {
    type: 'counter',
    labels: ['outcome', 'reason'],
    help: 'Planned times that were decided: ran, skipped or missed, and why not (none where it ran).',
  },
  belfry_backfill_times_total: {
    type: 'counter',
    labels: ['outcome'],
    help: 'Planned times that backfills decided in this process: started or skipped.',
  },
  belfry_backfill_step_seconds: {
    type: 'histogram',
    labels: [],
    buckets: fast,
    help: 'How long a step of a backfill took, that is one transaction.',
  },
  belfry_backfills_ended_total: {
    type: 'counter',
    labels: ['state'],
    help: 'Backfills that ended by themselves: completed, or canceled with their schedule.',
  },
  belfry_backfills_open: {
    type: 'gauge',
    labels: [],
    help: 'Backfills of the shards that this process leads that are not over, as of its last look.',
  },
  belfry_claim_duration_seconds: {
    type: 'histogram',
    labels: ['queue'],
    buckets: fast,
    help: 'How long claiming a batch of runs took.',
  },
  belfry_gate_runs_total: {
    type: 'counter',
    labels: ['outcome'],
    help: 'Runs that left the gate of limits in this process: opened, skipped at the limit, or replaced.',
  },
  belfry_gate_look_seconds: {
    type: 'histogram',
    labels: [],
    buckets: fast,
    help: 'How long a look at the gate of one tenant took that let something through or ended it.',
  },
  belfry_gate_held_runs: {
    type: 'gauge',
    labels: [],
    help: 'Runs of all tenants that limits or pauses hold, up to 100,000, as of the last look; do not sum.',
  },
  belfry_workflow_hop_seconds: {
    type: 'histogram',
    labels: [],
    buckets: fast,
    help: 'From the end of a task, or the start or cancel of a workflow run, to when what follows may start.',
  },
  belfry_workflow_round_seconds: {
    type: 'histogram',
    labels: [],
    buckets: fast,
    help: 'How long a round of the resolver took that moved workflow runs on, that is one transaction.',
  },
  belfry_workflow_runs_finished_total: {
    type: 'counter',
    labels: ['state'],
    help: 'Workflow runs that ended in this process, by their state.',
  },
  belfry_workflow_events_found_total: {
    type: 'counter',
    labels: [],
    help: 'Workflow runs to be moved on that nobody had told of, found by looking; alarm where it grows.',
  },
  belfry_workflow_events_waiting: {
    type: 'gauge',
    labels: [],
    help: 'Ends of tasks, starts, cancels that wait for a resolver, in all, up to 100,000; do not sum.',
  },
  belfry_workflow_events_oldest_seconds: {
    type: 'gauge',
    labels: [],
    help: 'For how long the oldest of them has waited; alarm beyond a minute.',
  },
  belfry_workflow_runs_alive: {
    type: 'gauge',
    labels: [],
    help: 'Workflow runs of all tenants that have not ended, up to 100,000, as of the last look; do not sum.',
  },
  belfry_runs_rescued_total: {
    type: 'counter',
    labels: ['reason'],
    help: 'Runs that were taken back from lost workers or after their deadline.',
  },
  belfry_schedules_paused_total: {
    type: 'counter',
    labels: [],
    help: 'Schedules that were paused because their last runs failed (pauseAfterFailures).',
  },
  belfry_leases_lost_total: {
    type: 'counter',
    labels: ['at'],
    help: 'Writes that were refused because the lease of the run was no longer held.',
  },
  belfry_leader: { type: 'gauge', labels: ['role'], help: '1 while this process leads at least one shard.' },
  belfry_shards_held: { type: 'gauge', labels: [], help: 'Shards of 64 that this process leads.' },
  belfry_runs_announced_total: {
    type: 'counter',
    labels: ['queue', 'kind'],
    help: 'Runs that this process announced over Kafka or SQS, at first or again (unclaimed for 30 s).',
  },
  belfry_announced_claims_total: {
    type: 'counter',
    labels: ['queue', 'outcome'],
    help:
      'Runs of claims where runs are announced: claimed, gone (announced, but not there any more), or ' +
      'direct (claimed without: once a second, or because nothing was announced).',
  },
  belfry_announcer_window_runs: {
    type: 'gauge',
    labels: [],
    help: 'How many runs this process announces ahead of claims at most, all of its queues together.',
  },
  belfry_announcer_unclaimed_runs: {
    type: 'gauge',
    labels: [],
    help: 'Runs that this process announced and that nobody had claimed at its last look.',
  },
  belfry_worker_announced_runs: {
    type: 'gauge',
    labels: [],
    help: 'Runs that were announced to the worker of this process and that it has not claimed yet.',
  },
  belfry_worker_unannounced_queues: {
    type: 'gauge',
    labels: [],
    help: 'Queues that the worker claims directly because runs came up in them that were not announced.',
  },
  belfry_part_up: {
    type: 'gauge',
    labels: ['part'],
    help: '1 while a part that can be done without for a while (redis) is there, 0 while it is away.',
  },
  belfry_redis_mended_total: {
    type: 'counter',
    labels: [],
    help: 'Things in Redis that no process of Belfry writes, found under its prefix and thrown away.',
  },
  belfry_redis_overruled_shards: {
    type: 'gauge',
    labels: [],
    help: 'Shards that this process leads by Postgres although Redis gives them to somebody else.',
  },
  belfry_part_throttled_total: {
    type: 'counter',
    labels: ['part'],
    help: 'Calls that a part (sqs) refused because there were too many.',
  },
  belfry_carrier_refusals_total: {
    type: 'counter',
    labels: ['part'],
    help: 'Queues or topics found missing or not allowed; their runs are claimed directly for a while.',
  },
  belfry_announcements_discarded_total: {
    type: 'counter',
    labels: ['part'],
    help: "Messages that are none of Belfry's, found where announcements come from.",
  },
  belfry_events_sent_total: {
    type: 'counter',
    labels: [],
    help: 'Events of what has ended that were sent on; some of them again, after a fault.',
  },
  belfry_events_skipped_total: {
    type: 'counter',
    labels: [],
    help: 'Events that Kafka does not take, such as one larger than its topic allows; they are logged.',
  },
  belfry_events_lag_seconds: {
    type: 'gauge',
    labels: [],
    help: 'All that had ended so long ago has been sent on, also while nothing is; 0 where others do that.',
  },
  belfry_timer_index_misses_total: {
    type: 'counter',
    labels: [],
    help: 'Overdue timers that the index beside Postgres had missed, found by the reconciler.',
  },
  belfry_worker_slots: {
    type: 'gauge',
    labels: ['state'],
    help: 'Places for runs in this process, used and free.',
  },
  belfry_db_pool_connections: {
    type: 'gauge',
    labels: ['state'],
    help: 'Database connections in use and idle, and callers that wait for one.',
  },
  belfry_http_request_duration_seconds: {
    type: 'histogram',
    labels: ['method', 'route', 'status'],
    buckets: fast,
    help: 'How long the API took to answer.',
  },
  belfry_clock_skew_seconds: {
    type: 'gauge',
    labels: [],
    help: 'Local clock minus that of the database; alarm beyond 1 s.',
  },
  belfry_replans_total: {
    type: 'counter',
    labels: ['kind', 'outcome'],
    help: 'Replans (of a zone or a calendar) that ended in this process: done, or superseded by newer data.',
  },
  belfry_replanned_schedules_total: {
    type: 'counter',
    labels: ['kind', 'outcome'],
    help: 'Schedules whose next time was computed again: moved, unchanged, or failed (it keeps its time).',
  },
  belfry_zone_data_differing_zones: {
    type: 'gauge',
    labels: [],
    help: 'Zones in which this process computes by other rules than are on record; alarm beyond 0.',
  },
  belfry_role_failures_total: {
    type: 'counter',
    labels: ['role'],
    help: 'Rounds of a role (scheduler, worker, rescuer, …) that failed and were tried again.',
  },
} as const satisfies Record<string, MetricRow>

export type MetricName = keyof typeof metricTable

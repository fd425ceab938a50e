/**
 * Metrics of this process, made of the table, fed by the engine's events and by the API's answered requests;
 * pool and slots are read when somebody scrapes. Queue names come from users, so only the first hundred get a
 * label of their own.
 */
import type { EngineEventName, EngineEvents } from '@belfry/contract'
import { isTerminal } from '@belfry/contract'
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client'
import type { EventSink } from '../ports/event-sink.ts'
import type { RequestObserver } from '../ports/request-observer.ts'
import type { WorkflowBacklog } from '../ports/workflow-runs.ts'
import type { MetricName, MetricRow } from './metric-table.ts'
import { metricTable } from './metric-table.ts'
import { createRunHistogram, type RunHistogram } from './run-histogram.ts'

const maxQueueLabels = 100

export interface SlotStats {
  readonly used: number
  readonly free: number
}

export interface ConnectionStats {
  readonly open: number
  readonly idle: number
  readonly waiting: number
}

/** Of both ends in this process; 0 where it has no such. */
export interface AnnouncingStats {
  readonly window: number
  readonly unclaimed: number
  readonly waiting: number
  readonly silentQueues: number
}

export interface Metrics {
  /** Subscribe it to the engine's events. */
  readonly events: EventSink
  /** Give it to the API. */
  readonly requests: RequestObserver
  /** Read at each scrape. */
  readSlots(read: () => SlotStats): void
  readConnections(read: () => ConnectionStats): void
  readBackfills(read: () => { readonly open: number }): void
  readGate(read: () => { readonly held: number }): void
  readWorkflows(read: () => WorkflowBacklog): void
  readAnnouncing(read: () => AnnouncingStats): void
  readEventsLag(read: () => number): void
  /** Local clock minus that of the database, ms. */
  readSkew(read: () => number): void
  readonly contentType: string
  /** In the Prometheus text format. */
  render(): Promise<string>
}

export function createMetrics(options: { version: string; processMetrics?: boolean }): Metrics {
  const registry = new Registry()
  const instruments = makeInstruments(registry)
  if (options.processMetrics !== false) collectDefaultMetrics({ register: registry })
  instruments.gauge('belfry_build_info').set({ version: options.version, node: process.version }, 1)
  const queueLabel = boundedLabel(maxQueueLabels)
  const finished = gatherFinished()
  const listeners = listen(instruments, finished, queueLabel)
  const readers: (() => void)[] = [
    () =>
      finished.takeInto((labels, count) =>
        instruments.counter('belfry_runs_finished_total').inc(labels, count),
      ),
  ]

  return {
    events: {
      emit(name, payload) {
        const listener: ((payload: EngineEvents[typeof name]) => void) | undefined = listeners[name]
        listener?.(payload)
      },
    },
    requests: {
      answered({ method, route, status, durationMs }) {
        const labels = { method, route, status: String(status) }
        instruments.histogram('belfry_http_request_duration_seconds').observe(labels, durationMs / 1_000)
      },
    },
    ...readings(instruments, (read) => readers.push(read)),
    contentType: registry.contentType,
    render() {
      for (const read of readers) read()
      return registry.metrics()
    },
  }
}

type Readings = Pick<
  Metrics,
  | 'readSlots'
  | 'readConnections'
  | 'readBackfills'
  | 'readGate'
  | 'readWorkflows'
  | 'readSkew'
  | 'readAnnouncing'
  | 'readEventsLag'
>

/** Gauges that are read when somebody scrapes. */
function readings({ gauge }: Instruments, atScrape: (read: () => void) => void): Readings {
  return {
    readSlots(read) {
      atScrape(() => {
        const { used, free } = read()
        gauge('belfry_worker_slots').set({ state: 'used' }, used)
        gauge('belfry_worker_slots').set({ state: 'free' }, free)
      })
    },
    readConnections(read) {
      atScrape(() => {
        const { open, idle, waiting } = read()
        const connections = gauge('belfry_db_pool_connections')
        connections.set({ state: 'used' }, open - idle)
        connections.set({ state: 'idle' }, idle)
        connections.set({ state: 'waiting' }, waiting)
      })
    },
    readBackfills(read) {
      atScrape(() => gauge('belfry_backfills_open').set(read().open))
    },
    readGate(read) {
      atScrape(() => gauge('belfry_gate_held_runs').set(read().held))
    },
    readWorkflows(read) {
      atScrape(() => {
        const { events, oldestMs, alive } = read()
        gauge('belfry_workflow_events_waiting').set(events)
        gauge('belfry_workflow_events_oldest_seconds').set(oldestMs / 1_000)
        gauge('belfry_workflow_runs_alive').set(alive)
      })
    },
    readSkew(read) {
      atScrape(() => gauge('belfry_clock_skew_seconds').set(read() / 1_000))
    },
    readEventsLag(read) {
      atScrape(() => gauge('belfry_events_lag_seconds').set(read() / 1_000))
    },
    readAnnouncing(read) {
      atScrape(() => {
        const { window, unclaimed, waiting, silentQueues } = read()
        gauge('belfry_announcer_window_runs').set(window)
        gauge('belfry_announcer_unclaimed_runs').set(unclaimed)
        gauge('belfry_worker_announced_runs').set(waiting)
        gauge('belfry_worker_unannounced_queues').set(silentQueues)
      })
    },
  }
}

type Listeners = { readonly [Name in EngineEventName]?: (payload: EngineEvents[Name]) => void }

type Label = (value: string) => string

function listen(instruments: Instruments, finished: Finished, queueLabel: Label): Listeners {
  return {
    ...listenToPlans(instruments),
    ...listenToWorkflows(instruments),
    ...listenToRuns(instruments, finished, queueLabel),
    ...listenToParts(instruments, queueLabel),
  }
}

/** Schedules, and whatever moves or makes up for their times. */
function listenToPlans({ counter, gauge, histogram }: Instruments): Listeners {
  return {
    occurrences_fired({ outcomes }) {
      for (const { outcome, reason, count, lateMs } of outcomes) {
        counter('belfry_occurrences_total').inc({ outcome, reason: reason ?? 'none' }, count)
        if (outcome === 'ran') histogram('belfry_schedule_lag_seconds').observe(Math.max(0, lateMs) / 1_000)
      }
    },
    backfill_stepped({ started, skipped, durationMs }) {
      counter('belfry_backfill_times_total').inc({ outcome: 'started' }, started)
      counter('belfry_backfill_times_total').inc({ outcome: 'skipped' }, skipped)
      histogram('belfry_backfill_step_seconds').observe(durationMs / 1_000)
    },
    backfill_ended({ state }) {
      counter('belfry_backfills_ended_total').inc({ state })
    },
    schedule_paused() {
      counter('belfry_schedules_paused_total').inc()
    },
    zone_data_changed() {
      gauge('belfry_zone_data_differing_zones').set(0)
    },
    zone_data_differs({ zones }) {
      gauge('belfry_zone_data_differing_zones').set(zones.length)
    },
    replan_advanced({ kind, looked, movedNow, failedNow }) {
      const replanned = counter('belfry_replanned_schedules_total')
      replanned.inc({ kind, outcome: 'moved' }, movedNow)
      replanned.inc({ kind, outcome: 'failed' }, failedNow)
      replanned.inc({ kind, outcome: 'unchanged' }, Math.max(0, looked - movedNow - failedNow))
    },
    replan_ended({ kind, state }) {
      counter('belfry_replans_total').inc({ kind, outcome: state })
    },
  }
}

function listenToWorkflows({ counter, histogram }: Instruments): Listeners {
  return {
    workflows_moved({ ended, waitsMs, durationMs }) {
      const hops = histogram('belfry_workflow_hop_seconds')
      for (const waitMs of waitsMs) hops.observe(Math.max(0, waitMs) / 1_000)
      histogram('belfry_workflow_round_seconds').observe(durationMs / 1_000)
      for (const [state, count] of Object.entries(ended))
        counter('belfry_workflow_runs_finished_total').inc({ state }, count)
    },
    workflow_events_found({ count }) {
      counter('belfry_workflow_events_found_total').inc(count)
    },
  }
}

/** Runs, and the processes that bring them to their end. */
function listenToRuns(
  { counter, gauge, histogram, runHistogram }: Instruments,
  finished: Finished,
  queueLabel: Label,
): Listeners {
  return {
    runs_enqueued({ count, queue, source }) {
      counter('belfry_runs_enqueued_total').inc({ queue: queueLabel(queue), source }, count)
    },
    runs_claimed({ queue, durationMs, waitsMs }) {
      const labels = { queue: queueLabel(queue) }
      histogram('belfry_claim_duration_seconds').observe(labels, durationMs / 1_000)
      const waits = runHistogram('belfry_run_wait_seconds')
      for (const waitMs of waitsMs) waits.observe(labels.queue, '', Math.max(0, waitMs) / 1_000)
    },
    attempt_ended({ queue, outcome, state, durationMs }) {
      const label = queueLabel(queue)
      runHistogram('belfry_run_duration_seconds').observe(label, outcome, durationMs / 1_000)
      if (isTerminal(state)) finished.add(label, state)
    },
    gate_passed({ opened, skipped, replaced, durationMs }) {
      const passed = counter('belfry_gate_runs_total')
      for (const [outcome, runs] of Object.entries({ opened, skipped, replaced }))
        passed.inc({ outcome }, runs)
      histogram('belfry_gate_look_seconds').observe(durationMs / 1_000)
    },
    lease_lost({ at }) {
      counter('belfry_leases_lost_total').inc({ at })
    },
    runs_rescued({ count, reason }) {
      counter('belfry_runs_rescued_total').inc({ reason }, count)
    },
    shards_changed({ held }) {
      gauge('belfry_leader').set({ role: 'scheduler' }, held > 0 ? 1 : 0)
      gauge('belfry_shards_held').set(held)
    },
    timers_missed({ count }) {
      counter('belfry_timer_index_misses_total').inc(count)
    },
    role_failed({ role }) {
      counter('belfry_role_failures_total').inc({ role })
    },
  }
}

/** What is beside the database, and what goes by it. */
function listenToParts({ counter, gauge }: Instruments, queueLabel: Label): Listeners {
  return {
    runs_announced({ queue, count, again }) {
      const announced = counter('belfry_runs_announced_total')
      announced.inc({ queue: queueLabel(queue), kind: 'first' }, count - again)
      announced.inc({ queue: queueLabel(queue), kind: 'again' }, again)
    },
    announced_claim({ queue, ...counts }) {
      const outcomes = counter('belfry_announced_claims_total')
      for (const [outcome, runs] of Object.entries(counts))
        if (runs > 0) outcomes.inc({ queue: queueLabel(queue), outcome }, runs)
    },
    part_changed({ part, state }) {
      gauge('belfry_part_up').set({ part }, state === 'up' ? 1 : 0)
    },
    redis_mended({ count }) {
      counter('belfry_redis_mended_total').inc(count)
    },
    redis_overruled({ shards }) {
      gauge('belfry_redis_overruled_shards').set(shards)
    },
    part_throttled({ part }) {
      counter('belfry_part_throttled_total').inc({ part })
    },
    carrier_refused({ part }) {
      counter('belfry_carrier_refusals_total').inc({ part })
    },
    announcements_discarded({ part, count }) {
      counter('belfry_announcements_discarded_total').inc({ part }, count)
    },
    events_sent({ count }) {
      counter('belfry_events_sent_total').inc(count)
    },
    event_skipped() {
      counter('belfry_events_skipped_total').inc()
    },
  }
}

type Instruments = {
  readonly counter: (name: MetricName) => Counter
  readonly gauge: (name: MetricName) => Gauge
  readonly histogram: (name: MetricName) => Histogram
  readonly runHistogram: (name: MetricName) => RunHistogram
}

/** Of these one value is observed for every run. */
const ofEveryRun: ReadonlySet<string> = new Set<MetricName>([
  'belfry_run_wait_seconds',
  'belfry_run_duration_seconds',
])

interface Finished {
  readonly add: (queue: string, state: string) => void
  readonly takeInto: (count: (labels: { queue: string; outcome: string }, count: number) => void) => void
}

/** Counts runs until somebody scrapes: the library's counter would hash the labels for each. */
function gatherFinished(): Finished {
  const byQueue = new Map<string, Map<string, number>>()
  return {
    add(queue, state) {
      const byState = byQueue.get(queue) ?? new Map<string, number>()
      if (byState.size === 0) byQueue.set(queue, byState)
      byState.set(state, (byState.get(state) ?? 0) + 1)
    },
    takeInto(count) {
      for (const [queue, byState] of byQueue)
        for (const [outcome, runs] of byState) count({ queue, outcome }, runs)
      byQueue.clear()
    },
  }
}

function makeInstruments(registry: Registry): Instruments {
  const counters = new Map<string, Counter>()
  const gauges = new Map<string, Gauge>()
  const histograms = new Map<string, Histogram>()
  const runHistograms = new Map<string, RunHistogram>()
  for (const [name, row] of Object.entries<MetricRow>(metricTable)) {
    const common = { name, help: row.help, labelNames: [...row.labels], registers: [registry] }
    if (row.type === 'counter') counters.set(name, new Counter(common))
    else if (row.type === 'gauge') gauges.set(name, new Gauge(common))
    else if (ofEveryRun.has(name))
      runHistograms.set(name, createRunHistogram({ ...common, registry, buckets: row.buckets ?? [] }))
    else histograms.set(name, new Histogram({ ...common, buckets: [...(row.buckets ?? [])] }))
  }
  const from =
    <T>(map: ReadonlyMap<string, T>) =>
    (name: MetricName): T => {
      const found = map.get(name)
      if (found === undefined) throw new TypeError(`The metric ${name} is of another type.`)
      return found
    }
  return {
    counter: from(counters),
    gauge: from(gauges),
    histogram: from(histograms),
    runHistogram: from(runHistograms),
  }
}

/** The first `limit` values as they are, then `other`. */
function boundedLabel(limit: number): Label {
  const known = new Set<string>()
  return (value) => {
    if (known.has(value)) return value
    if (known.size >= limit) return 'other'
    known.add(value)
    return value
  }
}

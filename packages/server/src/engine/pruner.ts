/**
 * Housekeeping, at start and each hour: daily partitions made ahead and dropped after retention, the default
 * partitions emptied, old backfills, replans and dead letters, idempotency keys and dead scheduler nodes
 * deleted. Every process may run it; the tasks are safe to repeat and to run twice, and go in small steps. A
 * task that fails does not keep the others from running, and is tried again within minutes.
 *
 * `start` resolves when the days that are needed now were made, or could not be: nothing should fire before,
 * because what fires without a partition goes to the default one.
 */
import type { Clock } from '../ports/clock.ts'
import type { EventSink } from '../ports/event-sink.ts'
import type { Maintenance } from '../ports/maintenance.ts'
import type { Random } from '../ports/random.ts'
import type { Service } from '../ports/service.ts'
import { createLoop } from './loop.ts'
import { settledWithin } from './within.ts'

const stopWithinMs = 2_000
const retryAfterMs = 60_000
/** Rows deleted in one statement, and statements in one round. */
const rowsAStep = 5_000
const maxSteps = 1_000
/** Days made or dropped in one round. */
const daysARound = 400

export interface PrunerOptions {
  readonly maintenance: Maintenance
  readonly clock: Clock
  readonly random: Random
  readonly events: EventSink
  /** Days of history that are kept. Default 30. */
  readonly retentionDays?: number
  /** Days made ahead of today. Default 3. */
  readonly aheadDays?: number
  /** Default one hour. */
  readonly intervalMs?: number
}

export interface Pruner extends Service {
  /** One round; answers whether every task succeeded. */
  readonly runOnce: () => Promise<boolean>
}

type Task = (signal: AbortSignal | undefined) => Promise<unknown>

export function createPruner(options: PrunerOptions): Pruner {
  const { clock, random, events } = options
  const intervalMs = options.intervalMs ?? 3_600_000
  const tasks = createTasks(options)

  async function attempt(name: string, task: Task, signal?: AbortSignal): Promise<boolean> {
    try {
      await task(signal)
      return true
    } catch (error) {
      events.emit('role_failed', { role: `pruner.${name}`, error, retryInMs: retryAfterMs })
      return false
    }
  }

  async function runTasks(signal?: AbortSignal): Promise<boolean> {
    let whole = true
    for (const [name, task] of Object.entries(tasks)) {
      if (signal?.aborted === true) break
      if (!(await attempt(name, task, signal))) whole = false
    }
    return whole
  }

  const loop = createLoop({
    name: 'pruner',
    clock,
    random,
    events,
    async round(signal) {
      const whole = await runTasks(signal)
      return (whole ? intervalMs : retryAfterMs) * (0.9 + random.next() / 5)
    },
  })
  return {
    ...loop,
    async stop() {
      // a task may wait for a minute; it is safe to leave
      await settledWithin(clock, stopWithinMs, loop.stop())
    },
    async start() {
      await attempt('make_partitions', tasks.make_partitions)
      await loop.start()
    },
    runOnce: () => runTasks(),
  }
}

/** In this order: the emptier the default partitions, the less the making of one costs. */
function createTasks({ maintenance, events, ...options }: PrunerOptions) {
  const retentionDays = options.retentionDays ?? 30
  const aheadDays = options.aheadDays ?? 3

  const deleteInSteps =
    (deleteSome: (limit: number) => Promise<number>): Task =>
    async (signal) => {
      for (let step = 0; step < maxSteps && signal?.aborted !== true; step++) {
        if ((await deleteSome(rowsAStep)) < rowsAStep) return
      }
    }
  const make: Task = async (signal) => {
    for (const day of await maintenance.missingDays(aheadDays, retentionDays, daysARound)) {
      if (signal?.aborted === true) return
      const made = await maintenance.makePartitions(day)
      if (made.length > 0) events.emit('partitions_changed', { made, dropped: [] })
    }
  }
  const drop: Task = async (signal) => {
    for (const day of await maintenance.oldDays(retentionDays, daysARound)) {
      if (signal?.aborted === true) return
      const dropped = await maintenance.dropPartitions(day)
      if (dropped.length > 0) events.emit('partitions_changed', { made: [], dropped })
    }
  }
  return {
    default_rows: deleteInSteps((limit) => maintenance.pruneDefault(retentionDays, limit)),
    make_partitions: make,
    drop_partitions: drop,
    extra_runs: deleteInSteps((limit) => maintenance.deleteOldExtraRuns(retentionDays, limit)),
    backfills: deleteInSteps((limit) => maintenance.deleteOldBackfills(retentionDays, limit)),
    task_waits: deleteInSteps((limit) => maintenance.deleteOldTaskWaits(retentionDays, limit)),
    run_notes: deleteInSteps((limit) => maintenance.deleteOldRunNotes(retentionDays, limit)),
    run_requests: deleteInSteps((limit) => maintenance.deleteOldRequests(retentionDays, limit)),
    triggers: deleteInSteps((limit) => maintenance.deleteOldTriggers(retentionDays, limit)),
    replans: deleteInSteps((limit) => maintenance.deleteOldReplans(retentionDays, limit)),
    idempotency_keys: deleteInSteps((limit) => maintenance.deleteExpiredIdempotencyKeys(limit)),
    callbacks: deleteInSteps((limit) => maintenance.deleteOldCallbacks(limit)),
    dead_nodes: () => maintenance.deleteDeadNodes(),
  }
}

/**
 * Housekeeping, at start and each hour: daily partitions made ahead and dropped after retention, idempotency
 * keys and dead scheduler nodes deleted. Every process may run it; the tasks are safe to repeat and to run
 * twice. A task that fails does not keep the others from running, and is tried again within minutes.
 */
import type { Clock } from '../ports/clock.ts'
import type { EventSink } from '../ports/event-sink.ts'
import type { Maintenance } from '../ports/maintenance.ts'
import type { Random } from '../ports/random.ts'
import type { Service } from '../ports/service.ts'
import { createLoop } from './loop.ts'

const retryAfterMs = 60_000
/** Idempotency keys deleted in one statement, and statements in one round. */
const keysAStep = 5_000
const maxSteps = 1_000

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

export function createPruner(options: PrunerOptions): Pruner {
  const { maintenance, clock, random, events } = options
  const retentionDays = options.retentionDays ?? 30
  const aheadDays = options.aheadDays ?? 3
  const intervalMs = options.intervalMs ?? 3_600_000

  async function makePartitions(): Promise<void> {
    // yesterday, today, and the days ahead
    const made = await maintenance.makePartitions(aheadDays + 2)
    if (made.length > 0) events.emit('partitions_changed', { made, dropped: [] })
  }

  async function dropPartitions(): Promise<void> {
    const dropped = await maintenance.dropPartitions(retentionDays)
    if (dropped.length > 0) events.emit('partitions_changed', { made: [], dropped })
  }

  async function deleteKeys(signal: AbortSignal | undefined): Promise<void> {
    for (let step = 0; step < maxSteps && signal?.aborted !== true; step++) {
      const deleted = await maintenance.deleteExpiredIdempotencyKeys(keysAStep)
      if (deleted < keysAStep) return
    }
  }

  async function runTasks(signal?: AbortSignal): Promise<boolean> {
    const tasks = {
      make_partitions: makePartitions,
      drop_partitions: dropPartitions,
      idempotency_keys: () => deleteKeys(signal),
      dead_nodes: () => maintenance.deleteDeadNodes(),
    }
    let whole = true
    for (const [name, task] of Object.entries(tasks)) {
      if (signal?.aborted === true) break
      try {
        await task()
      } catch (error) {
        whole = false
        events.emit('role_failed', { role: `pruner.${name}`, error, retryInMs: retryAfterMs })
      }
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
  return { ...loop, runOnce: () => runTasks() }
}

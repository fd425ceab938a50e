/**
 * The worker: claims ready runs, executes their handlers, has their ends written.
 *
 *   claim (claimer.ts) ──► slot taken ──► attempt (attempt.ts) ──► completer ──► acknowledged ──► slot free
 *
 * 1. A slot is taken from the claim until the end is on record, so neither claimed runs nor unwritten ends pile up.
 * 2. Everything that it holds hangs on its session (session.ts). When that is lost, every handler's signal fires, and
 *    nothing of the old session is written except successes, which the epochs let in or not.
 * 3. Stop: claim no more ─► drain, up to `drainMs` ─► signal `shutdown` to what still runs ─► write the ends (at least once: back in
 *    the queue without a count; at most once: outcome unknown) ─► give back what was never started ─► close the session.
 */
import type { JobDefinition } from '@belfry/contract'
import { jobDefinitionSchema } from '@belfry/contract'
import type { TagClock } from '../domain/fair-queue.ts'
import type { Clock } from '../ports/clock.ts'
import type { EventSink } from '../ports/event-sink.ts'
import type { AbortReason, Handler } from '../ports/handler.ts'
import type { Hints } from '../ports/hints.ts'
import type { Ids } from '../ports/ids.ts'
import type { Random } from '../ports/random.ts'
import type { ClaimedRun, RunQueue } from '../ports/run-queue.ts'
import type { RunStore } from '../ports/run-store.ts'
import type { Service } from '../ports/service.ts'
import { startAttempt } from './attempt.ts'
import { createClaimer } from './claimer.ts'
import { createCompleter } from './completer.ts'
import type { DatabaseClock } from './database-clock.ts'
import { createWorkerSession } from './session.ts'
import { createSlots } from './slots.ts'

/** Limit for writing the last ends when the worker stops. */
const flushMs = 10_000

export interface WorkerOptions {
  readonly queue: RunQueue
  readonly store: RunStore
  /** One a kind. The worker does not close them. */
  readonly handlers: readonly Handler[]
  readonly hints: Hints
  readonly clock: Clock
  readonly databaseClock: DatabaseClock
  readonly random: Random
  readonly ids: Ids
  readonly events: EventSink
  /** The tag clock of this process learns from claims how far each queue is served. */
  readonly tags: Pick<TagClock, 'observeClaimed'>
  readonly host: string
  readonly version: string
  readonly queues: readonly string[] | '*'
  readonly settings?: Partial<WorkerSettings>
}

export interface WorkerSettings {
  /** Runs at a time. */
  readonly slots: number
  readonly leaseMs: number
  readonly heartbeatMs: number
  /** Handlers are aborted this long before the lease ends. */
  readonly leaseMarginMs: number
  /** Added to the attempt timeout: after that the rescuer takes the run even from a live worker. */
  readonly deadlineMarginMs: number
  readonly minPollMs: number
  readonly maxPollMs: number
  readonly completionBatchMs: number
  readonly completionBatchSize: number
  /** How long a handler may go on after its signal. */
  readonly abortGraceMs: number
  /** How long a stop waits for handlers before it signals them. */
  readonly drainMs: number
}

export const workerDefaults: WorkerSettings = {
  slots: 50,
  leaseMs: 30_000,
  heartbeatMs: 10_000,
  leaseMarginMs: 6_000,
  deadlineMarginMs: 30_000,
  minPollMs: 5,
  maxPollMs: 1_000,
  completionBatchMs: 20,
  completionBatchSize: 500,
  abortGraceMs: 5_000,
  drainMs: 30_000,
}

export interface WorkerStats {
  readonly sessionId: string | null
  readonly slots: number
  /** Slots in use: executing, or waiting for their end to be written. */
  readonly busy: number
  /** Ends that wait to be written. */
  readonly ending: number
  /** Handlers that ignored their signal and still run. */
  readonly abandoned: number
}

export interface Worker extends Service {
  stats(): WorkerStats
}

export function createWorker(options: WorkerOptions): Worker {
  const { clock, databaseClock, random, events } = options
  const settings = { ...workerDefaults, ...options.settings }
  const handlers = new Map(options.handlers.map((handler) => [handler.kind, handler]))
  const slots = createSlots(settings.slots)
  const completer = createCompleter({
    ...options,
    batchMs: settings.completionBatchMs,
    batchSize: settings.completionBatchSize,
    nothingElseRuns: (pending) => pending >= slots.busy(),
  })
  const session = createWorkerSession({
    ...options,
    queues: options.queues === '*' ? ['*'] : options.queues,
    slots: settings.slots,
    leaseMs: settings.leaseMs,
    heartbeatMs: settings.heartbeatMs,
    marginMs: settings.leaseMarginMs,
    onOpened: () => claimer.wake(),
    onLost: abandonSession,
    onCancel: (runIds) => {
      for (const held of slots.held()) if (runIds.includes(held.run.runId)) held.abort('cancel')
    },
  })
  const claimer = createClaimer({
    ...options,
    handlers: [...handlers.keys()],
    session,
    slots,
    start,
    deadlineMarginMs: settings.deadlineMarginMs,
    minPollMs: settings.minPollMs,
    maxPollMs: settings.maxPollMs,
  })

  function abandonSession(sessionId: string): void {
    for (const held of slots.held()) {
      if (held.sessionId !== sessionId || !held.abort('lease_lost')) continue
      const { runId, leaseEpoch } = held.run
      events.emit('lease_lost', { runId, leaseEpoch, at: 'heartbeat' })
    }
  }

  /** Begins an attempt that was claimed under `sessionId`; the slot stays taken until its end is acknowledged. */
  function start(sessionId: string, run: ClaimedRun, known: JobDefinition | undefined): void {
    const definition = known ?? unusableDefinition
    const handler = (known && handlers.get(known.handler.kind)) ?? unusableHandler
    const { runId, tenantId, jobId, attempt: number, leaseEpoch } = run
    events.emit('attempt_started', { runId, tenantId, jobId, attempt: number, leaseEpoch })
    const { abortGraceMs } = settings
    const attempt = startAttempt({ run, definition, handler, clock, databaseClock, random, abortGraceMs })
    let running = true
    const release = slots.take({
      sessionId,
      run,
      abort(reason: AbortReason) {
        if (running) attempt.abort(reason)
        return running
      },
    })
    const free = () => {
      release()
      claimer.slotFreed()
    }
    void attempt.done.then(({ end, abandoned }) => {
      running = false
      if (abandoned !== undefined) slots.leaveBehind(abandoned)
      if (end === undefined) free()
      else completer.submit({ sessionId, run, end, onAcknowledged: free })
    })
  }

  async function stop(): Promise<void> {
    await claimer.stop()
    await slots.emptied(clock, settings.drainMs)
    for (const held of slots.held()) held.abort('shutdown')
    // handlers that ignore the signal are left behind after the grace; a second more for their ends to be written
    await slots.emptied(clock, settings.abortGraceMs + 1_000)
    await completer.stop(flushMs)
    await claimer.giveBackStrays()
    await session.stop()
  }

  let stopped: Promise<void> | undefined
  return {
    name: 'worker',
    async start() {
      await session.start()
      await claimer.start(session.renewSoon)
    },
    stop() {
      stopped ??= stop()
      return stopped
    },
    stats: () => ({
      sessionId: session.current() ?? null,
      slots: settings.slots,
      busy: slots.busy(),
      ending: completer.pending(),
      abandoned: slots.leftBehind(),
    }),
  }
}

/** Stands in where the definition of a run is not there or not valid: the attempt fails and says so, nothing is called. */
const unusableDefinition = jobDefinitionSchema.parse({
  handler: { kind: 'http', url: 'http://invalid.invalid/' },
})
const unusableHandler: Handler = {
  kind: 'http',
  execute: async () => ({
    outcome: 'failed',
    retryable: false,
    error: {
      code: 'definition_unusable',
      message:
        'The definition of this job version cannot be used by this worker; save the job again, or update the worker.',
    },
  }),
  close: async () => {},
}

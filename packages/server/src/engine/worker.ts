/**
 * The worker: claims ready runs, executes their handlers, has their ends written.
 *
 *   claim (claimer.ts) ──► slot taken ──► attempt (attempt.ts) ──► completer ──► acknowledged ──► slot free
 *
 * 1. A slot is taken from the claim until the end is on record, so neither claimed runs nor unwritten ends
 *    pile up. Where slots become free faster than claims come back, some more runs are held, and wait for
 *    handlers for a few milliseconds (slots.ts, waiting-runs.ts).
 * 2. Everything that it holds hangs on its session (session.ts). When that is lost, every handler's signal
 *    fires, and nothing of the old session is written except successes, which the epochs let in or not.
 * 3. Stop: claim no more; give back what waits; drain, up to `drainMs`; signal `shutdown` to what still runs;
 *    write the ends (at least once: back in the queue, uncounted; at most once: outcome unknown); give back
 *    what was never started; close the session. A database that answers nothing is not waited for: each step
 *    has its limit, so the whole ends within `drainMs` + `abortGraceMs` + 15 s, with nothing to drain within
 *    6 s. What is left undone is the rescuer's as soon as the lease ends.
 */
import type { TagClock } from '../domain/fair-queue.ts'
import type { CallbackStore } from '../ports/callbacks.ts'
import type { Clock } from '../ports/clock.ts'
import type { EventSink } from '../ports/event-sink.ts'
import type { Handler } from '../ports/handler.ts'
import type { Hints } from '../ports/hints.ts'
import type { Ids } from '../ports/ids.ts'
import type { LeaseKeeper } from '../ports/lease-keeper.ts'
import type { Random } from '../ports/random.ts'
import type { RunQueue } from '../ports/run-queue.ts'
import type { RunStore, SessionOwner } from '../ports/run-store.ts'
import type { Service } from '../ports/service.ts'
import { createParker, type Parker } from './callbacks/parker.ts'
import { createClaimBook } from './claim-book.ts'
import { type Claimer, createClaimer } from './claimer.ts'
import { type Completer, createCompleter } from './completer.ts'
import type { DatabaseClock } from './database-clock.ts'
import { createExecutor, type Executor } from './executor.ts'
import { createWorkerSession, type WorkerSession } from './session.ts'
import { createSlots, type Slots } from './slots.ts'
import { settledWithin } from './within.ts'

/** Limits of the steps of a stop: for writing the last ends, and for each of the others. */
const flushMs = 8_000
const stepMs = 2_000

export interface WorkerOptions {
  readonly queue: RunQueue
  readonly store: RunStore
  readonly callbacks: Pick<CallbackStore, 'park'>
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
  /** The lane of what it claims from a queue; unset: that of the queue (domain/route.ts). */
  readonly laneOf?: ((queue: string) => string) | undefined
  readonly host: string
  readonly version: string
  readonly queues: readonly string[] | '*'
  /** Of a worker of functions. */
  readonly owner?: SessionOwner | undefined
  /** Where functions of this process may block its event loop. */
  readonly keeper?: LeaseKeeper | undefined
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

const workerDefaults: WorkerSettings = {
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
  readonly stats: () => WorkerStats
}

export function createWorker(options: WorkerOptions): Worker {
  const { clock, events } = options
  const settings = { ...workerDefaults, ...options.settings }
  const book = createClaimBook()
  const slots = createSlots(settings.slots, clock, book)
  const completer = createCompleter({
    ...options,
    batchMs: settings.completionBatchMs,
    batchSize: settings.completionBatchSize,
    nothingElseRuns: (pending) => pending >= slots.busy(),
  })
  const parker = createParker(options)
  const executor = createExecutor({
    ...options,
    slots,
    completer,
    parker,
    abortGraceMs: settings.abortGraceMs,
    onSlotFreed: () => claimer.slotFreed(),
    giveBack: (sessionId, runs) => claimer.giveBack(sessionId, runs),
  })
  const session = createWorkerSession({
    ...options,
    ...settings,
    queues: options.queues === '*' ? ['*'] : options.queues,
    marginMs: settings.leaseMarginMs,
    onOpened: () => claimer.wake(),
    onLost: executor.abandonSession,
    onCancel: executor.cancel,
    holding: executor.executing,
    onGone: executor.abandonRuns,
  })
  const claimer = createClaimer({
    ...options,
    ...settings,
    routes: options.handlers.flatMap((handler) => handler.routes ?? [handler.kind]),
    session,
    slots,
    book,
    start: executor.start,
  })

  let stopped: Promise<void> | undefined
  return {
    name: 'worker',
    async start() {
      await session.start()
      await claimer.start()
    },
    stop() {
      const parts = { clock, settings, slots, completer, executor, parker, session, claimer, events }
      return (stopped ??= stopInSteps(parts))
    },
    stats: () => ({
      sessionId: session.current() ?? null,
      slots: settings.slots,
      busy: Math.min(settings.slots, slots.busy()),
      ending: completer.pending(),
      abandoned: slots.leftBehind(),
    }),
  }
}

interface StopParts {
  readonly clock: Clock
  readonly events: EventSink
  readonly settings: WorkerSettings
  readonly slots: Slots
  readonly completer: Completer
  readonly executor: Executor
  readonly parker: Parker
  readonly session: WorkerSession
  readonly claimer: Claimer
}

/** None of the steps waits for a database that answers nothing beyond its limit. */
async function stopInSteps(parts: StopParts): Promise<void> {
  const { clock, events, settings, slots, completer, executor, parker, session, claimer } = parts
  // a claim under way that comes back later starts nothing and is given back
  await settledWithin(clock, stepMs, claimer.stop())
  executor.giveBackWaiting()
  await slots.emptied(clock, settings.drainMs)
  executor.shutDown()
  // handlers that ignore the signal are left behind after the grace; a second more for their ends to be
  // written
  await slots.emptied(clock, settings.abortGraceMs + 1_000)
  await completer.stop(flushMs)
  parker.stop()
  const given = claimer.giveBackStrays().catch((error: unknown) => {
    events.emit('role_failed', { role: 'worker', error, retryInMs: 0 })
  })
  await settledWithin(clock, stepMs, given)
  await settledWithin(clock, stepMs, session.stop())
}

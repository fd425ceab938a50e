// A worker on a test database with short times, everything it says recorded, and a handler under the test's
// control. `stopAll` in afterEach stops every worker that a test started, so none outlives it.
import { createPostgresCallbackStore } from '../../packages/server/src/postgres/callback-store.ts'
import { createTagClock } from '../../packages/server/src/domain/fair-queue.ts'
import { createDatabaseClock } from '../../packages/server/src/engine/database-clock.ts'
import {
  createWorker,
  type Worker,
  type WorkerOptions,
  type WorkerSettings,
} from '../../packages/server/src/engine/worker.ts'
import type { Hints } from '../../packages/server/src/ports/hints.ts'
import { realClock } from './real-clock.ts'
import {
  recordEvents,
  recordHints,
  type RecordedEvents,
  type RecordedHints,
  type RunningFixture,
  type TestHandler,
  testIds,
} from './running.ts'

export type RigOptions = Partial<Omit<WorkerOptions, 'settings' | 'handlers' | 'events' | 'hints'>> & {
  readonly settings?: Partial<WorkerSettings>
  /** What the worker hears, made of what is recorded. */
  readonly withHints?: (hints: Hints) => Hints
}

export type WorkerRig = {
  readonly worker: Worker
  readonly events: RecordedEvents
  readonly hints: RecordedHints
}

export type WorkerRigs = {
  readonly start: (handler: TestHandler, options?: RigOptions) => Promise<WorkerRig>
  readonly stopAll: () => Promise<void>
}

/** Fast enough for tests, slow enough for a busy machine. */
const settings: Partial<WorkerSettings> = {
  slots: 10,
  leaseMs: 5_000,
  heartbeatMs: 1_000,
  leaseMarginMs: 1_000,
  maxPollMs: 50,
  abortGraceMs: 200,
  drainMs: 5_000,
}

export function workerRigs(fixture: () => RunningFixture): WorkerRigs {
  const started: Worker[] = []
  return {
    async start(handler, { withHints, ...options } = {}) {
      const events = recordEvents()
      const hints = recordHints()
      const clock = options.clock ?? realClock
      const worker = createWorker({
        queue: fixture().queue,
        store: fixture().store,
        callbacks: createPostgresCallbackStore(fixture().db),
        clock,
        databaseClock: createDatabaseClock(clock),
        random: { next: Math.random },
        ids: testIds,
        tags: createTagClock(),
        host: 'test',
        version: '0',
        queues: ['default'],
        ...options,
        handlers: [handler],
        events,
        hints: withHints?.(hints) ?? hints,
        settings: { ...settings, ...options.settings },
      })
      started.push(worker)
      await worker.start()
      return { worker, events, hints }
    },
    async stopAll() {
      await Promise.all(started.splice(0).map((worker) => worker.stop()))
    },
  }
}

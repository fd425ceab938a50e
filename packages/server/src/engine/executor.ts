/**
 * From a claimed run to its end on record: takes the slot, runs the attempt, hands its end to the completer,
 * frees the slot when that is acknowledged. A run that its target took over is parked instead
 * (callbacks/parker.ts). A run whose time was over when it was claimed ends without one.
 * Knows what to abort for a lost session, a cancel, a shutdown.
 *
 * What was claimed while as many handlers as slots are at work waits for one of them (waiting-runs.ts).
 */
import type { JobDefinition, RunError } from '@belfry/contract'
import { jobDefinitionSchema } from '@belfry/contract'
import type { Clock } from '../ports/clock.ts'
import type { EventSink } from '../ports/event-sink.ts'
import type { AbortReason, Handler } from '../ports/handler.ts'
import type { Random } from '../ports/random.ts'
import type { ClaimedRun } from '../ports/run-queue.ts'
import type { Overdue } from '../domain/run-limits.ts'
import { startAttempt } from './attempt.ts'
import type { Parker } from './callbacks/parker.ts'
import type { Completer } from './completer.ts'
import type { DatabaseClock } from './database-clock.ts'
import { overdueEnd } from './overdue-end.ts'
import type { Held, Slots } from './slots.ts'
import { createWaitingRuns, type WaitingRuns } from './waiting-runs.ts'

export interface ExecutorOptions {
  readonly handlers: readonly Handler[]
  readonly clock: Clock
  readonly databaseClock: DatabaseClock
  readonly random: Random
  readonly events: EventSink
  readonly slots: Slots
  readonly completer: Pick<Completer, 'submit'>
  readonly parker: Pick<Parker, 'park'>
  readonly abortGraceMs: number
  readonly onSlotFreed: () => void
  /** Gives back runs that were never started; answers whether that is acknowledged. */
  readonly giveBack: (sessionId: string, runs: readonly ClaimedRun[]) => Promise<boolean>
}

export interface Executor {
  /** Begins an attempt claimed under `sessionId`. Without a definition, or with a fault, it fails. */
  readonly start: (
    sessionId: string,
    run: ClaimedRun,
    definition: JobDefinition | undefined,
    fault?: RunError,
  ) => void
  readonly abandonSession: (sessionId: string) => void
  readonly cancel: (runIds: readonly string[]) => void
  /** Runs that are held under a session. */
  readonly executing: (sessionId: string) => readonly string[]
  /** Runs that were ended by others: their handlers work for nothing. */
  readonly abandonRuns: (runIds: readonly string[]) => void
  /** Gives back what waits for a handler that is at work. */
  readonly giveBackWaiting: () => void
  readonly shutDown: () => void
}

export function createExecutor(options: ExecutorOptions): Executor {
  const { events, slots } = options
  const waiting = createWaitingRuns(options)

  function abandon(held: readonly Held[]): void {
    for (const { run, abort } of held) {
      if (!abort('lease_lost')) continue
      const { runId, leaseEpoch } = run
      events.emit('lease_lost', { runId, leaseEpoch, at: 'heartbeat' })
    }
  }

  return {
    start: createStarter(options, waiting),
    giveBackWaiting: waiting.giveBack,
    executing: (sessionId) =>
      slots
        .held()
        .filter((held) => held.sessionId === sessionId)
        .map(({ run }) => run.runId),
    abandonSession: (sessionId) => abandon(slots.held().filter((held) => held.sessionId === sessionId)),
    abandonRuns(runIds) {
      const gone = new Set(runIds)
      abandon(slots.held().filter(({ run }) => gone.has(run.runId)))
    },
    cancel(runIds) {
      const asked = new Set(runIds)
      for (const held of slots.held()) if (asked.has(held.run.runId)) held.abort('cancel')
    },
    shutDown() {
      for (const held of slots.held()) held.abort('shutdown')
    },
  }
}

/** Answers what begins an attempt and sees it through to its end. */
function createStarter(options: ExecutorOptions, waiting: WaitingRuns): Executor['start'] {
  const { events, slots, completer, parker } = options
  const handlers = new Map(options.handlers.map((handler) => [handler.kind, handler]))

  function release(held: Held): void {
    slots.release(held)
    options.onSlotFreed()
  }

  function drop(held: Held): void {
    slots.drop(held)
    options.onSlotFreed()
  }

  const start: Executor['start'] = (sessionId, run, known, fault) => {
    if (run.overdue !== null) endUnstarted(sessionId, run, run.overdue)
    else if (slots.idle()) begin(sessionId, run, known, fault)
    else waiting.add({ sessionId, run, begin: () => begin(sessionId, run, known, fault) })
  }

  const begin: Executor['start'] = (sessionId, run, known, fault) => {
    const definition = known ?? unusableDefinition
    const executing = (known && handlers.get(known.handler.kind)) ?? failingHandler(unusable)
    const handler = fault === undefined ? executing : failingHandler(fault)
    const { runId, tenantId, jobId, leaseEpoch } = run
    events.emit('attempt_started', { runId, tenantId, jobId, attempt: run.attempt, leaseEpoch })
    let running = true
    const over = slots.begin()
    const started = { sessionId, run, definition, handler }
    const attempt = startAttempt(options, started, ({ end, accepted, abandoned }) => {
      running = false
      over()
      if (abandoned !== undefined) slots.leaveBehind(abandoned)
      const onDropped = (): void => drop(held)
      if (accepted !== undefined)
        parker.park({ sessionId, run, limits: accepted, onParked: () => release(held), onDropped })
      else if (end === undefined) release(held)
      else completer.submit({ sessionId, run, end, onAcknowledged: () => release(held), onDropped })
      waiting.next()
    })
    const abort = (reason: AbortReason): boolean => {
      if (running) attempt.abort(reason)
      return running
    }
    const held: Held = { sessionId, run, abort }
    slots.take(held)
  }

  /** It keeps its slot until that is on record, as every other end. */
  function endUnstarted(sessionId: string, run: ClaimedRun, overdue: Overdue): void {
    const held: Held = { sessionId, run, abort: () => false }
    slots.take(held)
    const end = overdueEnd(run, overdue, options.databaseClock.nowMs())
    completer.submit({
      sessionId,
      run,
      end,
      onAcknowledged: () => release(held),
      onDropped: () => drop(held),
    })
  }

  return start
}

/** Stands in where the definition of a run is not there or not valid; nothing is called. */
const unusableDefinition = jobDefinitionSchema.parse({
  handler: { kind: 'http', url: 'http://invalid.invalid/' },
})
const unusable: RunError = {
  code: 'definition_unusable',
  message: 'This worker cannot use the definition of this job version; save the job again, or update it.',
}
const failingHandler = (error: RunError): Handler => ({
  kind: 'http',
  execute: async () => ({ outcome: 'failed', retryable: false, error }),
  close: async () => {},
})

/**
 * Ends of attempts, gathered and written in batches.
 *
 * 1. An end that comes while nothing was sent for `batchMs` goes out at once; those that follow gather for
 *    `batchMs`, or until there are `batchSize` or nothing else runs. One statement is under way at a time, so
 *    under load batches grow by themselves, to twice that size.
 * 2. Nothing is acknowledged that is not committed. While the database is away the batch is kept and sent
 *    again, with backoff; the worker's slots bound how much that can be. A call whose answer was lost is safe
 *    to repeat (ports/run-store.ts).
 * 3. An end that cannot be stored holds up no other (isolate-fault.ts): alone and refused again, it loses its
 *    details, and then goes altogether. It is reported, its slot is free, and its run stays with the session
 *    until the rescuer takes it at its deadline.
 * 4. Whether an end is still wanted is decided by its epoch, in SQL, not by what this process believes about
 *    its lease: a success that nobody has taken over yet still counts.
 */
import type { Clock, Timer } from '../ports/clock.ts'
import type { EventSink } from '../ports/event-sink.ts'
import type { Hints } from '../ports/hints.ts'
import type { Random } from '../ports/random.ts'
import type { ClaimedRun } from '../ports/run-queue.ts'
import type { AppliedEnd, AttemptEnd, LetGo, RunStore } from '../ports/run-store.ts'
import type { DatabaseClock } from './database-clock.ts'
import { isFaultOfRows, isolateFault } from './isolate-fault.ts'
import { hintEnded } from './backfill-hints.ts'
import { tellPaused } from './failure-pauses.ts'
import { hintTimers } from './timer-hints.ts'

const firstRetryMs = 50
const longestRetryMs = 5_000

export interface CompleterOptions {
  readonly store: Pick<RunStore, 'complete'>
  readonly clock: Clock
  readonly databaseClock: DatabaseClock
  readonly random: Random
  readonly events: EventSink
  readonly hints: Pick<Hints, 'publish'>
  readonly batchMs: number
  readonly batchSize: number
  /** Whether no other end can come before these are written: then there is nothing to gather. */
  readonly nothingElseRuns: (pending: number) => boolean
}

export interface EndedAttempt {
  readonly sessionId: string
  readonly run: ClaimedRun
  readonly end: AttemptEnd
  /** Called once, when the end is on record or was refused: the run is no longer held. */
  readonly onAcknowledged: () => void
  /** Called instead when the end cannot be stored: the run is still held, on paper. */
  readonly onDropped: () => void
}

export interface Completer {
  readonly submit: (ended: EndedAttempt) => void
  /** Ends that are not acknowledged yet. */
  readonly pending: () => number
  /** Sends what is left; gives up after `limitMs`. */
  readonly stop: (limitMs: number) => Promise<void>
}

export function createCompleter(options: CompleterOptions): Completer {
  const { clock, batchMs, batchSize } = options
  const waiting: EndedAttempt[] = []
  const givenUp = new AbortController()
  const send = createSender(options, givenUp.signal)
  let inFlight = 0
  let timer: Timer | undefined
  let urgent = false
  let lastSentMs = -Infinity
  let emptied: PromiseWithResolvers<void> | undefined

  function schedule(): void {
    if (inFlight > 0 || waiting.length === 0) return
    const now = emptied !== undefined || options.nothingElseRuns(waiting.length)
    if (waiting.length >= batchSize) {
      timer?.cancel()
      flush()
      return
    }
    if (timer !== undefined && (urgent || !now)) return
    timer?.cancel()
    urgent = now
    timer = clock.setTimer(now ? 0 : Math.max(0, lastSentMs + batchMs - clock.monotonicMs()), flush)
  }

  function flush(): void {
    timer = undefined
    if (inFlight > 0 || givenUp.signal.aborted) return
    const batch = takeBatch(waiting, 2 * batchSize)
    inFlight = batch.length
    lastSentMs = clock.monotonicMs()
    void send(batch).then(() => {
      inFlight = 0
      if (waiting.length === 0) emptied?.resolve()
      schedule()
    })
  }

  return {
    submit(ended) {
      waiting.push(ended)
      schedule()
    },
    pending: () => waiting.length + inFlight,
    async stop(limitMs) {
      emptied = Promise.withResolvers()
      if (waiting.length + inFlight === 0) emptied.resolve()
      const limit = clock.setTimer(limitMs, emptied.resolve)
      schedule()
      await emptied.promise
      limit.cancel()
      givenUp.abort()
      timer?.cancel()
    },
  }
}

/** The oldest ends, all of one session. */
function takeBatch(waiting: EndedAttempt[], most: number): EndedAttempt[] {
  const sessionId = waiting[0]?.sessionId
  const other = waiting.findIndex((ended) => ended.sessionId !== sessionId)
  return waiting.splice(0, Math.min(most, other < 0 ? waiting.length : other))
}

type Batch = readonly EndedAttempt[]

/**
 * Answers a function that sends a batch until each end in it is acknowledged or dropped, or until `givenUp`
 * fires. It never rejects.
 */
function createSender(options: CompleterOptions, givenUp: AbortSignal): (batch: Batch) => Promise<void> {
  const { clock, databaseClock, events, random, store } = options

  async function write(part: Batch): Promise<void> {
    const sentMs = clock.monotonicMs()
    const ends = part.map((ended) => ended.end)
    const { applied, paused, nowMs, ...letGo } = await store.complete(part[0]?.sessionId ?? '', ends)
    databaseClock.observe(nowMs, sentMs)
    acknowledge(options, part, applied, letGo)
    tellPaused(options, paused)
  }

  async function writeBare(ended: EndedAttempt, fault: unknown): Promise<void> {
    report(ended, 'its details are left out', fault)
    try {
      await write([{ ...ended, end: withoutDetails(ended.end) }])
    } catch (error) {
      if (!isFaultOfRows(error)) throw error
      report(ended, 'it is given up, and the run is left to its deadline', error)
      ended.onDropped()
    }
  }

  function report({ run }: EndedAttempt, consequence: string, cause: unknown): void {
    const why = cause instanceof Error ? cause.message : String(cause)
    const what = `The end of attempt ${run.attempt} of run ${run.runId} cannot be stored`
    const words = `${what}; ${consequence}: ${why}`
    events.emit('role_failed', { role: 'completer', error: new Error(words, { cause }), retryInMs: 0 })
  }

  return async (batch) => {
    const open = new Set(batch)
    const done = (part: Batch): void => {
      for (const ended of part) open.delete(ended)
    }
    for (let failures = 0; open.size > 0 && !givenUp.aborted; failures++) {
      try {
        await isolateFault(
          [...open],
          async (part) => {
            if (givenUp.aborted) return
            await write(part)
            done(part)
          },
          async (ended, fault) => {
            await writeBare(ended, fault)
            done([ended])
          },
        )
      } catch (error) {
        const ceilingMs = Math.min(longestRetryMs, firstRetryMs * 2 ** Math.min(failures, 10))
        const retryInMs = Math.round(ceilingMs * (0.5 + random.next() / 2))
        events.emit('role_failed', { role: 'completer', error, retryInMs })
        await clock.sleep(retryInMs, givenUp)
      }
    }
  }
}

function acknowledge(
  { events, hints }: CompleterOptions,
  batch: Batch,
  applied: readonly AppliedEnd[],
  letGo: LetGo,
): void {
  const states = new Map(applied.map((each) => [each.runId, each.runState]))
  for (const { run, end } of batch) {
    const { runId, tenantId, jobId, queue, attempt, leaseEpoch } = run
    const state = states.get(runId)
    if (state === undefined) {
      events.emit('lease_lost', { runId, leaseEpoch, at: 'complete' })
      continue
    }
    const { outcome, errorCode } = end
    const durationMs = end.endedAtMs - end.startedAtMs
    events.emit('attempt_ended', {
      runId,
      tenantId,
      jobId,
      queue,
      attempt,
      outcome,
      durationMs,
      errorCode,
      state: state ?? 'pending',
    })
  }
  hintTimers(hints, applied, letGo)
  hintEnded(
    hints,
    batch.map(({ run }) => run),
    states,
  )
  for (const ended of batch) ended.onAcknowledged()
}

/** What could not be stored was most likely the text that came from outside; the outcome is worth more. */
function withoutDetails(end: AttemptEnd): AttemptEnd {
  const kept = { ...end, responseHeaders: undefined }
  return { ...kept, response: null, responseTruncated: false, httpStatus: null, errorMessage: null }
}

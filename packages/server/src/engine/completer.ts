/**
 * Ends of attempts, gathered and written in batches.
 *
 * 1. An end that comes while nothing was sent for `batchMs` goes out at once; those that follow gather for
 *    `batchMs`, or until there are `batchSize` or nothing else runs. One statement is under way at a time, so
 *    under load batches grow by themselves.
 * 2. Nothing is acknowledged that is not committed. While the database is away the batch is kept and sent
 *    again, with backoff; the worker's slots bound how much that can be. A call whose answer was lost is safe
 *    to repeat (ports/run-store.ts).
 * 3. Whether an end is still wanted is decided by its epoch, in SQL, not by what this process believes about
 *    its lease: a success that nobody has taken over yet still counts.
 */
import { BelfryError } from '@belfry/contract'
import type { Clock, Timer } from '../ports/clock.ts'
import type { EventSink } from '../ports/event-sink.ts'
import type { Hints } from '../ports/hints.ts'
import type { Random } from '../ports/random.ts'
import type { ClaimedRun } from '../ports/run-queue.ts'
import type { AppliedEnd, AttemptEnd, RunStore } from '../ports/run-store.ts'
import type { DatabaseClock } from './database-clock.ts'
import { hintRetries } from './retry-hints.ts'

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
  /** Called once, when the end is on record or was refused. */
  readonly onAcknowledged: () => void
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
    const now =
      emptied !== undefined || waiting.length >= batchSize || options.nothingElseRuns(waiting.length)
    if (timer !== undefined && (urgent || !now)) return
    timer?.cancel()
    urgent = now
    timer = clock.setTimer(now ? 0 : Math.max(0, lastSentMs + batchMs - clock.monotonicMs()), flush)
  }

  function flush(): void {
    timer = undefined
    if (inFlight > 0 || givenUp.signal.aborted) return
    const batch = takeBatch(waiting, batchSize)
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
function takeBatch(waiting: EndedAttempt[], batchSize: number): EndedAttempt[] {
  const sessionId = waiting[0]?.sessionId
  const other = waiting.findIndex((ended) => ended.sessionId !== sessionId)
  return waiting.splice(0, Math.min(batchSize, other < 0 ? waiting.length : other))
}

type Batch = readonly EndedAttempt[]

/**
 * Answers a function that sends a batch until it is acknowledged, or until `givenUp` fires. It never rejects.
 */
function createSender(options: CompleterOptions, givenUp: AbortSignal): (batch: Batch) => Promise<void> {
  const { clock, databaseClock, events, random, store } = options

  async function send(batch: Batch): Promise<void> {
    let ends = batch.map((ended) => ended.end)
    for (let failures = 0; !givenUp.aborted; failures++) {
      try {
        const sentMs = clock.monotonicMs()
        const { applied, nowMs } = await store.complete(batch[0]?.sessionId ?? '', ends)
        databaseClock.observe(nowMs, sentMs)
        acknowledge(options, batch, applied)
        return
      } catch (error) {
        const ceilingMs = Math.min(longestRetryMs, firstRetryMs * 2 ** Math.min(failures, 10))
        const retryInMs = Math.round(ceilingMs * (0.5 + random.next() / 2))
        events.emit('role_failed', { role: 'completer', error, retryInMs })
        if (!isPassing(error)) {
          // one end that cannot be stored must not hold up the others
          if (batch.length > 1) return sendHalves(batch)
          ends = ends.map(withoutDetails)
        }
        await clock.sleep(retryInMs, givenUp)
      }
    }
  }

  async function sendHalves(batch: Batch): Promise<void> {
    const middle = Math.ceil(batch.length / 2)
    await send(batch.slice(0, middle))
    await send(batch.slice(middle))
  }

  return send
}

function acknowledge(
  { events, hints }: CompleterOptions,
  batch: Batch,
  applied: readonly AppliedEnd[],
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
    const facts = { runId, tenantId, jobId, queue, attempt, outcome, durationMs, errorCode }
    events.emit('attempt_ended', { ...facts, state: state ?? 'pending' })
  }
  hintRetries(hints, applied)
  for (const ended of batch) ended.onAcknowledged()
}

/** Whether trying the same again can help: the database is away, busy or in doubt. */
function isPassing(error: unknown): boolean {
  return error instanceof BelfryError && error.retryable
}

/** What could not be stored was most likely the text that came from outside; the outcome is worth more. */
function withoutDetails(end: AttemptEnd): AttemptEnd {
  return { ...end, response: null, responseTruncated: false, httpStatus: null, errorMessage: null }
}

/**
 * Ends of attempts, gathered and reported in batches.
 *
 * 1. An end that comes while nothing was sent for `batchMs` goes out at once; those that follow gather for
 *    `batchMs`, or until there is a full batch or nothing else runs. One call is under way at a time, so
 *    under load batches grow by themselves.
 * 2. While the server does not answer, the batch is kept and sent again with backoff: a report that was
 *    answered into the void is safe to repeat. The worker's slots bound how much that can be.
 * 3. A batch that is refused for what stands in it is halved, down to the one at fault, which loses its
 *    result and says so. Whatever is left of a session that is over is dropped: its runs are somebody else's.
 */
import type { AttemptReport, WorkerCompleted } from '@belfry/contract'
import { BelfryError } from '@belfry/contract'
import { pause } from '../transport.ts'

const firstRetryMs = 100
const longestRetryMs = 5_000
/** Of a body, well below what the API takes. */
const maxBytes = 600 * 1024

export interface ReporterOptions {
  readonly batchMs: number
  readonly batchSize: number
  readonly send: (sessionId: string, ends: readonly AttemptReport[]) => Promise<WorkerCompleted['results']>
  /** Whether no other end can come before these are sent: then there is nothing to gather. */
  readonly nothingElseRuns: (pending: number) => boolean
  readonly onTrouble: (what: string, error: unknown, retryInMs: number) => void
}

export interface Ended {
  readonly sessionId: string
  readonly report: AttemptReport
  /** Called once: the run holds no slot any more. `told`: the server has heard of the end. */
  readonly onDone: (applied: boolean, told: boolean) => void
}

export interface Reporter {
  readonly submit: (ended: Ended) => void
  readonly pending: () => number
  /** Sends what is left; gives up after `limitMs`. */
  readonly stop: (limitMs: number) => Promise<void>
}

export function createReporter(options: ReporterOptions): Reporter {
  const { batchMs, batchSize } = options
  const waiting: Ended[] = []
  const givenUp = new AbortController()
  let inFlight = 0
  let timer: NodeJS.Timeout | undefined
  let urgent = false
  let lastSentMs = -Infinity
  let emptied: PromiseWithResolvers<void> | undefined

  function schedule(): void {
    if (inFlight > 0 || waiting.length === 0) return
    const now =
      emptied !== undefined || waiting.length >= batchSize || options.nothingElseRuns(waiting.length)
    if (timer !== undefined && (urgent || !now)) return
    clearTimeout(timer)
    urgent = now
    timer = setTimeout(flush, now ? 0 : Math.max(0, lastSentMs + batchMs - performance.now()))
  }

  function flush(): void {
    timer = undefined
    if (inFlight > 0 || givenUp.signal.aborted) return
    const batch = takeBatch(waiting, batchSize)
    inFlight = batch.length
    lastSentMs = performance.now()
    void sendUntilDone(options, batch, givenUp.signal).then(() => {
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
      const limit = setTimeout(emptied.resolve, limitMs)
      schedule()
      await emptied.promise
      clearTimeout(limit)
      clearTimeout(timer)
      givenUp.abort()
    },
  }
}

/** The oldest ends, all of one session, as many as fit into a body. */
function takeBatch(waiting: Ended[], batchSize: number): Ended[] {
  const sessionId = waiting[0]?.sessionId
  let bytes = 0
  const end = waiting.findIndex((ended, index) => {
    const { result } = ended.report
    bytes += 300 + (result === undefined ? 0 : Buffer.byteLength(JSON.stringify(result)))
    return index > 0 && (ended.sessionId !== sessionId || index >= batchSize || bytes > maxBytes)
  })
  return waiting.splice(0, end < 0 ? waiting.length : end)
}

/** Never rejects. */
async function sendUntilDone(
  options: ReporterOptions,
  batch: readonly Ended[],
  signal: AbortSignal,
): Promise<void> {
  const [first] = batch
  if (first === undefined) return
  let sessionOver = false
  for (let failures = 0; !signal.aborted; failures++) {
    try {
      const results = await options.send(
        first.sessionId,
        batch.map(({ report }) => report),
      )
      const applied = new Set(results.filter((result) => result.applied).map((result) => result.runId))
      for (const { report, onDone } of batch) onDone(applied.has(report.runId), true)
      return
    } catch (error) {
      const code = error instanceof BelfryError ? error.code : undefined
      sessionOver = code === 'session_lost'
      if (sessionOver || code === 'unauthenticated' || code === 'forbidden') break
      if (code === 'invalid_request' || code === 'body_too_large') return halve(options, batch, error, signal)
      const ceilingMs = Math.min(longestRetryMs, firstRetryMs * 2 ** Math.min(failures, 10))
      const retryInMs = Math.round(ceilingMs * (0.5 + Math.random() / 2))
      options.onTrouble('report of ends', error, retryInMs)
      await pause(retryInMs, signal).catch(() => undefined)
    }
  }
  for (const { onDone } of batch) onDone(false, sessionOver)
}

async function halve(
  options: ReporterOptions,
  batch: readonly Ended[],
  error: unknown,
  signal: AbortSignal,
): Promise<void> {
  const [only] = batch
  if (batch.length > 1) {
    const middle = Math.ceil(batch.length / 2)
    await sendUntilDone(options, batch.slice(0, middle), signal)
    return sendUntilDone(options, batch.slice(middle), signal)
  }
  if (only === undefined) return
  options.onTrouble(`report of run ${only.report.runId}`, error, 0)
  const { runId, leaseEpoch, durationMs, outcome } = only.report
  if (only.report.error?.code === refusedCode) return only.onDone(false, false)
  const why = error instanceof Error ? error.message : String(error)
  const message = `What the attempt reported (${outcome}) was refused: ${why}`
  const report: AttemptReport = {
    runId,
    leaseEpoch,
    durationMs,
    outcome: 'failed',
    retryable: false,
    error: { code: refusedCode, message: message.slice(0, 4_000) },
  }
  return sendUntilDone(options, [{ ...only, report }], signal)
}

const refusedCode = 'report_refused'

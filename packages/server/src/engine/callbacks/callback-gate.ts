/**
 * What targets that took runs over reach of the engine (ports/callbacks.ts). It stands behind the API and
 * holds nothing: any process with an API can take any report.
 *
 * 1. The token says which attempt is meant. None, or an unknown one, is nobody; one of another run may do
 *    nothing to this one.
 * 2. While the run is held under the token's epoch the report counts, also before the target has answered the
 *    call. Its end is judged and written as that of a function on a worker is
 *    (engine/workers/remote-ends.ts).
 * 3. A report is checked first, and what is secret taken out of it (report-check.ts).
 * 4. Is the attempt over, the report that ended it may come again: it is answered as before. Every other one
 *    is refused.
 */
import type { CallbackAnswer, CallbackReport, JsonValue } from '@belfry/contract'
import { BelfryError } from '@belfry/contract'
import type {
  CallbackSignatures,
  CallbackStore,
  CallbackTokens,
  FoundCallback,
  SentReport,
} from '../../ports/callbacks.ts'
import { createDefinitionCache } from '../definition-cache.ts'
import type { SecretSource } from '../../ports/secrets.ts'
import { createRemoteEnds } from '../workers/remote-ends.ts'
import type { WorkerGateOptions } from '../workers/worker-gate.ts'
import { createReportCheck } from './report-check.ts'

/** Between a look and an end the run may be parked, once. */
const mostTries = 3

export interface CallbackGateOptions extends WorkerGateOptions {
  readonly callbacks: CallbackStore
  readonly tokens: Pick<CallbackTokens, 'hashOf'>
  readonly signatures: CallbackSignatures
  /** What must stay out of what is kept of reports. */
  readonly secrets: SecretSource
}

export interface ReportCall {
  readonly runId: string
  /** As it was sent; undefined: none was. */
  readonly token: string | undefined
  readonly report: CallbackReport
  readonly sent: SentReport
}

export interface CallbackGate {
  /** Throws `unauthenticated`, `forbidden`, `callback_over`, and as the store does. */
  report(call: ReportCall): Promise<CallbackAnswer>
}

type End = Extract<CallbackReport, { action: 'complete' | 'fail' }>
type Held = FoundCallback & { readonly sessionId: string }

export function createCallbackGate(options: CallbackGateOptions): CallbackGate {
  const { callbacks, store, tokens } = options
  const definitions = createDefinitionCache(store)
  const check = createReportCheck({ ...options, definitions })
  const ends = createRemoteEnds(options, definitions)

  async function find({ runId, token }: ReportCall): Promise<FoundCallback> {
    const hash = token === undefined ? undefined : tokens.hashOf(token)
    const found = hash && (await callbacks.find(hash))
    if (found === undefined) {
      const header = '"Authorization: Bearer <the Belfry-Callback-Token of the call>"'
      throw new BelfryError('unauthenticated', `The callback token is missing or unknown; send ${header}.`)
    }
    if (found.runId === runId) return found
    throw new BelfryError('forbidden', 'This token is for another run; send each run the token of its call.')
  }

  async function end(call: ReportCall, sent: End): Promise<CallbackAnswer> {
    let found = await find(call)
    const report = await check(found, call.sent, sent)
    for (let tries = 0; tries < mostTries && isHeld(found); tries++) {
      const { runId, leaseEpoch, nowMs, claimedAtMs } = found
      const durationMs = Math.max(0, Math.round(nowMs - (claimedAtMs ?? nowMs)))
      const [written] = await ends.complete(found.sessionId, [
        { runId, leaseEpoch, durationMs, ...outcomeOf(report) },
      ])
      if (written?.applied === true) {
        // the end is stored; where this fails, the rescuer finds it when it is due
        await callbacks.settle(found).catch(() => undefined)
        return overAnswer(found, written.state ?? 'pending')
      }
      found = await find(call)
    }
    return repeated(found, report)
  }

  /** The end that stands on record, where it is this one. */
  async function repeated(found: FoundCallback, report: End): Promise<CallbackAnswer> {
    const { outcome, error, result } = outcomeOf(report)
    const past = await callbacks.endOf(found, result)
    const isSame =
      past?.outcome === outcome &&
      (outcome === 'succeeded' ? past.sameResult : past.errorCode === error?.code)
    if (!isSame) throw over(past)
    return overAnswer(found, past.runState ?? 'pending')
  }

  return {
    async report(call) {
      const { report } = call
      if (report.action === 'complete' || report.action === 'fail') return end(call, report)
      const found = await find(call)
      if (!isHeld(found)) throw over(await callbacks.endOf(found, undefined))
      const logFull = await note(options, found, await check(found, call.sent, report))
      await callbacks.hear(found)
      const answer = runningAnswer(await find(call))
      return logFull === undefined ? answer : { ...answer, logFull }
    },
  }
}

/** Keeps what a sign of life brings; answers whether the log is full, where it brings lines. */
async function note(
  { workers }: CallbackGateOptions,
  { sessionId, tenantId, runId, leaseEpoch }: Held,
  report: CallbackReport,
): Promise<boolean | undefined> {
  if (report.action === 'heartbeat' && report.progress !== undefined)
    await workers.reportProgress(sessionId, [{ runId, leaseEpoch, progress: report.progress }])
  if (report.action !== 'log') return undefined
  const { firstLine, lines } = report
  const [kept] = await workers.appendLogs(sessionId, [{ tenantId, runId, leaseEpoch, firstLine, lines }])
  return kept?.full
}

const isHeld = (found: FoundCallback): found is Held => found.sessionId !== null

function outcomeOf(report: End): {
  readonly outcome: 'succeeded' | 'failed'
  readonly retryable: boolean
  readonly result?: JsonValue | undefined
  readonly error?: { readonly code: string; readonly message: string }
  readonly retryAfterMs?: number | undefined
} {
  if (report.action === 'complete') return { outcome: 'succeeded', retryable: true, result: report.result }
  const { error, retryable, retryAfterMs } = report
  return { outcome: 'failed', error, retryable, retryAfterMs }
}

const isoOrNull = (instantMs: number | null): string | null =>
  instantMs === null ? null : new Date(instantMs).toISOString()

function runningAnswer(found: FoundCallback): CallbackAnswer {
  const { runId, cancelRequested, reportByMs, heartbeatByMs } = found
  const times = { reportBy: isoOrNull(reportByMs), heartbeatBy: isoOrNull(heartbeatByMs) }
  return { runId, state: 'running', cancelRequested, ...times }
}

function overAnswer({ runId }: FoundCallback, state: CallbackAnswer['state']): CallbackAnswer {
  return { runId, state, cancelRequested: false, reportBy: null, heartbeatBy: null }
}

function over(
  past: { readonly outcome: string; readonly errorCode: string | null } | undefined,
): BelfryError {
  const how = past === undefined ? '' : ` (${past.errorCode ?? past.outcome})`
  const message = `The attempt that this token is for is over${how}, so nothing more is taken of it; stop.`
  return new BelfryError('callback_over', message)
}

/**
 * Asks for runs, again and again: one call at a time, which waits at the server while nothing is ready. With
 * no slot free for a while it waits for cancels only, and is called off as soon as a slot is free: that costs
 * a connection, so it is not done between one batch and the next. A failed call is tried
 * again after a growing, jittered pause, so that workers do not come back all at once; and since its answer
 * may have been lost with runs in it, the next calls say what is held, for a minute.
 */
import { BelfryError } from '@belfry/contract'
import type { ClaimedFunctionRun } from '@belfry/contract'
import { pause } from '../transport.ts'
import type { Renewed } from './heartbeat-thread.ts'
import type { HeldRuns } from './held-runs.ts'
import type { Protocol } from './protocol.ts'
import type { Session, Sessions } from './sessions.ts'
import type { WorkerListener } from './worker-events.ts'

const firstRetryMs = 200
const longestRetryMs = 10_000
const suspectMs = 60_000
/** How long no slot is free before it asks for cancels alone. */
const fullMs = 100

export interface ClaimLoopOptions {
  readonly protocol: Protocol
  readonly sessions: Sessions
  readonly held: HeldRuns
  readonly tell: WorkerListener
  readonly start: (session: Session, run: ClaimedFunctionRun) => void
  readonly onRenewed: (sessionId: string, renewed: Renewed) => void
}

export interface ClaimLoop {
  /** Resolves with the first session. Rejects where no other try can help. */
  readonly start: () => Promise<void>
  /** A slot is free. */
  readonly wake: () => void
  /** No claim is under way any more when it resolves. */
  readonly stop: () => Promise<void>
}

export function createClaimLoop(options: ClaimLoopOptions): ClaimLoop {
  const { protocol, sessions, held, tell } = options
  const stopping = new AbortController()
  const firstSession = Promise.withResolvers<void>()
  let full = new AbortController()
  let running: Promise<void> | undefined
  let suspectUntilMs = -Infinity

  async function round(): Promise<void> {
    const session = await sessions.ensure()
    firstSession.resolve()
    const max = Math.max(0, Math.min(held.free(), session.maxBatch))
    full = new AbortController()
    const signal = max === 0 ? AbortSignal.any([stopping.signal, full.signal]) : stopping.signal
    if (max === 0) await pause(fullMs, signal).catch(() => undefined)
    if (max === 0 && signal.aborted) return
    const suspect = performance.now() < suspectUntilMs
    const known = suspect ? { known: [...held.startedUnder(session.id)] } : {}
    const body = { max, waitMs: session.maxWaitMs, ...known }
    try {
      const sentAt = process.hrtime.bigint()
      const { runs, heldRunIds, cancelRunIds } = await protocol.claim(session.id, body, signal)
      for (const run of runs) options.start(session, run)
      if (heldRunIds !== null) options.onRenewed(session.id, { sentAt, heldRunIds, cancelRunIds })
    } catch (error) {
      if (max === 0 && full.signal.aborted && !stopping.signal.aborted) return
      if (max > 0) suspectUntilMs = performance.now() + suspectMs
      if (!(error instanceof BelfryError) || error.code !== 'session_lost') throw error
      sessions.lose(session.id)
    }
  }

  async function run(): Promise<void> {
    for (let failures = 0; !stopping.signal.aborted; ) {
      try {
        await round()
        failures = 0
      } catch (error) {
        if (stopping.signal.aborted) break
        if (sessions.current() === undefined && isHopeless(error)) firstSession.reject(error)
        const ceilingMs = Math.min(longestRetryMs, firstRetryMs * 2 ** Math.min(failures++, 10))
        const retryInMs = Math.round(ceilingMs * (0.5 + Math.random() / 2))
        tell({ kind: 'trouble', what: 'claim', error, retryInMs })
        await pause(retryInMs, stopping.signal).catch(() => undefined)
      }
    }
    firstSession.resolve()
  }

  return {
    async start() {
      running = run()
      await firstSession.promise
    },
    wake() {
      // called for every slot that is freed: an abort costs an error each time
      if (!full.signal.aborted) full.abort()
    },
    async stop() {
      stopping.abort()
      await running
    },
  }
}

/** Whether the same call would be refused again. */
function isHopeless(error: unknown): boolean {
  return error instanceof BelfryError && !error.retryable && error.code !== 'session_lost'
}

/**
 * What a worker tells its program: for logs and for metrics. Nothing depends on who listens; a listener that
 * throws is not heard of again.
 */

export type WorkerEvent =
  | { readonly kind: 'session_opened'; readonly sessionId: string }
  /** It claims no more, and drains. */
  | { readonly kind: 'stopping' }
  /** Its runs go to others, and every signal fires with `lease_lost`; a new session is opened. */
  | { readonly kind: 'session_lost'; readonly sessionId: string }
  | {
      readonly kind: 'attempt_started'
      readonly runId: string
      readonly job: string
      readonly attempt: number
    }
  | {
      readonly kind: 'attempt_ended'
      readonly runId: string
      readonly job: string
      readonly attempt: number
      readonly outcome: string
      readonly durationMs: number
      readonly error: { readonly code: string; readonly message: string } | null
    }
  /** The run was given to others before its end was reported; that end changes nothing. */
  | { readonly kind: 'end_refused'; readonly runId: string }
  /** A function ignored its signal and was left behind; it still runs. */
  | { readonly kind: 'function_abandoned'; readonly runId: string; readonly job: string }
  /** Lines of an attempt's log that could not be sent, or for which there was no room to wait. */
  | { readonly kind: 'log_dropped'; readonly runId: string; readonly lines: number }
  /** A call failed, or the heartbeat thread ended; it is tried again. */
  | { readonly kind: 'trouble'; readonly what: string; readonly error: unknown; readonly retryInMs: number }

export type WorkerListener = (event: WorkerEvent) => void

/** A listener that cannot break the worker. */
export function guarded(listener: WorkerListener | undefined): WorkerListener {
  let broken = listener === undefined
  return (event) => {
    if (broken) return
    try {
      listener?.(event)
    } catch {
      broken = true
    }
  }
}

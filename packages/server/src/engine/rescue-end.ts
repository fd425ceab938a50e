/**
 * The end of an attempt that the rescuer takes: its worker is gone, or did not end it in time; or nobody
 * holds it but the target that took the run over, and that does not report.
 */
import { judgeAttempt } from '../domain/attempt-outcome.ts'
import { parkedSession } from '../domain/parked.ts'
import { leftMs } from '../domain/run-limits.ts'
import type { Random } from '../ports/random.ts'
import type { AttemptEnd, StuckRun } from '../ports/run-store.ts'

export type RescueEnd = AttemptEnd & { readonly sessionId: string }

/** A hung handler used up an attempt as any timeout does; a lost worker did not. */
export function rescueEnd(run: StuckRun, nowMs: number, random: Random): RescueEnd {
  const { delivery, retry, failures, crashCount, cancelRequested } = run
  const kind = endings[run.cause]
  const fault = faultOf(run, nowMs)
  const verdict = judgeAttempt(
    {
      ending: { kind },
      delivery,
      retry,
      failures,
      crashCount,
      cancelRequested,
      errorCode: fault.errorCode,
      httpStatus: null,
      leftMs: leftMs(run.runDeadlineMs, nowMs),
    },
    random.next(),
  )
  return {
    runId: run.runId,
    sessionId: run.sessionId,
    leaseEpoch: run.leaseEpoch,
    ...verdict,
    startedAtMs: run.claimedAtMs,
    endedAtMs: Math.max(nowMs, run.claimedAtMs),
    ...fault,
    httpStatus: null,
    response: null,
    responseTruncated: false,
  }
}

const endings = { session_lost: 'lost', deadline: 'timed_out', cancel_ignored: 'canceled' } as const

interface Fault {
  readonly errorCode: string
  readonly errorMessage: string
}

function faultOf({ cause, sessionId, reportByMs }: StuckRun, nowMs: number): Fault {
  if (sessionId !== parkedSession) return ofWorker[cause]
  if (cause === 'cancel_ignored') return ofTarget.canceled
  return reportByMs !== null && nowMs < reportByMs ? ofTarget.silent : ofTarget.overdue
}

const ofWorker = {
  session_lost: {
    errorCode: 'worker_lost',
    errorMessage: 'The worker stopped answering while it ran this attempt; what the handler did is unknown.',
  },
  deadline: {
    errorCode: 'deadline_passed',
    errorMessage: 'The worker did not end the attempt by its deadline; what the handler did is unknown.',
  },
  cancel_ignored: {
    errorCode: 'canceled',
    errorMessage: 'The worker did not stop the canceled run and lost it; what the handler did is unknown.',
  },
} as const

const ofTarget = {
  silent: {
    errorCode: 'heartbeat_missed',
    errorMessage:
      'The target took the run over (202) and was then silent for longer than heartbeatMs; what it did is ' +
      'unknown. Let it report more often, or raise heartbeatMs.',
  },
  overdue: {
    errorCode: 'callback_overdue',
    errorMessage:
      'The target took the run over (202) and did not report its end in time; what it did is unknown. Make ' +
      'it faster, or raise deadlineMs of "async".',
  },
  canceled: {
    errorCode: 'canceled',
    errorMessage: 'The run was canceled while its target, which had taken it over (202), worked on it.',
  },
} as const

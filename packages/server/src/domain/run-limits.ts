/**
 * The limits of a whole run: a time by which its first attempt must have started, and a deadline for all of
 * its attempts. Pure; instants are epoch ms of the database.
 *
 *   due ──── first attempt ──── retry ──── retry ──┬── no attempt starts, one that runs is cut off
 *    └─ startBy                                 runDeadline
 *
 * Both win over a claim: a run that was claimed too late ends without its handler being called. The end of a
 * run that was never called in time is number 0 of its attempts, with the outcome `expired`.
 */
import type { JobDefinition, RunReason } from '@belfry/contract'

/** Why a run that waits may not start any more. */
export type Overdue = Extract<RunReason, 'expired' | 'deadline_exceeded'>

/** What is kept with the end of a run whose time was over; the code is the reason's own word. */
export const overdueWords: Readonly<Record<Overdue, string>> = {
  expired:
    'No attempt had started by the time set for that (startWithinMs); the handler was not called. ' +
    'If this comes often, start more workers or allow more time.',
  deadline_exceeded:
    'The time for the whole run (runDeadlineMs) was over before another attempt could start; ' +
    'the handler was not called again.',
}

/** What a request may say instead of the job. */
export interface AskedLimits {
  readonly runDeadlineMs?: number | null | undefined
  readonly startWithinMs?: number | null | undefined
}

export interface RunLimits {
  /** Null: no limit. */
  readonly startByMs: number | null
  readonly runDeadlineMs: number | null
}

/** The limits of a run that is due at `dueAtMs`; what was asked for wins over the job, null lifts a limit. */
export function limitsOf(definition: JobDefinition, asked: AskedLimits, dueAtMs: number): RunLimits {
  const after = (own: number | null | undefined, jobs: number | null): number | null => {
    const lengthMs = own === undefined ? jobs : own
    return lengthMs === null ? null : dueAtMs + lengthMs
  }
  return {
    startByMs: after(asked.startWithinMs, definition.startWithinMs),
    runDeadlineMs: after(asked.runDeadlineMs, definition.runDeadlineMs),
  }
}

/** What is left for the run at an instant, in ms, negative when it is over; null: no limit. */
export function leftMs(runDeadlineMs: number | null, nowMs: number): number | null {
  return runDeadlineMs === null ? null : runDeadlineMs - nowMs
}

/** How long an attempt that starts now may take, in whole ms, and whether the run's own end cuts it. */
export function attemptLimit(
  timeoutMs: number,
  runDeadlineMs: number | null,
  startedAtMs: number,
): { readonly limitMs: number; readonly ofRun: boolean } {
  const left = leftMs(runDeadlineMs, startedAtMs)
  if (left === null || left > timeoutMs) return { limitMs: timeoutMs, ofRun: false }
  return { limitMs: Math.max(0, Math.ceil(left)), ofRun: true }
}

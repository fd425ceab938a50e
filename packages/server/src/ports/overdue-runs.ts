/**
 * Runs that wait past their time (domain/run-limits.ts): nobody starts them any more, so somebody has to end
 * them. Any number of processes may do it at once.
 */
import type { Overdue } from '../domain/run-limits.ts'
import type { LetGo, PausedSchedule } from './run-store.ts'

export interface OverdueRun {
  readonly runId: string
  /** It waits for the run before it, whose followers are linked anew when it ends. */
  readonly chained: boolean
}

export interface ExpiredRun {
  readonly runId: string
  readonly tenantId: string
  readonly jobId: string
  readonly queue: string
  readonly reason: Overdue
}

export interface OverdueRuns {
  /** Some of them, those that are overdue longest first; at most `limit` of each kind. Writes nothing. */
  list(limit: number): Promise<readonly OverdueRun[]>
  /**
   * Ends those that still wait; each once, whoever tries. Those that somebody else holds at this moment are
   * left for the next time.
   */
  end(
    runs: readonly OverdueRun[],
  ): Promise<{ readonly ended: readonly ExpiredRun[]; readonly paused: readonly PausedSchedule[] } & LetGo>
}

// A worker played by SQL: what the engine's own statements would leave in the tables when a run is claimed
// and when it ends.
import { randomUUID } from 'node:crypto'
import type { TestDatabase } from './postgres.ts'

export type PlayedEnd = {
  readonly outcome?: string
  readonly state?: string | null
  readonly reason?: string
  readonly code?: string
  readonly status?: number
}

export type PlayedWorker = {
  /** Answers the session that holds the run from now on, as of `lateMs` after it was available. */
  claim(runId: string, lateMs?: number): Promise<string>
  /** Ends the attempt under way, well if nothing else is said. */
  end(runId: string, end?: PlayedEnd): Promise<void>
}

export function playWorker(database: TestDatabase): PlayedWorker {
  return {
    async claim(runId, lateMs = 0) {
      const session = randomUUID()
      await database.sql(
        `UPDATE belfry.ready SET session_id = $2, settled_by = $2,
           claimed_at = available_at + $3 * interval '1 ms',
           deadline = now() + interval '1 min', attempt = attempt + 1, lease_epoch = lease_epoch + 1
         WHERE run_id = $1`,
        [runId, session, lateMs],
      )
      return session
    },
    async end(runId, { outcome = 'succeeded', state = 'succeeded', reason, code, status } = {}) {
      await database.sql(
        `WITH gone AS (DELETE FROM belfry.ready WHERE run_id = $1 RETURNING *)
         INSERT INTO belfry.attempt (run_id, number, tenant_id, lease_epoch, session_id, outcome, run_state,
           reason, started_at, retry_at, error_code, error_message, http_status, response)
         SELECT run_id, attempt, tenant_id, lease_epoch, session_id, $2, $3, $4, claimed_at,
           CASE WHEN $3::text IS NULL THEN now() + interval '1 min' END, $5, $5, $6, 'answer' FROM gone`,
        [runId, outcome, state, reason ?? null, code ?? null, status ?? null],
      )
    },
  }
}

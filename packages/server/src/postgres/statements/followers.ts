/**
 * Runs that wait for the one before them (`delayed.after_run_id`), where one is taken out of the chain (by
 * requests: run-cancels.ts) or the waiting is ended; sent after what takes it out, so that they see who lined
 * up until then. The ends of attempts let them go by themselves (belfry.let_followers_go, migration 0009).
 * The scheduler releases what was let go, and looks by itself after what nobody let go (releaseDelayed in
 * firing.ts). Rows are locked in the order of their ids, after those of `ready` (see fire.ts).
 */
import { byIndex, statement } from '../statement.ts'

export type LetGoRow = { readonly shard: number }

const letGo = `SET after_run_id = NULL, due_at = belfry.now()`

/** Holds the timer of the schedule in whose chain the run waits: it may name that run as the last one. */
export const lockTimerOfAnyChain = statement<unknown, [runId: string]>(
  'followers_lock_timer_of_any',
  `
SELECT 1 FROM belfry.timer
WHERE schedule_id = (
    SELECT schedule_id FROM (SELECT * FROM belfry.delayed WHERE run_id = $1 OFFSET 0) AS gone
    WHERE after_run_id IS NOT NULL)
FOR UPDATE`,
  byIndex,
)

/**
 * Closes the chain over a run that was taken out of it while it waited: who waited for it now waits for the
 * one that it waited for, or is let go where there is none; and where it was the last, that one is it again.
 */
export const closeAnyChain = statement<
  LetGoRow,
  [runId: string, beforeRunId: string | null, scheduleId: string | null]
>(
  'followers_close_any_chain',
  `
WITH last AS (
  UPDATE belfry.timer SET last_run_id = $2
  WHERE schedule_id = $3 AND last_run_id = $1 AND $2::uuid IS NOT NULL
)
UPDATE belfry.delayed
SET after_run_id = $2, due_at = CASE WHEN $2::uuid IS NULL THEN belfry.now() ELSE due_at END
WHERE after_run_id = $1
RETURNING shard`,
  byIndex,
)

/** Lets go of all that wait in the chain of a schedule: its runs no longer mind each other. */
export const letChainGo = statement<LetGoRow, [scheduleId: string]>(
  'followers_let_chain_go',
  `
WITH locked AS MATERIALIZED (
  SELECT mine.run_id
  FROM (
    SELECT run_id, after_run_id FROM belfry.delayed
    WHERE tenant_id = belfry.tenant_id() AND schedule_id = $1 ORDER BY run_id OFFSET 0
  ) AS link
  CROSS JOIN LATERAL (SELECT run_id FROM belfry.delayed WHERE delayed.run_id = link.run_id FOR UPDATE) AS mine
  WHERE link.after_run_id IS NOT NULL
)
UPDATE belfry.delayed ${letGo}
WHERE run_id = ANY (ARRAY(SELECT run_id FROM locked))
RETURNING shard`,
  byIndex,
)

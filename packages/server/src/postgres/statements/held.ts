/**
 * What sessions hold: settled runs, which an index knows, and those of fresh claims, which are looked up by
 * their keys (migrations/0021_claims.sql). The one place that puts both together.
 */

/** All ids are beyond it; a condition that an index can be walked by. */
const nilId = `'00000000-0000-0000-0000-000000000000'::uuid`

/**
 * Which rows of `ready` are not held, for a WHERE: the first says it, the second is for the indexes, which
 * know only of those that are settled.
 */
export const unheld = (alias: string): string => `${alias}.session_id IS NULL AND ${alias}.settled_by IS NULL`

/**
 * A table of held runs, each once. Fenced off by OFFSET 0, so that it is read by these two indexes, whatever
 * else is asked of it. `columns`: of `ready`, such as can be compared. `session`: only those of
 * one, an expression that is known before.
 */
export const heldRuns = (columns: string, session?: string): string => `(
    (SELECT ${columns} FROM belfry.ready
     WHERE settled_by IS NOT NULL${session === undefined ? '' : ` AND settled_by = ${session}`}
       -- statements of the version before change one and not the other
       AND session_id = settled_by
     OFFSET 0)
    UNION
    SELECT fresh.*
    FROM belfry.claim
    CROSS JOIN LATERAL (
      SELECT ${columns} FROM belfry.ready
      WHERE run_id = ANY (claim.run_ids) AND session_id = claim.session_id
      OFFSET 0
    ) AS fresh
    WHERE claim.session_id ${session === undefined ? `>= ${nilId}` : `= ${session}`}
  )`

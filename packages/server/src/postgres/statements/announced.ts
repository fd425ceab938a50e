/**
 * Runs that are announced over Kafka or SQS: what to announce, and the claim by ids of what was.
 *
 * The ready rows themselves are the outbox. So nothing is written in order to announce, nothing has to be
 * deleted afterwards, and there is no second table that could disagree with the first.
 */
import { byIndex, statement } from '../statement.ts'
import { type ClaimRow, claimText } from './claim.ts'
import { unheld } from './held.ts'

/**
 * One of those that were named, where it stands as it was named. That it is not held is said so that no
 * partial index can be taken for it: one that begins with other columns would be walked from end to end.
 */
const named = (more = ''): string => `
    CROSS JOIN LATERAL (
      SELECT free.run_id
      FROM belfry.ready AS free
      WHERE free.run_id = said.run_id AND free.queue = said.queue AND free.tag = said.tag
        AND free.handler = ANY ($5::text[]) AND coalesce(free.session_id, free.settled_by) IS NULL
        AND free.gate IS NULL
      LIMIT 1${more}
    ) AS taken`

/**
 * Takes of these runs those that may be claimed, as `claimRuns` does. Each is named with the queue and the
 * tag under which it was announced: an id that somebody made up, or took from elsewhere, is none of them.
 */
export const claimAnnouncedRuns = statement<
  ClaimRow,
  [
    sessionId: string,
    queues: readonly string[],
    tags: readonly number[],
    runIds: readonly string[],
    routes: readonly string[],
    deadlineMarginMs: number,
    number: number,
    overNumbers: readonly number[],
  ]
>(
  'belfry_claim_announced_runs',
  claimText(
    `    SELECT
    FROM unnest($2::text[], $3::float8[], $4::uuid[]) AS said (queue, tag, run_id)${named()}`,
    `CROSS JOIN unnest($2::text[], $3::float8[], $4::uuid[]) AS said (queue, tag, run_id)${named(`
      FOR UPDATE SKIP LOCKED`)}`,
  ),
  byIndex,
)

/**
 * Names of queues in which something waits, `steps` of them at most, from after the given one on, and whether
 * any of it may be claimed by these routes. One step along `ready_claim` for a queue, however long it is.
 */
export const listAnnouncedQueues = statement<
  { readonly queue: string; readonly ready: boolean },
  [afterQueue: string, steps: number, routes: readonly string[]]
>(
  'belfry_list_announced_queues',
  `
WITH RECURSIVE step (queue, place) AS (
  (
    SELECT first.queue, 1
    FROM belfry.ready AS first
    WHERE first.settled_by IS NULL AND first.gate IS NULL AND first.queue > $1::text
    ORDER BY first.queue, first.handler, first.tag, first.run_id
    LIMIT 1
  )
  UNION ALL
  SELECT next.queue, step.place + 1
  FROM step
  CROSS JOIN LATERAL (
    SELECT ready.queue
    FROM belfry.ready
    WHERE ready.settled_by IS NULL AND ready.gate IS NULL AND ready.queue > step.queue
    ORDER BY ready.queue, ready.handler, ready.tag, ready.run_id
    LIMIT 1
  ) AS next
  WHERE step.place < $2::int
)
SELECT step.queue, EXISTS (
  SELECT
  FROM unnest($3::text[]) AS kind (handler)
  CROSS JOIN LATERAL (
    SELECT
    FROM belfry.ready AS free
    WHERE free.queue = step.queue AND free.handler = kind.handler AND ${unheld('free')} AND free.gate IS NULL
    ORDER BY free.tag, free.run_id
    LIMIT 1
  ) AS next
) AS ready
FROM step
ORDER BY step.place`,
  byIndex,
)

export type WindowRow = {
  readonly queue: string
  /** Lists of one length, lowest tag first, as Postgres writes arrays. */
  readonly run_ids: string
  readonly tags: string
  readonly lease_epochs: string
  /** By run, of those that hold a slot of a concurrency key. */
  readonly order_keys: Readonly<Record<string, string>> | null
}

/** What comes next in each queue: up to `sizes[i]` runs that may be claimed, from tag `minTags[i]` on. */
export const listNextRuns = statement<
  WindowRow,
  [queues: readonly string[], minTags: readonly number[], sizes: readonly number[], routes: readonly string[]]
>(
  'belfry_list_next_runs',
  `
SELECT source.queue, next.run_ids, next.tags, next.lease_epochs, next.order_keys
FROM unnest($1::text[], $2::float8[], $3::int[]) AS source (queue, min_tag, size)
CROSS JOIN LATERAL (
  SELECT array_agg(its.run_id)::text AS run_ids, array_agg(its.tag)::text AS tags,
    array_agg(its.lease_epoch)::text AS lease_epochs,
    json_object_agg(its.run_id, slot.limit_key) FILTER (WHERE slot.limit_key IS NOT NULL) AS order_keys
  FROM (
    SELECT each.*
    FROM unnest($4::text[]) AS kind (handler)
    CROSS JOIN LATERAL (
      SELECT free.run_id, free.tag, free.lease_epoch, free.slotted
      FROM belfry.ready AS free
      WHERE free.queue = source.queue AND free.handler = kind.handler AND ${unheld('free')}
        AND free.gate IS NULL AND free.tag >= source.min_tag
      ORDER BY free.tag, free.run_id
      LIMIT source.size
    ) AS each
    ORDER BY each.tag, each.run_id
    LIMIT source.size
  ) AS its
  LEFT JOIN LATERAL (
    SELECT held.limit_key
    FROM belfry.slot AS held
    WHERE its.slotted AND held.run_id = its.run_id AND held.limit_key LIKE 'key:%'
    ORDER BY held.run_id, held.limit_key
    LIMIT 1
  ) AS slot ON true
) AS next
WHERE next.run_ids IS NOT NULL`,
  byIndex,
)

/** How many slots those workers have that hear announcements, by the queues that they serve. */
export const listServedSlots = statement<{ readonly queues: readonly string[]; readonly slots: number }, []>(
  'belfry_list_served_slots',
  `
SELECT session.queues, sum(session.slots)::int AS slots
FROM belfry.session
-- workers of functions belong to a tenant, and claim directly
WHERE session.expires_at > belfry.now() AND session.tenant_id IS NULL
GROUP BY session.queues`,
)

/**
 * The claim: who may start what, in one statement.
 *
 *   0. whether there is anything to claim; if not, nothing is locked and the transaction writes nothing
 *   1. the session is alive, and its row is locked against deletion: so a rescuer that ends the session sees
 *      either the claimed rows or no claim at all
 *   2. the rows: per queue and route one walk along `ready_claim`, in tag order, over rows that nobody
 *      has locked
 *   3. they belong to the session from now until the deadline, under a new epoch
 *
 * The rows come as `= ANY (ARRAY (SELECT …))` and not by a join: with stale statistics a join turns into a
 * walk over the whole table. What the run itself says (its input) is looked up row by row, by its key, for
 * the same reason. test/postgres/claim.test.ts holds these plans.
 */
import { byIndex, statement } from '../statement.ts'

export type ClaimRow = {
  readonly now_ms: number
  readonly alive: boolean
  /** Null in the one row that an empty claim answers; then all the others are null too. */
  readonly run_id: string | null
  readonly tenant_id: string
  readonly job_id: string
  readonly job_version: number
  readonly queue: string
  readonly tag: number
  readonly priority: number
  readonly attempt: number
  readonly crash_count: number
  readonly failure_count: number
  readonly lease_epoch: number
  readonly timeout_ms: number
  readonly available_at_ms: number
  readonly scheduled_for_ms: number | null
  readonly due_at_ms: number
  /** The schedule, where a backfill made the run. */
  readonly backfill_of: string | null
  readonly input: unknown
}

/** Takes up to `limits[i]` runs of `queues[i]` from tag `minTags[i]` on. */
export const claimRuns = statement<
  ClaimRow,
  [
    sessionId: string,
    queues: readonly string[],
    minTags: readonly number[],
    limits: readonly number[],
    routes: readonly string[],
    deadlineMarginMs: number,
  ]
>(
  'belfry_claim_runs',
  `
WITH supply AS MATERIALIZED (
  SELECT EXISTS (
    SELECT
    FROM unnest($2::text[], $3::float8[]) AS source (queue, min_tag)
    CROSS JOIN unnest($5::text[]) AS kind (handler)
    CROSS JOIN LATERAL (
      SELECT
      FROM belfry.ready AS free
      WHERE free.queue = source.queue AND free.handler = kind.handler AND free.session_id IS NULL
        AND free.tag >= source.min_tag
      -- the order pins the index: another that holds these rows may look cheaper
      ORDER BY free.tag, free.run_id
      LIMIT 1
    ) AS next
  ) AS there
), holder AS MATERIALIZED (
  SELECT id
  FROM belfry.session
  WHERE id = $1 AND expires_at > belfry.now() AND (SELECT there FROM supply)
  FOR KEY SHARE
), claimed AS (
  UPDATE belfry.ready AS run
  SET session_id = $1,
      claimed_at = belfry.now(),
      deadline = belfry.now() + (run.timeout_ms::float8 + $6::float8) * interval '1 millisecond',
      attempt = run.attempt + 1,
      lease_epoch = run.lease_epoch + 1
  WHERE run.run_id = ANY (ARRAY(
    SELECT taken.run_id
    FROM holder
    CROSS JOIN unnest($2::text[], $3::float8[], $4::int[]) AS source (queue, min_tag, size)
    CROSS JOIN LATERAL (
      SELECT next.run_id
      FROM unnest($5::text[]) AS kind (handler)
      CROSS JOIN LATERAL (
        SELECT free.run_id, free.tag
        FROM belfry.ready AS free
        WHERE free.queue = source.queue AND free.handler = kind.handler AND free.session_id IS NULL
          AND free.tag >= source.min_tag
        ORDER BY free.tag, free.run_id
        LIMIT source.size
        FOR UPDATE SKIP LOCKED
      ) AS next
      ORDER BY next.tag, next.run_id
      LIMIT source.size
    ) AS taken
  ))
  RETURNING run.*
)
SELECT (extract(epoch FROM belfry.now()) * 1000)::float8 AS now_ms,
       CASE WHEN (SELECT there FROM supply) THEN EXISTS (SELECT FROM holder)
         ELSE EXISTS (SELECT FROM belfry.session WHERE id = $1 AND expires_at > belfry.now()) END AS alive,
       claimed.run_id, claimed.tenant_id, claimed.job_id, claimed.job_version, claimed.queue, claimed.tag,
       claimed.priority, claimed.attempt, claimed.crash_count, claimed.failure_count, claimed.lease_epoch,
       claimed.timeout_ms,
       (extract(epoch FROM claimed.available_at) * 1000)::float8 AS available_at_ms,
       (extract(epoch FROM written.scheduled_for) * 1000)::float8 AS scheduled_for_ms,
       (extract(epoch FROM coalesce(written.due_at, claimed.available_at)) * 1000)::float8 AS due_at_ms,
       CASE WHEN written.source = 'backfill' THEN written.schedule_id END AS backfill_of,
       written.input
FROM (VALUES (1)) AS one (row)
LEFT JOIN claimed ON true
LEFT JOIN LATERAL (
  SELECT run.scheduled_for, run.due_at, run.source, run.schedule_id, run.input
  FROM belfry.run
  WHERE run.tenant_id = claimed.tenant_id AND run.id = claimed.run_id
  OFFSET 0
) AS written ON true
ORDER BY claimed.tag, claimed.run_id`,
  byIndex,
)

export type ReadyQueueRow = {
  readonly tenant_id: string
  readonly weight: number
  /** How many queues of each tenant were looked for. */
  readonly share: number
  /** Null where a tenant has none after the given one. */
  readonly queue: string | null
}

/** Those of an alias of `ready` that are no functions: workers of every queue are not asked to run these. */
const anyones = (alias: string): string => `${alias}.handler NOT LIKE 'function:%'`

/**
 * Who has something ready, and where: tenant by tenant, each with the same number of its queues. One step
 * along `ready_tenant` for a tenant or a queue, whatever their length; at most `tenants` + `steps` of them.
 * (That index alone has this order, also where the queue says nothing.)
 */
export const listReadyQueues = statement<
  ReadyQueueRow,
  [
    afterTenantId: string,
    tenants: number,
    steps: number,
    /** Where the walk over the queues of these tenants goes on; that of others begins at their first. */
    resumedTenantIds: readonly string[],
    afterQueues: readonly string[],
  ]
>(
  'belfry_list_ready_queues',
  `
WITH RECURSIVE walk (tenant_id, place) AS (
  (
    SELECT first.tenant_id, 1
    FROM belfry.ready AS first
    WHERE first.session_id IS NULL AND ${anyones('first')} AND first.tenant_id > $1::uuid
    ORDER BY first.tenant_id, first.queue
    LIMIT 1
  )
  UNION ALL
  SELECT next.tenant_id, walk.place + 1
  FROM walk
  CROSS JOIN LATERAL (
    SELECT ready.tenant_id
    FROM belfry.ready
    WHERE ready.session_id IS NULL AND ${anyones('ready')} AND ready.tenant_id > walk.tenant_id
    ORDER BY ready.tenant_id, ready.queue
    LIMIT 1
  ) AS next
  WHERE walk.place < $2::int
), active AS MATERIALIZED (
  SELECT walk.tenant_id, walk.place, greatest($3::int / (count(*) OVER ())::int, 1) AS share FROM walk
)
SELECT active.tenant_id, coalesce(tenant.weight, 1)::float8 AS weight, active.share, found.queue
FROM active
LEFT JOIN unnest($4::uuid[], $5::text[]) AS resumed (tenant_id, queue) ON resumed.tenant_id = active.tenant_id
LEFT JOIN LATERAL (
  SELECT tenant.weight FROM belfry.tenant WHERE tenant.id = active.tenant_id OFFSET 0
) AS tenant ON true
LEFT JOIN LATERAL (
  WITH RECURSIVE step (queue, place) AS (
    (
      SELECT first.queue, 1
      FROM belfry.ready AS first
      WHERE first.session_id IS NULL AND ${anyones('first')}
        AND first.tenant_id = active.tenant_id
        AND first.queue > coalesce(resumed.queue, '')
      ORDER BY first.tenant_id, first.queue
      LIMIT 1
    )
    UNION ALL
    SELECT next.queue, step.place + 1
    FROM step
    CROSS JOIN LATERAL (
      SELECT ready.queue
      FROM belfry.ready
      WHERE ready.session_id IS NULL AND ${anyones('ready')}
        AND ready.tenant_id = active.tenant_id AND ready.queue > step.queue
      ORDER BY ready.tenant_id, ready.queue
      LIMIT 1
    ) AS next
    WHERE step.place < active.share
  )
  SELECT step.queue, step.place FROM step
) AS found ON true
ORDER BY active.place, found.place`,
  byIndex,
)

/** Definitions of the versions that claimed runs name, each within the tenant of its run. */
export const listDefinitions = statement<
  {
    readonly tenant_id: string
    readonly job_id: string
    readonly version: number
    readonly definition: unknown
  },
  [tenantIds: readonly string[], jobIds: readonly string[], versions: readonly number[]]
>(
  'belfry_list_definitions',
  `
SELECT found.tenant_id, found.job_id, found.version, found.definition
FROM unnest($1::uuid[], $2::uuid[], $3::int[]) AS asked (tenant_id, job_id, version)
CROSS JOIN LATERAL (
  SELECT job_version.tenant_id, job_version.job_id, job_version.version, job_version.definition
  FROM belfry.job_version
  WHERE job_version.tenant_id = asked.tenant_id AND job_version.job_id = asked.job_id
    AND job_version.version = asked.version
  OFFSET 0
) AS found`,
  byIndex,
)

/**
 * The claim: who may start what, in one statement.
 *
 *   0. whether there is anything to claim; if not, nothing is locked and the transaction writes nothing
 *   1. the session is alive, and its row is locked against deletion: so a rescuer that ends the session sees
 *      either the claimed rows or no claim at all
 *   2. the rows: per queue and route one walk along `ready_claim`, in tag order, over rows that nobody
 *      has locked
 *   3. they belong to the session from now until the deadline, under a new epoch. No index knows the columns
 *      that say so, so the row is changed in place; that they are held is noted once for all (held.ts)
 *
 * The rows come as `= ANY (ARRAY (SELECT …))` and not by a join: with stale statistics a join turns into a
 * walk over the whole table. What the run itself says (its input) is looked up by its key, a list of keys for
 * each tenant, in a function of its own (migration run_looks says why). test/postgres/claim.test.ts
 * holds these plans.
 *
 * The answer comes in few rows: rows and columns cost the worker more than all else in a claim.
 */
import { byIndex, statement } from '../statement.ts'
import { unheld } from './held.ts'

/**
 * An answer has rows of two kinds: groups of runs that differ in little, each with lists of one length; and
 * parcels of what `run` says of those of them of which it says more. An empty claim answers one row of
 * neither.
 */
export type ClaimRow = {
  readonly now_ms: number
  readonly alive: boolean
  /** Null: no group. Lists are arrays as Postgres writes them. */
  readonly run_ids: string | null
  readonly tags: string
  readonly available_at_ms: string
  readonly tenant_id: string
  readonly job_id: string
  readonly job_version: number
  readonly queue: string
  readonly priority: number
  readonly attempt: number
  readonly crash_count: number
  readonly failure_count: number
  readonly lease_epoch: number
  readonly timeout_ms: number
  /** The time for the run was over before this claim: it is to be ended unstarted. */
  readonly overdue: 'expired' | 'deadline_exceeded' | null
  readonly run_deadline_ms: number | null
  /** Whether a parcel says more of each. */
  readonly detailed: boolean
  /** Of a parcel; null: none. Lists of one length. */
  readonly detailed_ids: string | null
  readonly due_at_ms: string | null
  readonly inputs: readonly unknown[] | null
  /** Of those of the parcel that were planned. */
  readonly plans: readonly ClaimedPlan[] | null
}

/** `backfillOf`: the schedule, where a backfill made the run. */
export type ClaimedPlan = readonly [runId: string, scheduledForMs: number | null, backfillOf: string | null]

/** So many inputs come in one row: each row is parsed at one go, and inputs may be large. */
const parcelSize = 32

/** Of a group. */
const inCommon = (group: string): string =>
  `tags available_at_ms tenant_id job_id job_version queue priority attempt crash_count failure_count
   lease_epoch timeout_ms overdue run_deadline_ms detailed`
    .split(/\s+/)
    .map((column) => `${group}.${column}`)
    .join(', ')

/** What a claim answers, and keeps on record, of the rows in `claimed`. */
const answer = `), answer AS MATERIALIZED (
  SELECT date_part('epoch', belfry.now()) * 1000 AS now_ms,
    CASE WHEN (SELECT there FROM supply) THEN EXISTS (SELECT FROM holder)
      ELSE EXISTS (SELECT FROM belfry.session WHERE id = $1 AND expires_at > belfry.now()) END AS alive
), alike AS MATERIALIZED (
  SELECT array_agg(run_id) AS ids, array_agg(tag)::text AS tags,
    array_agg(date_part('epoch', available_at) * 1000)::text AS available_at_ms,
    tenant_id, job_id, job_version, queue, priority, attempt, crash_count, failure_count, lease_epoch,
    timeout_ms,
    CASE WHEN run_deadline <= belfry.now() THEN 'deadline_exceeded'
      WHEN start_by <= belfry.now() THEN 'expired' END AS overdue,
    date_part('epoch', run_deadline) * 1000 AS run_deadline_ms, detailed
  FROM claimed
  GROUP BY tenant_id, job_id, job_version, queue, priority, attempt, crash_count, failure_count, lease_epoch,
    timeout_ms, start_by, run_deadline, detailed
), noted AS (
  INSERT INTO belfry.claim (session_id, tenant_id, number, run_ids) SELECT $1, tenant_id, $7, ids FROM alike
), over AS (
  DELETE FROM belfry.claim WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM belfry.claim WHERE session_id = $1 AND number = ANY ($8::bigint[])
    -- a rescuer that settles them waits for runs, of which this may have claimed one anew
    FOR UPDATE SKIP LOCKED
  ))
), parcels AS MATERIALIZED (
  SELECT said.*
  FROM (
    SELECT tenant_id, array_agg(run_id ORDER BY run_id) AS run_ids
    FROM claimed WHERE detailed GROUP BY tenant_id
  ) AS its
  CROSS JOIN LATERAL (
    SELECT its.run_ids[first : first + ${parcelSize} - 1] AS run_ids
    FROM generate_series(1, cardinality(its.run_ids), ${parcelSize}) AS first
  ) AS part
  CROSS JOIN LATERAL belfry.claimed_details(its.tenant_id, part.run_ids) AS said
)
SELECT answer.*, alike.ids::text AS run_ids, ${inCommon('alike')},
  NULL AS detailed_ids, NULL AS due_at_ms, NULL::json AS inputs, NULL::json AS plans
FROM answer LEFT JOIN alike ON true
UNION ALL
SELECT answer.*, NULL, ${inCommon('none')}, parcels.*
-- every group has ids, so these columns are all null
FROM answer CROSS JOIN parcels LEFT JOIN alike AS none ON none.ids IS NULL`

/**
 * The whole statement. `there`: whether one of the rows is there to be claimed; `taken`: a join that gives
 * the rows, locked, as `taken (run_id)`. Both may use $2 to $5, and $9; the rest is the same for every kind
 * of claim.
 */
export const claimText = (there: string, taken: string): string => `
WITH supply AS MATERIALIZED (
  SELECT EXISTS (
${there}
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
      deadline = least(belfry.now() + run.timeout_ms::float8 * interval '1 millisecond', run.run_deadline)
        + $6::float8 * interval '1 millisecond',
      attempt = run.attempt + 1,
      lease_epoch = run.lease_epoch + 1
  WHERE run.run_id = ANY (ARRAY(
    SELECT taken.run_id
    FROM holder
    ${taken}
  ))
  RETURNING run.run_id, run.tenant_id, run.job_id, run.job_version, run.queue, run.tag, run.priority,
    run.attempt, run.crash_count, run.failure_count, run.lease_epoch, run.timeout_ms, run.available_at,
    run.start_by, run.run_deadline, run.detailed
${answer}`

/** Takes up to `limits[i]` runs of `queues[i]` from tag `minTags[i]` on, below `maxTags[i]`. */
export const claimRuns = statement<
  ClaimRow,
  [
    sessionId: string,
    queues: readonly string[],
    minTags: readonly number[],
    limits: readonly number[],
    routes: readonly string[],
    deadlineMarginMs: number,
    number: number,
    overNumbers: readonly number[],
    maxTags: readonly number[],
  ]
>(
  'belfry_claim_runs',
  claimText(
    `    SELECT
    FROM unnest($2::text[], $3::float8[], $9::float8[]) AS source (queue, min_tag, max_tag)
    CROSS JOIN unnest($5::text[]) AS kind (handler)
    CROSS JOIN LATERAL (
      SELECT
      FROM belfry.ready AS free
      WHERE free.queue = source.queue AND free.handler = kind.handler AND ${unheld('free')}
        AND free.gate IS NULL AND free.tag >= source.min_tag AND free.tag < source.max_tag
      -- the order pins the index: another that holds these rows may look cheaper
      ORDER BY free.tag, free.run_id
      LIMIT 1
    ) AS next`,
    `CROSS JOIN unnest($2::text[], $3::float8[], $4::int[], $9::float8[])
      AS source (queue, min_tag, size, max_tag)
    CROSS JOIN LATERAL (
      SELECT next.run_id
      FROM unnest($5::text[]) AS kind (handler)
      CROSS JOIN LATERAL (
        SELECT free.run_id, free.tag
        FROM belfry.ready AS free
        WHERE free.queue = source.queue AND free.handler = kind.handler AND ${unheld('free')}
          AND free.gate IS NULL AND free.tag >= source.min_tag AND free.tag < source.max_tag
        ORDER BY free.tag, free.run_id
        LIMIT source.size
        FOR UPDATE SKIP LOCKED
      ) AS next
      ORDER BY next.tag, next.run_id
      LIMIT source.size
    ) AS taken`,
  ),
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
    WHERE ${unheld('first')} AND first.gate IS NULL AND ${anyones('first')}
      AND first.tenant_id > $1::uuid
    ORDER BY first.tenant_id, first.queue
    LIMIT 1
  )
  UNION ALL
  SELECT next.tenant_id, walk.place + 1
  FROM walk
  CROSS JOIN LATERAL (
    SELECT ready.tenant_id
    FROM belfry.ready
    WHERE ${unheld('ready')} AND ready.gate IS NULL AND ${anyones('ready')}
      AND ready.tenant_id > walk.tenant_id
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
      WHERE ${unheld('first')} AND first.gate IS NULL AND ${anyones('first')}
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
      WHERE ${unheld('ready')} AND ready.gate IS NULL AND ${anyones('ready')}
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

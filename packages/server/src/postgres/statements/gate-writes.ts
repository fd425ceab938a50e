/**
 * What a look at the gate writes (gate.ts): runs that may start, runs that a limit ends, where groups stand,
 * tokens. Rows of `ready` are locked in the order of run ids, before their slots, as by everybody. They are
 * looked up by their id alone, and judged by the rest of what they hold then: the planner would take any
 * partial index that the rest allows, and walk all of it (`OFFSET 0` keeps the two apart).
 */
import { byIndex, statement } from '../statement.ts'
import { freeSlots } from './free-slots.ts'
import { unheld } from './held.ts'

/**
 * Opens runs that still wait behind the gate they were read at, with their slots. Behind the gate a tag grows
 * old; from where the service of the queue stands now they get a new one, in the order that they had, so that
 * a long wait does not put a tenant before all others.
 */
export const openRuns = statement<
  { readonly queue: string; readonly count: number },
  [
    tenantId: string,
    runIds: readonly string[],
    gates: readonly string[],
    slotRunIds: readonly string[],
    slotKeys: readonly string[],
    slotWeights: readonly number[],
  ]
>(
  'gate_open_runs',
  `
WITH mine AS MATERIALIZED (
  SELECT held.*
  FROM (SELECT * FROM unnest($2::uuid[], $3::text[]) AS wanted (run_id, gate) ORDER BY run_id) AS wanted
  CROSS JOIN LATERAL (
    SELECT r.run_id, r.tag, r.queue, r.handler, r.gate, r.session_id FROM belfry.ready AS r
    WHERE r.run_id = wanted.run_id OFFSET 0 FOR UPDATE
  ) AS held
  WHERE held.gate = wanted.gate AND held.session_id IS NULL
), lane AS MATERIALIZED (
  SELECT DISTINCT queue, handler LIKE 'function:%' AS own FROM mine
), served AS MATERIALIZED (
  SELECT lane.queue, lane.own, coalesce(progress.virtual_time, 0) AS virtual_time
  FROM lane
  LEFT JOIN belfry.queue_progress AS progress
    ON progress.queue = CASE WHEN lane.own THEN lane.queue || '/' || $1::uuid::text ELSE lane.queue END
), placed AS MATERIALIZED (
  SELECT mine.run_id, greatest(mine.tag, served.virtual_time + (
      row_number() OVER (PARTITION BY served.queue, served.own ORDER BY mine.tag, mine.run_id)
    ) / tenant.weight) AS tag,
    mine.run_id = ANY ($4::uuid[]) AS slotted
  FROM mine
  JOIN served ON served.queue = mine.queue AND served.own = (mine.handler LIKE 'function:%')
  CROSS JOIN (SELECT weight::float8 AS weight FROM belfry.tenant WHERE id = $1::uuid) AS tenant
), opened AS (
  UPDATE belfry.ready AS r SET gate = NULL, gate_seen = true, slotted = placed.slotted, tag = placed.tag
  FROM placed WHERE r.run_id = placed.run_id
), taken AS (
  INSERT INTO belfry.slot (run_id, limit_key, tenant_id, weight)
  SELECT wanted.run_id, wanted.limit_key, $1::uuid, wanted.weight
  FROM unnest($4::uuid[], $5::text[], $6::smallint[]) AS wanted (run_id, limit_key, weight)
  WHERE wanted.run_id IN (SELECT run_id FROM mine)
  ON CONFLICT (run_id, limit_key) DO UPDATE
  SET freed = false, weight = excluded.weight, opened_at = excluded.opened_at
)
SELECT queue, count(*)::int AS count FROM mine GROUP BY queue`,
  byIndex,
)

/** Ends runs that wait, behind the gate or opened and not claimed yet: by a limit, with number 0. */
export const endWaitingRuns = statement<
  { readonly run_id: string; readonly timer_shards: readonly number[] | null },
  [
    runIds: readonly string[],
    outcome: string,
    runState: string,
    reason: string,
    errorCode: string,
    errorMessage: string,
  ]
>(
  'gate_end_waiting',
  `
WITH mine AS MATERIALIZED (
  SELECT held.*
  FROM (SELECT run_id FROM unnest($1::uuid[]) AS wanted (run_id) ORDER BY run_id) AS wanted
  CROSS JOIN LATERAL (
    SELECT r.run_id, r.tenant_id, r.lease_epoch, r.followed, r.slotted, r.session_id FROM belfry.ready AS r
    WHERE r.run_id = wanted.run_id OFFSET 0 FOR UPDATE
  ) AS held
  WHERE held.session_id IS NULL
), gone AS (
  DELETE FROM belfry.ready WHERE run_id = ANY (ARRAY(SELECT run_id FROM mine))
), history AS (
  INSERT INTO belfry.attempt
    (run_id, number, tenant_id, lease_epoch, outcome, run_state, reason, started_at, error_code,
     error_message)
  SELECT run_id, 0, tenant_id, lease_epoch, $2, $3, $4, belfry.now(), $5, $6 FROM mine
)
SELECT run_id,
       (SELECT belfry.let_followers_go(array_agg(run_id)) FROM mine WHERE followed) AS timer_shards,
       ${freeSlots('mine')}
FROM mine`,
  byIndex,
)

/**
 * For a look that ends runs: locks all rows that it will write, in one order, also those that it opens; who
 * ends several at the same time would wait in a circle otherwise. Of each job and limit that is to make
 * room it takes the oldest runs that hold slots there: those that run are asked to cancel. Answers the runs
 * that make room; those without a session are to be ended.
 */
export const displaceHolders = statement<
  { readonly run_id: string; readonly session_id: string | null },
  [
    tenantId: string,
    otherRunIds: readonly string[],
    limitKeys: readonly string[],
    jobIds: readonly string[],
    counts: readonly number[],
  ]
>(
  'gate_displace_holders',
  `
WITH holder AS MATERIALIZED (
  SELECT oldest.run_id
  FROM unnest($3::text[], $4::uuid[], $5::int[]) AS asked (limit_key, job_id, count)
  CROSS JOIN LATERAL (
    SELECT s.run_id
    FROM (
      SELECT run_id FROM belfry.slot
      WHERE tenant_id = $1 AND limit_key = asked.limit_key AND NOT freed OFFSET 0
    ) AS s
    CROSS JOIN LATERAL (SELECT r.job_id FROM belfry.ready AS r WHERE r.run_id = s.run_id OFFSET 0) AS held
    WHERE held.job_id = asked.job_id
    ORDER BY s.run_id LIMIT asked.count
  ) AS oldest
), mine AS MATERIALIZED (
  SELECT held.*
  FROM (
    SELECT run_id FROM (SELECT unnest($2::uuid[]) AS run_id UNION SELECT run_id FROM holder) AS wanted
    ORDER BY run_id
  ) AS wanted
  CROSS JOIN LATERAL (
    SELECT r.run_id, r.session_id, r.slotted FROM belfry.ready AS r WHERE r.run_id = wanted.run_id
    OFFSET 0 FOR UPDATE
  ) AS held
), displaced AS MATERIALIZED (
  SELECT run_id, session_id FROM mine WHERE slotted AND run_id IN (SELECT run_id FROM holder)
), asked AS (
  UPDATE belfry.ready
  SET cancel_reason = CASE WHEN cancel_requested_at IS NULL THEN 'replaced' ELSE cancel_reason END,
      cancel_requested_at = coalesce(cancel_requested_at, belfry.now())
  WHERE run_id = ANY (ARRAY(SELECT run_id FROM displaced WHERE session_id IS NOT NULL))
)
SELECT run_id, session_id FROM displaced`,
  byIndex,
)

/** Where groups stand; those without a head are gone. */
export const placeGroups = statement<
  unknown,
  [
    gates: readonly string[],
    headTags: readonly (number | null)[],
    waitsOn: readonly (string | null)[],
    heldBy: readonly (string | null)[],
  ]
>(
  'gate_place_groups',
  `
WITH place AS MATERIALIZED (
  SELECT * FROM unnest($1::text[], $2::float8[], $3::text[], $4::text[])
    AS place (gate, head_tag, waits_on, held_by)
), gone AS (
  DELETE FROM belfry.gate_group WHERE gate = ANY (ARRAY(SELECT gate FROM place WHERE head_tag IS NULL))
)
UPDATE belfry.gate_group AS g
SET head_tag = place.head_tag, waits_on = place.waits_on, look_at = belfry.now(), held_by = place.held_by
FROM place WHERE g.gate = place.gate AND place.head_tag IS NOT NULL`,
  byIndex,
)

/** Tokens as they are now. */
export const saveBuckets = statement<
  unknown,
  [
    tenantId: string,
    keys: readonly string[],
    tokens: readonly number[],
    atMs: readonly number[],
    fullMs: readonly number[],
    nextMs: readonly (number | null)[],
  ]
>(
  'gate_save_buckets',
  `
INSERT INTO belfry.bucket (tenant_id, limit_key, tokens, at, full_at, look_at)
SELECT $1, key, tokens, to_timestamp(at_ms / 1000), to_timestamp(full_ms / 1000), to_timestamp(next_ms / 1000)
FROM unnest($2::text[], $3::float8[], $4::float8[], $5::float8[], $6::float8[])
  AS saved (key, tokens, at_ms, full_ms, next_ms)
ON CONFLICT (tenant_id, limit_key) DO UPDATE
SET tokens = excluded.tokens, at = excluded.at, full_at = excluded.full_at, look_at = excluded.look_at`,
)

/**
 * Nobody waits at these rates any more, or never did: their token wakes nobody. (Their limit may be gone, so
 * that no look comes by them.)
 */
export const quietBuckets = statement<unknown, [tenantId: string]>(
  'gate_quiet_buckets',
  `
UPDATE belfry.bucket AS b SET look_at = NULL
WHERE b.tenant_id = $1 AND b.look_at <= belfry.now() AND NOT coalesce((
  SELECT true FROM belfry.gate_group AS g
  WHERE g.tenant_id = b.tenant_id AND g.waits_on = 'rate:' || b.limit_key LIMIT 1), false)`,
  byIndex,
)

/**
 * Takes back runs that were opened and that no worker has claimed for so long, while another job waits for
 * one of their slots. They get no other try for a while. Looks at a page of what is open, by run id; answers
 * where the next begins.
 */
export const takeBackUnclaimed = statement<
  { readonly count: number; readonly last_id: string | null },
  [tenantId: string, unclaimedMs: number, restMs: number, afterId: string, limit: number]
>(
  'gate_take_back',
  `
WITH page AS MATERIALIZED (
  SELECT r.run_id, r.job_id FROM belfry.ready AS r
  WHERE r.tenant_id = $1 AND r.slotted AND ${unheld('r')} AND r.run_id > $4
  ORDER BY r.tenant_id, r.run_id LIMIT $5
), old AS MATERIALIZED (
  SELECT page.run_id FROM page
  WHERE coalesce((
    SELECT true FROM (SELECT * FROM belfry.slot WHERE slot.run_id = page.run_id OFFSET 0) AS s
    WHERE NOT s.freed
      AND s.opened_at < belfry.now() - $2::float8 * interval '1 millisecond'
      AND coalesce((
        SELECT true FROM belfry.gate_group AS g
        WHERE g.tenant_id = $1 AND g.waits_on = 'slot:' || s.limit_key
          AND left(g.gate, 36) <> page.job_id::text
        LIMIT 1), false)
    LIMIT 1), false)
), stale AS MATERIALIZED (
  SELECT held.*
  FROM (SELECT run_id FROM old ORDER BY run_id) AS old
  CROSS JOIN LATERAL (
    SELECT r.run_id, r.job_id, r.queue, r.tag, r.slotted, r.session_id FROM belfry.ready AS r
    WHERE r.run_id = old.run_id OFFSET 0 FOR UPDATE SKIP LOCKED
  ) AS held
  WHERE held.slotted AND held.session_id IS NULL
), back AS MATERIALIZED (
  SELECT stale.run_id, stale.tag,
         belfry.gate_of(stale.job_id, stale.queue, belfry.input_of($1, stale.run_id)) AS gate
  FROM stale
), held AS (
  UPDATE belfry.ready AS r SET gate = back.gate, gate_seen = true, slotted = false
  FROM back WHERE r.run_id = back.run_id
), freed AS (
  UPDATE belfry.slot SET freed = true WHERE run_id = ANY (ARRAY(SELECT run_id FROM back))
), resting AS (
  INSERT INTO belfry.gate_group (gate, tenant_id, head_tag, look_at, held_by)
  SELECT gate, $1, min(tag), belfry.now() + $3::float8 * interval '1 millisecond', 'unclaimed'
  FROM back GROUP BY gate
  ON CONFLICT (gate) DO UPDATE
  SET waits_on = NULL, look_at = excluded.look_at, held_by = excluded.held_by
)
SELECT (SELECT count(*)::int FROM back) AS count,
       CASE WHEN (SELECT count(*) FROM page) >= $5
         THEN (SELECT run_id FROM page ORDER BY run_id DESC LIMIT 1) END AS last_id`,
  byIndex,
)

/** Frees slots of runs that hold none by their row in `ready`, where that is so by now too. */
export const freeLostSlots = statement<
  { readonly count: number },
  [tenantId: string, runIds: readonly string[]]
>(
  'gate_free_lost_slots',
  `
WITH lost AS MATERIALIZED (
  SELECT run_id FROM unnest($2::uuid[]) AS wanted (run_id)
  WHERE NOT coalesce((SELECT r.slotted FROM belfry.ready AS r WHERE r.run_id = wanted.run_id), false)
), freed AS (
  UPDATE belfry.slot SET freed = true WHERE tenant_id = $1 AND run_id = ANY (ARRAY(SELECT run_id FROM lost))
  RETURNING 1
)
SELECT count(*)::int AS count FROM freed`,
  byIndex,
)

/** Buckets that are full say no more than none. */
export const deleteFullBuckets = statement<{ readonly count: number }, [limit: number]>(
  'gate_delete_full_buckets',
  `
WITH deleted AS (
  DELETE FROM belfry.bucket WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM belfry.bucket WHERE full_at < belfry.now() AND look_at IS NULL
    ORDER BY full_at LIMIT $1 FOR UPDATE SKIP LOCKED)) RETURNING 1
)
SELECT count(*)::int AS count FROM deleted`,
  byIndex,
)

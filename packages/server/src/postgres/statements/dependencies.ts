/**
 * Runs that depend on other runs (`dependsOn`; migration 0026 says how the tables work together): how they
 * are made, and the round that judges them. A round sends its statements one after the other: what is looked
 * at is looked at by a later snapshot than what was locked or marked before.
 *
 * Locks come in the order of all who end runs: rows of `ready` by id, then rows of `delayed` by id.
 */
import { byIndex, statement } from '../statement.ts'

/**
 * What the runs of the first parameter depend on. OFFSET 0 keeps what is asked of it out of the look-up,
 * which otherwise may be planned as a walk over all that waits for something.
 */
const linksOf = `unnest($1::uuid[]) AS child (id)
CROSS JOIN LATERAL (SELECT * FROM belfry.dependency WHERE child_id = child.id OFFSET 0) AS link`

/** Which of these runs are on record. */
export const findKnownRuns = statement<{ id: string }, [ids: readonly string[]]>(
  'dependency_known_runs',
  `
SELECT there.id FROM unnest($1::uuid[]) AS wanted (id)
CROSS JOIN LATERAL (
  SELECT id FROM belfry.run WHERE tenant_id = belfry.tenant_id() AND run.id = wanted.id OFFSET 0
) AS there`,
  byIndex,
)

/**
 * Runs that wait, what each waits for, and the events by which a resolver looks at them. Of what they wait
 * for nothing is locked: this may be a long transaction of somebody else's.
 */
export const insertWaitingRuns = statement<
  unknown,
  [
    ids: readonly string[],
    jobIds: readonly string[],
    jobVersions: readonly number[],
    queues: readonly string[],
    routes: readonly string[],
    priorities: readonly number[],
    timeoutsMs: readonly number[],
    inputs: readonly (string | null)[],
    due: readonly string[],
    startBy: readonly (string | null)[],
    runDeadlines: readonly (string | null)[],
    rules: readonly string[],
    childIds: readonly string[],
    parentIds: readonly string[],
    linkRules: readonly string[],
  ]
>(
  'dependency_insert_runs',
  `
WITH given AS MATERIALIZED (
  SELECT *
  FROM unnest($1::uuid[], $2::uuid[], $3::integer[], $4::text[], $5::text[], $6::smallint[], $7::integer[],
              $8::jsonb[], $9::timestamptz[], $10::timestamptz[], $11::timestamptz[], $12::text[])
    AS given (id, job_id, job_version, queue, handler, priority, timeout_ms, input, due_at, start_by,
              run_deadline, rule)
), new_run AS (
  INSERT INTO belfry.run (id, tenant_id, job_id, job_version, source, queue, priority, input, due_at)
  SELECT id, belfry.tenant_id(), job_id, job_version, 'manual', queue, priority, input, due_at FROM given
), new_delayed AS (
  INSERT INTO belfry.delayed
    (run_id, tenant_id, job_id, job_version, queue, priority, due_at, shard, handler, timeout_ms, start_by,
     run_deadline, lease_epoch, attempt, crash_count, failure_count, depends_rule)
  SELECT id, belfry.tenant_id(), job_id, job_version, queue, priority, 'infinity', belfry.shard_of(id),
         handler, timeout_ms, start_by, run_deadline, 0, 0, 0, 0, rule
  FROM given
), new_links AS (
  INSERT INTO belfry.dependency (child_id, parent_id, tenant_id, rule)
  SELECT child_id, parent_id, belfry.tenant_id(), rule
  FROM unnest($13::uuid[], $14::uuid[], $15::text[]) AS link (child_id, parent_id, rule)
)
INSERT INTO belfry.dependency_event (child_id, tenant_id)
SELECT id, belfry.tenant_id() FROM given`,
)

const takeEvents = (which: string): string => `
WITH taken AS (
  DELETE FROM belfry.dependency_event
  WHERE id = ANY (ARRAY(SELECT id FROM belfry.dependency_event ${which} FOR UPDATE SKIP LOCKED))
  RETURNING child_id
)
SELECT DISTINCT child_id FROM taken`

/** The oldest events; what another resolver has, or what was put off, is passed over. */
export const takeDependencyEvents = statement<{ child_id: string }, [limit: number]>(
  'dependency_take_events',
  takeEvents('WHERE at <= statement_timestamp() ORDER BY at LIMIT $1'),
  byIndex,
)

/** Takes those of some runs, after a round that failed. */
export const takeEventsOfRuns = statement<{ child_id: string }, [childIds: readonly string[]]>(
  'dependency_take_events_of',
  takeEvents('WHERE child_id = ANY ($1::uuid[])'),
  byIndex,
)

/** One event for later in place of all that there are. */
export const putOffDependencyEvents = statement<unknown, [childId: string, ms: number]>(
  'dependency_put_off',
  `
WITH gone AS (
  DELETE FROM belfry.dependency_event WHERE child_id = $1 RETURNING child_id, tenant_id
)
INSERT INTO belfry.dependency_event (child_id, tenant_id, at)
SELECT DISTINCT child_id, tenant_id, clock_timestamp() + $2::float8 * interval '1 ms' FROM gone`,
  byIndex,
)

/** What these wait for, as far as no end was seen. */
export const listOpenDependencies = statement<{ parent_id: string }, [childIds: readonly string[]]>(
  'dependency_list_open',
  `
SELECT DISTINCT link.parent_id FROM ${linksOf} WHERE link.state IS NULL`,
  byIndex,
)

/**
 * Marks those that are in `ready`: their ends tell of it from now on. One that is marked already is locked
 * too: an end of it that told those it knew, before this child was there, may not be committed yet, and the
 * look has to come after it. What ends a run deletes its row, so the weakest lock that a delete waits for
 * will do, and resolvers share it.
 */
export const markReadyParents = statement<unknown, [parentIds: readonly string[]]>(
  'dependency_mark_ready',
  `
WITH mine AS MATERIALIZED (
  SELECT locked.run_id
  FROM (SELECT id FROM unnest($1::uuid[]) AS given (id) ORDER BY id) AS wanted
  CROSS JOIN LATERAL (
    SELECT * FROM (
      SELECT run_id FROM belfry.ready WHERE ready.run_id = wanted.id AND NOT followed FOR UPDATE
    ) AS fresh
    UNION ALL
    SELECT * FROM (
      SELECT run_id FROM belfry.ready WHERE ready.run_id = wanted.id AND followed FOR KEY SHARE
    ) AS marked
  ) AS locked
)
UPDATE belfry.ready SET followed = true
WHERE NOT followed AND run_id = ANY (ARRAY(SELECT run_id FROM mine))`,
  byIndex,
)

/**
 * Holds those that wait, and marks what they wait for where that is in `delayed`, as `markReadyParents` does;
 * answers the first.
 */
export const holdWaitingRuns = statement<
  { run_id: string; rule: string },
  [childIds: readonly string[], parentIds: readonly string[]]
>(
  'dependency_hold',
  `
WITH mine AS MATERIALIZED (
  SELECT locked.*
  FROM (SELECT DISTINCT id FROM unnest($1::uuid[] || $2::uuid[]) AS given (id) ORDER BY id) AS wanted
  CROSS JOIN LATERAL (
    SELECT * FROM (
      SELECT run_id, depends_rule FROM belfry.delayed
      WHERE delayed.run_id = wanted.id
        AND (NOT followed OR (depends_rule IS NOT NULL AND run_id = ANY ($1::uuid[])))
      FOR UPDATE
    ) AS fresh
    UNION ALL
    SELECT * FROM (
      SELECT run_id, depends_rule FROM belfry.delayed
      WHERE delayed.run_id = wanted.id AND followed AND run_id = ANY ($2::uuid[])
        AND NOT (depends_rule IS NOT NULL AND run_id = ANY ($1::uuid[]))
      FOR KEY SHARE
    ) AS marked
  ) AS locked
), marked AS (
  UPDATE belfry.delayed SET followed = true
  WHERE NOT followed AND run_id = ANY ($2::uuid[]) AND run_id = ANY (ARRAY(SELECT run_id FROM mine))
)
SELECT run_id, depends_rule AS rule FROM mine
WHERE depends_rule IS NOT NULL AND run_id = ANY ($1::uuid[])`,
  byIndex,
)

/**
 * How what these wait for stands, by a later snapshot than the marks, and kept where it has ended. `unsure`:
 * it is alive and not marked, because it moved between the two tables meanwhile; its child is looked at
 * again. One that stands nowhere and has no end is so old that its record was dropped.
 */
export const settleDependencies = statement<
  { child_id: string; state: string | null; count: number; unsure: boolean },
  [childIds: readonly string[]]
>(
  'dependency_settle',
  `
WITH open AS MATERIALIZED (
  SELECT link.child_id, link.parent_id, ended.run_state, place.marked,
         ended.run_state IS NULL AND place.marked IS NULL AS gone
  FROM ${linksOf}
  CROSS JOIN LATERAL (
    SELECT coalesce(
      (SELECT followed FROM belfry.ready WHERE ready.run_id = link.parent_id),
      (SELECT followed FROM belfry.delayed WHERE delayed.run_id = link.parent_id)) AS marked
  ) AS place
  CROSS JOIN LATERAL (
    SELECT CASE WHEN place.marked IS NULL THEN belfry.end_of(link.parent_id) END AS run_state OFFSET 0
  ) AS ended
  WHERE link.state IS NULL
), settled AS (
  UPDATE belfry.dependency AS link
  SET state = CASE WHEN open.gone THEN 'unknown' ELSE open.run_state END
  FROM open
  WHERE link.child_id = ANY ($1::uuid[]) AND link.child_id = open.child_id AND link.parent_id = open.parent_id
    AND (open.gone OR open.run_state IS NOT NULL)
), counted AS (
  SELECT child_id, state, false AS unsure FROM ${linksOf} WHERE link.state IS NOT NULL
  UNION ALL
  SELECT child_id, CASE WHEN gone THEN 'unknown' ELSE run_state END,
         marked IS FALSE
  FROM open
)
SELECT child_id, state, count(*)::int AS count, bool_or(unsure) AS unsure
FROM counted GROUP BY child_id, state`,
  byIndex,
)

/** Lets them go, at the time that was asked for; answers the shards that have something due by that. */
export const releaseWaitingRuns = statement<{ shard: number }, [runIds: readonly string[]]>(
  'dependency_release',
  `
UPDATE belfry.delayed
SET depends_rule = NULL, due_at = greatest(belfry.now(), (
  SELECT run.due_at FROM belfry.run_of(delayed.tenant_id, delayed.run_id) AS run))
WHERE run_id = ANY ($1::uuid[]) AND depends_rule IS NOT NULL
RETURNING shard`,
  byIndex,
)

/** Ends them without a start, with the attempt row that says why; answers who waited for them in turn. */
export const endWaitingRuns = statement<
  { run_id: string; tenant_id: string; job_id: string; queue: string; shards: readonly number[] | null },
  [
    runIds: readonly string[],
    states: readonly string[],
    reasons: readonly string[],
    messages: readonly string[],
  ]
>(
  'dependency_end',
  `
WITH given AS MATERIALIZED (
  SELECT * FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[]) AS given (id, state, reason, message)
), gone AS (
  DELETE FROM belfry.delayed WHERE run_id = ANY ($1::uuid[]) AND depends_rule IS NOT NULL
  RETURNING run_id, tenant_id, job_id, queue, lease_epoch, followed
), history AS (
  INSERT INTO belfry.attempt
    (run_id, number, tenant_id, lease_epoch, outcome, run_state, reason, started_at, error_code,
     error_message)
  SELECT gone.run_id, 0, gone.tenant_id, gone.lease_epoch, 'skipped', given.state, given.reason, belfry.now(),
         given.reason, given.message
  FROM gone JOIN given ON given.id = gone.run_id
)
SELECT run_id, tenant_id, job_id, queue,
       (SELECT belfry.let_followers_go(array_agg(run_id)) FROM gone WHERE followed) AS shards
FROM gone`,
  byIndex,
)

/** To be looked at again. */
export const lookAgainAtWaitingRuns = statement<unknown, [runIds: readonly string[]]>(
  'dependency_look_again',
  `
INSERT INTO belfry.dependency_event (child_id, tenant_id)
SELECT run_id, tenant_id FROM belfry.delayed WHERE run_id = ANY ($1::uuid[]) AND depends_rule IS NOT NULL`,
  byIndex,
)

/**
 * Events for a page of all that wait, behind one; answers where the next page begins, nothing after the last.
 * None is needed, but where rows were touched by hand.
 */
export const mendDependencies = statement<
  { tenant_id: string; run_id: string },
  [afterTenantId: string, afterRunId: string, limit: number]
>(
  'dependency_mend',
  `
WITH page AS MATERIALIZED (
  SELECT tenant_id, run_id FROM belfry.delayed
  WHERE depends_rule IS NOT NULL AND (tenant_id, run_id) > ($1::uuid, $2::uuid)
  ORDER BY tenant_id, run_id LIMIT $3
), told AS (
  INSERT INTO belfry.dependency_event (child_id, tenant_id) SELECT run_id, tenant_id FROM page
)
SELECT tenant_id, run_id FROM page ORDER BY tenant_id DESC, run_id DESC LIMIT 1`,
  byIndex,
)

/** Rows of runs whose records were dropped; oldest first, at most `limit`. */
export const deleteOldDependencies = statement<
  { readonly count: number },
  [retentionDays: number, limit: number]
>(
  'dependency_delete_old',
  `
WITH deleted AS (
  DELETE FROM belfry.dependency WHERE ctid = ANY (ARRAY(
    SELECT past.ctid FROM belfry.dependency AS past
    WHERE past.child_id < belfry.uuid_floor(
        (((belfry.now() AT TIME ZONE 'UTC')::date - $1::int)::timestamp) AT TIME ZONE 'UTC')
      AND NOT coalesce((SELECT true FROM belfry.ready WHERE ready.run_id = past.child_id), false)
      AND NOT coalesce((SELECT true FROM belfry.delayed WHERE delayed.run_id = past.child_id), false)
    ORDER BY past.child_id LIMIT $2)) RETURNING 1
)
SELECT count(*)::int AS count FROM deleted`,
  byIndex,
)

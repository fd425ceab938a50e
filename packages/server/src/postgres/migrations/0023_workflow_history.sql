-- Workflow runs in daily partitions, by their UUIDv7, as the runs of their tasks (0007): made ahead, and dropped after
-- retention. A workflow run may be alive for longer than that (it waits for a person, or was begun again from some task):
-- until it is over its own row stays, and so do the runs of its tasks, whose outputs are handed on to what still starts.

CREATE TABLE belfry.workflow_run_default PARTITION OF belfry.workflow_run DEFAULT;
SELECT belfry.guard_partition('belfry.workflow_run_default');

-- The functions that keep partitions, with the fifth parent and with what is alive of workflows.

-- Makes the partitions of a day that are missing; answers their names.
CREATE OR REPLACE FUNCTION belfry.make_partitions(day date) RETURNS SETOF text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' AS $$
DECLARE
  parent text;
  key text;
  child text;
  low text;
  high text;
BEGIN
  PERFORM pg_advisory_xact_lock(hashtextextended('belfry.partitions', 0));
  FOREACH parent IN ARRAY ARRAY['run', 'attempt', 'run_log', 'occurrence', 'workflow_run'] LOOP
    child := parent || '_' || to_char(day, 'YYYYMMDD');
    CONTINUE WHEN to_regclass('belfry.' || child) IS NOT NULL;
    key := CASE WHEN parent IN ('run', 'workflow_run') THEN 'id' WHEN parent = 'occurrence' THEN 'scheduled_for'
      ELSE 'run_id' END;
    IF parent = 'occurrence' THEN
      low := day::text || ' 00:00:00+00';
      high := (day + 1)::text || ' 00:00:00+00';
    ELSE
      low := belfry.uuid_floor(day::timestamptz)::text;
      high := belfry.uuid_floor((day + 1)::timestamptz)::text;
    END IF;
    EXECUTE format('CREATE TABLE belfry.%I (LIKE belfry.%I INCLUDING ALL)', child, parent);
    EXECUTE format('LOCK TABLE belfry.%I IN ACCESS EXCLUSIVE MODE', parent || '_default');
    EXECUTE format(
      'WITH moved AS (DELETE FROM belfry.%I WHERE %I >= %L AND %I < %L RETURNING *) INSERT INTO belfry.%I SELECT * FROM moved',
      parent || '_default', key, low, key, high, child);
    EXECUTE format('ALTER TABLE belfry.%I ATTACH PARTITION belfry.%I FOR VALUES FROM (%L) TO (%L)', parent, child, low, high);
    PERFORM belfry.guard_partition(('belfry.' || quote_ident(child))::regclass);
    RETURN NEXT child;
  END LOOP;
END
$$;

-- Whether something of a day is alive, and its partition of this parent stays. Runs of a day stay with a workflow run that
-- is alive and has some among them: one look into their index for each that is as old.
CREATE FUNCTION belfry.day_is_alive(parent text, day date) RETURNS boolean
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' AS $$
DECLARE
  low uuid := belfry.uuid_floor(day::timestamptz);
  high uuid := belfry.uuid_floor((day + 1)::timestamptz);
  runs text := 'run_' || to_char(day, 'YYYYMMDD');
  found boolean := false;
BEGIN
  IF parent = 'occurrence' THEN
    RETURN false;
  END IF;
  IF parent = 'workflow_run' THEN
    RETURN EXISTS (SELECT FROM belfry.workflow_progress WHERE workflow_run_id >= low AND workflow_run_id < high);
  END IF;
  IF EXISTS (SELECT FROM belfry.ready WHERE run_id >= low AND run_id < high)
    OR EXISTS (SELECT FROM belfry.delayed WHERE run_id >= low AND run_id < high) THEN
    RETURN true;
  END IF;
  IF to_regclass('belfry.' || runs) IS NOT NULL THEN
    EXECUTE format(
      'SELECT EXISTS (
         SELECT FROM (SELECT * FROM belfry.workflow_progress WHERE workflow_run_id < $1 OFFSET 0) AS alive
         CROSS JOIN LATERAL (
           SELECT FROM belfry.%I AS run
           WHERE run.tenant_id = alive.tenant_id AND run.workflow_run_id = alive.workflow_run_id LIMIT 1
         ) AS its)', runs) INTO found USING high;
  END IF;
  RETURN found;
END
$$;

-- Drops the partitions of a day, except where something is still alive; answers their names. It is looked at again under
-- the lock: a workflow run may have been begun again while that was waited for.
CREATE OR REPLACE FUNCTION belfry.drop_partitions(day date) RETURNS SETOF text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' AS $$
DECLARE
  parent text;
  child text;
BEGIN
  PERFORM pg_advisory_xact_lock(hashtextextended('belfry.partitions', 0));
  FOREACH parent IN ARRAY ARRAY['run_log', 'attempt', 'occurrence', 'run', 'workflow_run'] LOOP
    child := parent || '_' || to_char(day, 'YYYYMMDD');
    CONTINUE WHEN to_regclass('belfry.' || child) IS NULL OR belfry.day_is_alive(parent, day);
    EXECUTE format('LOCK TABLE belfry.%I IN ACCESS EXCLUSIVE MODE', child);
    CONTINUE WHEN belfry.day_is_alive(parent, day);
    EXECUTE format('DROP TABLE belfry.%I', child);
    RETURN NEXT child;
  END LOOP;
END
$$;

-- Days of which rows stand in DEFAULT, oldest first: one step along an index a day, whatever the number of rows.
CREATE OR REPLACE FUNCTION belfry.days_in_default(first_day date, last_day date, most integer) RETURNS SETOF date
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' AS $$
DECLARE
  day date;
  since date := first_day;
BEGIN
  FOR step IN 1..most LOOP
    day := least(
      (SELECT belfry.uuid_day(id) FROM belfry.run_default
       WHERE id >= belfry.uuid_floor(since::timestamptz) ORDER BY id LIMIT 1),
      (SELECT belfry.uuid_day(id) FROM belfry.workflow_run_default
       WHERE id >= belfry.uuid_floor(since::timestamptz) ORDER BY id LIMIT 1),
      (SELECT belfry.uuid_day(run_id) FROM belfry.attempt_default
       WHERE run_id >= belfry.uuid_floor(since::timestamptz) ORDER BY run_id LIMIT 1),
      (SELECT belfry.uuid_day(run_id) FROM belfry.run_log_default
       WHERE run_id >= belfry.uuid_floor(since::timestamptz) ORDER BY run_id LIMIT 1),
      (SELECT scheduled_for::date FROM belfry.occurrence_default
       WHERE scheduled_for >= since::timestamptz ORDER BY scheduled_for LIMIT 1));
    EXIT WHEN day IS NULL OR day > last_day;
    RETURN NEXT day;
    since := day + 1;
  END LOOP;
END
$$;

-- Days that lack a partition and need one, the most urgent first: yesterday until `ahead` days from today; the days of
-- an outage, from the last one made before it, oldest first so that a stop in between leaves no gap; and days of which
-- rows stand in DEFAULT, but none before `first_kept` and none further ahead than a year (by a clock that is wrong).
CREATE OR REPLACE FUNCTION belfry.missing_days(today date, ahead integer, first_kept date, most integer) RETURNS SETOF date
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' AS $$
  WITH made AS (
    SELECT to_date(right(c.relname, 8), 'YYYYMMDD') AS day, count(*) AS tables
    FROM pg_inherits i
    JOIN pg_class c ON c.oid = i.inhrelid
    JOIN pg_class p ON p.oid = i.inhparent
    WHERE p.relnamespace = 'belfry'::regnamespace
      AND p.relname IN ('run', 'attempt', 'run_log', 'occurrence', 'workflow_run')
      AND c.relname ~ '_[0-9]{8}$'
    GROUP BY 1
  ), last AS (
    SELECT greatest(max(day) + 1, first_kept) AS gap FROM made WHERE day < today - 1 HAVING count(*) > 0
  ), wanted (urgency, day) AS (
    SELECT 1, today - 1 + n FROM generate_series(0, ahead + 1) AS n
    UNION ALL
    SELECT 2, gap + n FROM last, generate_series(0, today - 2 - gap) AS n
    UNION ALL
    SELECT 3, day FROM belfry.days_in_default(first_kept, today + 366, most) AS day
  )
  SELECT day FROM wanted
  WHERE day NOT IN (SELECT day FROM made WHERE tables = 5)
  GROUP BY day ORDER BY min(urgency), day LIMIT most
$$;

-- Deletes rows in DEFAULT of days before `first_kept`, at most so many a table, except those of runs and workflow runs
-- that are still alive; answers how many.
CREATE OR REPLACE FUNCTION belfry.prune_default(first_kept date, most integer) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' AS $$
DECLARE
  bound uuid := belfry.uuid_floor(first_kept::timestamptz);
  parent text;
  key text;
  deleted integer;
  total integer := 0;
BEGIN
  DELETE FROM belfry.occurrence_default WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM belfry.occurrence_default WHERE scheduled_for < first_kept::timestamptz LIMIT most));
  GET DIAGNOSTICS deleted = ROW_COUNT;
  total := total + deleted;
  FOREACH parent IN ARRAY ARRAY['run_log', 'attempt', 'run'] LOOP
    key := CASE parent WHEN 'run' THEN 'id' ELSE 'run_id' END;
    EXECUTE format(
      'DELETE FROM belfry.%1$I WHERE ctid = ANY (ARRAY(
         SELECT ctid FROM belfry.%1$I AS past WHERE %2$I < $1
           AND NOT EXISTS (SELECT FROM belfry.ready WHERE ready.run_id = past.%2$I)
           AND NOT EXISTS (SELECT FROM belfry.delayed WHERE delayed.run_id = past.%2$I)
           AND NOT EXISTS (
             SELECT FROM belfry.run_default AS run
             JOIN belfry.workflow_progress AS alive ON alive.workflow_run_id = run.workflow_run_id
             WHERE run.id = past.%2$I)
         LIMIT $2))', parent || '_default', key) USING bound, most;
    GET DIAGNOSTICS deleted = ROW_COUNT;
    total := total + deleted;
  END LOOP;
  DELETE FROM belfry.workflow_run_default WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM belfry.workflow_run_default AS past WHERE id < bound
      AND NOT EXISTS (SELECT FROM belfry.workflow_progress AS alive WHERE alive.workflow_run_id = past.id)
    LIMIT most));
  GET DIAGNOSTICS deleted = ROW_COUNT;
  RETURN total + deleted;
END
$$;

-- The looks for what is alive run as the owner, whom FORCE ROW LEVEL SECURITY would blind.
CREATE POLICY owner ON belfry.workflow_progress FOR SELECT TO CURRENT_USER USING (true);

REVOKE ALL ON FUNCTION belfry.day_is_alive(text, date) FROM PUBLIC;

SELECT belfry.make_partitions(day) FROM (
  SELECT DISTINCT to_date(right(c.relname, 8), 'YYYYMMDD') AS day
  FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
  WHERE i.inhparent = 'belfry.run'::regclass AND c.relname ~ '_[0-9]{8}$'
) AS made;

-- Workers outside the servers: keys that may run functions in some queues, sessions that belong to such a key, what
-- attempts log and how far they say they have come.

ALTER TABLE belfry.api_key DROP CONSTRAINT api_key_scopes_check;
ALTER TABLE belfry.api_key
  ADD CONSTRAINT api_key_scopes_check CHECK (
    cardinality(scopes) > 0 AND scopes <@ ARRAY['read', 'enqueue', 'operate', 'admin', 'platform', 'worker']
  ),
  -- NULL: every queue
  ADD COLUMN queues text[] CHECK (cardinality(queues) > 0);

-- A session of a worker of functions names its tenant; one that was opened over the API its key as well.
ALTER TABLE belfry.session
  ADD COLUMN tenant_id uuid,
  ADD COLUMN api_key_id uuid,
  ADD COLUMN functions text[];
CREATE INDEX session_tenant ON belfry.session (tenant_id, id) WHERE tenant_id IS NOT NULL;
ALTER TABLE belfry.session ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY app ON belfry.session FOR SELECT TO belfry_app USING (tenant_id = belfry.tenant_id());
CREATE POLICY engine ON belfry.session TO belfry_engine USING (true) WITH CHECK (true);
GRANT SELECT ON belfry.session TO belfry_app;

-- The latest word of a running attempt; it goes with the row.
ALTER TABLE belfry.ready ADD COLUMN progress jsonb;

-- Lines of a log in the chunks in which they came. `total_bytes` counts all of the attempt up to here, so that the cap
-- costs one look at the last chunk. The same chunk sent again is found by its first line.
CREATE TABLE belfry.run_log (
  run_id uuid NOT NULL,
  number integer NOT NULL CHECK (number > 0),
  first_line integer NOT NULL CHECK (first_line >= 0),
  last_line integer NOT NULL,
  tenant_id uuid NOT NULL,
  lines jsonb NOT NULL,
  total_bytes integer NOT NULL,
  -- lines after these were dropped
  full_after boolean NOT NULL DEFAULT false,
  PRIMARY KEY (run_id, number, first_line),
  CHECK (last_line >= first_line)
) PARTITION BY RANGE (run_id);
ALTER TABLE belfry.run_log ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY app ON belfry.run_log FOR SELECT TO belfry_app USING (tenant_id = belfry.tenant_id());
CREATE POLICY engine ON belfry.run_log TO belfry_engine USING (true) WITH CHECK (true);
GRANT SELECT ON belfry.run_log TO belfry_app;
GRANT SELECT, INSERT ON belfry.run_log TO belfry_engine;

CREATE TABLE belfry.run_log_default PARTITION OF belfry.run_log DEFAULT;
SELECT belfry.guard_partition('belfry.run_log_default');

-- The functions that keep partitions, with the fourth parent; nothing else is changed in them.

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
  FOREACH parent IN ARRAY ARRAY['run', 'attempt', 'run_log', 'occurrence'] LOOP
    child := parent || '_' || to_char(day, 'YYYYMMDD');
    CONTINUE WHEN to_regclass('belfry.' || child) IS NOT NULL;
    key := CASE parent WHEN 'run' THEN 'id' WHEN 'occurrence' THEN 'scheduled_for' ELSE 'run_id' END;
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

-- Drops the partitions of a day, except those in which a run is still alive; answers their names.
CREATE OR REPLACE FUNCTION belfry.drop_partitions(day date) RETURNS SETOF text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' AS $$
DECLARE
  parent text;
  child text;
  low uuid := belfry.uuid_floor(day::timestamptz);
  high uuid := belfry.uuid_floor((day + 1)::timestamptz);
BEGIN
  PERFORM pg_advisory_xact_lock(hashtextextended('belfry.partitions', 0));
  FOREACH parent IN ARRAY ARRAY['run_log', 'attempt', 'occurrence', 'run'] LOOP
    child := parent || '_' || to_char(day, 'YYYYMMDD');
    CONTINUE WHEN to_regclass('belfry.' || child) IS NULL;
    CONTINUE WHEN parent <> 'occurrence' AND (
      EXISTS (SELECT FROM belfry.ready WHERE run_id >= low AND run_id < high)
      OR EXISTS (SELECT FROM belfry.delayed WHERE run_id >= low AND run_id < high));
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
    WHERE p.relnamespace = 'belfry'::regnamespace AND p.relname IN ('run', 'attempt', 'run_log', 'occurrence')
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
  WHERE day NOT IN (SELECT day FROM made WHERE tables = 4)
  GROUP BY day ORDER BY min(urgency), day LIMIT most
$$;

-- Deletes rows in DEFAULT of days before `first_kept`, at most so many a table, except those of runs that are still
-- alive; answers how many.
CREATE OR REPLACE FUNCTION belfry.prune_default(first_kept date, most integer) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' AS $$
DECLARE
  bound uuid := belfry.uuid_floor(first_kept::timestamptz);
  deleted integer;
  total integer := 0;
BEGIN
  DELETE FROM belfry.occurrence_default WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM belfry.occurrence_default WHERE scheduled_for < first_kept::timestamptz LIMIT most));
  GET DIAGNOSTICS deleted = ROW_COUNT;
  total := total + deleted;
  DELETE FROM belfry.run_log_default WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM belfry.run_log_default AS past WHERE run_id < bound
      AND NOT EXISTS (SELECT FROM belfry.ready WHERE ready.run_id = past.run_id)
      AND NOT EXISTS (SELECT FROM belfry.delayed WHERE delayed.run_id = past.run_id)
    LIMIT most));
  GET DIAGNOSTICS deleted = ROW_COUNT;
  total := total + deleted;
  DELETE FROM belfry.attempt_default WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM belfry.attempt_default AS past WHERE run_id < bound
      AND NOT EXISTS (SELECT FROM belfry.ready WHERE ready.run_id = past.run_id)
      AND NOT EXISTS (SELECT FROM belfry.delayed WHERE delayed.run_id = past.run_id)
    LIMIT most));
  GET DIAGNOSTICS deleted = ROW_COUNT;
  total := total + deleted;
  DELETE FROM belfry.run_default WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM belfry.run_default AS past WHERE id < bound
      AND NOT EXISTS (SELECT FROM belfry.ready WHERE ready.run_id = past.id)
      AND NOT EXISTS (SELECT FROM belfry.delayed WHERE delayed.run_id = past.id)
    LIMIT most));
  GET DIAGNOSTICS deleted = ROW_COUNT;
  RETURN total + deleted;
END
$$;

SELECT belfry.make_partitions(day) FROM (
  SELECT DISTINCT to_date(right(c.relname, 8), 'YYYYMMDD') AS day
  FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
  WHERE i.inhparent = 'belfry.run'::regclass AND c.relname ~ '_[0-9]{8}$'
) AS made;

-- Daily partitions of history (run, attempt by UUIDv7; occurrence by planned time), made ahead and dropped by the
-- pruner. A DEFAULT partition catches what no day covers, so that a missing partition never refuses a fire. It is kept
-- empty: rows in it move to their day when that day is made, or are deleted when their time is over. ATTACH reads all
-- of DEFAULT under its strongest lock, which costs nothing while it is empty.
--
-- The functions run as the owner, because only an owner can make or drop a table, and only belfry_engine may call them.
-- Each does one small step, so that no lock is held for long: a day, or a batch of rows.

CREATE FUNCTION belfry.guard_partition(child regclass) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', child);
  EXECUTE format('ALTER TABLE %s FORCE ROW LEVEL SECURITY', child);
  -- only for the owner, that is for the functions below; the working roles go through the parent
  EXECUTE format('CREATE POLICY owner ON %s TO CURRENT_USER USING (true) WITH CHECK (true)', child);
END
$$;

CREATE TABLE belfry.run_default PARTITION OF belfry.run DEFAULT;
CREATE TABLE belfry.attempt_default PARTITION OF belfry.attempt DEFAULT;
CREATE TABLE belfry.occurrence_default PARTITION OF belfry.occurrence DEFAULT;
-- by day, for the functions below; attempt has its primary key
CREATE INDEX run_default_id ON belfry.run_default (id);
CREATE INDEX occurrence_default_time ON belfry.occurrence_default (scheduled_for);
SELECT belfry.guard_partition(child::regclass)
FROM unnest(ARRAY['belfry.run_default', 'belfry.attempt_default', 'belfry.occurrence_default']) AS child;

-- Makes the partitions of a day that are missing; answers their names.
CREATE FUNCTION belfry.make_partitions(day date) RETURNS SETOF text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' AS $$
DECLARE
  parent text;
  key text;
  child text;
  low text;
  high text;
BEGIN
  PERFORM pg_advisory_xact_lock(hashtextextended('belfry.partitions', 0));
  FOREACH parent IN ARRAY ARRAY['run', 'attempt', 'occurrence'] LOOP
    child := parent || '_' || to_char(day, 'YYYYMMDD');
    CONTINUE WHEN to_regclass('belfry.' || child) IS NOT NULL;
    key := CASE parent WHEN 'run' THEN 'id' WHEN 'attempt' THEN 'run_id' ELSE 'scheduled_for' END;
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
CREATE FUNCTION belfry.drop_partitions(day date) RETURNS SETOF text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' AS $$
DECLARE
  parent text;
  child text;
  low uuid := belfry.uuid_floor(day::timestamptz);
  high uuid := belfry.uuid_floor((day + 1)::timestamptz);
BEGIN
  PERFORM pg_advisory_xact_lock(hashtextextended('belfry.partitions', 0));
  FOREACH parent IN ARRAY ARRAY['attempt', 'occurrence', 'run'] LOOP
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
CREATE FUNCTION belfry.days_in_default(first_day date, last_day date, most integer) RETURNS SETOF date
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
CREATE FUNCTION belfry.missing_days(today date, ahead integer, first_kept date, most integer) RETURNS SETOF date
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' AS $$
  WITH made AS (
    SELECT to_date(right(c.relname, 8), 'YYYYMMDD') AS day, count(*) AS tables
    FROM pg_inherits i
    JOIN pg_class c ON c.oid = i.inhrelid
    JOIN pg_class p ON p.oid = i.inhparent
    WHERE p.relnamespace = 'belfry'::regnamespace AND p.relname IN ('run', 'attempt', 'occurrence')
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
  WHERE day NOT IN (SELECT day FROM made WHERE tables = 3)
  GROUP BY day ORDER BY min(urgency), day LIMIT most
$$;

-- Deletes rows in DEFAULT of days before `first_kept`, at most so many a table, except those of runs that are still
-- alive; answers how many.
CREATE FUNCTION belfry.prune_default(first_kept date, most integer) RETURNS integer
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

-- The checks for living runs above run as the owner, whom FORCE ROW LEVEL SECURITY would blind.
CREATE POLICY owner ON belfry.ready FOR SELECT TO CURRENT_USER USING (true);
CREATE POLICY owner ON belfry.delayed FOR SELECT TO CURRENT_USER USING (true);

REVOKE ALL ON FUNCTION belfry.make_partitions(date), belfry.drop_partitions(date), belfry.guard_partition(regclass),
  belfry.days_in_default(date, date, integer), belfry.missing_days(date, integer, date, integer),
  belfry.prune_default(date, integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION belfry.make_partitions(date), belfry.drop_partitions(date),
  belfry.missing_days(date, integer, date, integer), belfry.prune_default(date, integer) TO belfry_engine;

SELECT belfry.make_partitions((pg_catalog.now() AT TIME ZONE 'UTC')::date + n) FROM generate_series(-1, 3) AS n;

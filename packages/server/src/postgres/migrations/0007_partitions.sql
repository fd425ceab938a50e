-- Daily partitions of history (run, attempt by UUIDv7; occurrence by planned time), made ahead and dropped by the
-- pruner. A DEFAULT partition catches what no day covers, so that a missing partition never refuses a fire; rows in it
-- move to their day when that day is made. Both functions run as the owner, because only an owner can make or drop a
-- table, and only belfry_engine may call them.

CREATE FUNCTION belfry.guard_partition(child regclass) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', child);
  EXECUTE format('ALTER TABLE %s FORCE ROW LEVEL SECURITY', child);
  -- only for the owner, that is for the two functions below; the working roles go through the parent
  EXECUTE format('CREATE POLICY owner ON %s TO CURRENT_USER USING (true) WITH CHECK (true)', child);
END
$$;

CREATE TABLE belfry.run_default PARTITION OF belfry.run DEFAULT;
CREATE TABLE belfry.attempt_default PARTITION OF belfry.attempt DEFAULT;
CREATE TABLE belfry.occurrence_default PARTITION OF belfry.occurrence DEFAULT;
SELECT belfry.guard_partition(child::regclass)
FROM unnest(ARRAY['belfry.run_default', 'belfry.attempt_default', 'belfry.occurrence_default']) AS child;

-- Makes the partitions of `days` days from `first_day`; answers the names of those that were missing.
CREATE FUNCTION belfry.make_partitions(first_day date, days integer) RETURNS SETOF text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' AS $$
DECLARE
  parent text;
  key text;
  child text;
  day date;
  low text;
  high text;
BEGIN
  PERFORM pg_advisory_xact_lock(hashtextextended('belfry.partitions', 0));
  FOR day IN SELECT first_day + n FROM generate_series(0, days - 1) AS n LOOP
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
  END LOOP;
END
$$;

-- Drops the partitions of days before `first_kept`, except those in which a run is still alive; answers their names.
CREATE FUNCTION belfry.drop_partitions(first_kept date) RETURNS SETOF text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' AS $$
DECLARE
  child record;
  low uuid;
  high uuid;
BEGIN
  PERFORM pg_advisory_xact_lock(hashtextextended('belfry.partitions', 0));
  FOR child IN
    SELECT c.relname AS name, to_date(right(c.relname, 8), 'YYYYMMDD') AS day
    FROM pg_inherits i
    JOIN pg_class c ON c.oid = i.inhrelid
    JOIN pg_class p ON p.oid = i.inhparent
    WHERE p.relnamespace = 'belfry'::regnamespace AND p.relname IN ('run', 'attempt', 'occurrence')
      AND c.relname ~ '_[0-9]{8}$' AND to_date(right(c.relname, 8), 'YYYYMMDD') < first_kept
    ORDER BY c.relname
  LOOP
    low := belfry.uuid_floor(child.day::timestamptz);
    high := belfry.uuid_floor((child.day + 1)::timestamptz);
    CONTINUE WHEN child.name NOT LIKE 'occurrence%' AND (
      EXISTS (SELECT FROM belfry.ready WHERE run_id >= low AND run_id < high)
      OR EXISTS (SELECT FROM belfry.delayed WHERE run_id >= low AND run_id < high));
    EXECUTE format('DROP TABLE belfry.%I', child.name);
    RETURN NEXT child.name;
  END LOOP;
END
$$;

-- The check for living runs above runs as the owner, whom FORCE ROW LEVEL SECURITY would blind.
CREATE POLICY owner ON belfry.ready FOR SELECT TO CURRENT_USER USING (true);
CREATE POLICY owner ON belfry.delayed FOR SELECT TO CURRENT_USER USING (true);

REVOKE ALL ON FUNCTION belfry.make_partitions(date, integer), belfry.drop_partitions(date),
  belfry.guard_partition(regclass) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION belfry.make_partitions(date, integer), belfry.drop_partitions(date) TO belfry_engine;

SELECT belfry.make_partitions((pg_catalog.now() AT TIME ZONE 'UTC')::date - 1, 5);

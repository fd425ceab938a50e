-- Looks into history, for statements that lock or change rows.
--
-- Functions, so that each has a plan and an execution of its own, and its partitions are chosen before it begins.
-- Within such a statement Postgres would choose them while it runs; and where the statement meets a row that another
-- has just changed, it sets up the look once more in the same memory. Postgres 18.4 was seen to crash there, with
-- every connection of the server, and to find no row any more where it had ruled out a partition at the begin.
-- test/postgres/partition-looks.test.ts holds the statements to it.

-- What a claim says of runs of which it says more than `ready` does: a parcel of ids of one tenant, in order.
CREATE FUNCTION belfry.claimed_details(
  of_tenant uuid, run_ids uuid[], OUT detailed_ids text, OUT due_at_ms text, OUT inputs json, OUT plans json
) LANGUAGE plpgsql STABLE AS $$
BEGIN
  SELECT array_agg(run.id)::text, array_agg(date_part('epoch', run.due_at) * 1000)::text, json_agg(run.input),
    json_agg(json_build_array(run.id, date_part('epoch', run.scheduled_for) * 1000,
      CASE WHEN run.source = 'backfill' THEN run.schedule_id END
    )) FILTER (WHERE run.scheduled_for IS NOT NULL OR run.source = 'backfill')
  INTO detailed_ids, due_at_ms, inputs, plans
  FROM belfry.run
  WHERE run.tenant_id = of_tenant AND run.id = ANY (run_ids)
    -- for the partitions, of which a list rules out none
    AND run.id >= run_ids[1] AND run.id <= run_ids[cardinality(run_ids)];
END $$;
REVOKE ALL ON FUNCTION belfry.claimed_details(uuid, uuid[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION belfry.claimed_details(uuid, uuid[]) TO belfry_engine;

CREATE FUNCTION belfry.run_of(of_tenant uuid, run_id uuid) RETURNS SETOF belfry.run LANGUAGE plpgsql STABLE ROWS 1 AS $$
BEGIN
  RETURN QUERY SELECT * FROM belfry.run WHERE run.tenant_id = of_tenant AND run.id = run_id;
END $$;

-- Of a run, for the gate that it stands at; alone, because it is asked for run by run.
CREATE FUNCTION belfry.input_of(of_tenant uuid, run_id uuid) RETURNS jsonb LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN (SELECT run.input FROM belfry.run WHERE run.tenant_id = of_tenant AND run.id = run_id);
END $$;

-- How a run ended; null: it has not, or is not on record any more.
CREATE FUNCTION belfry.end_of(of_run uuid) RETURNS text LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN (SELECT max(attempt.run_state) FROM belfry.attempt WHERE attempt.run_id = of_run);
END $$;

-- The same of many, in order; of those that have ended.
CREATE FUNCTION belfry.ends_of(of_runs uuid[]) RETURNS TABLE (run_id uuid, run_state text)
LANGUAGE plpgsql STABLE STRICT AS $$
BEGIN
  RETURN QUERY SELECT attempt.run_id, max(attempt.run_state) FROM belfry.attempt
  WHERE attempt.run_id = ANY (of_runs) AND attempt.run_state IS NOT NULL
    AND attempt.run_id >= of_runs[1] AND attempt.run_id <= of_runs[cardinality(of_runs)]
  GROUP BY attempt.run_id;
END $$;

REVOKE ALL ON FUNCTION belfry.run_of(uuid, uuid), belfry.input_of(uuid, uuid), belfry.end_of(uuid), belfry.ends_of(uuid[])
  FROM PUBLIC;
GRANT EXECUTE ON FUNCTION belfry.run_of(uuid, uuid) TO belfry_app, belfry_engine;
GRANT EXECUTE ON FUNCTION belfry.input_of(uuid, uuid), belfry.end_of(uuid), belfry.ends_of(uuid[]) TO belfry_engine;

-- What a claim says of runs of which it says more than `ready` does: a parcel of ids of one tenant, in order.
--
-- A function, so that it has a plan and an execution of its own. Within the claim Postgres would choose the
-- partitions while it runs, and a claim that meets a row which another has just taken plans the look for that row
-- anew in the same memory: Postgres 18.4 was seen to crash there, with every connection of the server.
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

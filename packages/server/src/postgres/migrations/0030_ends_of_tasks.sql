-- Ends of tasks cost less. Those that one statement writes go on record together: a row for each workflow run, not for each
-- end. Where all of them succeeded it says so, and the resolver need not look it up.
ALTER TABLE belfry.workflow_event
  ADD COLUMN run_ids uuid[],
  -- of all of run_ids; null: as their attempts say
  ADD COLUMN run_state text CHECK (run_state IN ('succeeded', 'failed', 'canceled', 'skipped')),
  DROP CONSTRAINT workflow_event_check,
  ADD CONSTRAINT workflow_event_check CHECK ((kind = 'end') = (num_nonnulls(run_id, run_ids) = 1) AND
    (kind = 'end' OR num_nonnulls(run_id, run_ids, run_state) = 0));

-- Those of a workflow run are found by run_of_workflow and task_wait_of, which are there anyway.
DROP INDEX belfry.task_run_of;

-- As before (0026), with how they ended, where that is the same for all.
DROP FUNCTION belfry.let_followers_go(uuid[]);
CREATE FUNCTION belfry.let_followers_go(ended uuid[], ended_as text DEFAULT '') RETURNS smallint[]
LANGUAGE plpgsql VOLATILE STRICT AS $$
DECLARE
  shards smallint[];
BEGIN
  WITH follower AS MATERIALIZED (
    SELECT run_id FROM belfry.delayed WHERE after_run_id = ANY (ended) ORDER BY run_id
  ), let_go AS (
    UPDATE belfry.delayed SET after_run_id = NULL, due_at = belfry.now()
    WHERE run_id = ANY (ARRAY(SELECT run_id FROM follower)) AND after_run_id = ANY (ended)
    RETURNING shard
  )
  SELECT array_agg(DISTINCT shard) INTO shards FROM let_go;
  INSERT INTO belfry.workflow_event (workflow_run_id, tenant_id, kind, run_ids, run_state)
  SELECT workflow_run_id, tenant_id, 'end', array_agg(run_id), nullif(ended_as, '')
  FROM belfry.task_run WHERE run_id = ANY (ended)
  GROUP BY workflow_run_id, tenant_id;
  IF FOUND THEN
    shards := array_append(shards, (-1)::smallint);
  END IF;
  IF belfry.tell_dependents(ended) THEN
    shards := array_append(shards, (-2)::smallint);
  END IF;
  RETURN shards;
END
$$;
REVOKE ALL ON FUNCTION belfry.let_followers_go(uuid[], text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION belfry.let_followers_go(uuid[], text) TO belfry_engine;

-- Workflows that begin by themselves: at planned times of a schedule, when another workflow has ended, when an event
-- comes in. And runs that wait for other runs (`dependsOn`).

-- A schedule runs a job or a workflow.
ALTER TABLE belfry.schedule
  ALTER COLUMN job_id DROP NOT NULL,
  ADD COLUMN workflow_id uuid,
  ADD CONSTRAINT schedule_of_workflow FOREIGN KEY (tenant_id, workflow_id) REFERENCES belfry.workflow (tenant_id, id),
  ADD CONSTRAINT schedule_one_target CHECK ((job_id IS NULL) <> (workflow_id IS NULL));
CREATE INDEX schedule_workflow ON belfry.schedule (tenant_id, workflow_id)
  WHERE workflow_id IS NOT NULL AND deleted_at IS NULL;

-- Of the newest version, so that whoever begins a run need not read the definition.
ALTER TABLE belfry.workflow ADD COLUMN timeout_ms bigint;
ALTER TABLE belfry.workflow NO FORCE ROW LEVEL SECURITY;
ALTER TABLE belfry.workflow_version NO FORCE ROW LEVEL SECURITY;
UPDATE belfry.workflow AS w SET timeout_ms = (v.definition ->> 'timeoutMs')::bigint
FROM belfry.workflow_version AS v
WHERE v.tenant_id = w.tenant_id AND v.workflow_id = w.id AND v.version = w.version AND v.definition ? 'timeoutMs';
ALTER TABLE belfry.workflow FORCE ROW LEVEL SECURITY;
ALTER TABLE belfry.workflow_version FORCE ROW LEVEL SECURITY;

ALTER TABLE belfry.workflow_run
  DROP CONSTRAINT IF EXISTS workflow_run_source_check,
  ADD CONSTRAINT workflow_run_source_check CHECK (
    source IN ('manual', 'schedule', 'trigger', 'backfill', 'workflow', 'event', 'task')
  ),
  ADD COLUMN schedule_id uuid,
  ADD COLUMN scheduled_for timestamptz,
  -- the time whose data the run is about: from the planned time before to its own
  ADD COLUMN interval_start timestamptz,
  ADD COLUMN interval_end timestamptz,
  -- of source workflow: the workflow run whose end began it; of source event: that event
  ADD COLUMN cause_id uuid,
  -- how many ends of workflows led to it, one after the other: what begins itself in a circle is stopped by this
  ADD COLUMN chain smallint NOT NULL DEFAULT 0;
CREATE INDEX workflow_run_schedule ON belfry.workflow_run (tenant_id, schedule_id, id) WHERE schedule_id IS NOT NULL;

-- schedule_id: of a run that a planned time made; the overlap policy looks at these.
-- waits: it has not begun, because a run of its schedule that came before is alive. Whoever ends that one tells the first
-- that waits, by a `begin` event; and a resolver that finds one looks, by a later snapshot, whether it is free by then.
ALTER TABLE belfry.workflow_progress
  ADD COLUMN schedule_id uuid,
  ADD COLUMN waits boolean NOT NULL DEFAULT false;
CREATE INDEX workflow_progress_schedule ON belfry.workflow_progress (schedule_id, workflow_run_id)
  WHERE schedule_id IS NOT NULL;

-- What begins runs of a workflow: ends of another one (by its name, which may be made later), events (by theirs).
CREATE TABLE belfry.workflow_trigger (
  tenant_id uuid NOT NULL,
  workflow_id uuid NOT NULL,
  position smallint NOT NULL,
  kind text NOT NULL CHECK (kind IN ('workflow', 'event')),
  name text NOT NULL CHECK (length(name) BETWEEN 1 AND 128),
  -- of a workflow: how it has to end
  states text[] NOT NULL,
  -- instead of what the event or the other run has
  input jsonb,
  PRIMARY KEY (tenant_id, workflow_id, position)
);
CREATE INDEX workflow_trigger_name ON belfry.workflow_trigger (tenant_id, kind, name);

-- Events that came in, so that one that is sent again begins nothing more.
CREATE TABLE belfry.event (
  id uuid PRIMARY KEY,
  tenant_id uuid NOT NULL,
  name text NOT NULL CHECK (length(name) BETWEEN 1 AND 128),
  key text CHECK (length(key) BETWEEN 1 AND 256),
  workflow_run_ids uuid[] NOT NULL DEFAULT '{}',
  created_at timestamptz NOT NULL DEFAULT belfry.now()
);
CREATE UNIQUE INDEX event_key ON belfry.event (tenant_id, name, key) WHERE key IS NOT NULL;

-- Runs that wait for other runs. The child stands in `delayed` with its rule and no due time; what it waits for stands
-- here, one row a parent.
--
--   child: run, delayed, dependency rows and an event for it, in one transaction, which locks nothing of its parents
--   resolver, by that event: marks parents that are alive as `followed` ─► looks, by a later snapshot, which have ended ─►
--     judges the rule by all of them (domain/dependencies.ts) ─► due, or ended with a reason, or it waits on
--   the end of a parent that is followed: an event for each child, in the transaction of the end
--
-- A parent that ended before it was marked is seen by the look that comes after the marking; one that ended later tells.
ALTER TABLE belfry.delayed
  ADD COLUMN depends_rule text CHECK (
    depends_rule IN ('all_succeeded', 'all_failed', 'all_done', 'all_done_min_one_success', 'all_skipped', 'one_failed',
      'one_success', 'one_done', 'none_failed', 'none_failed_min_one_success', 'none_skipped', 'always')
  );
CREATE INDEX delayed_depends ON belfry.delayed (tenant_id, run_id) WHERE depends_rule IS NOT NULL;

CREATE TABLE belfry.dependency (
  child_id uuid NOT NULL,
  parent_id uuid NOT NULL,
  tenant_id uuid NOT NULL,
  -- that of the child, the same in all of its rows
  rule text NOT NULL,
  -- how the parent ended, once that was seen; it stays when the parent's own record is dropped. unknown: it is dropped
  state text CHECK (state IN ('succeeded', 'failed', 'canceled', 'skipped', 'upstream_failed', 'unknown')),
  PRIMARY KEY (child_id, parent_id)
);
CREATE INDEX dependency_parent ON belfry.dependency (parent_id) WHERE state IS NULL;

CREATE TABLE belfry.dependency_event (
  id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  child_id uuid NOT NULL,
  tenant_id uuid NOT NULL,
  at timestamptz NOT NULL DEFAULT clock_timestamp()
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000);
CREATE INDEX dependency_event_at ON belfry.dependency_event (at);
CREATE INDEX dependency_event_child ON belfry.dependency_event (child_id);

-- Tells those who wait for these runs, which have ended; answers whether there are any. Being volatile, it looks with a
-- snapshot of its own: after the rows of the runs are locked, so that it sees whoever marked them until then.
CREATE FUNCTION belfry.tell_dependents(ended uuid[]) RETURNS boolean LANGUAGE plpgsql VOLATILE STRICT AS $$
BEGIN
  INSERT INTO belfry.dependency_event (child_id, tenant_id)
  SELECT child_id, tenant_id FROM belfry.dependency
  WHERE parent_id = ANY (ended) AND state IS NULL
  GROUP BY child_id, tenant_id;
  RETURN FOUND;
END
$$;
REVOKE ALL ON FUNCTION belfry.tell_dependents(uuid[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION belfry.tell_dependents(uuid[]) TO belfry_app, belfry_engine;

-- As before (0022), and tells those who depend on the runs; a shard of -2 says that there were some.
CREATE OR REPLACE FUNCTION belfry.let_followers_go(ended uuid[]) RETURNS smallint[] LANGUAGE plpgsql VOLATILE STRICT AS $$
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
  INSERT INTO belfry.workflow_event (workflow_run_id, tenant_id, kind, run_id)
  SELECT workflow_run_id, tenant_id, 'end', run_id FROM belfry.task_run WHERE run_id = ANY (ended);
  IF FOUND THEN
    shards := array_append(shards, (-1)::smallint);
  END IF;
  IF belfry.tell_dependents(ended) THEN
    shards := array_append(shards, (-2)::smallint);
  END IF;
  RETURN shards;
END
$$;

-- Partitions have this check from their parent. The list is whole.
ALTER TABLE belfry.attempt
  DROP CONSTRAINT attempt_reason_check,
  ADD CONSTRAINT attempt_reason_check CHECK (
    reason IN ('attempts_exhausted', 'not_retryable', 'outcome_unknown', 'quarantined', 'canceled_by_request',
      'canceled_by_handler', 'overlap', 'deadline_exceeded', 'expired', 'concurrency_limit', 'replaced',
      'dependency_failed', 'dependency_skipped')
  );

ALTER TABLE belfry.workflow_trigger ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
ALTER TABLE belfry.event ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
ALTER TABLE belfry.dependency ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
ALTER TABLE belfry.dependency_event ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY app ON belfry.workflow_trigger TO belfry_app
  USING (tenant_id = belfry.tenant_id()) WITH CHECK (tenant_id = belfry.tenant_id());
CREATE POLICY app ON belfry.event TO belfry_app
  USING (tenant_id = belfry.tenant_id()) WITH CHECK (tenant_id = belfry.tenant_id());
CREATE POLICY app ON belfry.dependency TO belfry_app
  USING (tenant_id = belfry.tenant_id()) WITH CHECK (tenant_id = belfry.tenant_id());
CREATE POLICY app ON belfry.dependency_event TO belfry_app
  USING (tenant_id = belfry.tenant_id()) WITH CHECK (tenant_id = belfry.tenant_id());
CREATE POLICY engine ON belfry.workflow_trigger TO belfry_engine USING (true);
CREATE POLICY engine ON belfry.event TO belfry_engine USING (true);
CREATE POLICY engine ON belfry.dependency TO belfry_engine USING (true) WITH CHECK (true);
CREATE POLICY engine ON belfry.dependency_event TO belfry_engine USING (true) WITH CHECK (true);

GRANT SELECT, INSERT, UPDATE, DELETE ON belfry.workflow_trigger TO belfry_app;
GRANT SELECT ON belfry.workflow_trigger TO belfry_engine;
-- key: an event that began nothing, because every workflow refused its input, gives it back
GRANT SELECT, INSERT, UPDATE (key, workflow_run_ids) ON belfry.event TO belfry_app;
GRANT SELECT, DELETE ON belfry.event TO belfry_engine;
GRANT SELECT, INSERT ON belfry.dependency TO belfry_app;
GRANT SELECT, DELETE, UPDATE (state) ON belfry.dependency TO belfry_engine;
GRANT SELECT, INSERT ON belfry.dependency_event TO belfry_app;
GRANT SELECT, INSERT, DELETE ON belfry.dependency_event TO belfry_engine;
-- no more than a row lock needs
GRANT UPDATE (at) ON belfry.dependency_event TO belfry_engine;
GRANT UPDATE (depends_rule) ON belfry.delayed TO belfry_engine;
-- planned times and ends of workflows begin runs
GRANT INSERT ON belfry.workflow_run, belfry.workflow_progress TO belfry_engine;
GRANT UPDATE (waits, deadline) ON belfry.workflow_progress TO belfry_engine, belfry_app;

-- Workflows: tasks that depend on each other, as people define them. A version never changes: runs name the one that
-- they were begun with. What a task runs is a job: one that it names, as it is when the task starts, or one of the
-- workflow's own (an inline handler, or a job with other limits), in the version that was made with it.

CREATE TABLE belfry.workflow (
  id uuid PRIMARY KEY,
  tenant_id uuid NOT NULL,
  name text NOT NULL CHECK (length(name) BETWEEN 1 AND 128),
  description text NOT NULL DEFAULT '',
  -- grows with every change; the ETag
  version integer NOT NULL DEFAULT 1 CHECK (version > 0),
  task_count integer NOT NULL CHECK (task_count > 0),
  created_at timestamptz NOT NULL DEFAULT belfry.now(),
  updated_at timestamptz NOT NULL DEFAULT belfry.now(),
  deleted_at timestamptz
);
CREATE UNIQUE INDEX workflow_name ON belfry.workflow (tenant_id, name) WHERE deleted_at IS NULL;
CREATE UNIQUE INDEX workflow_list ON belfry.workflow (tenant_id, id);

CREATE TABLE belfry.workflow_version (
  workflow_id uuid NOT NULL,
  version integer NOT NULL,
  tenant_id uuid NOT NULL,
  description text NOT NULL,
  task_count integer NOT NULL,
  definition jsonb NOT NULL,
  -- what each task runs, in the order in which tasks are numbered; without a version: the newest one
  job_ids uuid[] NOT NULL,
  job_versions integer[] NOT NULL,
  created_at timestamptz NOT NULL DEFAULT belfry.now(),
  PRIMARY KEY (tenant_id, workflow_id, version),
  CONSTRAINT workflow_version_workflow FOREIGN KEY (tenant_id, workflow_id) REFERENCES belfry.workflow (tenant_id, id),
  CHECK (cardinality(job_ids) = task_count AND cardinality(job_versions) = task_count)
);

-- A workflow's own jobs have its name and that of their task, <workflow>/<task>, and stand in no list of jobs.
ALTER TABLE belfry.job
  ADD COLUMN workflow_id uuid,
  DROP CONSTRAINT job_name_check,
  ADD CONSTRAINT job_name_check CHECK (length(name) BETWEEN 1 AND CASE WHEN workflow_id IS NULL THEN 128 ELSE 193 END);
CREATE INDEX job_of_workflow ON belfry.job (tenant_id, workflow_id) WHERE workflow_id IS NOT NULL AND deleted_at IS NULL;

ALTER TABLE belfry.workflow ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
ALTER TABLE belfry.workflow_version ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY app ON belfry.workflow TO belfry_app
  USING (tenant_id = belfry.tenant_id()) WITH CHECK (tenant_id = belfry.tenant_id());
CREATE POLICY app ON belfry.workflow_version TO belfry_app
  USING (tenant_id = belfry.tenant_id()) WITH CHECK (tenant_id = belfry.tenant_id());
CREATE POLICY engine ON belfry.workflow TO belfry_engine USING (true);
CREATE POLICY engine ON belfry.workflow_version TO belfry_engine USING (true);

GRANT SELECT, INSERT, UPDATE ON belfry.workflow TO belfry_app;
GRANT SELECT, INSERT ON belfry.workflow_version TO belfry_app;
GRANT SELECT ON belfry.workflow, belfry.workflow_version TO belfry_engine;

-- Runs of workflows. What one is stands in workflow_run; how far it is, while it is alive, in workflow_progress, one small
-- row: a byte a task. Its lock is the only place where tasks are started and ended:
--
--   a run of a task ends (belfry.let_followers_go, a cancel)  ─► workflow_event, in the transaction of the end
--   resolver: locks workflow_progress ─► takes the events ─► decides ─► states, new runs, events gone: one transaction
--
-- An event that comes twice, or late, finds that its run is no longer in task_run, and changes nothing.

CREATE TABLE belfry.workflow_run (
  id uuid PRIMARY KEY,
  tenant_id uuid NOT NULL,
  workflow_id uuid NOT NULL,
  version integer NOT NULL,
  source text NOT NULL CHECK (source IN ('manual')),
  input jsonb,
  created_at timestamptz NOT NULL DEFAULT belfry.now(),
  -- null while it is alive
  state text CHECK (state IN ('succeeded', 'failed', 'canceled')),
  ended_at timestamptz,
  -- how its tasks ended: see workflow_progress
  states bytea,
  items jsonb,
  notes jsonb,
  CHECK ((state IS NULL) = (ended_at IS NULL))
) PARTITION BY RANGE (id);
CREATE UNIQUE INDEX workflow_run_list ON belfry.workflow_run (tenant_id, id);
CREATE INDEX workflow_run_of ON belfry.workflow_run (tenant_id, workflow_id, id);

CREATE TABLE belfry.workflow_progress (
  workflow_run_id uuid PRIMARY KEY,
  tenant_id uuid NOT NULL,
  workflow_id uuid NOT NULL,
  version integer NOT NULL,
  -- a byte a task, in the order in which tasks are numbered: its place in the contract's taskStates
  states bytea NOT NULL,
  -- of mapped tasks that were started: {"<task>": {"states": "<a digit an item>", "launched": n}}
  items jsonb NOT NULL DEFAULT '{}',
  -- {"<task>": "why it failed without a run"}
  notes jsonb NOT NULL DEFAULT '{}',
  turn text CHECK (turn IN ('main', 'on_failure', 'finally')),
  stop text CHECK (stop IN ('canceled', 'timed_out', 'failed_fast')),
  deadline timestamptz
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
CREATE INDEX workflow_progress_deadline ON belfry.workflow_progress (deadline) WHERE deadline IS NOT NULL;

-- Runs of tasks that have not ended, as far as the resolver knows.
CREATE TABLE belfry.task_run (
  run_id uuid PRIMARY KEY,
  tenant_id uuid NOT NULL,
  workflow_run_id uuid NOT NULL,
  task integer NOT NULL,
  item integer
);
CREATE INDEX task_run_of ON belfry.task_run (workflow_run_id, task);

CREATE TABLE belfry.workflow_event (
  at timestamptz NOT NULL DEFAULT clock_timestamp(),
  workflow_run_id uuid NOT NULL,
  tenant_id uuid NOT NULL,
  kind text NOT NULL CHECK (kind IN ('begin', 'end', 'cancel')),
  run_id uuid,
  CHECK ((kind = 'end') = (run_id IS NOT NULL))
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000);
-- what goes on comes before what begins, so that many that begin keep none from its end
CREATE INDEX workflow_event_next ON belfry.workflow_event (at) WHERE kind <> 'begin';
CREATE INDEX workflow_event_begin ON belfry.workflow_event (at) WHERE kind = 'begin';
CREATE INDEX workflow_event_of ON belfry.workflow_event (workflow_run_id);

ALTER TABLE belfry.run
  ADD COLUMN workflow_run_id uuid,
  ADD COLUMN task integer,
  ADD COLUMN item integer,
  DROP CONSTRAINT run_source_check,
  ADD CONSTRAINT run_source_check CHECK (
    source IN ('schedule', 'manual', 'trigger', 'backfill', 'replay', 'workflow')
  );
CREATE INDEX run_of_workflow ON belfry.run (tenant_id, workflow_run_id, task, item, id)
  WHERE workflow_run_id IS NOT NULL;

-- As before (0009), and puts the ends of runs of tasks on record: those are `followed` from the first. A shard of -1 says
-- that there were some.
CREATE OR REPLACE FUNCTION belfry.let_followers_go(ended uuid[]) RETURNS smallint[] LANGUAGE plpgsql VOLATILE STRICT AS $$
DECLARE
  shards smallint[];
BEGIN
  WITH follower AS MATERIALIZED (
    SELECT link.run_id
    FROM unnest(ended) AS past (run_id)
    CROSS JOIN LATERAL (
      SELECT delayed.run_id FROM belfry.delayed WHERE delayed.after_run_id = past.run_id OFFSET 0
    ) AS link
    ORDER BY link.run_id
  ), let_go AS (
    UPDATE belfry.delayed SET after_run_id = NULL, due_at = belfry.now()
    WHERE run_id = ANY (ARRAY(SELECT run_id FROM follower)) AND after_run_id = ANY (ended)
    RETURNING shard
  )
  SELECT array_agg(DISTINCT shard) INTO shards FROM let_go;
  INSERT INTO belfry.workflow_event (workflow_run_id, tenant_id, kind, run_id)
  SELECT task.workflow_run_id, task.tenant_id, 'end', past.run_id
  FROM unnest(ended) AS past (run_id)
  CROSS JOIN LATERAL (SELECT * FROM belfry.task_run WHERE task_run.run_id = past.run_id OFFSET 0) AS task;
  IF FOUND THEN
    shards := array_append(shards, (-1)::smallint);
  END IF;
  RETURN shards;
END
$$;

ALTER TABLE belfry.workflow_run ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
ALTER TABLE belfry.workflow_progress ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
ALTER TABLE belfry.task_run ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
ALTER TABLE belfry.workflow_event ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY app ON belfry.workflow_run TO belfry_app
  USING (tenant_id = belfry.tenant_id()) WITH CHECK (tenant_id = belfry.tenant_id());
CREATE POLICY app ON belfry.workflow_progress TO belfry_app
  USING (tenant_id = belfry.tenant_id()) WITH CHECK (tenant_id = belfry.tenant_id());
CREATE POLICY app ON belfry.task_run TO belfry_app USING (tenant_id = belfry.tenant_id());
CREATE POLICY app ON belfry.workflow_event TO belfry_app
  USING (tenant_id = belfry.tenant_id()) WITH CHECK (tenant_id = belfry.tenant_id());
CREATE POLICY engine ON belfry.workflow_run TO belfry_engine USING (true) WITH CHECK (true);
CREATE POLICY engine ON belfry.workflow_progress TO belfry_engine USING (true) WITH CHECK (true);
CREATE POLICY engine ON belfry.task_run TO belfry_engine USING (true) WITH CHECK (true);
CREATE POLICY engine ON belfry.workflow_event TO belfry_engine USING (true) WITH CHECK (true);

GRANT SELECT, INSERT ON belfry.workflow_run, belfry.workflow_progress, belfry.workflow_event TO belfry_app;
GRANT SELECT ON belfry.task_run TO belfry_app;
GRANT SELECT, UPDATE (state, ended_at, states, items, notes) ON belfry.workflow_run TO belfry_engine;
GRANT SELECT, DELETE, UPDATE (states, items, notes, turn, stop, deadline) ON belfry.workflow_progress TO belfry_engine;
GRANT SELECT, INSERT, DELETE ON belfry.task_run, belfry.workflow_event TO belfry_engine;

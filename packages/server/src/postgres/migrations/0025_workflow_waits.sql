-- Tasks that run no job: they wait for a decision, a time, a signal, or for a workflow run of their own. And how many runs
-- of a workflow there are at once.

-- As before, but for what is no text: 1 and "1" are two keys. Text stays as it was, for the groups that there are.
CREATE OR REPLACE FUNCTION belfry.key_hash(input jsonb, path text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN (
    SELECT coalesce(left(encode(sha256(convert_to(CASE jsonb_typeof(pointed.value)
        WHEN 'string' THEN pointed.value #>> '{}'
        WHEN 'null' THEN NULL
        ELSE E'\x01' || pointed.value::text END, 'UTF8')), 'hex'), 32), '')
    FROM (SELECT CASE WHEN starts_with(path, '/') THEN input #> string_to_array(
        replace(replace(replace(substr(path, 2), '/', E'\x01'), '~1', '/'), '~0', '~'), E'\x01')
      ELSE input -> path END AS value) AS pointed
  );

-- A wait stands here from its start on, and in task_run, like the run of a task, until the resolver has taken in its end:
--
--   resolver: a task starts               ─► task_wait + task_run
--   its time comes (due_at), by any resolver; somebody approves or rejects; its signal came; its workflow run ends
--                                         ─► task_wait.state + workflow_event, one statement
--   resolver: takes the event             ─► the task ends
--
-- Whoever ends one names the state that it still has, so it ends once. What is due is found by an index of open ones alone.
CREATE TABLE belfry.task_wait (
  id uuid PRIMARY KEY,
  tenant_id uuid NOT NULL,
  workflow_run_id uuid NOT NULL,
  task integer NOT NULL,
  item integer,
  -- the id of the task in its workflow
  task_id text NOT NULL,
  kind text NOT NULL CHECK (kind IN ('approval', 'time', 'signal', 'workflow')),
  message text,
  signal text,
  -- of kind workflow: its run
  child_id uuid,
  created_at timestamptz NOT NULL DEFAULT belfry.now(),
  -- when it ends by itself, and how then
  due_at timestamptz,
  on_timeout text NOT NULL CHECK (on_timeout IN ('succeeded', 'failed', 'skipped')),
  on_reject text NOT NULL CHECK (on_reject IN ('failed', 'skipped')),
  -- null while it is open
  state text CHECK (state IN ('succeeded', 'failed', 'canceled', 'skipped')),
  ended_at timestamptz,
  -- what its task gives to others
  output jsonb,
  -- {"keyId", "name"}: who decided, or sent the signal; and what they said
  ended_by jsonb,
  reason text CHECK (length(reason) <= 1024),
  CHECK ((state IS NULL) = (ended_at IS NULL)),
  CHECK ((kind = 'workflow') = (child_id IS NOT NULL)),
  CHECK ((kind = 'signal') = (signal IS NOT NULL))
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 5000);
CREATE INDEX task_wait_of ON belfry.task_wait (workflow_run_id, task);
CREATE INDEX task_wait_due ON belfry.task_wait (due_at) WHERE state IS NULL AND due_at IS NOT NULL;
CREATE INDEX task_wait_signal ON belfry.task_wait (workflow_run_id, signal) WHERE state IS NULL AND signal IS NOT NULL;
CREATE INDEX task_wait_open ON belfry.task_wait (tenant_id, id) WHERE state IS NULL AND kind = 'approval';

-- Signals of workflow runs: the newest of each name. It ends what waits for it, and what comes to wait for it later.
CREATE TABLE belfry.workflow_signal (
  workflow_run_id uuid NOT NULL,
  name text NOT NULL CHECK (length(name) BETWEEN 1 AND 128),
  tenant_id uuid NOT NULL,
  payload jsonb,
  sent_at timestamptz NOT NULL DEFAULT belfry.now(),
  sent_by jsonb NOT NULL,
  PRIMARY KEY (workflow_run_id, name)
);

ALTER TABLE belfry.workflow_event
  DROP CONSTRAINT workflow_event_kind_check,
  ADD CONSTRAINT workflow_event_kind_check CHECK (kind IN ('begin', 'end', 'cancel', 'signal'));

-- wait_id: the wait, in the run parent_id, that this is the workflow run of; depth: how many there are above it.
-- priority: of this run; null: as its workflow says.
ALTER TABLE belfry.workflow_run
  ADD COLUMN parent_id uuid,
  ADD COLUMN wait_id uuid,
  ADD COLUMN depth smallint NOT NULL DEFAULT 0,
  ADD COLUMN priority smallint CHECK (priority BETWEEN -100 AND 100),
  ADD COLUMN output jsonb,
  DROP CONSTRAINT workflow_run_state_check,
  ADD CONSTRAINT workflow_run_state_check CHECK (state IN ('succeeded', 'failed', 'canceled', 'skipped'));

-- Limits of runs at once. Runs of a workflow that has some stand behind a gate: <workflow>/<hash of the value of the key>.
-- They begin once they are admitted, one decision at a time for each gate (an advisory lock of the transaction): as many as
-- the newest version allows, less those that are alive. A row that goes frees its place, so a process that dies leaks none.
ALTER TABLE belfry.workflow ADD COLUMN concurrency jsonb;

ALTER TABLE belfry.workflow_progress
  ADD COLUMN wait_id uuid,
  ADD COLUMN depth smallint NOT NULL DEFAULT 0,
  ADD COLUMN priority smallint,
  ADD COLUMN gate text COLLATE "C",
  ADD COLUMN admitted_at timestamptz,
  -- of one behind a gate: its time counts from when it is admitted
  ADD COLUMN timeout_ms bigint;
CREATE INDEX workflow_progress_queue ON belfry.workflow_progress
  (gate, (coalesce(priority, 0)::integer) DESC, workflow_run_id) WHERE gate IS NOT NULL AND admitted_at IS NULL;
CREATE INDEX workflow_progress_admitted ON belfry.workflow_progress (gate, workflow_run_id)
  WHERE gate IS NOT NULL AND admitted_at IS NOT NULL;

-- The gate of a new run of a workflow with this input; null: none.
CREATE FUNCTION belfry.workflow_gate(the_workflow uuid, input jsonb) RETURNS text LANGUAGE sql STABLE
BEGIN ATOMIC
  SELECT w.id::text || '/' || coalesce(belfry.key_hash(input, w.concurrency ->> 'key'), '')
  FROM belfry.workflow AS w WHERE w.id = the_workflow AND w.concurrency IS NOT NULL;
END;

ALTER TABLE belfry.task_wait ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
ALTER TABLE belfry.workflow_signal ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY app ON belfry.task_wait TO belfry_app
  USING (tenant_id = belfry.tenant_id()) WITH CHECK (tenant_id = belfry.tenant_id());
CREATE POLICY app ON belfry.workflow_signal TO belfry_app
  USING (tenant_id = belfry.tenant_id()) WITH CHECK (tenant_id = belfry.tenant_id());
CREATE POLICY engine ON belfry.task_wait TO belfry_engine USING (true) WITH CHECK (true);
CREATE POLICY engine ON belfry.workflow_signal TO belfry_engine USING (true) WITH CHECK (true);

-- task: a workflow run that moves to a newer version, whose tasks are numbered anew
GRANT SELECT, UPDATE (task, state, ended_at, output, ended_by, reason) ON belfry.task_wait TO belfry_app;
GRANT SELECT, INSERT, DELETE, UPDATE (state, ended_at, output, ended_by, reason) ON belfry.task_wait TO belfry_engine;
GRANT SELECT, INSERT, UPDATE (payload, sent_at, sent_by) ON belfry.workflow_signal TO belfry_app;
GRANT SELECT, DELETE ON belfry.workflow_signal TO belfry_engine;
-- a task begins a run of another workflow; one that is over says what it gives; who is admitted begins
GRANT INSERT ON belfry.workflow_run, belfry.workflow_progress TO belfry_engine;
GRANT UPDATE (output) ON belfry.workflow_run TO belfry_engine;
-- one that is opened again has given nothing yet
GRANT UPDATE (output) ON belfry.workflow_run TO belfry_app;
GRANT UPDATE (admitted_at) ON belfry.workflow_progress TO belfry_engine;

-- When things are due: timers of schedules, delayed runs, leadership terms of the 64 shards, and the occurrence of
-- every planned time. No foreign keys: these tables are hot.

-- One row an active schedule. Narrow, so that moving a due time rewrites little.
CREATE TABLE belfry.timer (
  schedule_id uuid PRIMARY KEY,
  tenant_id uuid NOT NULL,
  -- due_at = scheduled_for + jitter; scheduled_for is the nominal time, the identity of the occurrence
  due_at timestamptz NOT NULL,
  scheduled_for timestamptz NOT NULL,
  gen bigint NOT NULL,
  shard smallint NOT NULL CHECK (shard BETWEEN 0 AND 63),
  -- the last run that this schedule started, for the overlap rule
  last_run_id uuid,
  CHECK (due_at >= scheduled_for)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000);
CREATE INDEX timer_due ON belfry.timer (shard, due_at, schedule_id);

-- Runs that may not start yet: retries and `runAt`. At the due time they move to belfry.ready.
CREATE TABLE belfry.delayed (
  run_id uuid PRIMARY KEY,
  tenant_id uuid NOT NULL,
  job_id uuid NOT NULL,
  job_version integer NOT NULL,
  due_at timestamptz NOT NULL,
  shard smallint NOT NULL CHECK (shard BETWEEN 0 AND 63),
  queue text NOT NULL,
  handler text NOT NULL,
  priority smallint NOT NULL,
  timeout_ms integer NOT NULL,
  lease_epoch bigint NOT NULL,
  attempt integer NOT NULL,
  crash_count smallint NOT NULL,
  failure_count integer NOT NULL DEFAULT 0
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000);
CREATE INDEX delayed_due ON belfry.delayed (shard, due_at, run_id);

-- One row a scheduler process; who is alive, so that shards spread evenly.
CREATE TABLE belfry.scheduler_node (
  id uuid PRIMARY KEY,
  host text NOT NULL,
  version text NOT NULL,
  started_at timestamptz NOT NULL DEFAULT belfry.now(),
  expires_at timestamptz NOT NULL
);

-- One row a shard. `term` only grows and is the fencing token: a fire names the term it believes in.
CREATE TABLE belfry.shard_term (
  shard smallint PRIMARY KEY CHECK (shard BETWEEN 0 AND 63),
  term bigint NOT NULL DEFAULT 0,
  owner_id uuid,
  expires_at timestamptz NOT NULL DEFAULT '-infinity'
) WITH (fillfactor = 50);
INSERT INTO belfry.shard_term (shard) SELECT generate_series(0, 63)::smallint;

-- Every planned time and what became of it. The key is the promise: one row, whatever happens.
CREATE TABLE belfry.occurrence (
  schedule_id uuid NOT NULL,
  scheduled_for timestamptz NOT NULL,
  tenant_id uuid NOT NULL,
  outcome text NOT NULL CHECK (outcome IN ('ran', 'skipped', 'missed')),
  reason text CHECK (reason IN ('overlap', 'catch_up_latest', 'catch_up_none', 'catch_up_window')),
  -- more than 1 only where an outage left more planned times than are worth a row each
  missed_count bigint NOT NULL DEFAULT 1 CHECK (missed_count > 0),
  run_id uuid,
  due_at timestamptz NOT NULL,
  fired_at timestamptz NOT NULL DEFAULT belfry.now(),
  PRIMARY KEY (schedule_id, scheduled_for),
  CHECK ((outcome = 'ran') = (run_id IS NOT NULL)),
  CHECK ((outcome = 'ran') = (reason IS NULL))
) PARTITION BY RANGE (scheduled_for);

ALTER TABLE belfry.timer ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
ALTER TABLE belfry.delayed ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
ALTER TABLE belfry.occurrence ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;

CREATE POLICY app ON belfry.timer TO belfry_app
  USING (tenant_id = belfry.tenant_id()) WITH CHECK (tenant_id = belfry.tenant_id());
CREATE POLICY app ON belfry.delayed TO belfry_app
  USING (tenant_id = belfry.tenant_id()) WITH CHECK (tenant_id = belfry.tenant_id());
CREATE POLICY app ON belfry.occurrence TO belfry_app USING (tenant_id = belfry.tenant_id());
CREATE POLICY engine ON belfry.timer TO belfry_engine USING (true) WITH CHECK (true);
CREATE POLICY engine ON belfry.delayed TO belfry_engine USING (true) WITH CHECK (true);
CREATE POLICY engine ON belfry.occurrence TO belfry_engine USING (true) WITH CHECK (true);

GRANT SELECT, INSERT, UPDATE, DELETE ON belfry.timer TO belfry_app;
GRANT SELECT, INSERT, DELETE ON belfry.delayed TO belfry_app;
GRANT SELECT ON belfry.occurrence TO belfry_app;
GRANT SELECT, UPDATE, DELETE ON belfry.timer TO belfry_engine;
GRANT SELECT, INSERT, DELETE ON belfry.delayed TO belfry_engine;
-- no more than a row lock needs: runs are released in one order by all nodes
GRANT UPDATE (due_at) ON belfry.delayed TO belfry_engine;
GRANT SELECT, INSERT ON belfry.occurrence TO belfry_engine;
GRANT SELECT, INSERT, UPDATE, DELETE ON belfry.scheduler_node TO belfry_engine;
GRANT SELECT, UPDATE ON belfry.shard_term TO belfry_engine;

-- Runs. What a run is (belfry.run) and what was tried (belfry.attempt) is written once and never changed, in daily
-- partitions by UUIDv7, dropped whole by the pruner. What is alive stands in two narrow tables: belfry.ready (may run
-- now, or is running) and belfry.delayed (later). A run has no state column; its state follows from where it stands:
--
--   ready with session_id      running
--   ready without, or delayed  pending
--   an attempt with run_state  that terminal state
--
-- A row leaves `ready` only together with the attempt row that says why, in one statement, guarded by lease_epoch: so a
-- run ends once, whoever tries.

CREATE TABLE belfry.run (
  id uuid NOT NULL,
  tenant_id uuid NOT NULL,
  job_id uuid NOT NULL,
  job_version integer NOT NULL,
  schedule_id uuid,
  scheduled_for timestamptz,
  source text NOT NULL CHECK (source IN ('schedule', 'manual', 'trigger')),
  queue text NOT NULL,
  priority smallint NOT NULL,
  input jsonb,
  due_at timestamptz NOT NULL,
  created_at timestamptz NOT NULL DEFAULT belfry.now(),
  PRIMARY KEY (tenant_id, id)
) PARTITION BY RANGE (id);
CREATE INDEX run_job ON belfry.run (tenant_id, job_id, id);
CREATE INDEX run_schedule ON belfry.run (tenant_id, schedule_id, id) WHERE schedule_id IS NOT NULL;

CREATE TABLE belfry.ready (
  run_id uuid PRIMARY KEY,
  tenant_id uuid NOT NULL,
  job_id uuid NOT NULL,
  job_version integer NOT NULL,
  queue text NOT NULL,
  handler text NOT NULL,
  -- fair order: the virtual start time, less the priority; see domain/fair-queue.ts
  tag double precision NOT NULL,
  priority smallint NOT NULL,
  available_at timestamptz NOT NULL,
  timeout_ms integer NOT NULL,
  -- the fence: grows at every claim and reclaim, named in every later write
  lease_epoch bigint NOT NULL DEFAULT 0,
  attempt integer NOT NULL DEFAULT 0,
  crash_count smallint NOT NULL DEFAULT 0,
  failure_count integer NOT NULL DEFAULT 0,
  session_id uuid,
  claimed_at timestamptz,
  deadline timestamptz,
  cancel_requested_at timestamptz,
  CHECK ((session_id IS NULL) = (deadline IS NULL)),
  CHECK ((session_id IS NULL) = (claimed_at IS NULL))
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000);
CREATE INDEX ready_claim ON belfry.ready (queue, handler, tag, run_id) WHERE session_id IS NULL;
CREATE INDEX ready_held ON belfry.ready (session_id, run_id) WHERE session_id IS NOT NULL;
-- Which tenants have something ready, and in which queues: for workers of every queue, who share out by tenant.
CREATE INDEX ready_tenant ON belfry.ready (tenant_id, queue) WHERE session_id IS NULL;

-- A worker's lease: one row, renewed by heartbeat; every run that it holds hangs on it.
CREATE TABLE belfry.session (
  id uuid PRIMARY KEY,
  host text NOT NULL,
  version text NOT NULL,
  queues text[] NOT NULL,
  slots integer NOT NULL,
  started_at timestamptz NOT NULL DEFAULT belfry.now(),
  heartbeat_at timestamptz NOT NULL DEFAULT belfry.now(),
  expires_at timestamptz NOT NULL
) WITH (fillfactor = 50);

-- number 0: the run ended without an attempt of its own (canceled while it waited).
CREATE TABLE belfry.attempt (
  run_id uuid NOT NULL,
  number integer NOT NULL CHECK (number >= 0),
  tenant_id uuid NOT NULL,
  lease_epoch bigint NOT NULL,
  session_id uuid,
  outcome text NOT NULL CHECK (outcome IN ('succeeded', 'failed', 'timed_out', 'canceled', 'lost', 'released')),
  run_state text CHECK (run_state IN ('succeeded', 'failed', 'canceled', 'skipped', 'upstream_failed')),
  reason text CHECK (
    reason IN ('attempts_exhausted', 'not_retryable', 'outcome_unknown', 'quarantined', 'canceled_by_request', 'overlap')
  ),
  started_at timestamptz NOT NULL,
  ended_at timestamptz NOT NULL DEFAULT belfry.now(),
  retry_at timestamptz,
  error_code text,
  error_message text,
  http_status smallint,
  response text,
  response_truncated boolean NOT NULL DEFAULT false,
  PRIMARY KEY (run_id, number),
  CHECK ((run_state IS NULL) <> (retry_at IS NULL))
) PARTITION BY RANGE (run_id);
CREATE INDEX attempt_not_succeeded ON belfry.attempt (tenant_id, run_state, run_id)
  WHERE run_state IS NOT NULL AND run_state <> 'succeeded';

ALTER TABLE belfry.run ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
ALTER TABLE belfry.ready ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
ALTER TABLE belfry.attempt ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;

CREATE POLICY app ON belfry.run TO belfry_app
  USING (tenant_id = belfry.tenant_id()) WITH CHECK (tenant_id = belfry.tenant_id());
CREATE POLICY app ON belfry.ready TO belfry_app
  USING (tenant_id = belfry.tenant_id()) WITH CHECK (tenant_id = belfry.tenant_id());
CREATE POLICY app ON belfry.attempt TO belfry_app
  USING (tenant_id = belfry.tenant_id()) WITH CHECK (tenant_id = belfry.tenant_id());
CREATE POLICY engine ON belfry.run TO belfry_engine USING (true) WITH CHECK (true);
CREATE POLICY engine ON belfry.ready TO belfry_engine USING (true) WITH CHECK (true);
CREATE POLICY engine ON belfry.attempt TO belfry_engine USING (true) WITH CHECK (true);

GRANT SELECT, INSERT ON belfry.run TO belfry_app, belfry_engine;
GRANT SELECT, INSERT, DELETE, UPDATE (cancel_requested_at) ON belfry.ready TO belfry_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON belfry.ready TO belfry_engine;
GRANT SELECT, INSERT ON belfry.attempt TO belfry_app, belfry_engine;
GRANT SELECT, INSERT, UPDATE, DELETE ON belfry.session TO belfry_engine;

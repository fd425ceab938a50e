-- Who is there, and how fast runs go: what `belfry cluster status` shows, and what workers are scaled by.

-- One row a process of any role, written by itself every few seconds; gone when it stops in good order, and some
-- minutes after it was last heard of where it did not. Nothing is decided by it: who leads and who holds runs stands in
-- scheduler_node, shard_term and session.
CREATE TABLE belfry.node (
  id uuid PRIMARY KEY,
  host text NOT NULL,
  version text NOT NULL,
  roles text[] NOT NULL,
  started_at timestamptz NOT NULL DEFAULT belfry.now(),
  reported_at timestamptz NOT NULL DEFAULT belfry.now(),
  -- silent from then on
  expires_at timestamptz NOT NULL,
  -- its wall clock minus that of the database, and by how much that may be wrong at most; null until it has looked
  skew_ms double precision,
  skew_error_ms double precision,
  -- the largest lateness of a fire in its last minute; null where it fired nothing
  lag_ms double precision,
  -- of a worker that calls targets; null where it is none
  worker_queues text[],
  worker_slots integer,
  worker_busy integer,
  -- parts that it does without at present: [{part, state, fault, since_ms}]
  parts jsonb NOT NULL,
  CHECK ((worker_queues IS NULL) = (worker_slots IS NULL) AND (worker_slots IS NULL) = (worker_busy IS NULL))
) WITH (fillfactor = 50);
GRANT SELECT, INSERT, UPDATE, DELETE ON belfry.node TO belfry_engine;
GRANT SELECT ON belfry.node TO belfry_platform;
-- how many places there are for runs of a queue, and neither on which hosts nor what others run there
GRANT SELECT (expires_at, worker_queues, worker_slots) ON belfry.node TO belfry_app;

-- How many attempts ended, and how long they took, with a half-life of a minute: a row for each tenant and queue in which
-- anything ended lately, and for each kind of worker. Added to by all processes, every few seconds.
CREATE TABLE belfry.queue_pace (
  tenant_id uuid NOT NULL,
  queue text NOT NULL,
  kind text NOT NULL CHECK (kind IN ('servers', 'functions')),
  attempts double precision NOT NULL,
  busy_ms double precision NOT NULL,
  noted_at timestamptz NOT NULL DEFAULT belfry.now(),
  PRIMARY KEY (queue, kind, tenant_id)
) WITH (fillfactor = 50);
-- a tenant chooses the names of queues, so what is forgotten may be much
CREATE INDEX queue_pace_noted ON belfry.queue_pace (noted_at);
ALTER TABLE belfry.queue_pace ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY app ON belfry.queue_pace FOR SELECT TO belfry_app USING (tenant_id = belfry.tenant_id());
CREATE POLICY engine ON belfry.queue_pace TO belfry_engine USING (true) WITH CHECK (true);
CREATE POLICY platform ON belfry.queue_pace FOR SELECT TO belfry_platform USING (true);
GRANT SELECT, INSERT, UPDATE, DELETE ON belfry.queue_pace TO belfry_engine;
GRANT SELECT ON belfry.queue_pace TO belfry_app, belfry_platform;

-- The platform counts what waits, runs and is due in the whole installation. It sees no input
-- and no job.
CREATE POLICY platform ON belfry.ready FOR SELECT TO belfry_platform USING (true);
CREATE POLICY platform ON belfry.claim FOR SELECT TO belfry_platform USING (true);
CREATE POLICY platform ON belfry.timer FOR SELECT TO belfry_platform USING (true);
CREATE POLICY platform ON belfry.delayed FOR SELECT TO belfry_platform USING (true);
GRANT SELECT (run_id, tenant_id, queue, handler, tag, available_at, claimed_at, session_id, settled_by, gate) ON belfry.ready
  TO belfry_platform;
GRANT SELECT (session_id, run_ids) ON belfry.claim TO belfry_platform;
GRANT SELECT (shard, due_at) ON belfry.timer TO belfry_platform;
GRANT SELECT (shard, due_at) ON belfry.delayed TO belfry_platform;
GRANT SELECT ON belfry.shard_term, belfry.scheduler_node TO belfry_platform;

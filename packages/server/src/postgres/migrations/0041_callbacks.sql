-- Runs that a target took over: it answered 202 and reports later (docs/how-to/http-targets.md). Meanwhile the run is
-- parked: it stands in `ready` as running, held by no worker but by the session below, which is none. So nothing else of
-- a running run changes: epoch, deadline, cancel, limits and the rescuer are those of every other.
--
--   callback   one row for each attempt that may be reported on. Written before the target is called, because it may
--              report before it has answered. It tells which token may end which attempt: only while the run stands in
--              `ready` under this epoch, whoever holds it. The row stays for some time after that, so that a report that
--              comes late, or again, is told from one by nobody
--
-- due_at is when the rescuer looks: the deadline, or the next sign of life, whichever comes first; null until the target
-- took the run over. ready.deadline says the same, and is what counts.

CREATE TABLE belfry.callback (
  tenant_id uuid NOT NULL,
  run_id uuid NOT NULL,
  lease_epoch bigint NOT NULL,
  -- SHA-256; the token itself is stored nowhere
  token_hash bytea NOT NULL CHECK (length(token_hash) = 32),
  created_at timestamptz NOT NULL DEFAULT belfry.now(),
  accepted_at timestamptz,
  -- of the whole report; null until accepted
  report_by timestamptz,
  -- the longest silence that is allowed; null: any
  heartbeat_ms integer CHECK (heartbeat_ms > 0),
  heard_at timestamptz,
  due_at timestamptz,
  PRIMARY KEY (tenant_id, run_id, lease_epoch),
  CHECK ((accepted_at IS NULL) = (report_by IS NULL))
);
-- Whoever reports has nothing but the token.
CREATE UNIQUE INDEX callback_token ON belfry.callback (token_hash);
CREATE INDEX callback_due ON belfry.callback (due_at) WHERE due_at IS NOT NULL;
-- how many runs of a tenant are parked, for its quota
CREATE INDEX callback_parked ON belfry.callback (tenant_id, accepted_at) WHERE due_at IS NOT NULL;
CREATE INDEX callback_old ON belfry.callback (created_at);

ALTER TABLE belfry.callback ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY app ON belfry.callback FOR SELECT TO belfry_app USING (tenant_id = belfry.tenant_id());
CREATE POLICY engine ON belfry.callback TO belfry_engine USING (true) WITH CHECK (true);
-- all but the hash: it is of use to nobody but the engine
GRANT SELECT (tenant_id, run_id, lease_epoch, accepted_at, report_by, heartbeat_ms, heard_at, due_at)
  ON belfry.callback TO belfry_app;
GRANT SELECT, INSERT, DELETE, UPDATE (accepted_at, report_by, heartbeat_ms, heard_at, due_at) ON belfry.callback
  TO belfry_engine;

-- What a role in an account of AWS must ask for before Belfry may assume it on behalf of this tenant. Made here and never
-- chosen, so that no tenant can name the one of another.
ALTER TABLE belfry.tenant
  ADD COLUMN aws_external_id text NOT NULL UNIQUE DEFAULT 'belfry-' || gen_random_uuid();
GRANT SELECT (aws_external_id) ON belfry.tenant TO belfry_engine;

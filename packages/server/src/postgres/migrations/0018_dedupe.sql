-- Requests that are not to become a run each: of the same dedupe key, and of jobs that debounce or collect.
--
--   dedupe      who holds a key: the run of the first request, until `held_until`, or (null) while it waits or runs. A
--               request locks the row first and looks again then, so of two at once the second waits for the first's
--               commit, and sees what became of it (postgres/dedupe.ts)
--   gathering   the run that takes further inputs of a job and key. It stands in `delayed` with `gathers` until it is
--               due; whoever adds to it holds this row, then that one (postgres/gatherings.ts)
--   gathered    the inputs that it has so far. When it is due they become the input of the run, once, in a transaction
--               that holds the row of `delayed` before it reads them, and takes `gathers` away: what comes later opens
--               the next run, so no input is lost and none is in two runs

CREATE TABLE belfry.dedupe (
  tenant_id uuid NOT NULL,
  job_id uuid NOT NULL,
  key text NOT NULL CHECK (length(key) BETWEEN 1 AND 256),
  -- null: the first request of the key is under way, in its own transaction only
  run_id uuid,
  held_until timestamptz,
  PRIMARY KEY (tenant_id, job_id, key)
);
-- for the pruner: those that are held by time, and those that are held by a run
CREATE INDEX dedupe_expiry ON belfry.dedupe (held_until) WHERE held_until IS NOT NULL;
CREATE INDEX dedupe_run ON belfry.dedupe (run_id) WHERE held_until IS NULL;

CREATE TABLE belfry.gathering (
  tenant_id uuid NOT NULL,
  job_id uuid NOT NULL,
  -- hash of what the key of the job points at in the input; empty: nothing
  key text NOT NULL CHECK (length(key) <= 64),
  -- null: as above
  run_id uuid,
  -- how many requests it took, and the bytes of its inputs as JSON
  items integer NOT NULL DEFAULT 0,
  bytes integer NOT NULL DEFAULT 0,
  opened_at timestamptz NOT NULL,
  PRIMARY KEY (tenant_id, job_id, key)
) WITH (fillfactor = 70);
CREATE INDEX gathering_opened ON belfry.gathering (opened_at);
CREATE INDEX gathering_run ON belfry.gathering (run_id);

CREATE TABLE belfry.gathered (
  run_id uuid NOT NULL,
  -- 0: the newest of a job that debounces; 1, 2, …: the items of one that collects
  position integer NOT NULL CHECK (position >= 0),
  tenant_id uuid NOT NULL,
  input jsonb,
  PRIMARY KEY (run_id, position)
);

-- Of the definition: how its requests are gathered. `collect`: the input of the run is the list of theirs.
ALTER TABLE belfry.delayed
  ADD COLUMN gathers text CHECK (gathers IN ('debounce', 'collect'));

ALTER TABLE belfry.dedupe ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
ALTER TABLE belfry.gathering ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
ALTER TABLE belfry.gathered ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY app ON belfry.dedupe TO belfry_app
  USING (tenant_id = belfry.tenant_id()) WITH CHECK (tenant_id = belfry.tenant_id());
CREATE POLICY app ON belfry.gathering TO belfry_app
  USING (tenant_id = belfry.tenant_id()) WITH CHECK (tenant_id = belfry.tenant_id());
CREATE POLICY app ON belfry.gathered TO belfry_app
  USING (tenant_id = belfry.tenant_id()) WITH CHECK (tenant_id = belfry.tenant_id());
CREATE POLICY engine ON belfry.dedupe TO belfry_engine USING (true);
CREATE POLICY engine ON belfry.gathering TO belfry_engine USING (true);
CREATE POLICY engine ON belfry.gathered TO belfry_engine USING (true);
GRANT SELECT, INSERT, UPDATE (key, run_id, held_until) ON belfry.dedupe TO belfry_app;
GRANT SELECT, INSERT, UPDATE (key, run_id, items, bytes, opened_at) ON belfry.gathering TO belfry_app;
GRANT SELECT, INSERT, UPDATE (input) ON belfry.gathered TO belfry_app;
GRANT SELECT, DELETE ON belfry.dedupe, belfry.gathering, belfry.gathered TO belfry_engine;
-- no more than a row lock needs
GRANT UPDATE (key) ON belfry.dedupe, belfry.gathering TO belfry_engine;
-- adding moves the due time, and the limits that count from it
GRANT UPDATE (start_by, run_deadline) ON belfry.delayed TO belfry_app;
GRANT UPDATE (gathers) ON belfry.delayed TO belfry_engine;
-- once, when it is due: the inputs that it took, and when it was due in the end
GRANT UPDATE (input, due_at) ON belfry.run TO belfry_engine;

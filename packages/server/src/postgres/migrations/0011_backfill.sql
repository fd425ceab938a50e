-- Backfills: runs for planned times that are over (engine/backfiller.ts), and the list of all runs of a schedule for a
-- planned time that its own fire did not make.
--
-- A step of a backfill holds the row of the backfill, and a lock that stands for all backfills of the schedule: so what
-- it reads of a time stays true until it commits. It takes no lock that a fire waits for.

-- for the key of what names a schedule of its own tenant
DROP INDEX belfry.schedule_list;
CREATE UNIQUE INDEX schedule_list ON belfry.schedule (tenant_id, id);

CREATE TABLE belfry.backfill (
  id uuid PRIMARY KEY,
  tenant_id uuid NOT NULL,
  schedule_id uuid NOT NULL,
  shard smallint NOT NULL CHECK (shard BETWEEN 0 AND 63),
  -- planned times in [from_at, to_at)
  from_at timestamptz NOT NULL,
  to_at timestamptz NOT NULL,
  time_order text NOT NULL CHECK (time_order IN ('oldest_first', 'newest_first')),
  concurrency smallint NOT NULL CHECK (concurrency BETWEEN 1 AND 100),
  reprocess text NOT NULL CHECK (reprocess IN ('none', 'failed', 'all')),
  -- instead of that of the schedule
  input jsonb,
  -- {spec, zone, startAtMs, endAtMs} of the schedule when this was made: an edit plans nothing that is over
  timing jsonb NOT NULL,
  state text NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'running', 'paused', 'completed', 'canceled')),
  reason text,
  -- planned times in the range; each is started or skipped, in the end
  total bigint NOT NULL CHECK (total >= 0),
  started bigint NOT NULL DEFAULT 0 CHECK (started >= 0),
  skipped bigint NOT NULL DEFAULT 0 CHECK (skipped >= 0),
  -- of the started ones, as of the last step: those whose end was not seen yet, and ends
  alive integer NOT NULL DEFAULT 0 CHECK (alive >= 0),
  succeeded bigint NOT NULL DEFAULT 0,
  failed bigint NOT NULL DEFAULT 0,
  canceled bigint NOT NULL DEFAULT 0,
  -- the cursor: the planned time that is looked at next; null when all were
  next_at timestamptz,
  created_at timestamptz NOT NULL DEFAULT belfry.now(),
  started_at timestamptz,
  ended_at timestamptz,
  -- grows with every change by a person; the ETag
  version integer NOT NULL DEFAULT 1,
  CONSTRAINT backfill_schedule FOREIGN KEY (tenant_id, schedule_id) REFERENCES belfry.schedule (tenant_id, id),
  CHECK (from_at < to_at),
  CHECK ((ended_at IS NOT NULL) = (state IN ('completed', 'canceled')))
);
CREATE INDEX backfill_list ON belfry.backfill (tenant_id, id);
CREATE INDEX backfill_of_schedule ON belfry.backfill (tenant_id, schedule_id, id);
-- what the backfiller may have something to do for
CREATE INDEX backfill_open ON belfry.backfill (shard, id) WHERE state IN ('pending', 'running') OR alive > 0;
CREATE INDEX backfill_ended ON belfry.backfill (ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX backfill_unfinished ON belfry.backfill (tenant_id) WHERE ended_at IS NULL;

-- Not partitioned: it is looked up by planned time and kept as long as the run is. The pruner deletes rows of days whose
-- runs were dropped; what is not listed any more counts as never run.
CREATE TABLE belfry.extra_run (
  tenant_id uuid NOT NULL,
  schedule_id uuid NOT NULL,
  scheduled_for timestamptz NOT NULL,
  run_id uuid NOT NULL,
  -- null: by a trigger for this nominal time
  backfill_id uuid,
  -- its end, once the backfill has seen it; never set without a backfill. `unknown`: no longer on record by then
  ended_as text CHECK (ended_as IN ('succeeded', 'failed', 'canceled', 'skipped', 'upstream_failed', 'unknown')),
  PRIMARY KEY (schedule_id, scheduled_for, run_id)
);
CREATE INDEX extra_run_of_backfill ON belfry.extra_run (backfill_id, run_id) WHERE backfill_id IS NOT NULL;
CREATE INDEX extra_run_alive ON belfry.extra_run (backfill_id, run_id) WHERE backfill_id IS NOT NULL AND ended_as IS NULL;
-- by age
CREATE INDEX extra_run_run ON belfry.extra_run (run_id);

ALTER TABLE belfry.backfill ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
ALTER TABLE belfry.extra_run ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;

CREATE POLICY app ON belfry.backfill TO belfry_app
  USING (tenant_id = belfry.tenant_id()) WITH CHECK (tenant_id = belfry.tenant_id());
CREATE POLICY app ON belfry.extra_run TO belfry_app
  USING (tenant_id = belfry.tenant_id()) WITH CHECK (tenant_id = belfry.tenant_id());
CREATE POLICY engine ON belfry.backfill TO belfry_engine USING (true) WITH CHECK (true);
CREATE POLICY engine ON belfry.extra_run TO belfry_engine USING (true) WITH CHECK (true);

GRANT SELECT, INSERT, UPDATE (state, reason, ended_at, version) ON belfry.backfill TO belfry_app;
GRANT SELECT, INSERT ON belfry.extra_run TO belfry_app;
GRANT SELECT, DELETE, UPDATE (state, reason, started, skipped, alive, succeeded, failed, canceled, next_at, started_at,
                              ended_at) ON belfry.backfill TO belfry_engine;
GRANT SELECT, INSERT, DELETE, UPDATE (ended_as) ON belfry.extra_run TO belfry_engine;

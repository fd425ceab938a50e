-- What people define: jobs (versioned) and schedules. Wide rows that change when a person changes them; nothing that
-- moves at each fire stands here (that is belfry.timer). Policies look at a row's own tenant only; that what a row names
-- is of the same tenant is held by the keys here, and by the joins of the engine where there are none (hot tables).

CREATE TABLE belfry.job (
  id uuid PRIMARY KEY,
  tenant_id uuid NOT NULL,
  name text NOT NULL CHECK (length(name) BETWEEN 1 AND 128),
  description text NOT NULL DEFAULT '',
  version integer NOT NULL DEFAULT 1 CHECK (version > 0),
  handler text NOT NULL CHECK (handler IN ('http')),
  queue text NOT NULL,
  priority smallint NOT NULL,
  attempt_timeout_ms integer NOT NULL CHECK (attempt_timeout_ms > 0),
  definition jsonb NOT NULL,
  created_at timestamptz NOT NULL DEFAULT belfry.now(),
  updated_at timestamptz NOT NULL DEFAULT belfry.now(),
  deleted_at timestamptz
);
CREATE UNIQUE INDEX job_name ON belfry.job (tenant_id, name) WHERE deleted_at IS NULL;
CREATE UNIQUE INDEX job_list ON belfry.job (tenant_id, id);

-- Every version there ever was: runs name the one they were made with.
CREATE TABLE belfry.job_version (
  job_id uuid NOT NULL,
  version integer NOT NULL,
  tenant_id uuid NOT NULL,
  definition jsonb NOT NULL,
  created_at timestamptz NOT NULL DEFAULT belfry.now(),
  PRIMARY KEY (tenant_id, job_id, version),
  CONSTRAINT job_version_job FOREIGN KEY (tenant_id, job_id) REFERENCES belfry.job (tenant_id, id)
);

CREATE TABLE belfry.schedule (
  id uuid PRIMARY KEY,
  tenant_id uuid NOT NULL,
  name text NOT NULL CHECK (length(name) BETWEEN 1 AND 128),
  description text NOT NULL DEFAULT '',
  job_id uuid NOT NULL,
  -- {at} | {every, everyMs, anchorMs} | {cron, dialect}: as it was said, and what the evaluator needs
  spec jsonb NOT NULL,
  zone text NOT NULL,
  zone_data_version text NOT NULL,
  start_at timestamptz,
  end_at timestamptz,
  jitter_ms integer NOT NULL DEFAULT 0 CHECK (jitter_ms >= 0),
  catch_up jsonb NOT NULL,
  overlap text NOT NULL CHECK (overlap IN ('skip', 'allow')),
  input jsonb,
  state text NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'paused', 'completed')),
  paused_reason text,
  paused_at timestamptz,
  -- grows with every change of timing, pause and resume; a fire that read an older one is refused
  gen bigint NOT NULL DEFAULT 1,
  -- grows with every change; the ETag
  version integer NOT NULL DEFAULT 1,
  created_at timestamptz NOT NULL DEFAULT belfry.now(),
  updated_at timestamptz NOT NULL DEFAULT belfry.now(),
  deleted_at timestamptz,
  CONSTRAINT schedule_of_job FOREIGN KEY (tenant_id, job_id) REFERENCES belfry.job (tenant_id, id)
);
CREATE UNIQUE INDEX schedule_name ON belfry.schedule (tenant_id, name) WHERE deleted_at IS NULL;
CREATE INDEX schedule_list ON belfry.schedule (tenant_id, id);
CREATE INDEX schedule_job ON belfry.schedule (tenant_id, job_id) WHERE deleted_at IS NULL;

ALTER TABLE belfry.job ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
ALTER TABLE belfry.job_version ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
ALTER TABLE belfry.schedule ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;

CREATE POLICY app ON belfry.job TO belfry_app
  USING (tenant_id = belfry.tenant_id()) WITH CHECK (tenant_id = belfry.tenant_id());
CREATE POLICY app ON belfry.job_version TO belfry_app
  USING (tenant_id = belfry.tenant_id()) WITH CHECK (tenant_id = belfry.tenant_id());
CREATE POLICY app ON belfry.schedule TO belfry_app
  USING (tenant_id = belfry.tenant_id()) WITH CHECK (tenant_id = belfry.tenant_id());
CREATE POLICY engine ON belfry.job TO belfry_engine USING (true);
CREATE POLICY engine ON belfry.job_version TO belfry_engine USING (true);
CREATE POLICY engine ON belfry.schedule TO belfry_engine USING (true) WITH CHECK (true);

GRANT SELECT, INSERT, UPDATE ON belfry.job TO belfry_app;
GRANT SELECT, INSERT ON belfry.job_version TO belfry_app;
GRANT SELECT, INSERT, UPDATE ON belfry.schedule TO belfry_app;
GRANT SELECT ON belfry.job, belfry.job_version, belfry.schedule TO belfry_engine;
-- the fire that finds no planned time left ends the schedule
GRANT UPDATE (state, updated_at) ON belfry.schedule TO belfry_engine;

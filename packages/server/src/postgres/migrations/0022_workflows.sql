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

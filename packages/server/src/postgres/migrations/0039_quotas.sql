-- Quotas: what a tenant may have and how fast, as its operator says. The default of every tenant stands in the
-- configuration; a row here is for one tenant.
CREATE TABLE belfry.tenant_quota (
  tenant_id uuid NOT NULL REFERENCES belfry.tenant,
  quota text NOT NULL CHECK (length(quota) BETWEEN 1 AND 64),
  -- null: no limit, whatever the default is
  most bigint CHECK (most >= 0),
  set_at timestamptz NOT NULL DEFAULT belfry.now(),
  PRIMARY KEY (tenant_id, quota)
);

-- Buckets of what is limited in time. A process takes tokens for its next moment in one short statement of its own, and
-- hands them out in memory: nothing waits for this row while it does its work. Unlogged: a bucket that is gone is full.
CREATE UNLOGGED TABLE belfry.quota_bucket (
  tenant_id uuid NOT NULL,
  quota text NOT NULL CHECK (length(quota) BETWEEN 1 AND 64),
  -- below zero: taken in advance by something larger than what was there
  tokens double precision NOT NULL,
  -- how many the last one got
  taken double precision NOT NULL,
  counted_at timestamptz NOT NULL,
  PRIMARY KEY (tenant_id, quota)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

ALTER TABLE belfry.tenant_quota ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
ALTER TABLE belfry.quota_bucket ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY app ON belfry.tenant_quota FOR SELECT TO belfry_app USING (tenant_id = belfry.tenant_id());
CREATE POLICY platform ON belfry.tenant_quota TO belfry_platform USING (true) WITH CHECK (true);
CREATE POLICY app ON belfry.quota_bucket TO belfry_app
  USING (tenant_id = belfry.tenant_id()) WITH CHECK (tenant_id = belfry.tenant_id());
GRANT SELECT ON belfry.tenant_quota TO belfry_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON belfry.tenant_quota TO belfry_platform;
GRANT SELECT, INSERT, UPDATE ON belfry.quota_bucket TO belfry_app;

-- What the gate holds stands beside what the tenant set for itself: the lower one counts.
ALTER TABLE belfry.tenant
  ADD COLUMN run_cap integer CHECK (run_cap BETWEEN 1 AND 10000),
  -- attempts that may start in a second
  ADD COLUMN start_rate integer CHECK (start_rate BETWEEN 1 AND 1000000);
GRANT UPDATE (run_cap, start_rate) ON belfry.tenant TO belfry_platform;
GRANT SELECT (run_cap, start_rate) ON belfry.tenant TO belfry_engine;

-- As before (0017), with those.
CREATE OR REPLACE FUNCTION belfry.job_limited(job belfry.job) RETURNS boolean LANGUAGE sql STABLE
  RETURN belfry.job_limits_itself(job)
    OR EXISTS (SELECT FROM belfry.tenant AS t WHERE t.id = job.tenant_id
               AND (t.run_limit IS NOT NULL OR t.run_cap IS NOT NULL OR t.start_rate IS NOT NULL))
    -- of whatever queue: a run may name another than its job does
    OR EXISTS (SELECT FROM belfry.queue_pause AS p WHERE p.tenant_id = job.tenant_id)
    OR EXISTS (SELECT FROM belfry.pool AS p WHERE p.tenant_id = job.tenant_id AND p.host = job.target_host);

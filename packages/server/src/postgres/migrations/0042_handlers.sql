-- Containers and functions of AWS Lambda as handlers. Both are executed by servers, so their kind is their route.

-- Not valid yet: nobody gets at the jobs while this holds them, so they are read by 0043, which holds nothing.
ALTER TABLE belfry.job DROP CONSTRAINT job_handler_check, DROP CONSTRAINT job_handler_tenant;
ALTER TABLE belfry.job
  ADD CONSTRAINT job_handler_check CHECK (split_part(handler, ':', 1) IN ('http', 'function', 'container', 'lambda'))
    NOT VALID,
  -- nobody else's workers are ever named
  ADD CONSTRAINT job_handler_tenant CHECK (
    handler IN ('http', 'container', 'lambda') OR starts_with(handler, 'function:' || tenant_id::text || ':')
  ) NOT VALID;

-- What the containers of one tenant may be, where that is other than the configuration says; null: as it says.
CREATE TABLE belfry.container_policy (
  tenant_id uuid PRIMARY KEY REFERENCES belfry.tenant,
  images text[] CHECK (cardinality(images) <= 1000),
  digests_required boolean,
  -- classes of egress, of those that the configuration has
  egress text[] CHECK (cardinality(egress) <= 1000),
  max_memory_mb integer CHECK (max_memory_mb > 0),
  max_cpu_millis integer CHECK (max_cpu_millis > 0),
  max_pids integer CHECK (max_pids > 0),
  set_at timestamptz NOT NULL DEFAULT belfry.now()
);
ALTER TABLE belfry.container_policy ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY app ON belfry.container_policy FOR SELECT TO belfry_app USING (tenant_id = belfry.tenant_id());
CREATE POLICY platform ON belfry.container_policy TO belfry_platform USING (true) WITH CHECK (true);
GRANT SELECT ON belfry.container_policy TO belfry_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON belfry.container_policy TO belfry_platform;

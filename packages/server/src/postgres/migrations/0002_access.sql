-- Tenants and API keys. A key is looked up by its prefix before the tenant is known (belfry_platform); from then on the
-- tenant is fixed for the transaction and row-level security holds it.

CREATE TABLE belfry.tenant (
  id uuid PRIMARY KEY,
  name text NOT NULL UNIQUE CHECK (length(name) BETWEEN 1 AND 128),
  weight real NOT NULL DEFAULT 1 CHECK (weight > 0),
  created_at timestamptz NOT NULL DEFAULT belfry.now()
);

CREATE TABLE belfry.api_key (
  id uuid PRIMARY KEY,
  tenant_id uuid NOT NULL REFERENCES belfry.tenant (id),
  name text NOT NULL CHECK (length(name) BETWEEN 1 AND 128),
  prefix text NOT NULL UNIQUE,
  secret_hash bytea NOT NULL CHECK (length(secret_hash) = 32),
  scopes text[] NOT NULL CHECK (
    cardinality(scopes) > 0 AND scopes <@ ARRAY['read', 'enqueue', 'operate', 'admin', 'platform']
  ),
  created_at timestamptz NOT NULL DEFAULT belfry.now(),
  expires_at timestamptz,
  revoked_at timestamptz,
  last_used_at timestamptz
);
CREATE UNIQUE INDEX api_key_name ON belfry.api_key (tenant_id, name) WHERE revoked_at IS NULL;
CREATE INDEX api_key_list ON belfry.api_key (tenant_id, id);

ALTER TABLE belfry.tenant ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
ALTER TABLE belfry.api_key ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;

CREATE POLICY app ON belfry.tenant TO belfry_app USING (id = belfry.tenant_id());
CREATE POLICY platform ON belfry.tenant TO belfry_platform USING (true) WITH CHECK (true);
CREATE POLICY engine ON belfry.tenant TO belfry_engine USING (true);
-- a tenant's own role makes no key that reaches beyond the tenant, but may revoke one
CREATE POLICY app_select ON belfry.api_key FOR SELECT TO belfry_app USING (tenant_id = belfry.tenant_id());
CREATE POLICY app_insert ON belfry.api_key FOR INSERT TO belfry_app
  WITH CHECK (tenant_id = belfry.tenant_id() AND NOT 'platform' = ANY (scopes));
CREATE POLICY app_update ON belfry.api_key FOR UPDATE TO belfry_app
  USING (tenant_id = belfry.tenant_id()) WITH CHECK (tenant_id = belfry.tenant_id());
CREATE POLICY platform ON belfry.api_key TO belfry_platform USING (true) WITH CHECK (true);

GRANT SELECT ON belfry.tenant TO belfry_app;
-- the weight, for the fair order of runs
GRANT SELECT (id, weight) ON belfry.tenant TO belfry_engine;
GRANT SELECT, INSERT, UPDATE (revoked_at) ON belfry.api_key TO belfry_app;
GRANT SELECT, INSERT ON belfry.tenant TO belfry_platform;
GRANT SELECT, INSERT, UPDATE (last_used_at, revoked_at) ON belfry.api_key TO belfry_platform;

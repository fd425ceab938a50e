-- Service accounts: identities of programs, with a role, that own keys and as which jobs run. One is disabled, never
-- deleted, so that what it did keeps its name.

CREATE TABLE belfry.service_account (
  tenant_id uuid NOT NULL REFERENCES belfry.tenant (id),
  id uuid NOT NULL,
  name text NOT NULL CHECK (length(name) BETWEEN 1 AND 128),
  description text NOT NULL DEFAULT '' CHECK (length(description) <= 1024),
  role text NOT NULL CHECK (role IN ('admin', 'operator', 'developer', 'viewer', 'auditor', 'worker')),
  -- NULL: every queue
  queues text[] CHECK (cardinality(queues) > 0),
  version integer NOT NULL DEFAULT 1,
  created_at timestamptz NOT NULL DEFAULT belfry.now(),
  updated_at timestamptz NOT NULL DEFAULT belfry.now(),
  disabled_at timestamptz,
  PRIMARY KEY (tenant_id, id)
);
CREATE UNIQUE INDEX service_account_name ON belfry.service_account (tenant_id, name);

ALTER TABLE belfry.service_account ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY app ON belfry.service_account TO belfry_app
  USING (tenant_id = belfry.tenant_id()) WITH CHECK (tenant_id = belfry.tenant_id());
CREATE POLICY platform ON belfry.service_account FOR SELECT TO belfry_platform USING (true);
CREATE POLICY engine ON belfry.service_account FOR SELECT TO belfry_engine USING (true);
GRANT SELECT, INSERT, UPDATE (description, role, queues, version, updated_at, disabled_at)
  ON belfry.service_account TO belfry_app;
GRANT SELECT ON belfry.service_account TO belfry_platform, belfry_engine;

-- Whose key it is; NULL: nobody's, and its scopes alone say what it may do.
ALTER TABLE belfry.api_key
  ADD COLUMN owner_kind text CHECK (owner_kind IN ('person', 'service_account')),
  ADD COLUMN owner_id uuid,
  ADD CONSTRAINT api_key_owner CHECK ((owner_kind IS NULL) = (owner_id IS NULL));
CREATE INDEX api_key_owned ON belfry.api_key (tenant_id, owner_id) WHERE owner_id IS NOT NULL;

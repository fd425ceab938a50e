-- Secrets under envelope encryption. A key of the installation, which is never stored here, wraps one key for each tenant
-- (tenant_key); that one encrypts the versions of its secrets (AES-256-GCM, bound to tenant, secret and version). The API's
-- role stores a value and cannot read it back; the engine's reads it when an attempt begins.

CREATE TABLE belfry.tenant_key (
  tenant_id uuid PRIMARY KEY REFERENCES belfry.tenant (id),
  -- which key of the installation wrapped it
  wrapper_id text NOT NULL CHECK (length(wrapper_id) BETWEEN 1 AND 2048),
  wrapped bytea NOT NULL,
  created_at timestamptz NOT NULL DEFAULT belfry.now(),
  wrapped_at timestamptz NOT NULL DEFAULT belfry.now()
);
-- for rewrapping in steps: those that another key wrapped
CREATE INDEX tenant_key_wrapper ON belfry.tenant_key (wrapper_id, tenant_id);

CREATE TABLE belfry.secret (
  tenant_id uuid NOT NULL REFERENCES belfry.tenant (id),
  id uuid NOT NULL,
  name text NOT NULL CHECK (length(name) BETWEEN 1 AND 128),
  description text NOT NULL DEFAULT '',
  -- the version that attempts get; older ones are kept for a while, to go back to
  version integer NOT NULL DEFAULT 1 CHECK (version > 0),
  -- grows with every change, for If-Match
  revision integer NOT NULL DEFAULT 1,
  created_at timestamptz NOT NULL DEFAULT belfry.now(),
  updated_at timestamptz NOT NULL DEFAULT belfry.now(),
  PRIMARY KEY (tenant_id, id)
);
CREATE UNIQUE INDEX secret_name ON belfry.secret (tenant_id, name);

CREATE TABLE belfry.secret_version (
  tenant_id uuid NOT NULL,
  secret_id uuid NOT NULL,
  version integer NOT NULL CHECK (version > 0),
  -- nonce (12 bytes), ciphertext, tag (16 bytes)
  sealed bytea NOT NULL CHECK (length(sealed) > 28),
  created_by text NOT NULL,
  created_at timestamptz NOT NULL DEFAULT belfry.now(),
  PRIMARY KEY (tenant_id, secret_id, version),
  FOREIGN KEY (tenant_id, secret_id) REFERENCES belfry.secret (tenant_id, id) ON DELETE CASCADE
);

-- Who may use a secret: a job, the tasks of a workflow that have handlers of their own, or what runs as a service account.
CREATE TABLE belfry.secret_grant (
  tenant_id uuid NOT NULL,
  secret_id uuid NOT NULL,
  grantee_kind text NOT NULL CHECK (grantee_kind IN ('job', 'workflow', 'service_account')),
  grantee_id uuid NOT NULL,
  -- where the value may be taken (contract: secretTargetsOf); NULL: wherever the job says
  targets text[],
  created_by text NOT NULL,
  created_at timestamptz NOT NULL DEFAULT belfry.now(),
  PRIMARY KEY (tenant_id, secret_id, grantee_kind, grantee_id),
  FOREIGN KEY (tenant_id, secret_id) REFERENCES belfry.secret (tenant_id, id) ON DELETE CASCADE
);
CREATE INDEX secret_grant_grantee ON belfry.secret_grant (tenant_id, grantee_id);

ALTER TABLE belfry.tenant_key ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
ALTER TABLE belfry.secret ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
ALTER TABLE belfry.secret_version ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
ALTER TABLE belfry.secret_grant ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;

CREATE POLICY app ON belfry.tenant_key TO belfry_app
  USING (tenant_id = belfry.tenant_id()) WITH CHECK (tenant_id = belfry.tenant_id());
CREATE POLICY engine ON belfry.tenant_key FOR SELECT TO belfry_engine USING (true);
CREATE POLICY platform ON belfry.tenant_key TO belfry_platform USING (true) WITH CHECK (true);
CREATE POLICY app ON belfry.secret TO belfry_app
  USING (tenant_id = belfry.tenant_id()) WITH CHECK (tenant_id = belfry.tenant_id());
CREATE POLICY engine ON belfry.secret FOR SELECT TO belfry_engine USING (true);
CREATE POLICY app ON belfry.secret_version TO belfry_app
  USING (tenant_id = belfry.tenant_id()) WITH CHECK (tenant_id = belfry.tenant_id());
CREATE POLICY engine ON belfry.secret_version FOR SELECT TO belfry_engine USING (true);
CREATE POLICY app ON belfry.secret_grant TO belfry_app
  USING (tenant_id = belfry.tenant_id()) WITH CHECK (tenant_id = belfry.tenant_id());
CREATE POLICY engine ON belfry.secret_grant FOR SELECT TO belfry_engine USING (true);

GRANT SELECT, INSERT ON belfry.tenant_key TO belfry_app;
GRANT SELECT ON belfry.tenant_key TO belfry_engine;
GRANT SELECT, UPDATE (wrapper_id, wrapped, wrapped_at) ON belfry.tenant_key TO belfry_platform;
GRANT SELECT, INSERT, DELETE, UPDATE (description, version, revision, updated_at) ON belfry.secret TO belfry_app;
GRANT SELECT (tenant_id, id, name, version) ON belfry.secret TO belfry_engine;
-- without `sealed`: what the API stores it cannot read back
GRANT SELECT (tenant_id, secret_id, version, created_by, created_at), INSERT, DELETE ON belfry.secret_version TO belfry_app;
GRANT SELECT (tenant_id, secret_id, version, sealed) ON belfry.secret_version TO belfry_engine;
GRANT SELECT, INSERT, DELETE, UPDATE (targets, created_by, created_at) ON belfry.secret_grant TO belfry_app;
GRANT SELECT ON belfry.secret_grant TO belfry_engine;

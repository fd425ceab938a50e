-- Idempotency-Key of API requests: the first answer, kept for a day and given again to the same request. The
-- row is written in the transaction that does the work, so both are there or neither is: it is inserted
-- first, which makes a second request with the same key wait at the primary key (for a moment; then it is told
-- to come back), and gets its answer last. Nobody ever sees it without one.

CREATE TABLE belfry.idempotency_key (
  tenant_id uuid NOT NULL,
  api_key_id uuid NOT NULL,
  key text NOT NULL CHECK (length(key) BETWEEN 1 AND 255),
  fingerprint bytea NOT NULL,
  -- 0 while the work is under way, in its own transaction only
  status smallint NOT NULL DEFAULT 0,
  -- {headers, body}; json and not jsonb, so that the answer comes back as it was given
  response json,
  expires_at timestamptz NOT NULL,
  PRIMARY KEY (tenant_id, api_key_id, key)
);
CREATE INDEX idempotency_key_expiry ON belfry.idempotency_key (expires_at);

ALTER TABLE belfry.idempotency_key ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY app ON belfry.idempotency_key TO belfry_app
  USING (tenant_id = belfry.tenant_id()) WITH CHECK (tenant_id = belfry.tenant_id());
-- tenants and keys are made as belfry_platform, on behalf of the tenant of the key that asked
CREATE POLICY platform ON belfry.idempotency_key TO belfry_platform
  USING (tenant_id = belfry.tenant_id()) WITH CHECK (tenant_id = belfry.tenant_id());
CREATE POLICY engine ON belfry.idempotency_key TO belfry_engine USING (true);
GRANT SELECT, INSERT, UPDATE (fingerprint, status, response, expires_at) ON belfry.idempotency_key
  TO belfry_app, belfry_platform;
GRANT SELECT, DELETE ON belfry.idempotency_key TO belfry_engine;

-- Idempotency-Key of API requests: the first answer, kept for a day and given again to the same request. The row is
-- written in the transaction that does the work, so both are there or neither is.

CREATE TABLE belfry.idempotency_key (
  tenant_id uuid NOT NULL,
  api_key_id uuid NOT NULL,
  key text NOT NULL CHECK (length(key) BETWEEN 1 AND 255),
  fingerprint bytea NOT NULL,
  status smallint NOT NULL,
  response jsonb NOT NULL,
  expires_at timestamptz NOT NULL,
  PRIMARY KEY (tenant_id, api_key_id, key)
);
CREATE INDEX idempotency_key_expiry ON belfry.idempotency_key (expires_at);

ALTER TABLE belfry.idempotency_key ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY app ON belfry.idempotency_key TO belfry_app
  USING (tenant_id = belfry.tenant_id()) WITH CHECK (tenant_id = belfry.tenant_id());
CREATE POLICY engine ON belfry.idempotency_key TO belfry_engine USING (true);
GRANT SELECT, INSERT, DELETE ON belfry.idempotency_key TO belfry_app;
GRANT SELECT, DELETE ON belfry.idempotency_key TO belfry_engine;

-- The audit. An entry is put into the inbox by the transaction that does what it tells of, so both are there or neither
-- is, and no transaction waits for another's. The sealer (engine/audit-sealer.ts) moves entries from there to the log:
-- each gets the next number of its tenant's chain and the hash over itself and the hash before. Nobody may change or
-- take away a row of the log; beyond what grants hold, signed checkpoints show what a superuser did.
--
-- belfry_app, belfry_platform  put in what they say, never when; and read
-- belfry_engine                moves entries into the log, and puts in what it notes itself

-- UUIDv7 of this transaction's time; microseconds stand behind the milliseconds, so that ids sort as transactions began.
CREATE FUNCTION belfry.new_id() RETURNS uuid LANGUAGE sql VOLATILE PARALLEL SAFE
  RETURN (
    left(replace(belfry.uuid_floor(date_trunc('milliseconds', belfry.now()))::text, '-', ''), 12) || '7'
    || lpad(to_hex((extract(microseconds FROM belfry.now())::integer % 1000) * 4096 / 1000), 3, '0')
    || right(replace(gen_random_uuid()::text, '-', ''), 16))::uuid;

CREATE TABLE belfry.audit_inbox (
  tenant_id uuid NOT NULL,
  id uuid NOT NULL DEFAULT belfry.new_id(),
  -- of the database, and whole milliseconds: what is hashed is what is shown
  at timestamptz NOT NULL DEFAULT date_trunc('milliseconds', belfry.now()),
  action text NOT NULL CHECK (length(action) <= 64),
  outcome text NOT NULL DEFAULT 'done' CHECK (outcome IN ('done', 'refused')),
  -- of the error, where it was refused
  code text CHECK (length(code) <= 64),
  actor_kind text NOT NULL CHECK (actor_kind IN ('key', 'person', 'service_account', 'system')),
  actor_id uuid,
  actor_name text NOT NULL CHECK (length(actor_name) <= 256),
  key_id uuid,
  address text CHECK (length(address) <= 64),
  request_id text CHECK (length(request_id) <= 128),
  -- when the caller said that it was
  claimed_at timestamptz CHECK (claimed_at = date_trunc('milliseconds', claimed_at)),
  subject_kind text NOT NULL CHECK (length(subject_kind) <= 64),
  subject_id text CHECK (length(subject_id) <= 256),
  subject_name text CHECK (length(subject_name) <= 256),
  -- names, ids, versions and counts; never values
  details jsonb NOT NULL DEFAULT '{}',
  CHECK ((outcome = 'refused') = (code IS NOT NULL)),
  PRIMARY KEY (tenant_id, id)
);
CREATE INDEX audit_inbox_order ON belfry.audit_inbox (id);

-- By month of sealing, so that what retention drops is the beginning of each chain and nothing else.
CREATE TABLE belfry.audit_log (
  tenant_id uuid NOT NULL,
  seq bigint NOT NULL CHECK (seq > 0),
  sealed_at timestamptz NOT NULL CHECK (sealed_at = date_trunc('milliseconds', sealed_at)),
  id uuid NOT NULL,
  at timestamptz NOT NULL CHECK (at = date_trunc('milliseconds', at)),
  action text NOT NULL,
  outcome text NOT NULL,
  code text,
  actor_kind text NOT NULL,
  actor_id uuid,
  actor_name text NOT NULL,
  key_id uuid,
  address text,
  request_id text,
  claimed_at timestamptz,
  subject_kind text NOT NULL,
  subject_id text,
  subject_name text,
  details jsonb NOT NULL,
  previous_hash bytea NOT NULL CHECK (length(previous_hash) = 32),
  hash bytea NOT NULL CHECK (length(hash) = 32),
  PRIMARY KEY (tenant_id, seq, sealed_at)
) PARTITION BY RANGE (sealed_at);
CREATE INDEX audit_log_list ON belfry.audit_log (tenant_id, id);

-- Where each chain ends: a note for the sealer, who locks it. What it says is judged by the log and the checkpoints.
CREATE TABLE belfry.audit_head (
  tenant_id uuid PRIMARY KEY,
  size bigint NOT NULL DEFAULT 0,
  hash bytea NOT NULL DEFAULT decode(repeat('00', 32), 'hex'),
  sealed_at timestamptz NOT NULL DEFAULT '-infinity',
  -- size and time of the last checkpoint
  signed_size bigint NOT NULL DEFAULT 0,
  signed_at timestamptz NOT NULL DEFAULT '-infinity'
) WITH (fillfactor = 50);

-- The public keys that checkpoints and cuts were signed with here. Whoever verifies should hold a copy of his own.
CREATE TABLE belfry.audit_key (
  key_id text PRIMARY KEY,
  public_key bytea NOT NULL CHECK (length(public_key) = 32),
  first_used_at timestamptz NOT NULL DEFAULT belfry.now()
);

-- "The chain of this tenant had so many entries and ended in this hash", signed.
CREATE TABLE belfry.audit_checkpoint (
  tenant_id uuid NOT NULL,
  size bigint NOT NULL,
  head bytea NOT NULL CHECK (length(head) = 32),
  at timestamptz NOT NULL CHECK (at = date_trunc('milliseconds', at)),
  key_id text NOT NULL,
  signature bytea NOT NULL CHECK (length(signature) = 64),
  PRIMARY KEY (tenant_id, size)
);

-- "The chain of this tenant now begins with this number, and the hash before was this": what retention took away.
CREATE TABLE belfry.audit_cut (
  tenant_id uuid NOT NULL,
  first_seq bigint NOT NULL,
  previous_hash bytea NOT NULL CHECK (length(previous_hash) = 32),
  at timestamptz NOT NULL CHECK (at = date_trunc('milliseconds', at)),
  key_id text NOT NULL,
  signature bytea NOT NULL CHECK (length(signature) = 64),
  PRIMARY KEY (tenant_id, first_seq)
);

-- How far entries have left for a file or a topic.
CREATE TABLE belfry.audit_export (
  sink text NOT NULL,
  tenant_id uuid NOT NULL,
  seq bigint NOT NULL,
  PRIMARY KEY (sink, tenant_id)
) WITH (fillfactor = 50);

DO $$
DECLARE
  name text;
BEGIN
  FOREACH name IN ARRAY ARRAY['audit_inbox', 'audit_log', 'audit_head', 'audit_checkpoint', 'audit_cut', 'audit_export'] LOOP
    EXECUTE format('ALTER TABLE belfry.%I ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', name);
    EXECUTE format('CREATE POLICY engine ON belfry.%I TO belfry_engine USING (true) WITH CHECK (true)', name);
    EXECUTE format('CREATE POLICY app_select ON belfry.%I FOR SELECT TO belfry_app USING (tenant_id = belfry.tenant_id())', name);
  END LOOP;
END
$$;
CREATE POLICY app_insert ON belfry.audit_inbox FOR INSERT TO belfry_app WITH CHECK (tenant_id = belfry.tenant_id());
-- what the platform does to a tenant stands in the chain of that tenant too
CREATE POLICY platform_insert ON belfry.audit_inbox FOR INSERT TO belfry_platform WITH CHECK (true);

GRANT SELECT ON belfry.audit_inbox, belfry.audit_log, belfry.audit_head, belfry.audit_key, belfry.audit_checkpoint,
  belfry.audit_cut, belfry.audit_export TO belfry_app;
GRANT INSERT (tenant_id, action, outcome, code, actor_kind, actor_id, actor_name, key_id, address, request_id, claimed_at,
  subject_kind, subject_id, subject_name, details) ON belfry.audit_inbox TO belfry_app, belfry_platform, belfry_engine;
GRANT SELECT, DELETE ON belfry.audit_inbox TO belfry_engine;
GRANT SELECT, INSERT ON belfry.audit_log, belfry.audit_key, belfry.audit_cut TO belfry_engine;
-- old checkpoints go with the entries that they attest; the cut says so
GRANT SELECT, INSERT, DELETE ON belfry.audit_checkpoint TO belfry_engine;
GRANT SELECT, INSERT, UPDATE ON belfry.audit_head, belfry.audit_export TO belfry_engine;

-- Makes the partition of a month (its first day) if it is missing.
CREATE FUNCTION belfry.make_audit_partition(month date) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' AS $$
DECLARE
  child text := 'audit_log_' || to_char(month, 'YYYYMM');
BEGIN
  IF month <> date_trunc('month', month)::date THEN
    RAISE EXCEPTION 'give the first day of a month, not %', month;
  END IF;
  IF to_regclass('belfry.' || child) IS NOT NULL THEN
    RETURN;
  END IF;
  PERFORM pg_advisory_xact_lock(hashtextextended('belfry.audit_partitions', 0));
  IF to_regclass('belfry.' || child) IS NOT NULL THEN
    RETURN;
  END IF;
  EXECUTE format('CREATE TABLE belfry.%I (LIKE belfry.audit_log INCLUDING ALL)', child);
  EXECUTE format('ALTER TABLE belfry.audit_log ATTACH PARTITION belfry.%I FOR VALUES FROM (%L) TO (%L)', child,
    month::timestamptz, (month + interval '1 month')::timestamptz);
  PERFORM belfry.guard_partition(('belfry.' || quote_ident(child))::regclass);
END
$$;

-- The partitions whose last instant is older than `kept_from`, oldest first.
CREATE FUNCTION belfry.old_audit_months(kept_from timestamptz) RETURNS SETOF date
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' AS $$
  SELECT month FROM (
    SELECT to_date(right(child.relname, 6), 'YYYYMM') AS month
    FROM pg_inherits
    JOIN pg_class AS child ON child.oid = inhrelid
    WHERE inhparent = 'belfry.audit_log'::regclass AND child.relname ~ '^audit_log_[0-9]{6}$'
  ) AS made
  WHERE (month + interval '1 month')::timestamptz <= kept_from ORDER BY month
$$;

-- Drops the partition of a month, for whose tenants a cut is on record that begins behind it; refuses otherwise.
CREATE FUNCTION belfry.drop_audit_partition(month date) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' AS $$
DECLARE
  child text := 'audit_log_' || to_char(month, 'YYYYMM');
  lost uuid;
BEGIN
  IF to_regclass('belfry.' || child) IS NULL THEN
    RETURN;
  END IF;
  EXECUTE format(
    'SELECT tenant_id FROM (SELECT tenant_id, max(seq) AS last_seq FROM belfry.%I GROUP BY tenant_id) AS ends
     WHERE NOT EXISTS (SELECT FROM belfry.audit_cut AS cut
                       WHERE cut.tenant_id = ends.tenant_id AND cut.first_seq > ends.last_seq) LIMIT 1', child) INTO lost;
  IF lost IS NOT NULL THEN
    RAISE EXCEPTION 'no cut attests what tenant % would lose', lost;
  END IF;
  EXECUTE format('DROP TABLE belfry.%I', child);
END
$$;
-- it runs as the owner, whom FORCE ROW LEVEL SECURITY would blind
CREATE POLICY owner ON belfry.audit_cut FOR SELECT TO CURRENT_USER USING (true);

REVOKE ALL ON FUNCTION belfry.make_audit_partition(date), belfry.old_audit_months(timestamptz),
  belfry.drop_audit_partition(date) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION belfry.make_audit_partition(date), belfry.old_audit_months(timestamptz),
  belfry.drop_audit_partition(date) TO belfry_engine;

SELECT belfry.make_audit_partition((date_trunc('month', pg_catalog.now() AT TIME ZONE 'UTC') + make_interval(months => n))::date)
FROM generate_series(0, 1) AS n;

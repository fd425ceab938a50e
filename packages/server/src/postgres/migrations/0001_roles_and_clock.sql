-- Roles, the one clock, and small pure functions that every table below leans on.
--
-- belfry_app       what the API works as: sees one tenant, by row-level security
-- belfry_engine    what the cross-tenant loops (scheduler, worker, rescuer, pruner) work as: all tenants, few tables
-- belfry_platform  what authentication and tenant management work as: tenants and keys only
--
-- None can log in, none owns anything, none bypasses row-level security. The login that Belfry runs under is a member
-- of all three and takes one per transaction (SET LOCAL). Roles belong to the whole cluster, hence the guards.

DO $$
DECLARE
  name text;
BEGIN
  FOREACH name IN ARRAY ARRAY['belfry_app', 'belfry_engine', 'belfry_platform'] LOOP
    BEGIN
      IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = name) THEN
        EXECUTE format('CREATE ROLE %I NOLOGIN NOSUPERUSER NOBYPASSRLS NOCREATEDB NOCREATEROLE', name);
      END IF;
    EXCEPTION WHEN duplicate_object OR unique_violation THEN
      NULL; -- another database of this cluster was migrated at the same moment
    END;
    IF NOT pg_has_role(current_user, name, 'MEMBER') THEN
      EXECUTE format('GRANT %I TO CURRENT_USER', name);
    END IF;
  END LOOP;
END
$$;

GRANT USAGE ON SCHEMA belfry TO belfry_app, belfry_engine, belfry_platform;

-- The only clock in predicates. Plain now(), which the planner inlines; tests replace it by one that reads a row.
CREATE FUNCTION belfry.now() RETURNS timestamptz LANGUAGE sql STABLE PARALLEL SAFE RETURN pg_catalog.now();

-- The tenant of this transaction; NULL (which no row equals) where none was set.
CREATE FUNCTION belfry.tenant_id() RETURNS uuid LANGUAGE sql STABLE PARALLEL SAFE
  RETURN nullif(current_setting('belfry.tenant_id', true), '')::uuid;

-- Shard of a schedule or run: the last byte of a UUIDv7 is random, so its low six bits spread evenly over 64.
CREATE FUNCTION belfry.shard_of(id uuid) RETURNS smallint LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN (get_byte(uuid_send(id), 15) & 63)::smallint;

-- The smallest UUIDv7 of an instant: the bounds of partitions by id.
CREATE FUNCTION belfry.uuid_floor(at timestamptz) RETURNS uuid LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN (lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0') || '00000000000000000000')::uuid;

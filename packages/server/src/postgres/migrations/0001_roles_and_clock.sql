-- Roles, the one clock, and small pure functions that every table below leans on.
--
-- belfry_app       what the API works as: sees one tenant, by row-level security
-- belfry_engine    what the cross-tenant loops (scheduler, worker, rescuer, pruner) work as: all tenants, few tables
-- belfry_platform  what authentication and tenant management work as: tenants and keys only
--
-- None can log in, none owns anything, none bypasses row-level security. The login that Belfry runs under is a member
-- of all three and takes one per transaction (SET LOCAL); from Postgres 16 on its membership is good for that only, so
-- that by itself it has none of their rights (on 15 that is NOINHERIT of the login). Roles belong to the whole cluster,
-- hence the guards.

DO $$
DECLARE
  name text;
  names text[] := ARRAY['belfry_app', 'belfry_engine', 'belfry_platform'];
  terms text := CASE WHEN current_setting('server_version_num')::int < 160000 THEN ''
                     ELSE ' WITH INHERIT FALSE, SET TRUE' END;
BEGIN
  FOREACH name IN ARRAY names LOOP
    BEGIN
      IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = name) THEN
        EXECUTE format('CREATE ROLE %I NOLOGIN NOSUPERUSER NOBYPASSRLS NOCREATEDB NOCREATEROLE', name);
      END IF;
    EXCEPTION WHEN duplicate_object OR unique_violation THEN
      NULL; -- another database of this cluster was migrated at the same moment
    END;
    IF NOT pg_has_role(current_user, name, 'MEMBER') THEN
      EXECUTE format('GRANT %I TO CURRENT_USER%s', name, terms);
    END IF;
  END LOOP;
EXCEPTION WHEN insufficient_privilege THEN
  RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege', MESSAGE = format(
    'the login %I may not make or take the roles that Belfry works as (%s). As an administrator run: %sGRANT %s TO %I%s',
    current_user, SQLERRM,
    (SELECT string_agg(format('CREATE ROLE %I; ', each), '') FROM unnest(names) AS each
     WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = each)),
    array_to_string(names, ', '), current_user, terms);
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

-- The day (UTC) of a UUIDv7.
CREATE FUNCTION belfry.uuid_day(id uuid) RETURNS date LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN (to_timestamp(('x' || left(replace(id::text, '-', ''), 12))::bit(48)::bigint / 1000.0) AT TIME ZONE 'UTC')::date;

-- For psql, once, on the empty database of compose.yaml: the roles of Belfry, and the login of its servers, which
-- owns nothing and may become them. Why: docs/how-to/own-postgres.md.
\set ON_ERROR_STOP on
\set password `cat "${BELFRY_SECRETS:-/run/secrets}/belfry-password"`

CREATE ROLE belfry_app;
CREATE ROLE belfry_engine;
CREATE ROLE belfry_platform;
CREATE ROLE belfry LOGIN NOINHERIT PASSWORD :'password';
GRANT belfry_app, belfry_engine, belfry_platform TO belfry WITH INHERIT FALSE, SET TRUE;

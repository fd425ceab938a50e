/**
 * SQL that the embedded server runs once at each start to let Belfry in (postgres/embedded/access.ts). It
 * runs on the maintenance database, before the schema exists, so these are plain texts and no prepared
 * statements.
 */

/** Which of the two things a fresh cluster lacks. */
export const findAccess = `
SELECT EXISTS (SELECT FROM pg_catalog.pg_database WHERE datname = 'belfry') AS database,
       EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'belfry') AS role`

/** The runtime's login: it can only become one of the narrow roles that the migrations grant to it. */
export const createLoginRole =
  'CREATE ROLE belfry LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOINHERIT NOBYPASSRLS'

export const createDatabase = "CREATE DATABASE belfry TEMPLATE template0 ENCODING 'UTF8'"

/** `literal` is an already quoted literal: utility commands take no parameters. */
export function setPassword(role: 'belfry' | 'postgres', literal: string): string {
  return `ALTER ROLE ${role} PASSWORD ${literal}`
}

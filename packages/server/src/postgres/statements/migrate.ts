/**
 * SQL of the migration runner (postgres/migrate.ts). The ledger may be read by everybody: a server that
 * starts under the runtime login must be able to tell whether the schema fits before any role of the schema
 * exists.
 */
import { statement } from '../statement.ts'

export { begin, commit, rollback } from './transaction.ts'

/** Key of the advisory lock that one migrator holds: the letters "belfry" as a number. */
const migratorLockKey = 108_170_555_912_825n

/** One attempt at the lock; it is held until the transaction ends. */
export const tryMigratorLock = `SELECT pg_try_advisory_xact_lock(${migratorLockKey}) AS locked`

/** The transaction that holds the lock idles while another connection works. */
export const letLockHolderIdle = "SELECT set_config('idle_in_transaction_session_timeout', '0', true)"

/** How long a migration queues for a table, and others behind it, before it gives way. */
export const boundLockWaits = "SELECT set_config('lock_timeout', '2s', true)"

export const createLedger = `
CREATE SCHEMA IF NOT EXISTS belfry;
CREATE TABLE IF NOT EXISTS belfry.migration (
  id integer PRIMARY KEY,
  name text NOT NULL UNIQUE,
  checksum text NOT NULL,
  applied_at timestamptz NOT NULL DEFAULT now()
);
GRANT USAGE ON SCHEMA belfry TO PUBLIC;
GRANT SELECT ON belfry.migration TO PUBLIC;`

export type LedgerRow = { readonly id: number; readonly name: string; readonly checksum: string }

/** What was applied to this database, in order. */
export const readLedger = statement<LedgerRow>(
  'belfry_read_ledger',
  'SELECT id, name, checksum FROM belfry.migration ORDER BY id',
)

/** Whether there is a ledger at all; false on an empty database. */
export const findLedger = statement<{ readonly found: boolean }>(
  'belfry_find_ledger',
  `SELECT EXISTS (
     SELECT FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
     WHERE n.nspname = 'belfry' AND c.relname = 'migration'
   ) AS found`,
)

export const insertLedgerRow = 'INSERT INTO belfry.migration (id, name, checksum) VALUES ($1, $2, $3)'

/**
 * From Postgres 16 on, who is a member of a role may yet be kept from becoming it, and a membership can be
 * for that alone (`selective`).
 */
const rolesBeyond = (login: string): string => `
SELECT rolname AS role, ${login}::text AS login,
  current_setting('server_version_num')::int >= 160000 AS selective
FROM pg_catalog.pg_roles
WHERE rolname IN ('belfry_app', 'belfry_engine', 'belfry_platform')
  AND NOT pg_has_role(${login}, oid,
    CASE WHEN current_setting('server_version_num')::int < 160000 THEN 'MEMBER' ELSE 'SET' END)`

export type RoleBeyondRow = { readonly role: string; readonly login: string; readonly selective: boolean }

/** Belfry's roles that the login $1 cannot become yet. */
export const rolesWithoutMember = rolesBeyond('$1::text::name')

/**
 * Belfry's roles that who migrates may grant and not become: from Postgres 16 on, those that it made itself.
 * It is often the login of the first server as well.
 */
export const rolesToTake = `
${rolesBeyond('current_user')} AND pg_has_role(current_user, oid, 'MEMBER WITH ADMIN OPTION')`

/** Belfry's roles that the login itself cannot become: then it can do nothing. */
export const listRolesBeyond = statement<RoleBeyondRow>(
  'belfry_list_roles_beyond',
  `${rolesBeyond('current_user')} ORDER BY rolname`,
)

/**
 * `roles` and `login` are quoted identifiers: utility commands take no parameters. Where the server can tell
 * the two apart, the login may become the roles and does not have their rights outside of that.
 */
export function grantRoles(roles: string, login: string, selective: boolean): string {
  return `GRANT ${roles} TO ${login}${selective ? ' WITH INHERIT FALSE, SET TRUE' : ''}`
}

/** Takes an attribute from a login, whose name is a quoted identifier. */
export function withhold(login: string, attribute: 'BYPASSRLS' | 'INHERIT'): string {
  return `ALTER ROLE ${login} NO${attribute}`
}

export type LoginRow = {
  readonly login: string
  readonly superuser: boolean
  readonly bypasses: boolean
  readonly owns: boolean
  readonly inherits: readonly string[]
  readonly selective: boolean
}

/** What the login may do outside of Belfry's roles; it should be nothing. */
export const describeLogin = statement<LoginRow>(
  'belfry_describe_login',
  `
SELECT rolname::text AS login, rolsuper AS superuser, rolbypassrls AS bypasses,
       EXISTS (
         SELECT FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
         WHERE n.nspname = 'belfry' AND pg_has_role(current_user, c.relowner, 'USAGE')
       ) AS owns,
       ARRAY(
         SELECT r.rolname::text FROM pg_catalog.pg_roles r
         WHERE r.rolname IN ('belfry_app', 'belfry_engine', 'belfry_platform')
           AND pg_has_role(current_user, r.oid, 'USAGE')
         ORDER BY 1
       ) AS inherits,
       current_setting('server_version_num')::int >= 160000 AS selective
FROM pg_catalog.pg_roles WHERE rolname = current_user`,
)

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

/** From Postgres 16 on, who is a member of a role may yet be kept from becoming it. */
const rolesBeyond = (login: string): string => `
SELECT rolname AS role, ${login}::text AS login FROM pg_catalog.pg_roles
WHERE rolname IN ('belfry_app', 'belfry_engine', 'belfry_platform')
  AND NOT pg_has_role(${login}, oid,
    CASE WHEN current_setting('server_version_num')::int < 160000 THEN 'MEMBER' ELSE 'SET' END)`

export type RoleBeyondRow = { readonly role: string; readonly login: string }

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

/** Both are quoted identifiers: utility commands take no parameters. */
export function grantRole(role: string, login: string): string {
  return `GRANT ${role} TO ${login}`
}

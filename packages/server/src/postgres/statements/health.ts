/**
 * What is looked at when somebody asks how an installation is (postgres/health.ts). Each is one short read;
 * the first two as the login, which needs no role of the schema for them.
 */
import { statement } from '../statement.ts'
import { replanColumns, type ReplanRow } from './replans.ts'

export type ServerFactsRow = {
  readonly version: string
  readonly version_num: number
  readonly now_ms: number
  readonly read_only: boolean
}

/** Of the Postgres server, as the login. */
export const serverFacts = statement<ServerFactsRow>(
  'health_server_facts',
  `
SELECT current_setting('server_version') AS version,
       current_setting('server_version_num')::int AS version_num,
       (extract(epoch FROM clock_timestamp()) * 1000)::float8 AS now_ms,
       pg_is_in_recovery() OR current_setting('default_transaction_read_only')::boolean AS read_only`,
)

/**
 * Of the Postgres server and the database in it: the same after a failover, another one for a copy that was
 * restored elsewhere.
 */
export const installationId = statement<{ id: string }>(
  'health_installation_id',
  `
SELECT left(encode(sha256(convert_to(system_identifier || '/' || oid, 'UTF8')), 'hex'), 12) AS id
FROM pg_control_system(), pg_database
WHERE datname = current_database()`,
)

/** For a login that may not ask the server: when the first migration was applied. */
export const installationIdByLedger = statement<{ id: string }>(
  'health_installation_id_by_ledger',
  `
SELECT
  left(encode(sha256(convert_to(extract(epoch FROM min(applied_at)) || '/' || oid, 'UTF8')), 'hex'), 12) AS id
FROM belfry.migration, pg_database
WHERE datname = current_database()
GROUP BY oid`,
)

/** The last migration that was applied. */
export const lastMigration = statement<{ name: string }>(
  'health_last_migration',
  'SELECT name FROM belfry.migration ORDER BY id DESC LIMIT 1',
)

/** Replans that are open, those of zones first, and how many there are in all. */
export const openReplans = statement<ReplanRow & { in_all: number }, [limit: number]>(
  'health_open_replans',
  `
SELECT ${replanColumns}, count(*) OVER ()::float8 AS in_all
FROM belfry.replan
WHERE state IN ('pending', 'running')
ORDER BY kind DESC, id
LIMIT $1`,
)

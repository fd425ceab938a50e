/**
 * Which server of several one has come to (postgres/hosts.ts), and how far a replica is behind
 * (postgres/read-replica.ts). All of it may be asked by any login.
 */
import { statement } from '../statement.ts'

/** Whether it follows another one, and whether it takes writes. */
export const readServerRole = statement<{ readonly standby: boolean; readonly read_only: boolean }>(
  'belfry_read_server_role',
  `SELECT pg_is_in_recovery() AS standby,
    pg_is_in_recovery() OR current_setting('default_transaction_read_only')::boolean AS read_only`,
)

export type ReplicationRow = {
  /** True where the server follows another one. */
  readonly standby: boolean
  /** Grows when a standby is promoted; of a standby as of its last restart point. */
  readonly timeline: number
  /** Where the log is: written by a primary, replayed by a standby. Bytes. */
  readonly position: string
}

/** How far a primary has written, or a standby replayed, and in which history. */
export const readReplication = statement<ReplicationRow>(
  'belfry_read_replication',
  `SELECT pg_is_in_recovery() AS standby,
    CASE WHEN pg_is_in_recovery() THEN (SELECT timeline_id FROM pg_control_checkpoint())
      ELSE ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::int END AS timeline,
    (CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END
      - '0/0'::pg_lsn)::text AS position`,
)

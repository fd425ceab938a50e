// The database of simulated worlds, one after the other: the real schema, emptied in between, with a
// `belfry.now()` that the world sets. As in production it stands still within a transaction: each instant is
// kept with the real moment at which it began, and a transaction sees the one that it began in.
import pg from 'pg'
import type { Database } from '../../../packages/server/src/postgres/database.ts'
import { openDatabase } from '../../../packages/server/src/postgres/database.ts'
import type { SharedServer } from '../../support/global-postgres.ts'
import { realClock, realRandom } from '../../support/real-clock.ts'

/** Noon of a day far from the present one. */
export const worldStartMs = Date.UTC(2031, 4, 6, 12)

export interface WorldDatabase {
  /** The production door; all nodes of a world share its connections, one statement at a time. */
  readonly db: Database
  readonly moveNow: (toMs: number) => Promise<void>
  /** Free SQL as the superuser, to arrange and to look. */
  readonly sql: <Row extends pg.QueryResultRow>(text: string, params?: readonly unknown[]) => Promise<Row[]>
  /** How many connections wait for a lock. */
  readonly waiting: () => Promise<number>
  /** Deletes what a world has left; the next one begins. */
  readonly empty: () => Promise<void>
  readonly close: () => Promise<void>
}

/** Dead rows would slow down the worlds to come. */
const worldsBetweenVacuums = 40
const connections = 40

export async function openWorldDatabase(server: SharedServer, name: string): Promise<WorldDatabase> {
  const { host, port, template } = server
  const admin = { host, port, user: 'postgres' }
  await once({ ...admin, database: 'postgres' }, [
    `CREATE DATABASE ${name} TEMPLATE ${template} STRATEGY FILE_COPY`,
    `ALTER DATABASE ${name} SET deadlock_timeout = '20ms'`,
    // what runs beside the worlds would be a matter of chance, and not of their seeds
    `ALTER DATABASE ${name} SET jit = off`,
  ])
  const client = new pg.Client({ ...admin, database: name })
  client.on('error', () => undefined)
  await client.connect()
  const db = openDatabase({
    connection: { host, port, user: 'belfry', database: name },
    clock: realClock,
    random: realRandom,
    maxConnections: connections,
  })
  async function sql<Row extends pg.QueryResultRow>(text: string, params: readonly unknown[] = []) {
    return (await client.query<Row>(text, [...params])).rows
  }
  for (const text of settableNow) await sql(text)
  const moveNow = async (toMs: number): Promise<void> => {
    await client.query({ name: 'move', text: move, values: [toMs / 1_000] })
  }
  await moveNow(worldStartMs)
  await sql(`DO $$ DECLARE day text; BEGIN
    FOR day IN SELECT DISTINCT substring(relname FROM '\\d{8}$') FROM pg_class
      WHERE relnamespace = 'belfry'::regnamespace AND relispartition AND relname ~ '\\d{8}$'
    LOOP PERFORM belfry.drop_partitions(day::date); END LOOP; END $$`)
  await sql('SELECT belfry.make_partitions($1)', [new Date(worldStartMs)])
  const tables = await sql<{ name: string }>(tablesToEmpty)
  const deletes = [
    "SET session_replication_role = 'replica'",
    ...tables.map((table) => `DELETE FROM ${table.name}`),
    "UPDATE belfry.shard_term SET term = 0, owner_id = NULL, expires_at = '-infinity'",
    'DELETE FROM sim.moment',
    "SET session_replication_role = 'origin'",
  ].join(';')
  let emptied = 0
  return {
    db,
    moveNow,
    sql,
    async waiting() {
      const { rows } = await client.query<{ count: number }>({ name: 'waiting', text: waiting })
      return rows[0]?.count ?? 0
    },
    async empty() {
      await client.query(deletes)
      if (++emptied % worldsBetweenVacuums === 0) await client.query('VACUUM')
      await moveNow(worldStartMs)
    },
    async close() {
      await db.close()
      await client.end()
      await once({ ...admin, database: 'postgres' }, [`DROP DATABASE IF EXISTS ${name} WITH (FORCE)`])
    },
  }
}

const settableNow = [
  'CREATE SCHEMA sim',
  'CREATE UNLOGGED TABLE sim.moment (began timestamptz PRIMARY KEY, instant timestamptz NOT NULL)',
  'GRANT USAGE ON SCHEMA sim TO PUBLIC',
  'GRANT SELECT ON sim.moment TO PUBLIC',
  `CREATE OR REPLACE FUNCTION belfry.now() RETURNS timestamptz LANGUAGE sql STABLE PARALLEL SAFE
     RETURN (SELECT instant FROM sim.moment WHERE began <= pg_catalog.now() ORDER BY began DESC LIMIT 1)`,
]
const move = 'INSERT INTO sim.moment VALUES (clock_timestamp(), to_timestamp($1::float8))'

/** Asked when a statement does not come back: what waits for a lock is told from what is slow. */
const waiting = `
  SELECT count(*)::int FROM pg_locks l JOIN pg_stat_activity a USING (pid)
  WHERE NOT l.granted AND a.datname = current_database()`

const tablesToEmpty = `
  SELECT oid::regclass::text AS name FROM pg_class
  WHERE relnamespace = 'belfry'::regnamespace AND relkind = 'r' AND relname NOT IN ('migration', 'shard_term')
  ORDER BY name`

async function once(connection: pg.ClientConfig, texts: readonly string[]): Promise<void> {
  const client = new pg.Client(connection)
  await client.connect()
  try {
    for (const text of texts) await client.query(text)
  } finally {
    await client.end()
  }
}

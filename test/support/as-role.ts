// One statement as one of Belfry's roles, on a connection of its own, as a transaction of the server would
// run it: to see what the role may do by raw SQL.
import pg from 'pg'
import type { TestConnection } from './postgres.ts'

/** For a tenant or none; what it does is taken back. */
export function asRole<Row extends pg.QueryResultRow>(
  connection: TestConnection,
  role: string,
  tenantId: string,
  text: string,
  params: readonly unknown[] = [],
): Promise<Row[]> {
  return inTransaction<Row>(connection, 'ROLLBACK', [role, tenantId], text, params)
}

/** The same, to stay. */
export async function asRoleCommitted(
  connection: TestConnection,
  role: string,
  tenantId: string,
  text: string,
  params: readonly unknown[],
): Promise<void> {
  await inTransaction(connection, 'COMMIT', [role, tenantId], text, params)
}

async function inTransaction<Row extends pg.QueryResultRow>(
  connection: TestConnection,
  end: 'COMMIT' | 'ROLLBACK',
  scope: [role: string, tenantId: string],
  text: string,
  params: readonly unknown[],
): Promise<Row[]> {
  const client = new pg.Client(connection)
  await client.connect()
  try {
    await client.query('BEGIN')
    await client.query("SELECT set_config('role', $1, true), set_config('belfry.tenant_id', $2, true)", scope)
    const { rows } = await client.query<Row>(text, [...params])
    await client.query(end)
    return rows
  } finally {
    await client.end()
  }
}

// Backlogs by the shortest way: one row, whatever its columns are, copied as often as asked for.
import { createSystemIds } from '../../../packages/server/src/adapters/system/ids.ts'
import pg from 'pg'

/** SQL that makes the id of copy number `place`: the time now, then numbers in the order of their making. */
export function idOfCopy(): string {
  const time = pg.escapeLiteral(`${createSystemIds().uuidv7(Date.now()).slice(0, 14)}7000-8000-`)
  return `(${time} || lpad(to_hex(place), 12, '0'))::uuid`
}

/** Copies the row of `model`, a table of one row, into `belfry.table`; `made` says what differs, in SQL. */
export async function copyRow(
  sql: pg.Client,
  table: string,
  model: string,
  made: Readonly<Record<string, string>>,
  count: number,
): Promise<void> {
  const { rows } = await sql.query<{ name: string }>(
    `SELECT attname AS name FROM pg_attribute
     WHERE attrelid = $1::regclass AND attnum > 0 AND NOT attisdropped AND attgenerated = ''`,
    [`belfry.${table}`],
  )
  const columns = rows.map(({ name }) => pg.escapeIdentifier(name))
  const values = rows.map(({ name }, index) => made[name] ?? columns[index])
  await sql.query(
    `INSERT INTO belfry.${table} (${columns.join(', ')})
     SELECT ${values.join(', ')} FROM ${model}, generate_series(1, $1::int) AS place`,
    [count],
  )
}

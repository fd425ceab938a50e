/**
 * How many rows each table holds: equal before and after means that nothing was written, whole or in part.
 */
import type { Arena } from './arena.ts'

const tables = [
  'api_key',
  'attempt',
  'delayed',
  'idempotency_key',
  'job',
  'job_version',
  'occurrence',
  'ready',
  'run',
  'schedule',
  'timer',
] as const

export async function countRows(arena: Arena): Promise<Record<string, number>> {
  const counts = tables.map((table) => `(SELECT count(*)::int FROM belfry.${table}) AS ${table}`)
  const [row] = await arena.rows<Record<string, number>>(`SELECT ${counts.join(', ')}`)
  return row ?? {}
}

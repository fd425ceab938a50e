/**
 * What one Postgres was asked: turns on the log of statements, and counts what came from Belfry by the name
 * of the statement. Every transaction of Belfry begins with `BEGIN`, so their number is that of `BEGIN`.
 */
import { readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import type { Arena } from './arena.ts'

export interface StatementLog {
  /**
   * How often each statement was sent by Belfry since this log was opened; what has no name stands by its
   * first word.
   */
  counts(): ReadonlyMap<string, number>
}

/** `log_line_prefix` below: the name of the application ends at the bar. */
const line = /^(belfry[^|]*)\|LOG: {2}(?:execute ([^:]+)|statement): (\S+)/

export async function openStatementLog(arena: Arena): Promise<StatementLog> {
  await arena.rows(`ALTER SYSTEM SET log_line_prefix = '%a|'`)
  await arena.rows(`ALTER SYSTEM SET log_statement = 'all'`)
  await arena.rows('SELECT pg_reload_conf()')
  const path = join(arena.dataDir, 'postgres.log')
  const from = statSync(path).size
  return {
    counts() {
      const counts = new Map<string, number>()
      for (const text of readFileSync(path).subarray(from).toString('utf8').split('\n')) {
        const found = line.exec(text)
        if (found === null) continue
        const [, , name, word = ''] = found
        const key = name === undefined || name === '<unnamed>' ? word : name
        counts.set(key, (counts.get(key) ?? 0) + 1)
      }
      return counts
    },
  }
}

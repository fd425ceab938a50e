/**
 * The external ids of tenants, in Postgres (statements/external-ids.ts). They never change, so each is read
 * once by a process.
 */
import type { ExternalIds } from '../ports/external-ids.ts'
import type { Database } from './database.ts'
import { findExternalIdOf } from './statements/external-ids.ts'

const reading = { role: 'belfry_engine', readOnly: true } as const
const mostKnown = 10_000

export function createPostgresExternalIds(db: Database): ExternalIds {
  const known = new Map<string, string>()
  return {
    async externalIdOf(tenantId) {
      const found =
        known.get(tenantId) ?? (await db.run(reading, findExternalIdOf, [tenantId]))[0]?.external_id
      if (found !== undefined && known.size < mostKnown) known.set(tenantId, found)
      return found
    },
  }
}

// docs/reference/schema.sql: the schema of a database that is migrated for it, on an embedded Postgres that
// lives as long as that takes. Apart from reference-pages.ts, whose pages need no database.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { startEmbeddedPostgres } from '../../packages/server/src/postgres/embedded/embedded-postgres.ts'
import { migrate } from '../../packages/server/src/postgres/migrate.ts'
import type { ReferencePage } from './reference-pages.ts'
import { dumpSchema } from './schema-dump.ts'

async function renderSchema(): Promise<string> {
  const dataDir = mkdtempSync(join(tmpdir(), 'belfry-schema-'))
  const quiet = () => undefined
  try {
    const server = await startEmbeddedPostgres({ dataDir, log: quiet, settings: { fsync: 'off' } })
    try {
      await migrate(server.adminConnection, { log: quiet })
      const client = new pg.Client(server.adminConnection)
      await client.connect()
      try {
        return await dumpSchema(async (text) => (await client.query<Record<string, unknown>>(text)).rows)
      } finally {
        await client.end()
      }
    } finally {
      await server.stop()
    }
  } finally {
    rmSync(dataDir, { recursive: true, force: true })
  }
}

export const schemaPage: ReferencePage = { file: 'docs/reference/schema.sql', render: renderSchema }

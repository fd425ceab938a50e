// docs/reference/schema.sql is what the migrations lead to, on the embedded Postgres 18 and, to the letter,
// on the system's own version. So a migration cannot change more than its author saw.
import { readFileSync } from 'node:fs'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { migrate } from '../../packages/server/src/postgres/migrate.ts'
import { dumpSchema } from '../../scripts/lib/schema-dump.ts'
import { schemaPage } from '../../scripts/lib/schema-page.ts'
import { describeNeeding } from '../support/needs.ts'
import type { SystemPostgres, TestDatabase } from '../support/postgres.ts'
import { createTestDatabase, startSystemPostgres } from '../support/postgres.ts'

const advice = [
  `${schemaPage.file} is not what the migrations lead to.`,
  'If the change is meant, run: npm run schema',
  'and commit the file with the migration. If not, mend the migration.',
].join(' ')

const committed = () => readFileSync(new URL(`../../${schemaPage.file}`, import.meta.url), 'utf8')

it('the schema of the embedded Postgres is the committed one (npm run schema)', async () => {
  const database = await createTestDatabase()
  try {
    expect(await dumpSchema((text) => database.sql(text)), advice).toBe(committed())
  } finally {
    await database.drop()
  }
})

/** Each change stays, which the next one does not mind. */
describe('the dump', () => {
  let database: TestDatabase
  beforeAll(async () => {
    database = await createTestDatabase()
  })
  afterAll(() => database.drop())
  const dump = () => dumpSchema((text) => database.sql(text))

  it.each([
    ['a column', 'ALTER TABLE belfry.job ADD COLUMN extra int', /^ {2}extra integer/m],
    [
      'a default',
      'ALTER TABLE belfry.job ALTER COLUMN queue SET DEFAULT 1',
      /^ {2}queue text NOT NULL DEFAULT 1/m,
    ],
    ['a constraint', 'ALTER TABLE belfry.job ADD CHECK (priority > 7)', /CHECK \(\(priority > 7\)\)/],
    ['an index', 'CREATE INDEX extra ON belfry.job (queue)', /^CREATE INDEX extra ON/m],
    [
      'a policy',
      'CREATE POLICY extra ON belfry.job TO PUBLIC USING (true)',
      /^CREATE POLICY extra .* TO PUBLIC/m,
    ],
    [
      'a grant',
      'GRANT DELETE ON belfry.job TO belfry_engine',
      /^GRANT DELETE, SELECT ON belfry.job TO belfry_engine/m,
    ],
    [
      'a grant of a column',
      'GRANT UPDATE (queue) ON belfry.job TO belfry_engine',
      /^GRANT UPDATE \(queue\)/m,
    ],
    ['a storage setting', 'ALTER TABLE belfry.job SET (fillfactor = 42)', /WITH \(fillfactor=42\)/],
    [
      'a function',
      'CREATE FUNCTION belfry.extra() RETURNS int LANGUAGE sql RETURN 1',
      /^CREATE OR REPLACE FUNCTION belfry\.extra/m,
    ],
    [
      'a trigger',
      `CREATE TRIGGER extra AFTER DELETE ON belfry.job
         FOR EACH STATEMENT EXECUTE FUNCTION belfry.read_limits()`,
      /^CREATE TRIGGER extra AFTER DELETE ON belfry.job/m,
    ],
    [
      'row security',
      'ALTER TABLE belfry.job NO FORCE ROW LEVEL SECURITY',
      /belfry.job ENABLE ROW LEVEL SECURITY;/,
    ],
    [
      'a grant of a function',
      'REVOKE EXECUTE ON FUNCTION belfry.now() FROM PUBLIC',
      /^(?![\s\S]*belfry\.now\(\) TO PUBLIC)/,
    ],
  ])('shows %s that was changed', async (_, change, shown) => {
    const before = await dump()
    await database.sql(change)
    expect(before).not.toMatch(shown)
    expect(await dump()).toMatch(shown)
  })

  it('refuses what it cannot write', async () => {
    await database.sql('CREATE VIEW belfry.extra_view AS SELECT 1 AS one')
    await database.sql("CREATE TYPE belfry.extra_type AS ENUM ('one')")
    await expect(dump()).rejects.toThrow(
      /cannot write relation belfry.extra_view, rule _RETURN, type belfry.extra_type/,
    )
    await database.sql('DROP VIEW belfry.extra_view; DROP TYPE belfry.extra_type')
    await database.sql('ALTER TABLE belfry.job DISABLE TRIGGER read_limits')
    await expect(dump()).rejects.toThrow(/cannot write trigger that is switched off .* read_limits/)
  })
})

describeNeeding('system-postgres', 'the schema on the Postgres of the system', (binDir) => {
  let server: SystemPostgres
  beforeAll(async () => {
    server = await startSystemPostgres(binDir)
  })
  afterAll(() => server?.stop())

  it('is the committed one to the letter', async () => {
    await migrate(server.adminConnection, { log: () => undefined })
    const client = new pg.Client(server.adminConnection)
    await client.connect()
    try {
      const query = async (text: string) => (await client.query<Record<string, unknown>>(text)).rows
      expect(await dumpSchema(query), advice).toBe(committed())
    } finally {
      await client.end()
    }
  })
})

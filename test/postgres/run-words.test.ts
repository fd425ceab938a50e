// The words for states, outcomes, reasons and kinds are the same in SQL's CHECK constraints as in the
// contract and in the table of transitions.
import {
  attemptOutcomes,
  handlerKinds,
  occurrenceOutcomes,
  occurrenceReasons,
  runReasons,
  runSources,
  scheduleStates,
} from '@belfry/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { endStates } from '../../packages/server/src/domain/transitions.ts'
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts'

let database: TestDatabase
beforeAll(async () => {
  database = await createTestDatabase()
})
afterAll(() => database.drop())

/** The words that a column's CHECK allows. */
async function allowed(table: string, column: string): Promise<string[]> {
  const rows = await database.sql<{ text: string }>(
    `SELECT pg_get_constraintdef(c.oid) AS text
     FROM pg_constraint c JOIN pg_attribute a ON a.attrelid = c.conrelid AND c.conkey = ARRAY[a.attnum]
     WHERE c.contype = 'c' AND c.conrelid = $1::regclass AND a.attname = $2`,
    [`belfry.${table}`, column],
  )
  return rows
    .flatMap((row) => [...row.text.matchAll(/'([a-z_]+)'::text/g)].map((match) => match[1] ?? ''))
    .sort()
}

test.each([
  ['attempt', 'run_state', endStates],
  ['attempt', 'outcome', attemptOutcomes],
  ['attempt', 'reason', runReasons],
  ['run', 'source', runSources],
  ['occurrence', 'outcome', occurrenceOutcomes],
  ['occurrence', 'reason', occurrenceReasons],
  ['schedule', 'state', scheduleStates],
  ['job', 'handler', handlerKinds],
] as const)('belfry.%s.%s allows what the contract names', async (table, column, words) => {
  expect(await allowed(table, column)).toEqual([...words].sort())
})

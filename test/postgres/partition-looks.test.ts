// No statement that locks or changes rows chooses partitions while it runs, and no function does that holds
// such a statement. Where one meets a row that another has just changed, Postgres sets up all its looks once
// more, in the memory of the first ones: Postgres 18.4 was seen to crash there. Such looks are functions
// (migration run_looks), or statements of their own. Read from the plans, as the planner prints them.
import { readdirSync } from 'node:fs'
import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Statement } from '../../packages/server/src/postgres/statement.ts'
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts'

type Named = Pick<Statement, 'name' | 'text' | 'planner'>

/** What these change was locked by their transaction before, so that nobody has changed it meanwhile. */
const heldBefore = ['gathering_seal']

const folder = new URL('../../packages/server/src/postgres/statements/', import.meta.url)
const parents = 'run|attempt|occurrence|run_log|workflow_run'

let database: TestDatabase
let client: pg.Client
let printed = ''
beforeAll(async () => {
  database = await createTestDatabase()
  await database.sql(
    `SELECT belfry.make_partitions(day::date)
     FROM generate_series(now() - interval '3 days', now(), '1 day') AS day`,
  )
  client = new pg.Client(database.adminConnection)
  client.on('notice', ({ detail }) => {
    printed += detail ?? ''
  })
  await client.connect()
  await client.query('SET debug_print_plan = on; SET debug_pretty_print = off; SET client_min_messages = log')
  // what is looked up, is looked up row by row: else partitions are not chosen
  await client.query('SET enable_seqscan = off; SET enable_mergejoin = off; SET enable_hashjoin = off')
})
afterAll(async () => {
  await client.end()
  await database.drop()
})

async function allStatements(): Promise<Named[]> {
  const files = readdirSync(folder).filter((file) => file.endsWith('.ts'))
  const modules = await Promise.all(
    files.map((file) => import(new URL(file, folder).href) as Promise<Record<string, unknown>>),
  )
  return modules.flatMap((module) => Object.values(module).filter(isStatement))
}

const isStatement = (value: unknown): value is Named =>
  typeof value === 'object' && value !== null && 'text' in value && 'name' in value

async function planOf({ text, planner }: Named): Promise<string> {
  await client.query(`SET enable_nestloop = ${planner === 'hash' ? 'off' : 'on'}`)
  await client.query(`SET enable_hashjoin = ${planner === 'hash' ? 'on' : 'off'}`)
  printed = ''
  await client.query(`EXPLAIN (GENERIC_PLAN) ${text}`)
  return printed.replaceAll(/\s+/g, ' ')
}

/** Operations of ModifyTable: 2 updates, 4 deletes, 5 merges. */
const locks = (plan: string): boolean => plan.includes('{LOCKROWS ') || / :operation [245] /.test(plan)

/** Values that come up while the plan runs, by which it chooses partitions then. */
const choosesWhileItRuns = (plan: string): boolean => / :execparamids \(b \d/.test(plan)

test('no statement that locks or changes rows chooses partitions while it runs', async () => {
  const statements = await allStatements()
  const found: string[] = []
  let locking = 0
  let choosing = 0
  for (const statement of statements) {
    if (!/^(?:SELECT|WITH|INSERT|UPDATE|DELETE|MERGE)\b/.test(statement.text)) continue
    const plan = await planOf(statement)
    if (locks(plan)) locking++
    if (choosesWhileItRuns(plan)) choosing++
    if (locks(plan) && choosesWhileItRuns(plan)) found.push(statement.name)
  }
  expect(found.sort()).toEqual(heldBefore)
  // it sees both kinds, or it would find nothing whatever they did
  expect([locking > 100, choosing > 10]).toEqual([true, true])
}, 60_000)

test.each([
  ['by what it locked', 'SELECT tenant_id, run_id FROM belfry.ready FOR UPDATE SKIP LOCKED'],
  ['by what it changed', 'UPDATE belfry.ready SET gate = NULL RETURNING tenant_id, run_id'],
])('a claim that looks up inputs %s would be found', async (_, taking) => {
  const plan = await planOf({
    name: 'claim',
    text: `
      WITH taken AS MATERIALIZED (${taking}), its AS MATERIALIZED (
        SELECT tenant_id, array_agg(run_id ORDER BY run_id) AS run_ids FROM taken GROUP BY tenant_id
      ), said AS MATERIALIZED (
        SELECT run.input FROM its CROSS JOIN LATERAL (
          SELECT * FROM belfry.run
          WHERE run.tenant_id = its.tenant_id AND run.id = ANY (its.run_ids)
            AND run.id >= its.run_ids[1] AND run.id <= its.run_ids[cardinality(its.run_ids)] OFFSET 0
        ) AS run
      )
      SELECT input FROM said`,
  })
  expect([locks(plan), choosesWhileItRuns(plan)]).toEqual([true, true])
})

test('no function that locks or changes rows looks into partitions besides', async () => {
  const locking = String.raw`FOR (NO KEY )?(UPDATE|SHARE)|FOR KEY SHARE|UPDATE belfry\.|DELETE FROM belfry\.`
  const functions = await database.sql<{ proname: string; looks: boolean }>(
    `SELECT proname, body ~ $2 AS looks
     FROM (SELECT proname, pg_get_functiondef(oid) AS body FROM pg_proc
           WHERE pronamespace = 'belfry'::regnamespace AND prokind = 'f') AS its
     WHERE body ~ $1 ORDER BY proname`,
    [locking, String.raw`(FROM|JOIN|UPDATE|USING) belfry\.(${parents})\M`],
  )
  expect(functions.map(({ proname }) => proname)).toContain('let_followers_go')
  expect(functions.filter(({ looks }) => looks)).toEqual([])
})

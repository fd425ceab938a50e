// Figures by which workers are scaled, and the status of the installation, are asked for every few seconds,
// also where millions of runs wait: they are read along indexes, whatever the statistics say.
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Statement } from '../../packages/server/src/postgres/statement.ts'
import { readLag } from '../../packages/server/src/postgres/statements/cluster.ts'
import {
  allServerDemand,
  ownFunctionDemand,
  ownServerDemand,
} from '../../packages/server/src/postgres/statements/queue-stats.ts'
import { enterScope, enterScopeByIndex } from '../../packages/server/src/postgres/statements/transaction.ts'
import { createRunningFixture, type RunningFixture } from '../support/running.ts'

type Planned = Pick<Statement, 'name' | 'text' | 'planner'>
const table: readonly (readonly [role: string, statement: Planned, args: string])[] = [
  ['belfry_app', ownServerDemand, `('default')`],
  ['belfry_app', ownFunctionDemand, `('default')`],
  ['belfry_platform', allServerDemand, `('default', '{http}')`],
  ['belfry_platform', readLag, ''],
]
const large = ['ready', 'claim', 'timer', 'delayed']

let fixture: RunningFixture
let client: pg.Client
beforeAll(async () => {
  fixture = await createRunningFixture()
  client = new pg.Client(fixture.database.adminConnection)
  await client.connect()
})
afterAll(async () => {
  await client.end()
  await fixture.drop()
})

const sized = (rows: string) =>
  large.map((name) => `UPDATE pg_class SET relpages = 1, reltuples = ${rows} WHERE relname LIKE '${name}%'`)

async function planOf(mode: string, role: string, statement: Planned, args: string): Promise<string> {
  await client.query('BEGIN')
  try {
    const scope = statement.planner === 'index' ? enterScopeByIndex : enterScope
    await client.query(scope.text, [role, fixture.tenantId, '10000', '10000'])
    await client.query(`SET LOCAL plan_cache_mode = ${mode}`)
    await client.query(`PREPARE planned AS ${statement.text}`)
    const plan = await client.query<{ 'QUERY PLAN': string }>(`EXPLAIN EXECUTE planned${args}`)
    return plan.rows.map((row) => row['QUERY PLAN']).join('\n')
  } finally {
    await client.query('ROLLBACK')
    await client.query('DEALLOCATE ALL')
  }
}

const statistics = { 'never looked at': [], 'one page, three rows': sized('3'), huge: sized('1e9') }

describe.each(Object.entries(statistics))('with statistics: %s', (_, prepare) => {
  test.each(table)('%s: no large table is read as a whole', async (role, statement, args) => {
    for (const each of prepare) await client.query(each)
    for (const mode of ['force_generic_plan', 'force_custom_plan']) {
      const plan = await planOf(mode, role, statement, args)
      for (const name of large) expect(plan, mode).not.toMatch(new RegExp(`Seq Scan on ${name}\\b`))
      expect(plan).toMatch(/Index (Only )?Scan/)
    }
  })
})

test('a backlog is counted up to its cap, however long it is', async () => {
  const job = await fixture.addJob()
  await fixture.database.sql(
    `INSERT INTO belfry.ready (run_id, tenant_id, job_id, job_version, queue, handler, tag, priority,
       available_at, timeout_ms)
     SELECT gen_random_uuid(), $1, $2, 1, 'default', 'http', place, 0, now(), 1000
     FROM generate_series(1, 30000) AS place`,
    [fixture.tenantId, job.id],
  )
  await client.query('BEGIN')
  await client.query(enterScopeByIndex.text, ['belfry_platform', fixture.tenantId, '10000', '10000'])
  const { rows } = await client.query<{ backlog: number }>(allServerDemand.text, ['default', ['http']])
  await client.query('ROLLBACK')
  expect(rows[0]?.backlog).toBe(10_000)
})

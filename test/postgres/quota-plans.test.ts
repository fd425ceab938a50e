// Quotas are counted while somebody waits for the answer, also where millions of runs of others wait: along
// indexes, whatever the statistics say, and each run once, wherever it stands.
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { parkedSession } from '../../packages/server/src/domain/parked.ts'
import { createPostgresCallbackStore } from '../../packages/server/src/postgres/callback-store.ts'
import { createQuotaLookup } from '../../packages/server/src/postgres/catalog/quota-store.ts'
import { countRuns } from '../../packages/server/src/postgres/statements/quotas.ts'
import { enterScopeByIndex } from '../../packages/server/src/postgres/statements/transaction.ts'
import { callbackTokens } from '../../packages/server/src/security/callback-token.ts'
import { rescueRig } from '../support/rescue-rig.ts'
import { createRunningFixture, type RunningFixture, succeededEnd } from '../support/running.ts'

const large = ['ready', 'delayed', 'callback']

let fixture: RunningFixture
let client: pg.Client
const { claim } = rescueRig(() => fixture)
beforeAll(async () => {
  fixture = await createRunningFixture()
  client = new pg.Client(fixture.database.adminConnection)
  await client.connect()
})
afterAll(async () => {
  await client.end()
  await fixture.drop()
})

async function planOf(mode: string): Promise<string> {
  await client.query('BEGIN')
  try {
    await client.query(enterScopeByIndex.text, ['belfry_app', fixture.tenantId, '10000', '10000'])
    await client.query(`SET LOCAL plan_cache_mode = ${mode}`)
    await client.query(`PREPARE planned AS ${countRuns.text}`)
    const plan = await client.query<{ 'QUERY PLAN': string }>('EXPLAIN EXECUTE planned(1001)')
    return plan.rows.map((row) => row['QUERY PLAN']).join('\n')
  } finally {
    await client.query('ROLLBACK')
    await client.query('DEALLOCATE ALL')
  }
}

const sized = (rows: string) =>
  large.map((name) => `UPDATE pg_class SET relpages = 1, reltuples = ${rows} WHERE relname LIKE '${name}%'`)
const statistics = { 'never looked at': [], 'one page, three rows': sized('3'), huge: sized('1e9') }

describe.each(Object.entries(statistics))('runs, with statistics: %s', (_, prepare) => {
  test.each(['force_generic_plan', 'force_custom_plan'])('no table is read as a whole (%s)', async (mode) => {
    expect(countRuns.planner).toBe('index')
    for (const each of prepare) await client.query(each)
    const plan = await planOf(mode)
    for (const name of large) expect(plan).not.toMatch(new RegExp(`Seq Scan on ${name}\\b`))
    for (const index of ['ready_list', 'ready_held', 'callback_parked'])
      expect(plan).toMatch(new RegExp(`using ${index}\\b`))
    expect(plan).toMatch(/using delayed_list\b|on delayed\b/)
  })
})

test('a run counts once, while it waits, runs, and is parked, and not when it has ended', async () => {
  const job = await fixture.addJob()
  const counted = () => createQuotaLookup(fixture.db)(fixture.tenantId)((quotas) => quotas.count('runs', 100))
  await fixture.addRuns(job, 2)
  expect(await counted()).toBe(2)
  const sessionId = await fixture.openSession()
  const [run] = await claim(sessionId, job)
  if (run === undefined) throw new Error('nothing was claimed')
  expect(await counted()).toBe(2)
  const callbacks = createPostgresCallbackStore(fixture.db)
  await callbacks.open(sessionId, run, callbackTokens.mint().hash)
  await callbacks.park(sessionId, run, { deadlineMs: 60_000, heartbeatMs: null })
  expect(await counted()).toBe(2)
  await fixture.store.complete(parkedSession, [succeededEnd(run)])
  expect(await counted()).toBe(1)
})

// The claim in Postgres beyond the conformance suite: how it and the completion are planned, whatever the
// statistics say, and that a claim and the end of its session never cross.
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  claimAnnouncedRuns,
  listAnnouncedQueues,
  listNextRuns,
} from '../../packages/server/src/postgres/statements/announced.ts'
import { claimRuns, listReadyQueues } from '../../packages/server/src/postgres/statements/claim.ts'
import { completeAttempts } from '../../packages/server/src/postgres/statements/completion.ts'
import {
  closeSession,
  handBackRuns,
  listHeldRuns,
  renewSession,
} from '../../packages/server/src/postgres/statements/sessions.ts'
import {
  healHeldRuns,
  listStuckRuns,
  settleClaims,
  settleClaimsOf,
} from '../../packages/server/src/postgres/statements/rescue.ts'
import { endSuccesses } from '../../packages/server/src/postgres/statements/successes.ts'
import {
  enterScopeByHash,
  enterScopeByIndex,
} from '../../packages/server/src/postgres/statements/transaction.ts'
import { createRunningFixture, eventually, newId, type RunningFixture } from '../support/running.ts'

type PlanNode = {
  readonly 'Node Type': string
  readonly 'Relation Name'?: string
  readonly 'Index Name'?: string
  readonly Plans?: readonly PlanNode[]
}

let fixture: RunningFixture
let client: pg.Client

beforeAll(async () => {
  fixture = await createRunningFixture()
  client = new pg.Client(fixture.database.adminConnection)
  await client.connect()
  await fixture.addRuns(await fixture.addJob(), 20)
})
afterAll(async () => {
  await client.end()
  await fixture.drop()
})

const nobodyId = '00000000-0000-0000-0000-000000000001'
const nobody = `'${nobodyId}'`
const statements = [
  {
    name: 'claim',
    text: claimRuns.text,
    types: 'uuid, text[], float8[], int[], text[], float8, bigint, bigint[], float8[]',
    args: [
      nobody,
      "'{default}'",
      "'{-Infinity}'",
      "'{500}'",
      "'{http}'",
      '1000',
      '1',
      "'{}'",
      "'{Infinity}'",
    ],
    indexes: { ready: ['ready_claim', 'ready_pkey'], session: ['session_pkey'] },
  },
  {
    name: 'claim of announced runs',
    text: claimAnnouncedRuns.text,
    types: 'uuid, text[], float8[], uuid[], text[], float8, bigint, bigint[]',
    args: [nobody, "'{default}'", "'{1}'", `'{${nobodyId}}'`, "'{http}'", '1000', '1', "'{}'"],
    indexes: { ready: ['ready_pkey'], session: ['session_pkey'] },
  },
  {
    name: 'next runs',
    text: listNextRuns.text,
    types: 'text[], float8[], int[], text[]',
    args: ["'{default}'", "'{-Infinity}'", "'{500}'", "'{http}'"],
    indexes: { ready: ['ready_claim'], slot: ['slot_pkey'] },
  },
  {
    name: 'announced queues',
    text: listAnnouncedQueues.text,
    types: 'text, int, text[]',
    args: ["''", '1000', "'{http}'"],
    indexes: { ready: ['ready_claim'] },
  },
  {
    name: 'complete',
    text: completeAttempts.text,
    types: `uuid[], bigint[], text[], text[], text[], float8[], text[], float8[], float8[], text[], text[],
        smallint[], text[], boolean[], jsonb[], jsonb[], uuid`,
    args: [...Array.from({ length: 16 }, () => "'{}'"), nobody],
    indexes: { ready: ['ready_pkey', 'ready_held'] },
  },
  {
    name: 'end successes',
    text: endSuccesses.text,
    types: 'uuid, bigint, uuid[], float8[], float8[], jsonb[]',
    args: [nobody, '1', `'{${nobodyId}}'`, "'{1}'", "'{1}'", "'{NULL}'"],
    indexes: { ready: ['ready_pkey', 'ready_held'] },
    byHash: true,
  },
  {
    name: 'ready queues',
    text: listReadyQueues.text,
    types: 'uuid, int, int, uuid[], text[]',
    args: [nobody, '100', '1000', "'{}'", "'{}'"],
    indexes: { ready: ['ready_tenant'] },
  },
  {
    name: 'hand back',
    text: handBackRuns.text,
    types: 'uuid, uuid[], bigint[]',
    args: [nobody, "'{}'", "'{}'"],
    indexes: { ready: ['ready_pkey', 'ready_held'] },
  },
  {
    name: 'stuck runs',
    text: listStuckRuns.text,
    types: 'uuid, uuid, int',
    args: ["'00000000-0000-0000-0000-000000000000'", "'00000000-0000-0000-0000-000000000000'", '500'],
    indexes: { ready: ['ready_held'] },
  },
  {
    name: 'settle claims',
    text: settleClaims.text,
    types: 'int, float8',
    args: ['50', '2000'],
    // its rows are deleted by their place
    indexes: { ready: ['ready_pkey'] },
    also: { claim: 'claim_of' },
  },
  {
    name: 'settle claims of sessions',
    text: settleClaimsOf.text,
    types: 'int, uuid[]',
    args: ['50', `'{${nobodyId}}'`],
    indexes: { ready: ['ready_pkey'] },
    also: { claim: 'claim_of' },
  },
  {
    name: 'heal held runs',
    text: healHeldRuns.text,
    types: 'uuid, int',
    args: [nobody, '10000'],
    indexes: { ready: ['ready_pkey'] },
  },
  {
    name: 'renew',
    text: renewSession.text,
    types: 'uuid, float8',
    args: [nobody, '30000'],
    indexes: { ready: ['ready_held', 'ready_pkey'], claim: ['claim_of'] },
  },
  {
    name: 'close session',
    text: closeSession.text,
    types: 'uuid',
    args: [nobody],
    indexes: { ready: ['ready_held', 'ready_pkey'], claim: ['claim_of'] },
  },
  {
    name: 'held runs',
    text: listHeldRuns.text,
    types: 'uuid',
    args: [nobody],
    indexes: { ready: ['ready_held', 'ready_pkey'], claim: ['claim_of'] },
  },
] as const

/** What the planner believes about `ready`. */
const statistics = {
  'empty and vacuumed': ['DELETE FROM belfry.ready', 'VACUUM ANALYZE belfry.ready'],
  'never looked at': ['TRUNCATE belfry.ready'],
  'stale: one page, three rows': [
    "UPDATE pg_class SET relpages = 1, reltuples = 3 WHERE relname LIKE 'ready%'",
  ],
  huge: ["UPDATE pg_class SET relpages = 1, reltuples = 1e9 WHERE relname LIKE 'ready%'"],
}

describe.each(Object.entries(statistics))('with statistics %s', (_, prepare) => {
  describe.each(['force_generic_plan', 'force_custom_plan'])('%s', (mode) => {
    test.each(statements)('$name stays on its indexes', async (statement) => {
      for (const each of prepare) await client.query(each)
      const plan = await explain(mode, statement)
      const { indexes } = statement
      for (const [table, allowed] of Object.entries(indexes)) {
        const scans = plan.filter(
          (node) => node['Relation Name'] === table && node['Node Type'] !== 'ModifyTable',
        )
        expect(scans.length).toBeGreaterThan(0)
        for (const scan of scans) {
          expect(['Index Scan', 'Index Only Scan']).toContain(scan['Node Type'])
          expect(allowed).toContain(scan['Index Name'])
        }
      }
      const used = plan.map((node) => node['Index Name'])
      for (const index of Object.values('also' in statement ? statement.also : {}))
        expect(used).toContain(index)
    })
  })
})

test('the rows to claim come off the index in order: no sort below the limit', async () => {
  await client.query("UPDATE pg_class SET relpages = 1, reltuples = 1e9 WHERE relname LIKE 'ready%'")
  const [claim] = statements
  const root = await explainTree('force_generic_plan', claim)
  const locking = pathTo(
    root,
    (node) =>
      node['Node Type'] === 'LockRows' &&
      pathTo(node, (below) => below['Index Name'] === 'ready_claim') !== undefined,
  )
  const path = pathTo(locking?.at(-1) ?? root, (node) => node['Index Name'] === 'ready_claim') ?? []
  const locks = path.findLastIndex((node) => node['Node Type'] === 'LockRows')
  expect(path.slice(locks).map((node) => node['Node Type'])).toEqual(['LockRows', 'Index Scan'])
})

test('the times of successes are joined by hash, however few rows are expected', async () => {
  const statement = statements.find(({ name }) => name === 'end successes')
  if (statement === undefined) throw new Error('the statement is not in the table')
  for (const [, prepare] of Object.entries(statistics)) {
    for (const each of prepare) await client.query(each)
    for (const mode of ['force_generic_plan', 'force_custom_plan']) {
      const kinds = (await explain(mode, statement)).map((node) => node['Node Type'])
      expect(kinds).toContain('Hash Join')
      expect(kinds).not.toContain('Nested Loop')
    }
  }
})

interface Planned {
  readonly text: string
  readonly types: string
  readonly args: readonly string[]
  readonly byHash?: boolean
}

/** Plans as the runtime does: under the engine's role and settings, through a prepared statement. */
async function explainTree(mode: string, { text, types, args, byHash }: Planned): Promise<PlanNode> {
  await client.query('BEGIN')
  try {
    const scope = byHash === true ? enterScopeByHash : enterScopeByIndex
    await client.query(scope.text, ['belfry_engine', '', '10000', '10000'])
    await client.query(`SET LOCAL plan_cache_mode = ${mode}`)
    await client.query(`PREPARE planned (${types}) AS ${text}`)
    const { rows } = await client.query<{ 'QUERY PLAN': [{ Plan: PlanNode }] }>(
      `EXPLAIN (FORMAT JSON) EXECUTE planned (${args.join(', ')})`,
    )
    const plan = rows[0]?.['QUERY PLAN'][0].Plan
    if (plan === undefined) throw new Error('no plan')
    return plan
  } finally {
    await client.query('ROLLBACK')
    await client.query('DEALLOCATE ALL')
  }
}

async function explain(mode: string, statement: Planned): Promise<PlanNode[]> {
  const flatten = (node: PlanNode): PlanNode[] => [node, ...(node.Plans ?? []).flatMap(flatten)]
  return flatten(await explainTree(mode, statement))
}

function pathTo(node: PlanNode, wanted: (node: PlanNode) => boolean): PlanNode[] | undefined {
  if (wanted(node)) return [node]
  for (const child of node.Plans ?? []) {
    const below = pathTo(child, wanted)
    if (below !== undefined) return [node, ...below]
  }
  return undefined
}

describe('a claim and the rescuer that settles', () => {
  test('claims of no more than the limit, old enough or of ended sessions, are settled', async () => {
    const job = await fixture.addJob({ queue: 'ages' })
    await fixture.addRuns(job, 3)
    const [one, two] = [await fixture.openSession(), await fixture.openSession()]
    const shares = [{ queue: 'ages', minTag: -Infinity, limit: 1 }]
    for (const sessionId of [one, one, two])
      await fixture.queue.claim({ sessionId, shares, routes: ['http'], deadlineMarginMs: 0 })
    await fixture.database.sql(
      "UPDATE belfry.claim SET claimed_at = now() - interval '1 h' WHERE session_id = $1",
      [one],
    )
    expect(await fixture.store.settleClaims(10, { sessionIds: [newId()] })).toBe(0)
    expect(await fixture.store.settleClaims(1, { olderThanMs: 60_000 })).toBe(1)
    expect(await fixture.store.settleClaims(10, { olderThanMs: 60_000 })).toBe(1)
    expect(await fixture.store.settleClaims(10, { olderThanMs: 60_000 })).toBe(0)
    expect(await fixture.store.settleClaims(10, { sessionIds: [two] })).toBe(1)
    expect(await fixture.database.sql('SELECT FROM belfry.claim')).toEqual([])
  })

  test('do not wait for each other in a circle, when a run was given back and is claimed anew', async () => {
    const job = await fixture.addJob({ queue: 'anew' })
    await fixture.addRuns(job, 2)
    const session = await fixture.openSession()
    const shares = [{ queue: 'anew', minTag: -Infinity, limit: 10 }]
    const asked = { sessionId: session, shares, routes: ['http'], deadlineMarginMs: 0 }
    const { runs } = await fixture.queue.claim({ ...asked, number: 1 })
    const [first, second] = runs.toSorted((a, b) => (a.runId < b.runId ? -1 : 1))
    if (first === undefined || second === undefined) throw new Error('two runs were not claimed')
    // the settling takes the claim, and then waits for the first of its runs
    await client.query('BEGIN')
    await client.query('SELECT FROM belfry.ready WHERE run_id = $1 FOR UPDATE', [first.runId])
    const settled = fixture.store.settleClaims(10_000)
    await eventually(async () => {
      const waiting = await fixture.database.sql<{ count: number }>(
        `SELECT count(*)::int AS count FROM pg_stat_activity
         WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%fresh AS%'`,
      )
      return waiting[0]?.count === 1
    }, 'the settling to wait')
    await fixture.store.handBack(session, [second])
    const again = await fixture.queue.claim({ ...asked, number: 2, overNumbers: [1] })
    expect(again.runs.map((run) => run.runId)).toEqual([second.runId])
    await client.query('COMMIT')
    await settled
    expect((await fixture.store.heldRuns(session)).map((run) => run.runId).toSorted()).toEqual([
      first.runId,
      second.runId,
    ])
  })
})

describe('a claim and the end of its session', () => {
  const shares = [{ queue: 'cross', minTag: -Infinity, limit: 10 }]

  test('a rescuer that comes while a claim is under way passes the session over', async () => {
    const job = await fixture.addJob({ queue: 'cross' })
    const [runId = ''] = await fixture.addRuns(job, 1)
    const session = await fixture.openSession()
    await client.query('BEGIN')
    await client.query(claimRuns.text, [
      session,
      ['cross'],
      ['-Infinity'],
      [10],
      ['http'],
      1_000,
      1,
      [],
      ['Infinity'],
    ])
    const expired = "UPDATE belfry.session SET expires_at = now() - interval '1 s' WHERE id = $1"
    await fixture.database.sql(expired, [session])
    expect((await fixture.store.endExpiredSessions()).sessionIds).not.toContain(session)
    await client.query('COMMIT')
    expect((await fixture.store.endExpiredSessions()).sessionIds).toContain(session)
    await fixture.store.settleClaims(10)
    const stuck = await fixture.store.stuckRuns(null, 10)
    expect(stuck.runs.map((run) => run.runId)).toContain(runId)
  })

  test('a claim that comes after the session was ended gets nothing', async () => {
    const job = await fixture.addJob({ queue: 'cross' })
    await fixture.addRuns(job, 1)
    const session = await fixture.openSession()
    await client.query('BEGIN')
    await client.query('DELETE FROM belfry.session WHERE id = $1', [session])
    const claimed = fixture.queue.claim({
      sessionId: session,
      shares,
      routes: ['http'],
      deadlineMarginMs: 0,
    })
    await client.query('COMMIT')
    expect(await claimed).toMatchObject({ runs: [], alive: false })
  })
})

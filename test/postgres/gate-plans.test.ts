// How the statements of the gate are planned, whatever the statistics say: tables that are nearly empty most
// of the time and can hold a million rows a minute later are read along their indexes alone, each statement
// along those that were made for it.
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Statement } from '../../packages/server/src/postgres/statement.ts'
import * as read from '../../packages/server/src/postgres/statements/gate.ts'
import * as walk from '../../packages/server/src/postgres/statements/gate-walk.ts'
import * as write from '../../packages/server/src/postgres/statements/gate-writes.ts'
import { findGatheringOf } from '../../packages/server/src/postgres/statements/gatherings.ts'
import * as view from '../../packages/server/src/postgres/statements/queue-view.ts'
import { enterScope, enterScopeByIndex } from '../../packages/server/src/postgres/statements/transaction.ts'
import { createGateRig, type GateRig } from '../support/gate-rig.ts'

const id = '00000000-0000-0000-0000-000000000001'
const ids = [id]

type Argument = string | number | boolean | null | readonly (string | number | boolean | null)[]
/** Of any row and parameters. */
type Planned = Pick<Statement, 'name' | 'text' | 'planner'>
interface Asked {
  readonly statement: Planned
  readonly args: readonly Argument[]
  /** By table, the indexes that it may walk. */
  readonly indexes: Readonly<Record<string, readonly string[]>>
  readonly role?: 'belfry_app'
}
const asked = (
  statement: Planned,
  args: readonly Argument[],
  indexes: Asked['indexes'],
  role?: 'belfry_app',
): Asked => ({ statement, args, indexes, ...(role === undefined ? {} : { role }) })

const byId = { ready: ['ready_pkey'], slot: ['slot_pkey'] }
const lines = { gate_group: ['gate_group_parked', 'gate_group_pkey'] }
/** These delete rows at places that they have just found by an index. */
const byPlace: ReadonlySet<string> = new Set(['gate_take_freed', 'gate_delete_full_buckets'])

const table: readonly Asked[] = [
  asked(read.findGateWork, [1000], {
    ready: ['ready_arrived'],
    slot: ['slot_freed'],
    // the last: any of them says whether there is a group at all
    gate_group: ['gate_group_due', 'gate_group_pkey', 'gate_group_walk'],
    bucket: ['bucket_due'],
  }),
  asked(read.countHeld, [1000], { ready: ['ready_gate'] }),
  asked(read.listHeldTenants, [1000], { gate_group: ['gate_group_parked'] }),
  asked(read.listLostSlots, [id, 1000], byId),
  asked(read.noticeArrivals, [id, 2000], { ready: ['ready_arrived', 'ready_pkey'] }),
  asked(read.takeFreed, [id, 2000], { slot: ['slot_freed'], bucket: ['bucket_due', 'bucket_pkey'] }),
  asked(read.wakeLines, [id, ['slot:tenant'], [5]], lines),
  asked(read.wakeFronts, [id, '', 200], lines),
  asked(read.listDueGroups, [id, 250], { gate_group: ['gate_group_first'] }),
  asked(read.listHeads, [['x'], [false], 10], { ready: ['ready_gate'] }),
  asked(read.readStanding, [id, ['tenant'], ['tenant'], ['slot:tenant']], {
    slot: ['slot_used'],
    bucket: ['bucket_pkey'],
    gate_group: ['gate_group_parked'],
  }),
  asked(write.openRuns, [id, ids, ['x'], ids, ['tenant'], [1]], byId),
  asked(write.endWaitingRuns, [ids, 'skipped', 'skipped', 'concurrency_limit', 'x', 'y'], byId),
  asked(write.displaceHolders, [id, ids, ['tenant'], ids, [1]], { ...byId, slot: ['slot_used'] }),
  asked(write.placeGroups, [['x'], [1], ['slot:tenant'], [null]], { gate_group: ['gate_group_pkey'] }),
  asked(write.quietBuckets, [id], {
    bucket: ['bucket_due', 'bucket_pkey'],
    gate_group: ['gate_group_parked'],
  }),
  asked(write.takeBackUnclaimed, [id, 30000, 60000, id, 1000], {
    ready: ['ready_opened', 'ready_pkey'],
    slot: ['slot_pkey'],
    gate_group: ['gate_group_parked'],
  }),
  asked(write.freeLostSlots, [id, ids], byId),
  asked(read.listLostSlots, [id, 2000], byId),
  asked(write.freeLostSlots, [id, ids], byId),
  asked(write.deleteFullBuckets, [1000], { bucket: ['bucket_full'] }),
  asked(walk.wakeGroups, [id, '', 2000], { gate_group: ['gate_group_walk', 'gate_group_pkey'] }),
  asked(walk.regateWaiting, [id, id, 500, false], { ...byId, ready: ['ready_list', 'ready_pkey'] }),
  asked(walk.listRunningLimited, [id, id, 500], { ready: ['ready_held', 'ready_pkey'] }),
  asked(walk.setRunningSlots, [id, ids, ids, ['tenant'], [1]], byId),
  asked(
    view.findGateOf,
    [id, 1000],
    { ready: ['ready_pkey', 'ready_list', 'ready_gate'], gate_group: ['gate_group_pkey'] },
    'belfry_app',
  ),
  asked(view.listHolders, [['tenant']], { slot: ['slot_used'] }, 'belfry_app'),
  asked(
    view.listHeldGroups,
    ['default', 20],
    { gate_group: ['gate_group_first', 'gate_group_parked'], ready: ['ready_gate'] },
    'belfry_app',
  ),
  asked(findGatheringOf, [id], { delayed: ['delayed_pkey'], gathering: ['gathering_run'] }, 'belfry_app'),
]

type PlanNode = {
  readonly 'Node Type': string
  readonly 'Relation Name'?: string
  readonly 'Index Name'?: string
  readonly Plans?: readonly PlanNode[]
}

let rig: GateRig
let client: pg.Client
beforeAll(async () => {
  rig = await createGateRig()
  client = new pg.Client(rig.database.adminConnection)
  await client.connect()
  const job = await rig.limitedJob({
    concurrency: { limit: 2, key: 'k' },
    rateLimit: { count: 5, perMs: 60_000 },
  })
  await rig.enqueue(job, 20, { inputs: Array.from({ length: 20 }, (_, k) => ({ k })) })
  await rig.lookAll()
})
afterAll(async () => {
  await client.end()
  await rig.drop()
})

const tables = ['ready', 'slot', 'gate_group', 'bucket', 'delayed', 'gathering']
const sized = (pages: number, rows: string) =>
  tables.map(
    (name) => `UPDATE pg_class SET relpages = ${pages}, reltuples = ${rows} WHERE relname LIKE '${name}%'`,
  )
const statistics = {
  'never looked at': [],
  'stale: one page, three rows': sized(1, '3'),
  huge: sized(1, '1e9'),
  'empty and vacuumed': tables.flatMap((name) => [
    `DELETE FROM belfry.${name}`,
    `VACUUM ANALYZE belfry.${name}`,
  ]),
}

const flatten = (node: PlanNode): PlanNode[] => [node, ...(node.Plans ?? []).flatMap(flatten)]

/** Plans as the runtime does: under the role and settings of the statement, prepared. */
async function planOf(mode: string, { statement, args, role }: Asked): Promise<PlanNode[]> {
  await client.query('BEGIN')
  try {
    const scope = statement.planner === 'index' ? enterScopeByIndex : enterScope
    await client.query(scope.text, [role ?? 'belfry_engine', id, '10000', '10000'])
    await client.query(`SET LOCAL plan_cache_mode = ${mode}`)
    await client.query(`PREPARE planned AS ${statement.text}`)
    const { rows } = await client.query<{ 'QUERY PLAN': [{ Plan: PlanNode }] }>(
      `EXPLAIN (FORMAT JSON) EXECUTE planned (${args.map(literal).join(', ')})`,
    )
    const plan = rows[0]?.['QUERY PLAN'][0].Plan
    if (plan === undefined) throw new Error('no plan')
    return flatten(plan)
  } finally {
    await client.query('ROLLBACK')
    await client.query('DEALLOCATE ALL')
  }
}

function literal(value: Argument): string {
  if (value === null) return 'NULL'
  if (typeof value === 'object') return `'{${value.map((each) => String(each)).join(',')}}'`
  return `'${String(value)}'`
}

/** What is read of a table whose rows a run or a limit has, and how. */
const readsOf = (plan: readonly PlanNode[]) =>
  plan.filter((node) => tables.includes(node['Relation Name'] ?? '') && node['Node Type'] !== 'ModifyTable')

describe.each(Object.entries(statistics))('with statistics: %s', (_, prepare) => {
  test.each(['force_generic_plan', 'force_custom_plan'])('%s', async (mode) => {
    for (const each of prepare) await client.query(each)
    for (const each of table) {
      const { name } = each.statement
      const reads = readsOf(await planOf(mode, each))
      expect(reads.length, name).toBeGreaterThan(0)
      for (const node of reads) {
        const walked = node['Index Name'] ?? node['Node Type']
        const allowed = each.indexes[node['Relation Name'] ?? ''] ?? []
        expect([...allowed, ...(byPlace.has(name) ? ['Tid Scan'] : [])], name).toContain(walked)
      }
    }
  })
})

test('every statement that a look takes for its indexes is in the table', () => {
  const planned = [...Object.values(read), ...Object.values(write), ...Object.values(walk)]
  const known = new Set(table.map(({ statement }) => statement.name))
  const missing = planned.filter(({ name, planner }) => planner === 'index' && !known.has(name))
  expect(missing.map(({ name }) => name)).toEqual([])
})

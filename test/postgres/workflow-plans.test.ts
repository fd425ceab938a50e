// Plans of all statements of workflows, whoever sends them: what grows with the number of runs is found by
// a key, whatever the statistics say, never read from end to end. Where a statement walks along an index
// without a key, the walk is listed here, with what bounds it.
import { readdirSync } from 'node:fs'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Statement } from '../../packages/server/src/postgres/statement.ts'
import {
  enterScopeByHash,
  enterScopeByIndex,
} from '../../packages/server/src/postgres/statements/transaction.ts'
import { openWorkflowRig, type WorkflowRig } from '../support/workflow-rig.ts'

const directory = new URL('../../packages/server/src/postgres/statements/', import.meta.url)
const files = readdirSync(directory).filter((name) => /^(?:workflow-|task-|dependencies)/.test(name))

/** What grows with runs; partitions by the name of their parent. */
const tables = [
  'workflow_run',
  'workflow_progress',
  'workflow_event',
  'task_run',
  'task_wait',
  'run',
  'attempt',
  'ready',
  'delayed',
  'dependency',
]

/** Statement and index: what bounds a walk from its beginning. */
const walks: Readonly<Record<string, string>> = {
  'workflow_lock_due workflow_event_next': 'a limit',
  'workflow_lock_due workflow_event_begin': 'a limit',
  'workflow_next_due task_wait_due': 'the first alone',
  'workflow_next_due workflow_progress_deadline': 'the first alone',
  'workflow_drop_stale_events workflow_event_next': 'a limit',
  'workflow_drop_stale_events workflow_event_begin': 'a limit',
  'workflow_gate_poke workflow_progress_queue': 'a limit, once a minute',
  'workflow_backlog workflow_event_of': 'a limit',
  'workflow_backlog workflow_event_next': 'the first alone',
  'workflow_backlog workflow_event_begin': 'the first alone',
  'workflow_backlog workflow_progress_pkey': 'a limit',
}

/** These are sent for every task that ends: by the first column of an index, or not at all. */
const hot = /^workflow_(?:lock_due|take_events|begun_with|task_outputs|save|end|begin_again|start_runs)$/

type PlanNode = {
  readonly 'Node Type': string
  readonly 'Relation Name'?: string
  readonly 'Index Name'?: string
  readonly 'Index Cond'?: string
  readonly Plans?: readonly PlanNode[]
}
type Planned = Pick<Statement, 'name' | 'text' | 'planner'>

let rig: WorkflowRig
let client: pg.Client
const planned: Planned[] = []
/** The first column of each index: with a condition on others alone, the whole index may be read. */
const firstColumns = new Map<string, string>()

beforeAll(async () => {
  for (const file of files) {
    const module = (await import(new URL(file, directory).href)) as Record<string, unknown>
    for (const each of Object.values(module)) {
      const { text, planner } = (each ?? {}) as Partial<Planned>
      if (text !== undefined && planner !== undefined) planned.push(each as Planned)
    }
  }
  rig = await openWorkflowRig()
  client = new pg.Client(rig.fixture.database.adminConnection)
  await client.connect()
  const { rows } = await client.query<{ name: string; first: string }>(
    `SELECT c.relname AS name, pg_get_indexdef(i.indexrelid, 1, true) AS first
     FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
     WHERE c.relnamespace = 'belfry'::regnamespace`,
  )
  for (const { name, first } of rows) firstColumns.set(name, first)
})
afterAll(async () => {
  await client.end()
  await rig.close()
})

const sized = (pages: number, rows: string) =>
  tables.map(
    (name) =>
      `UPDATE pg_class SET relpages = ${pages}, reltuples = ${rows}
       WHERE relnamespace = 'belfry'::regnamespace AND relname ~ '^${name}(_|$)'`,
  )
const statistics = {
  'never looked at': [],
  'stale: one page, three rows': sized(1, '3'),
  huge: sized(100_000, '1e9'),
  'empty and vacuumed': tables.map((name) => `VACUUM ANALYZE belfry.${name}`),
}

const flatten = (node: PlanNode): PlanNode[] => [node, ...(node.Plans ?? []).flatMap(flatten)]

/** Plans as the runtime does: under the role and the settings of the statement, one plan for all calls. */
async function planOf({ text, planner }: Planned, role: string): Promise<PlanNode[]> {
  await client.query('BEGIN')
  try {
    const scope = planner === 'index' ? enterScopeByIndex : enterScopeByHash
    await client.query(scope.text, [role, rig.fixture.tenantId, '10000', '10000'])
    await client.query(`PREPARE planned AS ${text}`)
    const { rows: given } = await client.query<{ count: number }>(
      'SELECT cardinality(parameter_types) AS count FROM pg_prepared_statements',
    )
    const nothing = Array.from({ length: given[0]?.count ?? 0 }, () => 'NULL').join(', ')
    const { rows } = await client.query<{ 'QUERY PLAN': [{ Plan: PlanNode }] }>(
      `EXPLAIN (FORMAT JSON) EXECUTE planned${nothing === '' ? '' : ` (${nothing})`}`,
    )
    const plan = rows[0]?.['QUERY PLAN'][0].Plan
    if (plan === undefined) throw new Error('no plan')
    return flatten(plan)
  } finally {
    await client.query('ROLLBACK')
    await client.query('DEALLOCATE ALL')
  }
}

/** As the engine, or where that may not, as a tenant. */
const planAs = (statement: Planned): Promise<PlanNode[]> =>
  planOf(statement, 'belfry_engine').catch((error: unknown) => {
    if ((error as { code?: string }).code === '42501') return planOf(statement, 'belfry_app')
    throw error
  })

const tableOf = (relation: string): string => relation.replace(/_(?:\d{8}|default)$/, '')

/** Reads of what grows that no key leads to. */
function faultsOf(name: string, plan: readonly PlanNode[]): string[] {
  return plan.flatMap((node) => {
    const table = tableOf(node['Relation Name'] ?? '')
    const type = node['Node Type']
    // at its place, which was just found
    if (!tables.includes(table) || type === 'ModifyTable' || type === 'Tid Scan') return []
    const index = tableOf(node['Index Name'] ?? '')
    const first = firstColumns.get(node['Index Name'] ?? '')
    const key = hot.test(name) ? `(${first} ` : '('
    const byKey = type.startsWith('Index') && node['Index Cond']?.includes(key) === true
    return byKey || `${name} ${index}` in walks ? [] : [`${name}: ${type} ${table} ${index}`]
  })
}

describe.each(Object.entries(statistics))('with statistics: %s', (_, prepare) => {
  test('all that grows is found by a key', async () => {
    for (const each of prepare) await client.query(each)
    expect(planned.length).toBeGreaterThan(40)
    const faults: string[] = []
    for (const each of planned) faults.push(...faultsOf(each.name, await planAs(each)))
    expect([...new Set(faults)]).toEqual([])
  })
})

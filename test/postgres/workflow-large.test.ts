// Large workflows on the real engine: wide ones begin in parts, each task once, and the join has the
// outputs of all; deep ones go on to their end; and what a round costs depends on what happened, not on how
// often it was looked.
import type { JsonValue } from '@belfry/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openWorkflowRig, type WorkflowRig } from '../support/workflow-rig.ts'

const width = 10_000
const depth = 1_000
const numbers = (count: number): number[] => Array.from({ length: count }, (_, at) => at)

let rig: WorkflowRig
beforeAll(async () => {
  rig = await openWorkflowRig()
})
afterAll(() => rig.close())

interface Played {
  /** How many runs each claim found. */
  readonly waves: readonly number[]
  readonly moves: number
}

async function play(resultOf: (item: number | null) => JsonValue = () => null): Promise<Played> {
  const waves: number[] = []
  for (let moves = 0; ; ) {
    moves += await rig.resolver.runOnce()
    const held = await rig.claim()
    if (held.length === 0) return { waves, moves }
    waves.push(held.length)
    await rig.succeedAll(held, ({ item }) => resultOf(item))
  }
}

/** How many runs each task has had, from the least to the most. */
async function expectEachOnce(id: string, tasks: number): Promise<void> {
  const rows = await rig.fixture.database.sql<{ tasks: number; most: number }>(
    `SELECT count(*)::int AS tasks, max(count)::int AS most FROM (
       SELECT count(*) FROM belfry.run WHERE workflow_run_id = $1 GROUP BY task, item) AS each`,
    [id],
  )
  expect(rows).toEqual([{ tasks, most: 1 }])
  const { state, tasks: states } = await rig.standing(id)
  expect(state).toBe('succeeded')
  expect(new Set(Object.values(states).flat())).toEqual(new Set(['succeeded']))
}

test(`a fan of ${width} tasks and their join`, async () => {
  const wide = numbers(width - 2).map((at) => ({ id: `n${at}`, job: 'work', needs: ['root'] }))
  const join = { id: 'join', job: 'work', needs: wide.map(({ id }) => id) }
  const id = await rig.begin({ tasks: [{ id: 'root', job: 'work' }, ...wide, join] })
  const { waves, moves } = await play()
  expect(waves).toEqual([1, width - 2, 1])
  // begun in parts, ended in a few rounds
  expect(moves).toBeLessThan(20)
  await expectEachOnce(id, width)
}, 60_000)

test(`a fan of ${width} items, whose outputs the join is given in their order`, async () => {
  const each = { id: 'each', job: 'work', forEach: { from: { items: numbers(width) }, maxItems: width } }
  const join = { id: 'join', job: 'work', needs: ['each'], inputFrom: [{ to: '', task: 'each' }] }
  const id = await rig.begin({ tasks: [each, join] })
  await play((item) => (item === null ? null : item * 2))
  await expectEachOnce(id, width + 1)
  const [made] = await rig.fixture.database.sql<{ input: number[] }>(
    'SELECT input FROM belfry.run WHERE workflow_run_id = $1 AND task = 1',
    [id],
  )
  expect(made?.input).toEqual(numbers(width).map((item) => item * 2))
}, 60_000)

test(`a cancel meets a fan that is only half begun: nothing of the rest is started`, async () => {
  const each = { id: 'each', job: 'work', forEach: { from: { items: numbers(width) }, maxItems: width } }
  const id = await rig.begin({ tasks: [each], finally: [{ id: 'tidy', job: 'work' }] })
  // one round, and no further one
  const cut = rig.newResolver()
  const rounds = cut.runOnce()
  await rig.cancel(id)
  await rounds
  await rig.resolver.runOnce()
  for (const run of await rig.claim()) await rig.end(run, run.task === 'tidy' ? 'succeeded' : 'canceled')
  await play()
  const { state, tasks } = await rig.standing(id)
  expect([state, tasks['tidy']]).toEqual(['canceled', 'succeeded'])
  expect(tasks['each']).toHaveLength(width)
}, 60_000)

test(`a chain of ${depth}`, async () => {
  const tasks = numbers(depth).map((at) => ({
    id: `n${at}`,
    job: 'work',
    needs: at === 0 ? [] : [`n${at - 1}`],
  }))
  const id = await rig.begin({ tasks })
  const { waves, moves } = await play()
  expect(waves).toHaveLength(depth)
  expect(moves).toBe(depth + 1)
  await expectEachOnce(id, depth)
}, 120_000)

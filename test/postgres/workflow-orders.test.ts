// Random workflows on the real engine, in random orders of finishing, with two resolvers that take turns as
// they come: each ends as the simulation says, in every order; nothing is started twice, and nothing is
// left open.
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type DrawnWorkflow, drawWorkflow } from '../support/drawn-workflow.ts'
import { type Draw, drawer, seedOf } from '../support/random-draws.ts'
import { type ClaimedTask, openWorkflowRig, type WorkflowRig } from '../support/workflow-rig.ts'

const jobs = { works: 'work', breaks: 'work' }

let rig: WorkflowRig
beforeAll(async () => {
  rig = await openWorkflowRig()
})
afterAll(() => rig.close())

/** Of what is held some end at a time, in any order; ids of the workflow runs. */
async function playInOrders(drawn: DrawnWorkflow, draw: Draw, orders: number): Promise<string[]> {
  const ids: string[] = []
  for (let each = 0; each < orders; each++) ids.push(await rig.begin(drawn.definition))
  const other = rig.newResolver()
  const endOne = (run: ClaimedTask) => rig.end(run, drawn.failing.has(run.task) ? 'failed' : 'succeeded')
  for (;;) {
    await Promise.all([rig.resolver.runOnce(), other.runOnce()])
    const held = await rig.claim()
    if (held.length === 0) return ids
    const some = held.filter(() => draw(3) > 0)
    const order = (some.length === 0 ? held : some).map((run) => ({ run, at: draw(1_000_000) }))
    await Promise.all(order.toSorted((a, b) => a.at - b.at).map(({ run }) => endOne(run)))
  }
}

/** What workflow runs came to, and what is left of them. */
async function resultsOf(ids: readonly string[]) {
  const { sql } = rig.fixture.database
  const standing = new Map<string, object>()
  for (const id of ids) {
    const { state, tasks } = await rig.standing(id)
    standing.set(JSON.stringify([state, tasks]), { state, tasks })
  }
  const [made] = await sql<{ runs: number; most: number }>(
    `SELECT count(*)::int AS runs, max(count)::int AS most FROM (
       SELECT count(*) FROM belfry.run WHERE workflow_run_id = ANY ($1::uuid[])
       GROUP BY workflow_run_id, task) AS each`,
    [ids],
  )
  const left = await sql(
    `SELECT workflow_run_id FROM belfry.workflow_progress UNION ALL
     SELECT workflow_run_id FROM belfry.task_run UNION ALL SELECT workflow_run_id FROM belfry.workflow_event`,
  )
  return { standing: [...standing.values()], made, left }
}

/** One result for all, each task started once, nothing left open. */
function wantedOf({ expected: { run, states, starts } }: DrawnWorkflow, count: number) {
  return {
    standing: [{ state: run, tasks: states }],
    made: { runs: starts.size * count, most: 1 },
    left: [],
  }
}

test('many graphs, each in some orders', async () => {
  const seed = seedOf('graphs')
  const draw = drawer(seed)
  for (let graph = 0; graph < 20; graph++) {
    const drawn = drawWorkflow({ draw, tasks: 6 + draw(10), jobs })
    const ids = await playInOrders(drawn, draw, 8)
    expect(await resultsOf(ids), `SEED=${seed}`).toEqual(wantedOf(drawn, 8))
  }
}, 120_000)

test('one graph in 200 orders', async () => {
  const seed = seedOf('orders')
  const draw = drawer(seed)
  const drawn = drawWorkflow({ draw, tasks: 12, jobs })
  const ids = await playInOrders(drawn, draw, 200)
  expect(await resultsOf(ids), `SEED=${seed}`).toEqual(wantedOf(drawn, 200))
}, 120_000)

// Random workflows on the real engine, with two resolvers at once and events that are told twice, late, in
// another order, long after, or only found by looking: each run ends in the same states as where all is in
// order, and no task is started twice. Drawn by a seed, which is printed.
import { triggerRules } from '@belfry/contract'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { type Draw, drawer, pick, seedOf } from '../support/random-draws.ts'
import { type ClaimedTask, openWorkflowRig, type WorkflowRig } from '../support/workflow-rig.ts'

const workflows = 8
const outcomes = ['succeeded', 'succeeded', 'succeeded', 'failed', 'canceled'] as const

let rig: WorkflowRig
beforeAll(async () => {
  rig = await openWorkflowRig()
})
afterAll(() => rig.close())

const sql = <Row extends Record<string, unknown>>(text: string, params: readonly unknown[] = []) =>
  rig.fixture.database.sql<Row>(text, [...params])

function drawWorkflow(draw: Draw) {
  const names = Array.from({ length: 4 + draw(9) }, (_, index) => `t${index}`)
  const tasks = names.map((id, index) => ({
    id,
    job: 'x',
    needs: names.slice(0, index).filter(() => draw(3) === 0),
    rule: pick(draw, triggerRules),
    allowFailure: draw(4) === 0,
    ...(draw(5) === 0 ? { matrix: { n: [1, 2, 3].slice(0, 1 + draw(3)) } } : {}),
  }))
  const fault = new Set(tasks.filter(({ needs }) => needs.length === 0).map(({ id }) => id))
  return {
    // a rule says nothing of a task without parents
    tasks: tasks.map((task) => (fault.has(task.id) ? { ...task, rule: 'all_done' } : task)),
    finally: [{ id: 'tidy', job: 'x' }],
  }
}

type EndOf = (run: ClaimedTask) => (typeof outcomes)[number]

/** How each run ends: the same in every order. */
function endsBy(seed: number): EndOf {
  return ({ task, item }) => {
    const text = `${seed}/${task}/${item ?? ''}`
    let hash = 0
    for (const char of text) hash = (Math.imul(hash, 31) + (char.codePointAt(0) ?? 0)) >>> 0
    return pick(drawer(hash), outcomes)
  }
}

async function playInOrder(endOf: EndOf): Promise<void> {
  for (;;) {
    await rig.resolver.runOnce()
    const held = await rig.claim()
    if (held.length === 0) return
    for (const run of held) await rig.end(run, endOf(run))
  }
}

/** An event that was on record and is told at another time, by its run; a begin by the empty text. */
type Told = ReadonlySet<string>

async function playInDisorder(id: string, endOf: EndOf, draw: Draw): Promise<void> {
  const resolvers = [rig.newResolver(), rig.newResolver()]
  const told = new Set([''])
  let held: Told = new Set()
  const tell = (runIds: readonly string[]) =>
    Promise.all(
      runIds.map((runId) =>
        sql(
          `INSERT INTO belfry.workflow_event (at, workflow_run_id, tenant_id, kind, run_id)
           VALUES (clock_timestamp() - $5::integer * interval '1 ms', $1, $2, $3, $4)`,
          [id, rig.fixture.tenantId, runId === '' ? 'begin' : 'end', runId || null, draw(5_000)],
        ),
      ),
    )
  const some = (events: Told, oneOf: number) => [...events].filter(() => draw(oneOf) === 0)
  for (let idle = 0; idle < 4; ) {
    await Promise.all([...resolvers.map((resolver) => resolver.runOnce()), tell(some(told, 5))])
    const runs = await rig.claim()
    const ending = runs.filter(() => draw(2) === 0).toSorted(() => draw(3) - 1)
    await Promise.all([
      ...ending.map((run) => rig.end(run, endOf(run))),
      ...resolvers.map((resolver) => resolver.runOnce()),
    ])
    // some of what is on record by now is kept back, and what was kept back may come, twice
    const taken = await sql<{ run_id: string | null }>(
      `WITH taken AS (
         DELETE FROM belfry.workflow_event WHERE workflow_run_id = $1 AND $2 RETURNING run_id, run_ids
       )
       SELECT unnest(coalesce(run_ids, ARRAY[run_id])) AS run_id FROM taken`,
      [id, draw(2) === 0],
    )
    for (const { run_id: runId } of taken) told.add(runId ?? '')
    const back = new Set([...held, ...taken.map(({ run_id: runId }) => runId ?? '')])
    const coming = new Set(some(back, 2))
    held = new Set([...back].filter((runId) => !coming.has(runId)))
    await tell([...coming, ...coming])
    idle = runs.length === 0 && held.size === 0 ? idle + 1 : 0
  }
  // what was lost for good is found by looking
  await rig.resolving.mend()
  await playInOrder(endOf)
}

it('ends as in order, and starts nothing twice, whatever is told when', { timeout: 120_000 }, async () => {
  const seed = seedOf('workflow disorder')
  const draw = drawer(seed)
  for (let number = 0; number < workflows; number++) {
    const definition = drawWorkflow(draw)
    const endOf = endsBy(draw(1_000_000))
    const calm = await rig.begin(definition)
    await playInOrder(endOf)
    const wild = await rig.begin(definition)
    await playInDisorder(wild, endOf, draw)
    const words = `workflow ${number} of SEED=${seed}: ${JSON.stringify(definition)}`
    const expected = await rig.standing(calm)
    expect(expected.state, words).not.toBe(null)
    expect(await rig.standing(wild), words).toEqual(expected)
    const starts = await sql(
      `SELECT task, item, count(*)::int AS count FROM belfry.run WHERE workflow_run_id = $1
       GROUP BY task, item HAVING count(*) > 1`,
      [wild],
    )
    expect(starts, words).toEqual([])
    expect(await sql(`SELECT run_id FROM belfry.task_run`), words).toEqual([])
  }
  await rig.resolving.mend()
  expect(await sql(`SELECT * FROM belfry.workflow_event`)).toEqual([])
})

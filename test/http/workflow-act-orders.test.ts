// People and scripts act on one workflow run in any order, each twice, while two resolvers and the tasks go
// on: what comes out is what the simulation says of the decisions alone, whatever the order. With a cancel
// somewhere in between, the run still ends, and nothing of it is left open.
import * as rules from '@belfry/server/workflow'
import { workflowDefinitionSchema } from '@belfry/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Draw, drawer, pick, seedOf } from '../support/random-draws.ts'
import { openWorkflowApi, type WorkflowApi } from '../support/workflow-api.ts'

let w: WorkflowApi
beforeAll(async () => {
  w = await openWorkflowApi()
})
afterAll(() => w.close())

const handler = { kind: 'http', url: 'https://example.com/hook' }
const task = (id: string, needs: readonly string[], more: object = {}) => ({ id, handler, needs, ...more })
const definition = {
  tasks: [
    task('a', []),
    { id: 'ask', needs: ['a'], approval: { message: 'ok?', onReject: 'skipped' } },
    { id: 'hear', needs: ['a'], wait: { signal: 'go' } },
    task('b', ['ask']),
    task('c', ['hear'], { rule: 'all_done' }),
    task('d', ['b', 'c'], { rule: 'none_failed' }),
    task('e', ['b', 'c'], { rule: 'all_succeeded' }),
  ],
  finally: [task('tidy', [])],
}
const { tasks: shaped, ...parts } = workflowDefinitionSchema.parse({ ...definition })
const opened = rules.openWorkflow(rules.shapesOf({ tasks: shaped, ...parts }))

interface Act {
  readonly verb: 'approve' | 'reject' | 'signal' | 'skip' | 'cancel'
  readonly body: object
}

function drawActs(draw: Draw, cancels: boolean) {
  const rejects = draw(3) === 0
  const skipped = ['b', 'c', 'd'].filter(() => draw(3) === 0)
  const acts: Act[] = [
    rejects
      ? { verb: 'reject', body: { task: 'ask', reason: 'no' } }
      : { verb: 'approve', body: { task: 'ask' } },
    { verb: 'signal', body: { signal: 'go' } },
    ...skipped.map((id): Act => ({ verb: 'skip', body: { tasks: [id] } })),
    ...(cancels ? [{ verb: 'cancel', body: {} } as const] : []),
  ]
  return { acts, rejects, skipped }
}

/** Some step at a time; an act that comes too early comes again, one that was done is sent once more. */
async function live(id: string, acts: readonly Act[], draw: Draw, failing: ReadonlySet<string>) {
  const other = w.newResolver()
  const left = [...acts]
  for (let steps = 0; steps < 120; steps++) {
    const step = draw(4)
    if (step === 0) await Promise.all([w.resolver.runOnce(), other.runOnce()])
    else if (step === 1) {
      const held = await w.claim(id)
      const run = held.length === 0 ? undefined : pick(draw, held)
      if (run !== undefined) await w.end(run, endOf(run, failing))
    } else if (left.length > 0) {
      const act = pick(draw, left)
      const [first] = await Promise.all([w.act(id, act.verb, act.body), w.act(id, act.verb, act.body)])
      const again = await w.act(id, act.verb, act.body)
      for (const { status, body } of [first, again])
        if (![200, 202, 404, 409].includes(status)) throw new Error(`${act.verb}: ${status} ${body.detail}`)
      if (again.status < 300 || first.status < 300) left.splice(left.indexOf(act), 1)
      const { state } = await w.standing(id)
      if (state !== 'running') return
    } else if (steps > 60) return
  }
}

const endOf = (
  run: { readonly task: string; readonly cancelRequested: boolean },
  failing: ReadonlySet<string>,
) => (run.cancelRequested ? 'canceled' : failing.has(run.task) ? 'failed' : { output: null })

async function leftOf(id: string): Promise<object[]> {
  return w.t.database.sql(
    `SELECT 'progress' AS kept FROM belfry.workflow_progress WHERE workflow_run_id = $1
     UNION ALL SELECT 'task_run' FROM belfry.task_run WHERE workflow_run_id = $1
     UNION ALL SELECT 'event ' || kind FROM belfry.workflow_event WHERE workflow_run_id = $1
     UNION ALL SELECT 'doubled' FROM belfry.run WHERE workflow_run_id = $1 GROUP BY task HAVING count(*) > 1`,
    [id],
  )
}

test('acts in any order give what was decided', async () => {
  const seed = seedOf('acts')
  const draw = drawer(seed)
  const { name } = await w.store(definition)
  for (let round = 0; round < 30; round++) {
    if (!opened.ok) throw new Error(opened.error[0].message)
    const failing = new Set(draw(4) === 0 ? ['b'] : [])
    const id = await w.ask(name)
    // a skip counts only where it comes before the start: these come at once
    const { acts, rejects, skipped } = drawActs(draw, false)
    const skips = acts.filter(({ verb }) => verb === 'skip')
    for (const { verb, body } of skips) for (let time = 0; time < 2; time++) await w.act(id, verb, body)
    const others = acts.filter(({ verb }) => verb !== 'skip')
    await live(id, others, draw, failing)
    await w.play(id, (each) => (failing.has(each) ? 'failed' : undefined))
    const outcomes: Record<string, rules.AttemptScript[]> = {
      ...Object.fromEntries([...failing].map((each) => [each, ['fail_final' as const]])),
      ...Object.fromEntries(skipped.map((each) => [each, ['skip' as const]])),
      ...(rejects ? { ask: ['reject'] } : {}),
    }
    const wanted = rules.simulate(opened.value, { outcomes })
    const words = `SEED=${seed} round ${round}: ${JSON.stringify([acts, outcomes])}`
    expect(await w.standing(id), words).toEqual({
      state: wanted.run,
      // what somebody skips is skipped whatever its parents come to; `d` has no children
      tasks: { ...rules.statesByTask(wanted.progress), ...(skipped.includes('d') && { d: 'skipped' }) },
    })
    expect(await leftOf(id), words).toEqual([])
  }
}, 120_000)

test('a cancel among them ends the run, with its clean-up, and leaves nothing open', async () => {
  const seed = seedOf('cancel')
  const draw = drawer(seed)
  const { name } = await w.store(definition)
  for (let round = 0; round < 30; round++) {
    const id = await w.ask(name)
    const { acts } = drawActs(draw, true)
    await live(id, acts, draw, new Set())
    for (let time = 0; time < 2; time++) await w.act(id, 'cancel')
    for (const run of await w.claim(id)) await w.end(run, endOf(run, new Set()))
    await w.play(id, (_, run) => (run.cancelRequested ? 'canceled' : undefined))
    const { state, tasks } = await w.standing(id)
    const words = `SEED=${seed} round ${round}: ${JSON.stringify([acts, tasks])}`
    expect(['succeeded', 'canceled'], words).toContain(state)
    expect(Object.values(tasks), words).not.toContain('started')
    expect(Object.values(tasks), words).not.toContain('waiting_for_dependencies')
    expect(tasks['tidy'], words).toBe('succeeded')
    expect(await leftOf(id), words).toEqual([])
  }
}, 120_000)

// Acts by hand on the real engine against the domain alone: random graphs, outcomes and acts give the states
// that the rules give; a rerun asked for twice is one; an act that is cut off anywhere has done nothing; acts
// and resolvers at once leave nothing open and start nothing twice.
import { type EndedTaskState, triggerRules } from '@belfry/contract'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openWorkflow } from '@belfry/server/workflow'
import { planWorkflow, type TaskShape } from '../../packages/server/src/domain/workflow/plan.ts'
import {
  applyEnds,
  beginWorkflow,
  createProgress,
  type WorkflowCommand,
  type WorkflowProgress,
  workflowRunState,
} from '../../packages/server/src/domain/workflow/progress.ts'
import {
  markTask,
  rerunWorkflow,
  type RerunSelection,
} from '../../packages/server/src/domain/workflow/rerun.ts'
import { mark, rerun } from '../../packages/server/src/engine/catalog/workflow-acts.ts'
import type { CatalogTx } from '../../packages/server/src/ports/catalog.ts'
import type { WorkflowActs } from '../../packages/server/src/ports/workflow-acts.ts'
import { createPostgresCatalog } from '../../packages/server/src/postgres/catalog/catalog.ts'
import { openWorkflowApi, type TaskAnswer, type WorkflowApi } from '../support/workflow-api.ts'

let w: WorkflowApi
beforeAll(async () => {
  w = await openWorkflowApi()
})
afterAll(() => w.close())

const handler = { kind: 'http', url: 'https://example.com/hook' }
const sql = (text: string, params: readonly unknown[] = []) => w.t.database.sql(text, [...params])

type Outcome = Extract<EndedTaskState, 'succeeded' | 'failed' | 'skipped' | 'canceled'>
type Act =
  | { readonly kind: 'rerun'; readonly what: RerunSelection['what']; readonly task: number }
  | { readonly kind: 'mark'; readonly task: number; readonly state: 'succeeded' | 'failed' | 'skipped' }

interface Drawn {
  readonly shapes: readonly TaskShape[]
  /** Round by round: how each task ends in it. */
  readonly outcomes: readonly (readonly Outcome[])[]
  readonly acts: readonly Act[]
}

const outcome = fc.constantFrom<Outcome>('succeeded', 'succeeded', 'failed', 'skipped')
const rounds = 3

const drawn: fc.Arbitrary<Drawn> = fc.integer({ min: 2, max: 8 }).chain((size) => {
  const task = fc.integer({ min: 0, max: size - 1 })
  const act: fc.Arbitrary<Act> = fc.oneof(
    fc.record({
      kind: fc.constant('rerun' as const),
      what: fc.constantFrom('failed' as const, 'from' as const, 'only' as const, 'all' as const),
      task,
    }),
    fc.record({
      kind: fc.constant('mark' as const),
      task,
      state: fc.constantFrom('succeeded' as const, 'failed' as const, 'skipped' as const),
    }),
  )
  const row = (index: number) =>
    fc.record({
      parents: fc.subarray(Array.from({ length: index }, (_, parent) => `t${parent}`)),
      rule: fc.constantFrom(...triggerRules),
      role: fc.constantFrom<TaskShape['role']>('main', 'main', 'main', 'on_failure', 'finally'),
      allowFailure: fc.boolean(),
    })
  return fc.record({
    shapes: fc.tuple(...Array.from({ length: size }, (_, index) => row(index))).map(shapesOfRows),
    outcomes: fc.array(fc.array(outcome, { minLength: size, maxLength: size }), {
      minLength: rounds,
      maxLength: rounds,
    }),
    acts: fc.array(act, { minLength: rounds - 1, maxLength: rounds - 1 }),
  })
})

type Row = Pick<TaskShape, 'rule' | 'role' | 'allowFailure'> & { readonly parents: readonly string[] }

/** Sorted by part, as a definition numbers them; needs of the same part alone. */
function shapesOfRows(rows: readonly Row[]): TaskShape[] {
  const roleOf = new Map(rows.map(({ role }, index) => [`t${index}`, index === 0 ? 'main' : role]))
  const shapes = rows.map(({ parents, rule, allowFailure }, index): TaskShape => {
    const id = `t${index}`
    const role = roleOf.get(id) ?? 'main'
    const needs = parents.filter((parent) => roleOf.get(parent) === role)
    return { id, role, needs, rule, kind: 'task', allowFailure, mapped: false }
  })
  const parts = ['main', 'on_failure', 'finally'] as const
  return parts.flatMap((part) => shapes.filter(({ role }) => role === part))
}

function definitionOf(shapes: readonly TaskShape[]) {
  const of = (part: string) =>
    shapes
      .filter(({ role }) => role === part)
      .map(({ id, needs, rule, allowFailure }) => ({ id, handler, needs, rule, allowFailure }))
  return { tasks: of('main'), onFailure: of('on_failure'), finally: of('finally') }
}

/** By the number in its id, whatever its place. */
const ofRound = (outcomes: readonly Outcome[] | undefined, id: string): Outcome =>
  outcomes?.[Number(id.slice(1))] ?? 'succeeded'

function playPure(
  progress: WorkflowProgress,
  commands: readonly WorkflowCommand[],
  outcomes?: readonly Outcome[],
) {
  const running = [...commands]
  for (let next = running.shift(); next !== undefined; next = running.shift()) {
    const { task } = next
    running.push(...applyEnds(progress, [{ task: task.index, state: ofRound(outcomes, task.id) }]))
  }
}

const answerOf =
  (outcomes: readonly Outcome[] | undefined) =>
  (id: string): TaskAnswer => {
    const state = ofRound(outcomes, id)
    return state === 'succeeded' ? { output: null } : state
  }

const statesOf = ({ plan, states }: WorkflowProgress) =>
  Object.fromEntries(plan.tasks.map(({ id, index }) => [id, states[index]]))

const selectionOf = ({ what, task }: Extract<Act, { kind: 'rerun' }>): RerunSelection =>
  what === 'failed' || what === 'all' ? { what } : { what, tasks: [`t${task}`] }

describe('acts by hand', () => {
  it('give the states that the rules give, whatever the graph, the outcomes and the acts', async () => {
    await fc.assert(
      fc.asyncProperty(drawn, async ({ shapes, outcomes, acts }) => {
        fc.pre(openWorkflow(shapes).ok)
        const plan = planWorkflow(shapes)
        let pure = createProgress(plan)
        playPure(pure, beginWorkflow(pure), outcomes[0])
        const { name } = await w.store(definitionOf(shapes))
        const id = await w.ask(name)
        await w.play(id, answerOf(outcomes[0]))
        for (const [round, act] of acts.entries()) {
          const next = outcomes[round + 1]
          const done =
            act.kind === 'rerun'
              ? rerunWorkflow(pure, selectionOf(act))
              : markTask(pure, `t${act.task}`, act.state)
          const body =
            act.kind === 'rerun'
              ? selectionOf(act)
              : { tasks: [`t${act.task}`], state: act.state, reason: 'drawn' }
          const answers = [await w.act(id, act.kind, body), await w.act(id, act.kind, body)]
          const codes = answers.map(({ status, body: problem }) => (status === 200 ? 'done' : problem.code))
          // set to what it is: nothing to do, so nothing below comes back to life either
          const isSo = act.kind === 'mark' && statesOf(pure)[`t${act.task}`] === act.state
          expect(codes[0]).toBe(isSo || done.reset.size > 0 ? 'done' : 'invalid_state')
          if (done.reset.size > 0 && !isSo) {
            pure = done.progress
            playPure(pure, done.commands, next)
          }
          await w.play(id, answerOf(next))
          const standing = await w.standing(id)
          expect(standing).toEqual({ state: workflowRunState(pure), tasks: statesOf(pure) })
        }
        const kept = await sql(
          `SELECT 'task_run' AS kept FROM belfry.task_run WHERE workflow_run_id = $1
           UNION ALL SELECT 'event ' || kind FROM belfry.workflow_event WHERE workflow_run_id = $1
           UNION ALL SELECT 'progress' FROM belfry.workflow_progress WHERE workflow_run_id = $1`,
          [id],
        )
        expect(kept).toEqual([])
      }),
      { numRuns: 40 },
    )
  })

  it('that are cut off after any of their statements have done nothing', async () => {
    const chain = [
      { id: 'a', handler },
      { id: 'b', handler, needs: ['a'] },
    ]
    const { name } = await w.store({ tasks: chain }, 'cut')
    const id = await w.ask(name)
    await w.play(id, () => 'failed')
    await w.store({ tasks: [...chain, { id: 'c', handler }] }, name)
    const catalog = createPostgresCatalog({ db: w.t.database.open({ maxConnections: 2 }) })
    const [key] = await w.t.database.sql<{ id: string }>('SELECT id FROM belfry.api_key LIMIT 1')
    const rows = async () => [
      await sql('SELECT * FROM belfry.workflow_run WHERE id = $1', [id]),
      await sql('SELECT * FROM belfry.workflow_progress WHERE workflow_run_id = $1', [id]),
      await sql('SELECT * FROM belfry.workflow_event WHERE workflow_run_id = $1', [id]),
      await sql('SELECT id, task FROM belfry.run WHERE workflow_run_id = $1 ORDER BY id', [id]),
    ]
    const before = await rows()
    const actions = [
      (tx: CatalogTx, held: Parameters<typeof rerun>[1]) =>
        rerun({ tx, keyId: key?.id ?? '' }, held, { what: 'failed', version: 'newest' }),
      (tx: CatalogTx, held: Parameters<typeof rerun>[1]) =>
        mark({ tx, keyId: key?.id ?? '' }, held, { tasks: ['a'], state: 'succeeded', reason: 'r' }),
    ]
    let cuts = 0
    for (const action of actions) {
      for (let at = 0; ; at++) {
        const cutsBefore = cuts
        let calls = 0
        const cutting = (acts: WorkflowActs): WorkflowActs =>
          new Proxy(acts, {
            get:
              (target, property) =>
              async (...args: never[]) => {
                const call = Reflect.get(target, property) as (...given: never[]) => Promise<unknown>
                const result = await call(...args)
                if (calls++ < at) return result
                cuts += 1
                throw new Error('cut off')
              },
          })
        const access = { tenantId: w.t.tenantId, dryRun: false, readOnly: false }
        const done = catalog.within(access, async (tx) => {
          const cut = { ...tx, workflows: { ...tx.workflows, acts: cutting(tx.workflows.acts) } }
          const held = await cut.workflows.acts.hold(id)
          if (held === undefined) throw new Error('It is not there.')
          await action(cut, held)
          throw new Error('cut off at its end')
        })
        await expect(done).rejects.toThrow('cut off')
        expect(await rows()).toEqual(before)
        if (cuts === cutsBefore) break
      }
    }
    expect(cuts).toBeGreaterThan(10)
    await w.act(id, 'rerun', { version: 'newest' })
    expect((await w.play(id)).toSorted()).toEqual(['a', 'b', 'c'])
  })

  it('and resolvers, all at once, start nothing twice and leave nothing open', async () => {
    const wide = Array.from({ length: 12 }, (_, n) => ({ id: `w${n}`, handler, needs: ['a'] }))
    const tasks = [{ id: 'a', handler }, ...wide, { id: 'z', handler, needs: wide.map(({ id }) => id) }]
    const { name } = await w.store({ tasks })
    const ids = await Promise.all(Array.from({ length: 4 }, () => w.ask(name)))
    const fails =
      (round: number) =>
      (id: string): TaskAnswer | undefined =>
        round < 3 && Number(id.slice(1)) % 4 === round ? 'failed' : undefined
    for (const id of ids) await w.play(id, fails(0))
    for (let round = 1; round < 4; round++) {
      await Promise.all(
        ids.flatMap((id) => [
          ...Array.from({ length: 3 }, () => w.act(id, 'rerun')),
          w.resolver.runOnce(),
          w.resolver.runOnce(),
        ]),
      )
      await Promise.all(ids.map((id) => w.play(id, fails(round))))
    }
    for (const id of ids) {
      // a round at the same time may have passed over what another one held
      await w.play(id)
      await w.act(id, 'rerun')
      await w.play(id)
      expect((await w.standing(id)).state).toBe('succeeded')
      const doubled = await sql(
        `SELECT task FROM belfry.run r WHERE workflow_run_id = $1 GROUP BY task
         HAVING count(*) FILTER (WHERE EXISTS (
           SELECT FROM belfry.attempt a WHERE a.run_id = r.id AND a.run_state = 'succeeded')) <> 1`,
        [id],
      )
      expect(doubled).toEqual([])
    }
  })
})

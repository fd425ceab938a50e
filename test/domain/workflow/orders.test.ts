// Random graphs with random rules and outcomes: whatever the order in which tasks end, each ends in the same
// state, the run too, nothing stays open, nothing starts twice, and a second telling changes nothing.
import { type EndedTaskState, triggerRules } from '@belfry/contract'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { planWorkflow, type TaskShape } from '../../../packages/server/src/domain/workflow/plan.ts'
import {
  applyEnds,
  beginWorkflow,
  createProgress,
  isEnded,
  restoreProgress,
  type WorkflowCommand,
  workflowRunState,
} from '../../../packages/server/src/domain/workflow/progress.ts'
import { markTask, rerunWorkflow } from '../../../packages/server/src/domain/workflow/rerun.ts'

interface Drawn {
  readonly shapes: readonly TaskShape[]
  readonly outcomes: readonly EndedTaskState[]
}

const outcome = fc.constantFrom<EndedTaskState>('succeeded', 'succeeded', 'failed', 'skipped', 'canceled')
const drawnGraph: fc.Arbitrary<Drawn> = fc.integer({ min: 1, max: 12 }).chain((size) =>
  fc
    .tuple(
      ...Array.from({ length: size }, (_, index) =>
        fc.record({
          parents: fc.subarray(Array.from({ length: index }, (_, parent) => `t${parent}`)),
          rule: fc.constantFrom(...triggerRules),
          allowFailure: fc.boolean(),
          isTeardown: fc.integer({ max: 9, min: 0 }),
          role: fc.constantFrom('main', 'main', 'main', 'on_failure', 'finally'),
          outcome,
        }),
      ),
    )
    .map((rows) => {
      const shapes: TaskShape[] = []
      for (const [index, { parents, rule, allowFailure, isTeardown, role }] of rows.entries()) {
        const needs = parents.filter((id) => shapes.find((shape) => shape.id === id)?.role === role)
        const [setup] = needs
        shapes.push({
          id: `t${index}`,
          role,
          needs,
          rule,
          kind: 'task',
          allowFailure,
          mapped: false,
          ...(isTeardown === 0 && setup !== undefined ? { teardownOf: setup } : {}),
        })
      }
      return { shapes, outcomes: rows.map((row) => row.outcome) }
    }),
)

/** Plays a run; `pick` chooses which of those that run ends next. */
function playInOrder({ shapes, outcomes }: Drawn, pick: (running: number) => number) {
  const plan = planWorkflow(shapes)
  let progress = createProgress(plan)
  const starts = plan.tasks.map(() => 0)
  const running: number[] = []
  const take = (commands: readonly WorkflowCommand[]): void => {
    for (const { kind, task } of commands) {
      expect(kind).toBe('start')
      starts[task.index] = (starts[task.index] ?? 0) + 1
      running.push(task.index)
    }
  }
  take(beginWorkflow(progress))
  while (running.length > 0) {
    const [task = 0] = running.splice(pick(running.length), 1)
    const end = { task, state: outcomes[task] ?? 'succeeded' }
    take(applyEnds(progress, [end]))
    expect(applyEnds(progress, [end]), 'told twice').toEqual([])
    // what is stored is enough to go on from
    const { states, items, turn, stop } = progress
    const restored = restoreProgress(plan, { states: [...states], items, turn, stop })
    expect({ counts: restored.counts, open: restored.open }).toEqual({
      counts: progress.counts,
      open: progress.open,
    })
    progress = restored
  }
  expect(progress.states.filter((state) => !isEnded(state))).toEqual([])
  expect(Math.max(...starts)).toBeLessThanOrEqual(1)
  return { states: progress.states, run: workflowRunState(progress), starts, progress }
}

describe('a workflow run', () => {
  it('ends in the same states in every order of finishing', () => {
    fc.assert(
      fc.property(drawnGraph, fc.infiniteStream(fc.nat()), (drawn, picks) => {
        const first = playInOrder(drawn, () => 0)
        const last = playInOrder(drawn, (count) => count - 1)
        const some = playInOrder(drawn, (count) => (picks.next().value ?? 0) % count)
        for (const other of [last, some]) {
          expect(other.states).toEqual(first.states)
          expect(other.starts).toEqual(first.starts)
          expect(other.run).toBe(first.run)
        }
        expect(first.run).toBeDefined()
      }),
      { numRuns: 400 },
    )
  })

  it('is failed exactly if a failure that is not allowed stands in it, clean-up or not', () => {
    fc.assert(
      fc.property(drawnGraph, (drawn) => {
        const { states, run } = playInOrder(drawn, () => 0)
        const failed = states.some(
          (state, index) => state === 'failed' && drawn.shapes[index]?.allowFailure !== true,
        )
        const otherwise = states.includes('canceled') ? 'canceled' : 'succeeded'
        expect(run).toBe(failed ? 'failed' : otherwise)
      }),
      { numRuns: 400 },
    )
  })

  it('runs again what failed and all that depends on it, and nothing that stands apart', () => {
    fc.assert(
      fc.property(drawnGraph, (drawn) => {
        const { progress, states } = playInOrder(drawn, () => 0)
        const { reset, commands, progress: again } = rerunWorkflow(progress, { what: 'failed' })
        const kept = states.map((state, index) => (reset.has(index) ? again.states[index] : state))
        expect(again.states).toEqual(kept)
        const isWrong = (state: string | undefined, index: number): boolean =>
          state === 'canceled' ||
          state === 'not_run' ||
          (state === 'failed' && drawn.shapes[index]?.allowFailure === false)
        expect([...reset].filter((index) => isWrong(again.states[index], index))).toEqual([])
        expect(commands.filter(({ task }) => !reset.has(task.index))).toEqual([])
        expect(reset.size > 0).toBe(states.some(isWrong))
      }),
      { numRuns: 400 },
    )
  })

  it('brings back what could not run because of a task that is marked as succeeded', () => {
    const shape = (id: string, needs: string[]): TaskShape => ({
      id,
      needs,
      role: 'main',
      rule: 'all_succeeded',
      kind: 'task',
      allowFailure: false,
      mapped: false,
    })
    const shapes = [shape('a', []), shape('b', ['a']), shape('c', ['b'])]
    const { progress } = playInOrder({ shapes, outcomes: ['failed', 'succeeded', 'succeeded'] }, () => 0)
    expect(progress.states).toEqual(['failed', 'upstream_failed', 'upstream_failed'])
    const marked = markTask(progress, 'a', 'succeeded')
    expect(marked.commands.map(({ task }) => task.id)).toEqual(['b'])
    expect(marked.progress.states).toEqual(['succeeded', 'started', 'waiting_for_dependencies'])
  })
})

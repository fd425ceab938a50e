// Large graphs: chains, fans and layers are checked and played without recursion, and each task is looked at
// about as often as it has edges.
import { describe, expect, it } from 'vitest'
import { planWorkflow, type TaskShape } from '../../../packages/server/src/domain/workflow/plan.ts'
import { workflowRunState } from '../../../packages/server/src/domain/workflow/progress.ts'
import { simulate } from '../../../packages/server/src/domain/workflow/simulation.ts'
import { shapeFaults } from '../../../packages/server/src/domain/workflow/validate.ts'

const task = (id: string, needs: readonly string[] = []): TaskShape => ({
  id,
  needs,
  role: 'main',
  rule: 'all_succeeded',
  kind: 'task',
  allowFailure: false,
  mapped: false,
})
const numbers = (count: number) => Array.from({ length: count }, (_, at) => at)

const graphs: readonly (readonly [string, readonly TaskShape[]])[] = [
  ['a chain of 10,000', numbers(10_000).map((at) => task(`n${at}`, at === 0 ? [] : [`n${at - 1}`]))],
  [
    'a fan of 9,998 with a join',
    [
      task('root'),
      ...numbers(9_998).map((at) => task(`n${at}`, ['root'])),
      task(
        'join',
        numbers(9_998).map((at) => `n${at}`),
      ),
    ],
  ],
  [
    '50 layers of 100, all edges between neighbours',
    numbers(5_000).map((at) => {
      const layer = Math.floor(at / 100)
      return task(`n${at}`, layer === 0 ? [] : numbers(100).map((each) => `n${(layer - 1) * 100 + each}`))
    }),
  ],
]

describe('a large workflow', () => {
  it.each(graphs)('%s is sound and runs through', (_, shapes) => {
    expect(shapeFaults(shapes)).toEqual([])
    const { progress, run, attempts } = simulate(planWorkflow(shapes), {})
    expect(run).toBe('succeeded')
    expect(workflowRunState(progress)).toBe('succeeded')
    expect(new Set(attempts.values())).toEqual(new Set([1]))
    expect(attempts.size).toBe(shapes.length)
  })

  it('finds a circle of 10,000 and names it whole', () => {
    const shapes = numbers(10_000).map((at) => task(`n${at}`, [`n${(at + 9_999) % 10_000}`]))
    const [fault] = shapeFaults(shapes)
    expect(fault?.code).toBe('cycle')
    expect(fault?.message.match(/→/g)).toHaveLength(10_000)
  })
})

// Tasks that wait: what they wait for, and how they end, in the rules and in the simulation alike; and stops
// that come after other stops.
import { workflowDefinitionSchema, type WorkflowTask } from '@belfry/contract'
import { describe, expect, it } from 'vitest'
import { definitionFaults, shapesOf } from '../../../packages/server/src/domain/workflow/definition.ts'
import { dropWorkflow } from '../../../packages/server/src/domain/workflow/drop.ts'
import { planWorkflow } from '../../../packages/server/src/domain/workflow/plan.ts'
import {
  applyEnds,
  beginWorkflow,
  createProgress,
  stopWorkflow,
  workflowRunState,
} from '../../../packages/server/src/domain/workflow/progress.ts'
import { simulate, statesByTask } from '../../../packages/server/src/domain/workflow/simulation.ts'
import { waitOfTask } from '../../../packages/server/src/domain/workflow/task-wait.ts'

const facts = { outputOf: () => undefined, input: { at: '2026-12-01T02:30:00Z', x: 1 }, workflowRunId: 'r' }
const define = (tasks: readonly object[], more: object = {}) =>
  workflowDefinitionSchema.parse({ tasks, ...more })
const taskOf = (task: object): WorkflowTask => {
  const [first] = define([{ id: 'a', ...task }]).tasks
  if (first === undefined) throw new Error('There is no task.')
  return first
}
const job = { job: 'work' }

describe('a task that waits', () => {
  it('says for what, and how it ends', () => {
    expect(waitOfTask(taskOf({ approval: { message: 'ok?', atMostMs: 5_000 } }), facts, undefined)).toEqual({
      ok: true,
      value: {
        kind: 'approval',
        message: 'ok?',
        signal: null,
        dueInMs: 5_000,
        dueAtMs: null,
        ends: { onTimeout: 'failed', onReject: 'failed' },
      },
    })
    expect(waitOfTask(taskOf({ wait: { until: { input: '/at' } } }), facts, undefined)).toMatchObject({
      value: { kind: 'time', dueAtMs: Date.UTC(2026, 11, 1, 2, 30), ends: { onTimeout: 'succeeded' } },
    })
    expect(waitOfTask(taskOf({ wait: { until: { input: '/x' } } }), facts, undefined)).toMatchObject({
      ok: false,
      error: expect.stringContaining('what there is is no such instant at /x of the run') as string,
    })
    expect(waitOfTask(taskOf(job), facts, undefined)).toEqual({ ok: true, value: undefined })
  })

  it.each([
    [{ approval: { message: 'x' }, retry: { maxAttempts: 3 } }, 'retry'],
    [{ approval: { message: 'x' }, input: 1 }, 'input'],
    [{ wait: { forMs: 5 }, queue: 'q' }, 'queue'],
    [{ workflow: 'w', attemptTimeoutMs: 5_000 }, 'attemptTimeoutMs'],
  ])('%j: what would do nothing is refused', (task, field) => {
    const parsed = workflowDefinitionSchema.safeParse({ tasks: [{ id: 'a', ...task }] })
    expect(parsed.error?.issues.map(({ path }) => path.at(-1))).toEqual([field])
  })

  it('takes instants from what it needs only, and from items where it has some', () => {
    const of = (task: object) =>
      definitionFaults(
        define([
          { id: 'a', ...job },
          { id: 'b', ...task },
        ]),
      ).map(({ pointer }) => pointer)
    expect(of({ wait: { until: { task: 'a' } } })).toEqual(['/tasks/1/wait/until/task'])
    expect(of({ needs: ['a'], wait: { until: { task: 'a' } } })).toEqual([])
    expect(of({ wait: { until: { item: '/at' } } })).toEqual(['/tasks/1/wait/until/item'])
  })

  it('gives what a run gives only from tasks that there are', () => {
    const outputFrom = [{ to: '/x', task: 'none' }]
    expect(definitionFaults(define([{ id: 'a', ...job }], { outputFrom }))).toMatchObject([
      { code: 'unknown_task', pointer: '/outputFrom/0/task' },
    ])
  })

  it.each([
    ['ok', {}, 'succeeded', 'succeeded'],
    ['reject', {}, 'failed', 'upstream_failed'],
    ['reject', { onReject: 'skipped' }, 'skipped', 'skipped'],
    ['timeout', { atMostMs: 1_000 }, 'failed', 'upstream_failed'],
    ['timeout', { atMostMs: 1_000, onTimeout: 'skipped' }, 'skipped', 'skipped'],
    ['timeout', { atMostMs: 1_000, onTimeout: 'succeeded' }, 'succeeded', 'succeeded'],
  ] as const)('in a simulation: %s with %j', (outcome, more, state, after) => {
    const tasks = [
      { id: 'ask', approval: { message: 'x', ...more } },
      { id: 'next', ...job, needs: ['ask'] },
    ]
    const plan = planWorkflow(shapesOf(define(tasks)))
    const played = simulate(plan, { outcomes: { ask: [outcome] }, retries: { ask: 5 } })
    expect(statesByTask(played.progress)).toEqual({ ask: state, next: after })
    expect(played.attempts.get('ask')).toBe(1)
  })
})

describe('a stop after a stop', () => {
  const open = (failFast: 'finish_running' | 'cancel_running') => {
    const tasks = [
      { id: 'a', ...job },
      { id: 'b', ...job },
    ]
    const plan = planWorkflow(shapesOf(define(tasks, { finally: [{ id: 'tidy', ...job }] })), failFast)
    const progress = createProgress(plan)
    beginWorkflow(progress)
    const commands = applyEnds(progress, [{ task: 0, state: 'failed' }])
    return { progress, commands }
  }

  it('counts where it is the stronger one', () => {
    const { progress, commands } = open('finish_running')
    expect(commands).toEqual([])
    expect(stopWorkflow(progress, 'failed_fast')).toEqual([])
    const timedOut = stopWorkflow(progress, 'timed_out')
    expect(timedOut.map(({ kind, task }) => `${kind} ${task.id}`)).toEqual(['cancel b'])
    expect(stopWorkflow(progress, 'timed_out')).toEqual([])
    stopWorkflow(progress, 'canceled')
    expect(stopWorkflow(progress, 'timed_out')).toEqual([])
    applyEnds(progress, [{ task: 1, state: 'canceled' }])
    applyEnds(progress, [{ task: 2, state: 'succeeded' }])
    expect(workflowRunState(progress)).toBe('canceled')
  })

  it('nothing starts of a run that never had its turn', () => {
    const plan = planWorkflow(shapesOf(define([{ id: 'a', ...job }], { finally: [{ id: 'tidy', ...job }] })))
    const canceled = createProgress(plan)
    dropWorkflow(canceled, 'canceled')
    expect(statesByTask(canceled)).toEqual({ a: 'canceled', tidy: 'not_run' })
    expect(workflowRunState(canceled)).toBe('canceled')
    const skipped = createProgress(plan)
    dropWorkflow(skipped, null)
    expect(statesByTask(skipped)).toEqual({ a: 'not_run', tidy: 'not_run' })
  })
})

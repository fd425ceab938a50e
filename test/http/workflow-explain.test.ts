// Why workflow runs and their tasks are where they are: on the real engine, the first cause, since when, and
// what clears it.
import type { WorkflowRunExplanation } from '@belfry/contract'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createGatekeeper } from '../../packages/server/src/engine/gatekeeper.ts'
import { createPostgresGate } from '../../packages/server/src/postgres/gate/gate.ts'
import { realClock } from '../support/real-clock.ts'
import { recordEvents, recordHints } from '../support/running.ts'
import { openWorkflowApi, type WorkflowApi } from '../support/workflow-api.ts'

let w: WorkflowApi
beforeAll(async () => {
  w = await openWorkflowApi()
})
afterAll(() => w.close())

const handler = { kind: 'http', url: 'https://example.com/hook' }
const task = (id: string, needs: readonly string[] = [], more: object = {}) => ({
  id,
  handler,
  needs,
  ...more,
})

async function explain(id: string, taskId?: string, own = w): Promise<WorkflowRunExplanation> {
  const query = taskId === undefined ? '' : `?task=${taskId}`
  const { body, status } = await own.t.call('GET', `/v1/workflow-runs/${id}/explanation${query}`)
  if (status !== 200) throw new Error(body.detail)
  return body as unknown as WorkflowRunExplanation
}

async function childrenOf(id: string): Promise<string[]> {
  const rows = await w.t.database.sql<{ child_id: string }>(
    'SELECT child_id FROM belfry.task_wait WHERE workflow_run_id = $1 ORDER BY item, id',
    [id],
  )
  return rows.map((row) => row.child_id)
}

async function begun(definition: object, more: object = {}): Promise<string> {
  const { name } = await w.store(definition)
  return w.ask(name, more)
}

describe('of what goes on', () => {
  it('names the task that is held, what holds its run, and how that clears', async () => {
    const id = await begun({ tasks: [task('a'), task('b', ['a'], { rule: 'all_done' }), task('c', ['b'])] })
    expect(await explain(id)).toMatchObject({
      state: 'running',
      verdict: 'undecided',
      task: 'a',
      fix: /role resolver/,
    })
    await w.resolver.runOnce()
    const whole = await explain(id)
    expect(whole).toMatchObject({
      task: 'a',
      taskState: 'started',
      verdict: 'at_work',
      run: { verdict: 'queued' },
      causes: ['a'],
    })
    expect(whole.message).toMatch(/^"a" \(started\): It is the next in the fair order/)
    expect(whole.fix).toBe(whole.run?.fix)
    expect(whole.since).not.toBe(null)
    const last = await explain(id, 'c')
    expect(last).toMatchObject({
      verdict: 'waits_for_tasks',
      causes: ['c', 'b', 'a'],
      needs: [{ id: 'b', state: 'waiting_for_dependencies' }],
      needsTotal: 1,
      run: { verdict: 'queued' },
    })
    expect(last.message).toMatch(
      /^It waits for "b" \(waiting_for_dependencies\), and then .* First cause: "a" \(started\): It is/,
    )
    expect(last.fix).toBe(whole.fix)
    await w.play(id)
    expect(await explain(id)).toMatchObject({
      state: 'succeeded',
      verdict: 'ended',
      task: null,
      message: 'Ended: succeeded.',
    })
  })

  it('tells of a paused queue, and looks at what is held before what runs', async () => {
    // with a gatekeeper, and by itself: what a pause does is not for the other tests
    const own = await openWorkflowApi()
    const keeper = createGatekeeper({
      gate: createPostgresGate(own.t.db),
      clock: realClock,
      random: { next: () => 0.5 },
      events: recordEvents(),
      hints: recordHints(),
    })
    const paused = task('held', [], { queue: 'paused' })
    const { name } = await own.store({ tasks: [task('runs'), paused], finally: [task('tidy')] })
    await own.t.call('POST', '/v1/queues/paused/pause', { body: { reason: 'the mail server moves' } })
    const id = await own.ask(name)
    await own.resolver.runOnce()
    await expect
      .poll(
        async () => {
          await keeper.runOnce()
          return (await own.claim(id)).length
        },
        { timeout: 20_000 },
      )
      .toBe(1)
    const whole = await explain(id, undefined, own)
    expect(whole).toMatchObject({ task: 'held', verdict: 'at_work', run: { verdict: 'held' } })
    expect(whole.message).toMatch(/^2 tasks are at work\. "held" \(started\): .*the mail server moves/)
    expect(whole.fix).toMatch(/resume/i)
    const runs = await explain(id, 'runs', own)
    expect(runs.run?.verdict).toBe('running')
    expect(runs.clearsAt).not.toBe(null)
    const tidy = await explain(id, 'tidy', own)
    expect(tidy.verdict).toBe('waits_for_part')
    expect(tidy.message).toMatch(
      /^It runs at the end, when "runs" \(started\), "held" \(started\) have ended\./,
    )
    await own.t.call('POST', `/v1/workflow-runs/${id}/cancel`)
    expect((await explain(id, undefined, own)).message).toMatch(/^It is being canceled\. /)
    await own.close()
  })

  it('tells of an approval, a signal, a time and a workflow run that is a task', async () => {
    const { name: inner } = await w.store({ tasks: [task('inside')] })
    const tasks = [
      { id: 'ok', approval: { message: 'Ship it?' } },
      { id: 'sign', wait: { signal: 'paid' } },
      { id: 'later', wait: { forMs: 3_600_000 } },
      { id: 'sub', workflow: inner },
      task('after', ['ok']),
    ]
    const id = await begun({ tasks })
    await w.resolver.runOnce()
    expect(await explain(id, 'ok')).toMatchObject({
      verdict: 'approval',
      message: /Ship it\?/,
      fix: /approve or reject/,
    })
    expect(await explain(id, 'sign')).toMatchObject({ verdict: 'signal', message: /"paid"/ })
    const later = await explain(id, 'later')
    expect(later.verdict).toBe('time')
    expect(later.clearsAt).not.toBe(null)
    expect(await explain(id, 'sub')).toMatchObject({ verdict: 'sub_workflow', fix: /workflow-run explain/ })
    expect(await explain(id, 'after')).toMatchObject({
      verdict: 'waits_for_tasks',
      causes: ['after', 'ok'],
      fix: /approve or reject/,
      run: null,
    })
    await w.act(id, 'mark', { tasks: ['ok', 'sign', 'later', 'sub'], state: 'succeeded', reason: 'enough' })
    await w.play(id)
    expect((await w.standing(id)).state).toBe('succeeded')
  })

  it('tells of the turn that a workflow run waits for', async () => {
    const { name } = await w.store({ tasks: [task('a')], concurrency: { limit: 1 } })
    const first = await w.ask(name)
    const second = await w.ask(name)
    await w.resolver.runOnce()
    expect(await explain(second)).toMatchObject({
      state: 'pending',
      verdict: 'waits_for_turn',
      message: /"concurrency"/,
      fix: /cancel one/,
    })
    expect(await explain(second, 'a')).toMatchObject({ verdict: 'waits_for_turn', task: 'a' })
    await w.play(first)
    await w.play(second)
  })
})

describe('of what has ended', () => {
  it('goes back to the first failure, with its error and what to do', async () => {
    const tasks = [task('a'), task('b', ['a']), task('c', ['b']), task('d', ['a'])]
    const id = await begun({ tasks })
    await w.play(id, (name) => (name === 'a' ? 'failed' : undefined))
    const last = await explain(id, 'c')
    expect(last).toMatchObject({
      verdict: 'rule_not_met',
      taskState: 'upstream_failed',
      causes: ['c', 'b', 'a'],
      run: { verdict: 'ended', state: 'failed' },
      fix: /rerun what failed, or mark the task/,
    })
    expect(last.message).toMatch(
      /^Its rule none_failed_min_one_success did not hold: "b" .* First cause: "a" \(failed\)\.$/,
    )
    expect(await explain(id)).toMatchObject({
      state: 'failed',
      task: 'a',
      message: /^Ended failed\. "a" \(failed\)\.$/,
    })
  })

  it('goes on in the workflow run of a task that failed, and names the command for it', async () => {
    const inner = await w.store({ tasks: [task('load')] })
    const middle = await w.store({ tasks: [{ id: 'm', workflow: inner.name }] })
    const id = await begun({ tasks: [{ id: 'k', workflow: middle.name }, task('after', ['k'])] })
    await w.resolver.runOnce()
    const [child = ''] = await childrenOf(id)
    await w.resolver.runOnce()
    const [grandchild = ''] = await childrenOf(child)
    await w.play(grandchild, () => 'failed')
    await w.play(id)
    const below = `"m" (failed): Its workflow run ${grandchild} failed: "load" (failed).`
    const said = `Its workflow run ${child} failed: ${below}`
    const whole = await explain(id)
    expect(whole).toMatchObject({
      state: 'failed',
      verdict: 'ended',
      task: 'k',
      fix:
        `Go on there: belfry workflow-run explain ${child}. Mend the cause, then rerun what failed here, ` +
        'or mark the task where it was done by hand.',
      run: { state: 'failed' },
    })
    expect(whole.message).toBe(`Ended failed. "k" (failed): ${said}`)
    expect(whole.since).not.toBe(null)
    expect((await explain(id, 'k')).message).toBe(said)
    expect((await explain(id, 'after')).message).toContain(`First cause: "k" (failed): ${said}`)
  })

  it('names the first of many workflow runs of a list that failed, and how many did', async () => {
    const inner = await w.store({ tasks: [task('load')] })
    const each = { forEach: { from: { input: '' } } }
    const id = await begun(
      { tasks: [{ id: 'k', workflow: inner.name, ...each }] },
      { input: [0, 1, 2, 3, 4] },
    )
    await w.resolver.runOnce()
    const children = await childrenOf(id)
    await w.resolver.runOnce()
    for (const [item, child] of children.entries())
      await w.play(child, () => (item === 0 ? undefined : 'failed'))
    await w.play(id)
    const { message, fix } = await explain(id)
    const named = [1, 2, 3].map((item) => `item ${item} (${children[item]})`).join(', ')
    expect(message).toContain(
      `"k" (failed): Of its workflow runs 4 of 5 failed: ${named} and 1 more. Item 1: "load" (failed).`,
    )
    expect(fix).toContain(`belfry workflow-run explain ${children[1]}.`)
  })

  it('says of an id of the other kind which it is', async () => {
    const id = await begun({ tasks: [task('a')] })
    await w.resolver.runOnce()
    const [held] = await w.claim(id)
    const asRun = await w.t.call('GET', `/v1/runs/${id}`)
    expect(asRun).toMatchObject({ status: 404, body: { errors: [{ pointer: '/params/id' }] } })
    expect(asRun.body.detail).toContain(
      `that is the id of a workflow run. See it with belfry workflow-run get ${id}`,
    )
    const explained = await w.t.call('GET', `/v1/runs/${id}/explanation`)
    expect(explained.body.detail).toContain(`belfry workflow-run get ${id}`)
    const asWorkflowRun = await w.t.call('GET', `/v1/workflow-runs/${held?.runId}`)
    expect(asWorkflowRun.status).toBe(404)
    expect(asWorkflowRun.body.detail).toContain(
      `that is the id of a run. See it with belfry run get ${held?.runId}`,
    )
    await w.play(id)
  })

  it('says which comparison of a condition did not hold, and what a branch chose', async () => {
    const when = {
      all: [
        { task: 'a', in: ['succeeded'] },
        { task: 'a', output: '/n', is: { atLeast: 5 } },
      ],
    }
    const tasks = [
      task('a'),
      task('many', ['a'], { when }),
      task('pick', ['a'], { kind: 'branch' }),
      task('left', ['pick']),
      task('right', ['pick']),
      task('each', ['a'], { forEach: { from: { task: 'a', path: '/list' } } }),
    ]
    const id = await begun({ tasks, onFailure: [task('tell')] })
    await w.play(id, (name) => ({ output: name === 'pick' ? ['left'] : { n: 3, list: [] } }))
    expect(await explain(id, 'many')).toMatchObject({
      verdict: 'condition_false',
      message: 'Its condition did not hold: /n of the output of "a" is 3, and it asks for at least 5.',
    })
    expect(await explain(id, 'right')).toMatchObject({
      verdict: 'not_chosen',
      message: /not chosen by "pick"/,
    })
    expect(await explain(id, 'each')).toMatchObject({ verdict: 'no_items' })
    expect(await explain(id, 'tell')).toMatchObject({ verdict: 'nothing_failed' })
  })

  it('says what was set by hand, what failed without a run, and what was stopped', async () => {
    const tasks = [
      task('odd', [], { forEach: { from: { input: '/none' } } }),
      task('bad', [], {}),
      task('next', ['bad', 'odd']),
    ]
    const id = await begun({ tasks })
    await w.play(id)
    expect(await explain(id, 'odd')).toMatchObject({
      verdict: 'no_run',
      message: /^It failed without a run: forEach takes a list/,
    })
    await w.act(id, 'mark', { tasks: ['odd'], state: 'succeeded', reason: 'there is none today' })
    await w.play(id)
    expect(await explain(id, 'odd')).toMatchObject({
      verdict: 'set_by_hand',
      message: 'It was marked succeeded by key-0: there is none today.',
    })
    const fast = await begun({ tasks: [task('x'), task('y'), task('z', ['y'])], failFast: 'finish_running' })
    await w.resolver.runOnce()
    for (const run of await w.claim(fast)) if (run.task === 'x') await w.end(run, 'failed')
    await w.play(fast)
    expect(await explain(fast, 'z')).toMatchObject({
      verdict: 'stopped',
      message: /first failure.*"x" \(failed\)/,
    })
    const canceled = await begun({ tasks: [task('x'), task('y', ['x'])] })
    await w.resolver.runOnce()
    await w.t.call('POST', `/v1/workflow-runs/${canceled}/cancel`)
    await w.play(canceled, () => 'canceled')
    expect(await explain(canceled, 'y')).toMatchObject({
      verdict: 'stopped',
      message: 'The workflow run was canceled before it.',
    })
  })

  it('names a task that is not there', async () => {
    const id = await begun({ tasks: [task('a')] })
    const { body } = await w.t.call('GET', `/v1/workflow-runs/${id}/explanation?task=zz`)
    expect(body).toMatchObject({ code: 'not_found', errors: [{ pointer: '/query/task' }] })
    await w.play(id)
  })
})

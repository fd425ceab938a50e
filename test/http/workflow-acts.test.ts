// Marks and skips of workflow runs, over the API and on the real engine; what goes with all acts by hand:
// history, runs before, dead letters; and refusals with field and fix.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { acted, chain, effects, played, runCounts, task } from '../support/workflow-acts.ts'
import { openWorkflowApi, type WorkflowApi } from '../support/workflow-api.ts'

let w: WorkflowApi
beforeAll(async () => {
  w = await openWorkflowApi()
})
afterAll(() => w.close())

const sql = <Row extends Record<string, unknown>>(text: string, params: readonly unknown[] = []) =>
  w.t.database.sql<Row>(text, [...params])

describe('a mark', () => {
  it('brings what could not run back to life', async () => {
    const id = await played(w, chain, ['a'])
    const preview = await w.act(
      id,
      'mark',
      { tasks: ['a'], state: 'succeeded', reason: 'done by hand' },
      '?dryRun=true',
    )
    expect(effects(preview)).toEqual({
      a: 'marked succeeded',
      b: 'starts started',
      c: 'waits waiting_for_dependencies',
      apart: 'kept succeeded',
      tidy: 'waits waiting_for_dependencies',
    })
    await w.act(id, 'mark', { tasks: ['a'], state: 'succeeded', reason: 'done by hand' })
    expect(await w.play(id)).toEqual(['b', 'c', 'tidy'])
    expect((await w.standing(id)).state).toBe('succeeded')
    expect((await runCounts(w, id))['a']).toBe(1)
    const { tasks } = (await w.t.call('GET', `/v1/workflow-runs/${id}/tasks`)).body
    expect(tasks[0]).toMatchObject({ note: 'marked succeeded by key-0: done by hand' })
    const again = await w.act(id, 'mark', { tasks: ['a'], state: 'succeeded', reason: 'done by hand' })
    expect(acted(again).done).toBe(false)
  })

  it('gives an output for those below, until the task runs again', async () => {
    const b = task('b', ['a'], { inputFrom: [{ to: '', task: 'a', path: '/n' }] })
    const id = await played(w, { tasks: [task('a'), b] }, ['a'])
    await w.act(id, 'mark', { tasks: ['a'], state: 'succeeded', reason: 'r', output: { n: 7 } })
    await w.play(id)
    await w.act(id, 'rerun', { what: 'from', tasks: ['a'] })
    await w.play(id, (name) => (name === 'a' ? { output: { n: 8 } } : undefined))
    const rows = await sql<{ input: unknown }>(
      `SELECT input FROM belfry.run WHERE workflow_run_id = $1 AND task = 1 ORDER BY id`,
      [id],
    )
    expect(rows.map(({ input }) => input)).toEqual([7, 8])
  })

  it('of a branch chooses as the given output says, and lets all go on without one', async () => {
    const tasks = [
      task('pick', [], { kind: 'branch' }),
      task('left', ['pick']),
      task('right', ['pick'], { when: { task: 'pick', output: '/0', is: { equals: 'right' } } }),
    ]
    const body = { tasks: ['pick'], state: 'succeeded', reason: 'r' }
    const given = await played(w, { tasks }, ['pick'])
    const chosen = await w.act(given, 'mark', { ...body, output: ['right'] })
    expect(effects(chosen)).toEqual({
      pick: 'marked succeeded',
      left: 'ends skipped',
      right: 'starts started',
    })
    expect(await w.play(given)).toEqual(['right'])
    const open = await played(w, { tasks: tasks.slice(0, 2) }, ['pick'])
    await w.act(open, 'mark', body)
    expect(await w.play(open, () => 'failed')).toEqual(['left'])
    await w.act(open, 'rerun')
    expect(await w.play(open)).toEqual(['left'])
  })

  it('of a task at work cancels its run, whose end means nothing any more', async () => {
    const { name } = await w.store({ tasks: [task('stuck'), task('next', ['stuck'])] })
    const id = await w.ask(name)
    await w.resolver.runOnce()
    const [stuck] = await w.claim(id)
    expect(stuck?.task).toBe('stuck')
    await w.act(id, 'mark', { tasks: ['stuck'], state: 'succeeded', reason: 'hangs' })
    await w.resolver.runOnce()
    const held = await w.claim(id)
    expect(held.map((run) => [run.task, run.cancelRequested])).toEqual([
      ['stuck', true],
      ['next', false],
    ])
    if (stuck !== undefined) await w.end(stuck, 'canceled')
    expect(await w.play(id)).toEqual(['next'])
    expect(await w.standing(id)).toEqual({
      state: 'succeeded',
      tasks: { stuck: 'succeeded', next: 'succeeded' },
    })
  })

  it('as failed and as skipped moves the workflow run as such an end would', async () => {
    const id = await played(w, { tasks: [task('a'), task('b', ['a'])] })
    await w.act(id, 'mark', { tasks: ['b'], state: 'failed', reason: 'wrong numbers' })
    await w.resolver.runOnce()
    expect(await w.standing(id)).toEqual({ state: 'failed', tasks: { a: 'succeeded', b: 'failed' } })
    await w.act(id, 'mark', { tasks: ['b'], state: 'skipped', reason: 'not needed' })
    await w.resolver.runOnce()
    expect((await w.standing(id)).state).toBe('succeeded')
  })
})

describe('a skip', () => {
  it('of a task that waits is once; one that has begun is refused', async () => {
    const { name } = await w.store({
      tasks: [task('a'), task('b', ['a']), task('c', ['b'], { rule: 'all_done' })],
    })
    const id = await w.ask(name)
    const done = await w.act(id, 'skip', { tasks: ['b'], reason: 'stock-taking' })
    expect(effects(done)).toEqual({ a: 'starts started', b: 'marked skipped', c: 'starts started' })
    expect((await w.play(id)).toSorted()).toEqual(['a', 'c'])
    expect((await w.standing(id)).tasks).toEqual({ a: 'succeeded', b: 'skipped', c: 'succeeded' })
    expect((await w.act(id, 'skip', { tasks: ['a'] })).body).toMatchObject({
      code: 'invalid_state',
      errors: [
        {
          pointer: '/tasks/0',
          message: '"a" has ended succeeded; only what waits is skipped: mark it as skipped instead',
        },
      ],
    })
    await w.act(id, 'rerun', { what: 'only', tasks: ['b'] })
    expect(await w.play(id)).toEqual(['b'])
  })
})

describe('what goes with it', () => {
  it('a workflow run may skip tasks from its first moment on', async () => {
    const { name } = await w.store({ tasks: [task('a'), task('b', ['a'], { rule: 'all_done' })] })
    const id = await w.ask(name, { skip: ['a'] })
    expect(await w.play(id)).toEqual(['b'])
    expect((await w.standing(id)).tasks).toEqual({ a: 'skipped', b: 'succeeded' })
    const wrong = await w.t.call('POST', '/v1/workflow-runs', { body: { workflow: name, skip: ['aa'] } })
    expect(wrong.body).toMatchObject({ code: 'invalid_request', errors: [{ pointer: '/skip/0' }] })
  })

  it('runs of a task are listed, those before a rerun and those of tasks that are gone too', async () => {
    const name = 'listed'
    await w.store({ tasks: [task('a'), task('b', ['a'])] }, name)
    const id = await w.ask(name)
    await w.play(id, (name) => (name === 'b' ? 'failed' : undefined))
    await w.act(id, 'rerun')
    await w.play(id)
    const listed = async (query: string) => {
      const { body } = await w.t.call('GET', `/v1/runs?workflowRunId=${id}${query}`)
      return body.items.map((run) => run.state)
    }
    expect(await listed('')).toEqual(['succeeded', 'failed', 'succeeded'])
    expect(await listed('&task=b')).toEqual(['succeeded', 'failed'])
    expect(await listed('&task=b&state=failed')).toEqual(['failed'])
    await w.store({ tasks: [task('a')] }, name)
    await w.act(id, 'rerun', { what: 'all', version: 'newest' })
    await w.play(id)
    expect(await listed('&task=b')).toEqual(['succeeded', 'failed'])
    expect(await listed('&task=zz')).toEqual([])
    expect((await w.t.call('GET', '/v1/runs?task=a')).body).toMatchObject({
      code: 'invalid_request',
      errors: [{ pointer: '/query/task' }],
    })
  })

  it('a dead letter of a task is not replayed but rerun, and is dealt with by that', async () => {
    const id = await played(w, chain, ['b'])
    const [row] = await sql<{ id: string }>(
      `SELECT id FROM belfry.run WHERE workflow_run_id = $1 AND task = 1`,
      [id],
    )
    const runId = row?.id ?? ''
    await sql(
      `INSERT INTO belfry.dead_letter (run_id, tenant_id, job_id, queue, error_code, fingerprint, failed_at)
       SELECT id, tenant_id, job_id, queue, 'x', '0123456789abcdef', date_trunc('milliseconds', now())
       FROM belfry.run WHERE id = $1 ON CONFLICT DO NOTHING`,
      [runId],
    )
    const { body } = await w.t.call('POST', `/v1/dead-letters/${runId}/replay`, { body: {} })
    expect(body.code).toBe('invalid_state')
    expect(body.detail).toContain(`belfry workflow-run rerun ${id}`)
    const many = await w.t.call('POST', '/v1/dead-letters/replay', { body: { filter: { queue: 'default' } } })
    const { replayed, refused } = many.body as unknown as { replayed: number; refused: { runId: string }[] }
    expect(replayed).toBe(0)
    expect(refused.map((each) => each.runId)).toContain(runId)
    await w.act(id, 'rerun')
    expect((await w.t.call('GET', `/v1/dead-letters/${runId}`)).body.state).toBe('deleted')
    await w.play(id)
  })

  it('what was done is on record: who, when, why', async () => {
    const id = await played(w, chain, ['b'])
    await w.act(id, 'rerun', { what: 'from', tasks: ['b'], input: { day: 1 }, reason: 'fixed' })
    await w.play(id)
    await w.act(id, 'mark', { tasks: ['c'], state: 'failed', reason: 'wrong numbers' })
    const { body } = await w.t.call('GET', `/v1/workflow-runs/${id}/history`)
    const by = { name: 'key-0' }
    expect(body).toMatchObject({
      acts: [
        { act: 'mark', what: 'failed', tasks: ['c'], tasksTotal: 1, reason: 'wrong numbers', by },
        {
          act: 'rerun',
          what: 'from',
          tasks: ['b', 'c', 'tidy'],
          inputChanged: true,
          reason: 'fixed',
          by,
          version: 1,
        },
      ],
    })
  })
})

describe('refusals', () => {
  const refused = async (id: string, verb: string, body: object) => {
    const before = await sql(`SELECT * FROM belfry.workflow_run WHERE id = $1`, [id])
    const { body: problem } = await w.act(id, verb, body)
    expect(await sql(`SELECT * FROM belfry.workflow_run WHERE id = $1`, [id])).toEqual(before)
    return [problem.code, problem.errors[0]?.pointer, problem.detail]
  }

  it('name the field and the fix', async () => {
    const id = await played(w, chain)
    expect(await refused(id, 'rerun', {})).toEqual([
      'invalid_state',
      '/what',
      'Nothing in the workflow run failed, was canceled or was left out, save what may fail; name tasks ' +
        'with "what": "from", or run all of them again with "what": "all".',
    ])
    expect(await refused(id, 'rerun', { what: 'from', tasks: ['apert'] })).toEqual([
      'invalid_request',
      '/tasks/0',
      'tasks names no task of version 1: "apert"; did you mean "apart"?',
    ])
    expect((await refused(id, 'rerun', { what: 'from' })).slice(0, 2)).toEqual(['invalid_request', '/tasks'])
    expect((await refused(id, 'rerun', { tasks: ['a'] })).slice(0, 2)).toEqual(['invalid_request', '/tasks'])
    expect((await refused(id, 'rerun', { what: 'only', tasks: ['c'], skip: ['a'] })).slice(0, 2)).toEqual([
      'invalid_request',
      '/skip/0',
    ])
    const two = { tasks: ['a', 'b'], state: 'succeeded', reason: 'r', output: 1 }
    expect((await refused(id, 'mark', two)).slice(0, 2)).toEqual(['invalid_request', '/output'])
    expect((await refused(id, 'mark', { tasks: ['a'], state: 'succeeded' })).slice(0, 2)).toEqual([
      'invalid_request',
      '/reason',
    ])
  })

  it('of what would have to run beside itself, and while the end is under way', async () => {
    const { name, id: workflowId } = await w.store({
      tasks: [task('a'), task('b', ['a'], { rule: 'all_done' })],
    })
    const id = await w.ask(name)
    await w.resolver.runOnce()
    for (const run of await w.claim(id)) await w.end(run, 'failed')
    await w.resolver.runOnce()
    expect(await refused(id, 'rerun', {})).toEqual([
      'invalid_state',
      '/what',
      '"b" is at work and would have to be put back; wait for the end, cancel its run, or cancel the ' +
        'workflow run.',
    ])
    await w.store({ tasks: [task('a'), task('z')] }, name)
    expect(await refused(id, 'rerun', { what: 'only', tasks: ['a'], version: 'newest' })).toMatchObject([
      'invalid_state',
      '/version',
      /"b" is at work/,
    ])
    await w.t.call('POST', `/v1/workflow-runs/${id}/cancel`)
    expect(await refused(id, 'rerun', {})).toMatchObject(['invalid_state', '/params/id', /is being canceled/])
    await w.resolver.runOnce()
    expect(await refused(id, 'mark', { tasks: ['a'], state: 'succeeded', reason: 'r' })).toMatchObject([
      'invalid_state',
      '/tasks/0',
      /is being canceled, and "a" has ended failed/,
    ])
    await w.play(id, () => 'canceled')
    await w.t.call('DELETE', `/v1/workflows/${workflowId}`)
    expect(await refused(id, 'rerun', { version: 'newest' })).toMatchObject([
      'invalid_state',
      '/version',
      /was deleted/,
    ])
    // the version that it has is still there
    expect(acted(await w.act(id, 'rerun')).done).toBe(true)
    await w.play(id)
    expect((await w.standing(id)).state).toBe('succeeded')
  })

  it('of another state than the one that was seen', async () => {
    const id = await played(w, chain, ['b'])
    const path = `/v1/workflow-runs/${id}`
    const { etag = '' } = (await w.t.call('GET', path)).headers
    expect(etag).toBe('"1"')
    const headers = { 'if-match': etag }
    const first = await w.t.call('POST', `${path}/rerun`, { body: {}, headers })
    expect([first.status, first.headers['etag']]).toEqual([200, '"2"'])
    expect((await w.t.call('POST', `${path}/rerun`, { body: {}, headers })).body.code).toBe(
      'precondition_failed',
    )
    await w.play(id)
    expect((await w.t.call('GET', path)).headers['etag']).toBe('"2"')
  })

  it('with an Idempotency-Key it is done once, also when it is over', async () => {
    const id = await played(w, chain)
    const again = () =>
      w.t.call('POST', `/v1/workflow-runs/${id}/rerun`, {
        body: { what: 'all' },
        headers: { 'idempotency-key': `once-${id}` },
      })
    await again()
    await w.play(id)
    const replayed = await again()
    expect(replayed.headers['idempotency-replayed']).toBe('true')
    expect((await runCounts(w, id))['a']).toBe(2)
  })
})

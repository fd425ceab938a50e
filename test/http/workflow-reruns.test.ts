// Reruns of workflow runs, over the API and on the real engine: the same workflow run, new runs of its tasks,
// everything before kept; previews that say what then happens.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { acted, chain, effects, played, runCounts, task } from '../support/workflow-acts.ts'
import { type HeldTask, openWorkflowApi, type TaskAnswer, type WorkflowApi } from '../support/workflow-api.ts'

let w: WorkflowApi
beforeAll(async () => {
  w = await openWorkflowApi()
})
afterAll(() => w.close())

const sql = <Row extends Record<string, unknown>>(text: string, params: readonly unknown[] = []) =>
  w.t.database.sql<Row>(text, [...params])

describe('a rerun', () => {
  it('of what failed runs that again and all that depends on it, in the same workflow run', async () => {
    const id = await played(w, chain, ['b'])
    expect(await w.standing(id)).toEqual({
      state: 'failed',
      tasks: { a: 'succeeded', b: 'failed', c: 'upstream_failed', apart: 'succeeded', tidy: 'succeeded' },
    })
    const preview = await w.act(id, 'rerun', {}, '?dryRun=true')
    expect(effects(preview)).toEqual({
      a: 'kept succeeded',
      b: 'starts started',
      c: 'waits waiting_for_dependencies',
      apart: 'kept succeeded',
      tidy: 'waits waiting_for_dependencies',
    })
    expect((await w.standing(id)).state).toBe('failed')
    const done = await w.act(id, 'rerun', { reason: 'fixed' })
    expect(done.status).toBe(200)
    expect(acted(done)).toMatchObject({
      done: true,
      moved: null,
      run: { id, state: 'running', endedAt: null },
    })
    expect(effects(done)).toEqual(effects(preview))
    expect(await w.play(id)).toEqual(['b', 'c', 'tidy'])
    expect((await w.standing(id)).state).toBe('succeeded')
    expect(await runCounts(w, id)).toEqual({ a: 1, b: 2, c: 1, apart: 1, tidy: 2 })
  })

  it('asked for twice is done once while it is under way, and again after that', async () => {
    const id = await played(w, chain, ['b'])
    expect(acted(await w.act(id, 'rerun')).done).toBe(true)
    const twice = await Promise.all([w.act(id, 'rerun'), w.act(id, 'rerun', { what: 'failed' })])
    expect(twice.map((each) => [each.status, acted(each).done])).toEqual([
      [200, false],
      [200, false],
    ])
    await w.play(id, (name) => (name === 'b' ? 'failed' : undefined))
    expect((await runCounts(w, id))['b']).toBe(2)
    expect(acted(await w.act(id, 'rerun')).done).toBe(true)
    await w.play(id)
    expect((await runCounts(w, id))['b']).toBe(3)
  })

  it('of four at once one is done', async () => {
    const id = await played(w, chain, ['b'])
    const all = await Promise.all(Array.from({ length: 4 }, () => w.act(id, 'rerun')))
    expect(all.filter((each) => acted(each).done)).toHaveLength(1)
    await w.play(id)
    expect(await runCounts(w, id)).toEqual({ a: 1, b: 2, c: 1, apart: 1, tidy: 2 })
    const { acts } = (await w.t.call('GET', `/v1/workflow-runs/${id}/history`)).body as never
    expect(acts).toHaveLength(1)
  })

  it('of what failed leaves alone what was allowed to fail, until it is named', async () => {
    const tasks = [
      task('soft', [], { allowFailure: true }),
      task('hard', []),
      task('after', ['soft', 'hard']),
    ]
    const id = await played(w, { tasks }, ['soft', 'hard'])
    await w.act(id, 'rerun')
    expect(await w.play(id)).toEqual(['hard', 'after'])
    expect(await w.standing(id)).toEqual({
      state: 'succeeded',
      tasks: { soft: 'failed', hard: 'succeeded', after: 'succeeded' },
    })
    const again = await w.act(id, 'rerun')
    expect([again.status, again.body.code]).toEqual([409, 'invalid_state'])
    await w.act(id, 'rerun', { what: 'only', tasks: ['soft'] })
    expect(await w.play(id)).toEqual(['soft'])
    expect(await runCounts(w, id)).toEqual({ soft: 2, hard: 2, after: 1 })
  })

  it('from a task, of a task alone, of all', async () => {
    const id = await played(w, chain)
    await w.act(id, 'rerun', { what: 'from', tasks: ['b'] })
    expect(await w.play(id)).toEqual(['b', 'c', 'tidy'])
    await w.act(id, 'rerun', { what: 'only', tasks: ['b'] })
    expect(await w.play(id)).toEqual(['b', 'tidy'])
    await w.act(id, 'rerun', { what: 'only', tasks: ['tidy'] })
    expect(await w.play(id)).toEqual(['tidy'])
    await w.act(id, 'rerun', { what: 'all' })
    expect((await w.play(id)).toSorted()).toEqual(['a', 'apart', 'b', 'c', 'tidy'])
    expect(await runCounts(w, id)).toEqual({ a: 2, b: 4, c: 3, apart: 2, tidy: 5 })
  })

  it('of a task alone brings back what never ran because of it', async () => {
    const id = await played(w, chain, ['a'])
    await w.act(id, 'rerun', { what: 'only', tasks: ['a'] })
    expect(await w.play(id)).toEqual(['a', 'b', 'c', 'tidy'])
    expect((await w.standing(id)).state).toBe('succeeded')
  })

  it('takes another input for what runs again; what is kept keeps its output', async () => {
    const tasks = [
      task('a', [], { inputFrom: [{ to: '/day', input: '/day' }] }),
      task('b', ['a'], {
        inputFrom: [
          { to: '/day', input: '/day' },
          { to: '/a', task: 'a', path: '/n', default: 'none' },
        ],
      }),
    ]
    const { name } = await w.store({ tasks })
    const id = await w.ask(name, { input: { day: 'monday' } })
    const answer = (name: string): TaskAnswer => (name === 'a' ? { output: { n: 1 } } : 'failed')
    await w.play(id, answer)
    const done = await w.act(id, 'rerun', { input: { day: 'tuesday' } })
    expect(acted(done).run.input).toEqual({ day: 'tuesday' })
    await w.play(id)
    const rows = await sql<{ task: number; input: unknown }>(
      `SELECT task, input FROM belfry.run WHERE workflow_run_id = $1 ORDER BY id`,
      [id],
    )
    expect(rows).toEqual([
      { task: 0, input: { day: 'monday' } },
      { task: 1, input: { day: 'monday', a: 1 } },
      { task: 1, input: { day: 'tuesday', a: 1 } },
    ])
  })

  it('gives no output of an earlier run of a task that fails now', async () => {
    const b = task('b', ['a'], { rule: 'all_done', inputFrom: [{ to: '/a', task: 'a', default: 'none' }] })
    const { name } = await w.store({ tasks: [task('a'), b] })
    const id = await w.ask(name)
    await w.play(id, (name) => (name === 'a' ? { output: 'first' } : undefined))
    await w.act(id, 'rerun', { what: 'from', tasks: ['a'] })
    await w.play(id, (name) => (name === 'a' ? 'failed' : undefined))
    const rows = await sql<{ input: unknown }>(
      `SELECT input FROM belfry.run WHERE workflow_run_id = $1 AND task = 1 ORDER BY id`,
      [id],
    )
    expect(rows.map(({ input }) => input)).toEqual([{ a: 'first' }, { a: 'none' }])
  })

  it('of a workflow run that is alive puts back what has ended', async () => {
    const { name } = await w.store({ tasks: [task('bad'), task('slow'), task('end', ['bad', 'slow'])] })
    const id = await w.ask(name)
    await w.resolver.runOnce()
    const held = await w.claim(id)
    for (const run of held) if (run.task === 'bad') await w.end(run, 'failed')
    await w.resolver.runOnce()
    const done = await w.act(id, 'rerun')
    expect(effects(done)).toEqual({
      bad: 'starts started',
      slow: 'kept started',
      end: 'waits waiting_for_dependencies',
    })
    for (const run of held) if (run.task === 'slow') await w.end(run, { output: null })
    expect(await w.play(id)).toEqual(['bad', 'end'])
    expect((await w.standing(id)).state).toBe('succeeded')
    expect(await runCounts(w, id)).toEqual({ bad: 2, slow: 1, end: 1 })
  })

  it('skips tasks this once, and runs them the next time', async () => {
    const id = await played(w, {
      tasks: [task('a'), task('b', ['a'], { rule: 'all_done' }), task('c', ['a'])],
    })
    const once = await w.act(id, 'rerun', { what: 'all', skip: ['a'] })
    expect(effects(once)).toEqual({ a: 'marked skipped', b: 'starts started', c: 'ends skipped' })
    expect(await w.play(id)).toEqual(['b'])
    await w.act(id, 'rerun', { what: 'all' })
    expect(await w.play(id)).toEqual(['a', 'b', 'c'])
  })

  it('keeps what a branch passed over, unless it is named', async () => {
    const tasks = [
      task('pick', [], { kind: 'branch' }),
      task('left', ['pick']),
      task('right', ['pick']),
      task('other'),
      task('join', ['left', 'right', 'other']),
    ]
    const { name } = await w.store({ tasks })
    const id = await w.ask(name)
    await w.play(id, (name) =>
      name === 'pick' ? { output: ['left'] } : name === 'other' ? 'failed' : undefined,
    )
    expect((await w.standing(id)).tasks).toMatchObject({ right: 'skipped', join: 'upstream_failed' })
    await w.act(id, 'rerun')
    expect(await w.play(id)).toEqual(['other', 'join'])
    await w.act(id, 'rerun', { what: 'only', tasks: ['right'] })
    expect(await w.play(id)).toEqual(['right'])
  })

  it('of what failed runs only the items of a mapped task that did not succeed', async () => {
    const each = task('each', [], { forEach: { from: { items: ['a', 'b', 'c', 'd', 'e'] }, concurrency: 2 } })
    const sum = task('sum', ['each'], { inputFrom: [{ to: '', task: 'each' }] })
    const { name } = await w.store({ tasks: [each, sum] })
    const id = await w.ask(name)
    const answer = (round: string, failing: readonly number[]) => (name: string, run: HeldTask) =>
      name !== 'each'
        ? undefined
        : failing.includes(run.item ?? -1)
          ? 'failed'
          : { output: `${round}${run.item}` }
    await w.play(id, answer('first', [1, 3, 4]))
    await w.act(id, 'rerun')
    expect(await w.play(id, answer('second', [4]))).toEqual(['each[1]', 'each[3]', 'each[4]'])
    await w.act(id, 'rerun')
    expect(await w.play(id, answer('third', []))).toEqual(['each[4]', 'sum'])
    const [row] = await sql<{ input: unknown }>(
      `SELECT input FROM belfry.run WHERE workflow_run_id = $1 AND task = 1`,
      [id],
    )
    expect(row?.input).toEqual(['first0', 'second1', 'first2', 'second3', 'third4'])
    await w.act(id, 'rerun', { what: 'from', tasks: ['each'] })
    expect(await w.play(id)).toHaveLength(6)
  })

  it('runs the items of a mapped task again, and what stood before them stays on record', async () => {
    const each = task('each', [], { forEach: { from: { input: '/list' } } })
    const { name } = await w.store({
      tasks: [each, task('sum', ['each'], { inputFrom: [{ to: '', task: 'each' }] })],
    })
    const id = await w.ask(name, { input: { list: [1, 2] } })
    await w.play(id, (name, run) => (name === 'each' && run.item === 1 ? 'failed' : undefined))
    await w.act(id, 'rerun', { input: { list: [1, 2, 3] } })
    await w.play(id, (name, run) => (name === 'each' ? { output: `item ${run.item}` } : undefined))
    expect((await w.standing(id)).state).toBe('succeeded')
    expect(await runCounts(w, id)).toEqual({ each: 5, sum: 1 })
  })
})

describe('a rerun of tasks without a job', () => {
  it('waits anew: for another decision, and with another workflow run of its own', async () => {
    const { name: inner } = await w.store({ tasks: [task('inside')] })
    const tasks = [
      { id: 'ok', approval: { message: 'Ship it?' } },
      { id: 'sub', workflow: inner, needs: ['ok'] },
    ]
    const { name } = await w.store({ tasks })
    const id = await w.ask(name)
    const waits = () =>
      sql<{ task_id: string; state: string | null; child_id: string | null }>(
        `SELECT task_id, state, child_id FROM belfry.task_wait WHERE workflow_run_id = $1 ORDER BY id`,
        [id],
      )
    const approve = async () => {
      await w.resolver.runOnce()
      const done = await w.t.call('POST', `/v1/workflow-runs/${id}/approve`, { body: { task: 'ok' } })
      expect(done.status).toBe(200)
      await w.resolver.runOnce()
      const child = (await waits()).find((each) => each.child_id !== null && each.state === null)?.child_id
      await w.play(child ?? '')
      await w.resolver.runOnce()
    }
    await approve()
    expect((await w.standing(id)).state).toBe('succeeded')
    await w.act(id, 'rerun', { what: 'all' })
    await approve()
    expect((await w.standing(id)).state).toBe('succeeded')
    const all = await waits()
    expect(all.map((each) => [each.task_id, each.state])).toEqual([
      ['ok', 'succeeded'],
      ['sub', 'succeeded'],
      ['ok', 'succeeded'],
      ['sub', 'succeeded'],
    ])
    expect(new Set(all.map((each) => each.child_id)).size).toBe(3)
  })
})

describe('a rerun of a large workflow run', () => {
  it('of 5,000 tasks is decided and answered as a whole', async () => {
    const wide = Array.from({ length: 4_998 }, (_, n) => task(`t${n}`, [n % 2 === 0 ? 'a' : `t${n - 1}`]))
    const tasks = [task('a'), ...wide, task('z', ['t4997'])]
    const { name } = await w.store({ tasks })
    const id = await w.ask(name, { skip: ['a'] })
    await w.resolver.runOnce()
    await w.act(id, 'mark', { tasks: ['z'], state: 'failed', reason: 'to be run again' })
    await w.resolver.runOnce()
    const done = await w.act(id, 'rerun', { what: 'all', skip: ['a'] })
    expect(acted(done).tasks).toHaveLength(5_000)
    expect(acted(done).tasks.filter(({ effect }) => effect === 'kept')).toEqual([])
    await w.resolver.runOnce()
    expect((await w.standing(id)).state).toBe('succeeded')
  })
})

describe('a rerun on the newest version', () => {
  it('tells what is new, changed and gone, and goes on with it', async () => {
    const name = 'moving'
    await w.store({ tasks: [task('a'), task('b', ['a']), task('c', ['b'])] }, name)
    const id = await w.ask(name)
    await w.play(id, (name) => (name === 'c' ? 'failed' : undefined))
    const tasks = [task('first'), task('a'), task('c', ['a'], { rule: 'all_done' }), task('d', ['c'])]
    await w.store({ tasks }, name)
    const preview = await w.act(id, 'rerun', { version: 'newest' }, '?dryRun=true')
    expect(acted(preview).moved).toMatchObject({
      from: 1,
      to: 2,
      added: ['first', 'd'],
      changed: ['c'],
      removed: ['b'],
    })
    expect(effects(preview)).toEqual({
      first: 'starts started',
      a: 'kept succeeded',
      c: 'starts started',
      d: 'waits waiting_for_dependencies',
    })
    expect((await w.standing(id)).tasks).toMatchObject({ b: 'succeeded' })
    await w.act(id, 'rerun', { version: 'newest' })
    expect((await w.play(id)).toSorted()).toEqual(['c', 'd', 'first'])
    expect(await w.standing(id)).toEqual({
      state: 'succeeded',
      tasks: { first: 'succeeded', a: 'succeeded', c: 'succeeded', d: 'succeeded' },
    })
    expect(await runCounts(w, id)).toEqual({ first: 1, a: 1, c: 2, d: 1 })
    // what is gone keeps its runs, and has them again when it comes back
    await w.store({ tasks: [task('b'), task('a')] }, name)
    await w.act(id, 'rerun', { what: 'only', tasks: ['a'], version: 'newest' })
    await w.play(id)
    expect(await runCounts(w, id)).toEqual({ b: 2, a: 2 })
  })
})

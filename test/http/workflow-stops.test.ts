// What ends a workflow run before its time, on the real engine: a failure, its own timeout, a cancel; and
// what cleans up after it: finally, onFailure, teardowns.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Database } from '../../packages/server/src/postgres/database.ts'
import { createPostgresWorkflowResolving } from '../../packages/server/src/postgres/workflow-resolving.ts'
import { openWorkflowApi, type TaskAnswer, type WorkflowApi } from '../support/workflow-api.ts'

let rig: WorkflowApi
beforeAll(async () => {
  rig = await openWorkflowApi()
})
afterAll(() => rig.close())

const handler = { kind: 'http', url: 'https://example.com/hook' }
const task = (id: string, needs: readonly string[] = [], more: object = {}) => ({
  id,
  handler,
  needs,
  ...more,
})
const sql = (text: string, params: readonly unknown[] = []) => rig.t.database.sql(text, [...params])

async function begin(definition: object): Promise<string> {
  const { name } = await rig.store(definition)
  const id = await rig.ask(name)
  await rig.resolver.runOnce()
  return id
}
/** As if its time were over. */
const timeOut = async (id: string): Promise<void> => {
  await sql(`UPDATE belfry.workflow_progress SET deadline = belfry.now() WHERE workflow_run_id = $1`, [id])
  await rig.resolver.runOnce()
}
const cancel = async (id: string): Promise<void> => {
  expect((await rig.act(id, 'cancel')).status).toBe(202)
  await rig.resolver.runOnce()
}
async function endOne(id: string, name: string, answer: TaskAnswer): Promise<void> {
  const held = (await rig.claim(id)).find((run) => run.task === name)
  if (held === undefined) throw new Error(`${name} does not run.`)
  await rig.end(held, answer)
  await rig.resolver.runOnce()
}
/** What runs, and which of it is asked to end. */
const running = async (id: string): Promise<string[]> =>
  (await rig.claim(id)).map((run) => (run.cancelRequested ? `${run.task} (asked to end)` : run.task))
const answered = (task: string, canceled: boolean): TaskAnswer | undefined =>
  canceled ? 'canceled' : task === 'bad' ? 'failed' : undefined

describe('a failure with failFast', () => {
  const tasks = [task('bad'), task('slow'), task('next', ['slow']), task('below', ['bad'])]

  it('finish_running: nothing more starts, what runs goes on', async () => {
    const id = await begin({ tasks, failFast: 'finish_running' })
    await endOne(id, 'bad', 'failed')
    expect(await running(id)).toEqual(['slow'])
    expect(await rig.play(id)).toEqual(['slow'])
    expect(await rig.standing(id)).toEqual({
      state: 'failed',
      tasks: { bad: 'failed', slow: 'succeeded', next: 'not_run', below: 'upstream_failed' },
    })
  })

  it('cancel_running: what runs is asked to end; onFailure and finally run', async () => {
    const id = await begin({
      tasks,
      failFast: 'cancel_running',
      onFailure: [task('tell')],
      finally: [task('tidy')],
    })
    await endOne(id, 'bad', 'failed')
    expect(await running(id)).toEqual(['slow (asked to end)'])
    expect(await rig.play(id, (name, run) => answered(name, run.cancelRequested))).toEqual([
      'slow',
      'tell',
      'tidy',
    ])
    expect(await rig.standing(id)).toMatchObject({
      state: 'failed',
      tasks: { slow: 'canceled', next: 'not_run', tell: 'succeeded', tidy: 'succeeded' },
    })
  })

  it('a cancel after it still ends what runs', async () => {
    const id = await begin({ tasks, failFast: 'finish_running' })
    await endOne(id, 'bad', 'failed')
    await cancel(id)
    expect(await running(id)).toEqual(['slow (asked to end)'])
    await rig.play(id, (name, run) => answered(name, run.cancelRequested))
    expect((await rig.standing(id)).state).toBe('canceled')
  })

  it('the time of the run goes on counting after it', async () => {
    const id = await begin({ tasks, failFast: 'finish_running', timeoutMs: 60_000 })
    await endOne(id, 'bad', 'failed')
    const [row] = (await sql(`SELECT deadline FROM belfry.workflow_progress WHERE workflow_run_id = $1`, [
      id,
    ])) as { deadline: Date | null }[]
    expect(row?.deadline).not.toBeNull()
    await timeOut(id)
    expect(await running(id)).toEqual(['slow (asked to end)'])
  })
})

describe('the time of a run', () => {
  it('is over: what runs is asked to end, what waits never starts, and clean-up runs', async () => {
    const tasks = [task('slow'), task('next', ['slow']), { id: 'ask', approval: { message: 'ok?' } }]
    const more = { timeoutMs: 60_000, onFailure: [task('tell')], finally: [task('tidy')] }
    const id = await begin({ tasks, ...more })
    expect(await running(id)).toEqual(['slow'])
    await timeOut(id)
    expect(await running(id)).toEqual(['slow (asked to end)'])
    expect(await rig.play(id, (name, run) => answered(name, run.cancelRequested))).toEqual([
      'slow',
      'tell',
      'tidy',
    ])
    expect(await rig.standing(id)).toEqual({
      state: 'failed',
      tasks: { slow: 'canceled', next: 'canceled', ask: 'canceled', tell: 'succeeded', tidy: 'succeeded' },
    })
  })

  it('ends a workflow that is a task of it, too', async () => {
    const child = await rig.store({ tasks: [task('inner')] })
    const id = await begin({ tasks: [{ id: 'sub', workflow: child.name }], timeoutMs: 60_000 })
    const [row] = (await sql(`SELECT child_id FROM belfry.task_wait WHERE workflow_run_id = $1`, [id])) as {
      child_id: string
    }[]
    await timeOut(id)
    expect(await rig.standing(row?.child_id ?? '')).toEqual({
      state: 'canceled',
      tasks: { inner: 'canceled' },
    })
    expect(await rig.standing(id)).toEqual({ state: 'failed', tasks: { sub: 'canceled' } })
  })
})

describe('a cancel', () => {
  it('lets teardowns of what was set up run, then finally, but not onFailure', async () => {
    const tasks = [
      task('up'),
      task('work', ['up']),
      task('down', ['work'], { teardownOf: 'up' }),
      task('never-up', ['work']),
      task('never-down', ['never-up'], { teardownOf: 'never-up' }),
    ]
    const id = await begin({ tasks, onFailure: [task('tell')], finally: [task('tidy')] })
    await endOne(id, 'up', { output: null })
    expect(await running(id)).toEqual(['work'])
    await cancel(id)
    expect(await running(id)).toEqual(['work (asked to end)'])
    expect(await rig.play(id, (name, run) => answered(name, run.cancelRequested))).toEqual([
      'work',
      'down',
      'tidy',
    ])
    expect(await rig.standing(id)).toMatchObject({
      state: 'canceled',
      tasks: {
        up: 'succeeded',
        work: 'canceled',
        down: 'succeeded',
        'never-up': 'canceled',
        tell: 'skipped',
      },
    })
  })

  it('again changes nothing; a failure of clean-up is not hidden', async () => {
    const id = await begin({ tasks: [task('slow')], finally: [task('bad')] })
    await running(id)
    await cancel(id)
    await cancel(id)
    await rig.play(id, (name, run) => answered(name, run.cancelRequested))
    expect(await rig.standing(id)).toEqual({ state: 'canceled', tasks: { slow: 'canceled', bad: 'failed' } })
    expect((await rig.act(id, 'cancel')).body.code).toBe('invalid_state')
  })
})

describe('setup and teardown', () => {
  const tasks = [
    task('up'),
    task('work', ['up']),
    task('down', ['work'], { teardownOf: 'up' }),
    task('after', ['work']),
  ]
  const ends =
    (fails: string) =>
    (name: string): TaskAnswer | undefined =>
      name === fails ? 'failed' : undefined

  it.each([
    ['nothing', { up: 'succeeded', work: 'succeeded', down: 'succeeded', after: 'succeeded' }, 'succeeded'],
    ['work', { up: 'succeeded', work: 'failed', down: 'succeeded', after: 'upstream_failed' }, 'failed'],
    [
      'up',
      { up: 'failed', work: 'upstream_failed', down: 'upstream_failed', after: 'upstream_failed' },
      'failed',
    ],
    ['down', { up: 'succeeded', work: 'succeeded', down: 'failed', after: 'succeeded' }, 'failed'],
  ])('%s fails', async (fails, states, state) => {
    const id = await begin({ tasks })
    await rig.play(id, ends(fails))
    expect(await rig.standing(id)).toEqual({ state, tasks: states })
  })
})

describe('onFailure', () => {
  it('runs after a failure, with its own needs; a failure that is allowed is none', async () => {
    const onFailure = [task('tell'), task('log', ['tell'])]
    const failed = await begin({ tasks: [task('bad')], onFailure })
    expect(await rig.play(failed, (name) => answered(name, false))).toEqual(['bad', 'tell', 'log'])
    expect((await rig.standing(failed)).state).toBe('failed')
    const allowed = await begin({ tasks: [task('bad', [], { allowFailure: true })], onFailure })
    expect(await rig.play(allowed, (name) => answered(name, false))).toEqual(['bad'])
    expect(await rig.standing(allowed)).toEqual({
      state: 'succeeded',
      tasks: { bad: 'failed', tell: 'skipped', log: 'skipped' },
    })
  })
})

describe('a wait in clean-up that nothing ends', () => {
  const approve = { id: 'approve', approval: { message: 'All clean?' } }
  const tidy = task('tidy', ['approve'])

  it.each([
    ['a cancel', cancel, 'canceled'],
    ['a timeout', timeOut, 'failed'],
  ])('keeps the run alive after %s, until it is marked', async (_, stop, state) => {
    const id = await begin({ tasks: [task('work')], finally: [approve, tidy] })
    expect(await running(id)).toEqual(['work'])
    await stop(id)
    expect(await rig.play(id, (_name, run) => answered('', run.cancelRequested))).toEqual(['work'])
    const explained = (await rig.t.call('GET', `/v1/workflow-runs/${id}/explanation`)).body
    expect(explained).toMatchObject({ task: 'approve', verdict: 'approval' })
    expect((explained as { fix?: string }).fix).toContain(
      `belfry workflow-run mark ${id} approve --as skipped`,
    )
    const refused = await rig.act(id, 'mark', { tasks: ['work'], state: 'succeeded', reason: 'by hand' })
    expect(refused).toMatchObject({ status: 409, body: { errors: [{ pointer: '/tasks/0' }] } })
    expect((await rig.act(id, 'rerun', { what: 'all' })).body.detail).toMatch(/mark ends a task/)
    const marked = await rig.act(id, 'mark', { tasks: ['approve'], state: 'succeeded', reason: 'by hand' })
    expect(marked.status).toBe(200)
    expect(await rig.play(id)).toEqual(['tidy'])
    expect(await rig.standing(id)).toEqual({
      state,
      tasks: { work: 'canceled', approve: 'succeeded', tidy: 'succeeded' },
    })
  })

  it('can be marked while the cancel is on its way', async () => {
    const id = await begin({ tasks: [task('work')], finally: [approve] })
    await rig.act(id, 'cancel')
    const body = { tasks: ['approve'], state: 'skipped', reason: 'nobody is there' }
    expect((await rig.act(id, 'mark', body)).status).toBe(200)
    await rig.play(id, (_name, run) => answered('', run.cancelRequested))
    expect(await rig.standing(id)).toEqual({
      state: 'canceled',
      tasks: { work: 'canceled', approve: 'skipped' },
    })
  })

  it('is warned of when it is saved', async () => {
    const signal = { id: 'signal', wait: { signal: 'go' }, teardownOf: 'up', needs: ['up'] }
    const bounded = { id: 'bounded', approval: { message: 'Sure?', atMostMs: 60_000 } }
    const body = { name: 'warned', tasks: [task('up'), signal], finally: [approve, bounded] }
    const { warnings } = (await rig.t.call('POST', '/v1/workflows', { body })).body as never as {
      warnings: readonly { code: string; pointer: string }[]
    }
    expect(warnings.map(({ code, pointer }) => [code, pointer])).toEqual([
      ['waits_without_end', '/tasks/1/wait'],
      ['waits_without_end', '/finally/0/approval'],
    ])
  })
})

describe('a stop whose requests miss what runs, again and again', () => {
  /** A database where requests to cancel find nothing, and say so, for so many looks. */
  const missing = (db: Database, looks: number): Database => {
    let left = looks
    return {
      ...db,
      transaction: (scope, work) =>
        db.transaction(scope, (tx) =>
          work({
            ...tx,
            async query(statement, params) {
              if (left > 0 && statement.name.startsWith('workflow_cancel_')) return []
              if (left > 0 && statement.name === 'workflow_missed_tasks') left -= 1
              return tx.query(statement, params)
            },
          }),
        ),
    }
  }

  it.each([4, 13])('%i times: a timeout ends a task of onFailure that ran before it', async (looks) => {
    const id = await beginMending()
    const resolver = rig.newResolver(createPostgresWorkflowResolving(missing(rig.t.db, looks)))
    await resolver.runOnce()
    expect(await running(id)).toEqual(['mend (asked to end)'])
    await endOne(id, 'mend', 'canceled')
    expect(await rig.play(id)).toEqual(['tidy'])
    expect((await rig.standing(id)).state).toBe('failed')
  })

  it('too often for a round: nothing of the stop is on record without its requests', async () => {
    const id = await beginMending()
    const resolver = rig.newResolver(createPostgresWorkflowResolving(missing(rig.t.db, 1_000)))
    for (let round = 0; round < 3; round++) await resolver.runOnce()
    expect(await running(id)).toEqual(['mend'])
    const stop = await sql('SELECT stop FROM belfry.workflow_progress WHERE workflow_run_id = $1', [id])
    expect(stop).toEqual([{ stop: null }])
    await rig.resolver.runOnce()
    expect(await running(id)).toEqual(['mend (asked to end)'])
    await endOne(id, 'mend', 'canceled')
    await rig.play(id)
  })

  /** Its task of onFailure is at work, and its time is over. */
  async function beginMending(): Promise<string> {
    const id = await begin({
      tasks: [task('bad')],
      onFailure: [task('mend')],
      finally: [task('tidy')],
      timeoutMs: 60_000,
    })
    await endOne(id, 'bad', 'failed')
    expect(await running(id)).toEqual(['mend'])
    await sql(`UPDATE belfry.workflow_progress SET deadline = belfry.now() WHERE workflow_run_id = $1`, [id])
    return id
  }
})

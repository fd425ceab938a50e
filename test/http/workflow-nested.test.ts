// Workflows as tasks of others, limits of how many runs there are at once, and inputs against their schema:
// over the API and on the real engine.
import type { JsonValue } from '@belfry/contract'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openWorkflowApi, type WorkflowApi } from '../support/workflow-api.ts'

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
const sql = <Row extends Record<string, unknown>>(text: string, params: readonly unknown[] = []) =>
  rig.t.database.sql<Row>(text, [...params])
const get = async (id: string) => (await rig.t.call('GET', `/v1/workflow-runs/${id}`)).body
const stateOf = async (id: string): Promise<string> => (await get(id)).state

async function childrenOf(id: string): Promise<string[]> {
  const rows = await sql<{ child_id: string }>(
    `SELECT child_id FROM belfry.task_wait WHERE workflow_run_id = $1 ORDER BY task, item, id`,
    [id],
  )
  return rows.map((row) => row.child_id)
}
async function begin(workflow: string, more: object = {}): Promise<string> {
  const id = await rig.ask(workflow, more)
  await rig.resolver.runOnce()
  return id
}
const playChild = async (id: string, answer?: Parameters<WorkflowApi['play']>[1]): Promise<string> => {
  const [child = ''] = await childrenOf(id)
  await rig.play(child, answer)
  return child
}

describe('a workflow as a task', () => {
  it('is begun with its input; its state and output come up', async () => {
    const child = await rig.store({
      tasks: [task('double', [], { inputFrom: [{ to: '/n', input: '/n' }] })],
      outputFrom: [
        { to: '/twice', task: 'double', path: '/value' },
        { to: '/none', task: 'double', path: '/no' },
        { to: '/n', input: '/n' },
      ],
    })
    const parent = await rig.store({
      tasks: [
        { id: 'sub', workflow: child.name, inputFrom: [{ to: '/n', input: '/start' }] },
        task('after', ['sub'], { inputFrom: [{ to: '', task: 'sub' }] }),
      ],
    })
    const id = await begin(parent.name, { input: { start: 21 } })
    const run = await playChild(id, (_, { input }) => ({
      output: { value: (input as { n: number }).n * 2 },
    }))
    expect(await get(run)).toMatchObject({
      workflow: child.name,
      parentId: id,
      source: 'task',
      state: 'succeeded',
      input: { n: 21 },
      output: { twice: 42, n: 21 },
    })
    const inputs: JsonValue[] = []
    await rig.play(id, (_, held) => {
      inputs.push(held.input)
      return undefined
    })
    expect(inputs).toEqual([{ twice: 42, n: 21 }])
    expect(await get(id)).toMatchObject({ state: 'succeeded', parentId: null, output: null })
    const { tasks } = (await rig.t.call('GET', `/v1/workflow-runs/${id}/tasks`)).body
    expect(tasks).toMatchObject([{ id: 'sub', wait: { kind: 'workflow', workflowRunId: run } }, {}])
  })

  it('that fails or is canceled fails what needs it', async () => {
    const child = await rig.store({ tasks: [task('a')] })
    const parent = await rig.store({ tasks: [{ id: 'sub', workflow: child.name }, task('after', ['sub'])] })
    const failing = await begin(parent.name)
    await playChild(failing, () => 'failed')
    await rig.resolver.runOnce()
    expect(await rig.standing(failing)).toEqual({
      state: 'failed',
      tasks: { sub: 'failed', after: 'upstream_failed' },
    })
    const canceling = await begin(parent.name)
    const [run = ''] = await childrenOf(canceling)
    await rig.act(run, 'cancel')
    await rig.resolver.runOnce()
    expect((await rig.standing(canceling)).tasks).toEqual({ sub: 'canceled', after: 'upstream_failed' })
  })

  it('is canceled with the run that it is a task of, whose clean-up waits for that', async () => {
    const child = await rig.store({ tasks: [task('slow')], finally: [task('tidy-inner')] })
    const parent = await rig.store({
      tasks: [{ id: 'sub', workflow: child.name }],
      finally: [task('tidy')],
    })
    const id = await begin(parent.name)
    const [run = ''] = await childrenOf(id)
    const [held] = await rig.claim(run)
    await rig.act(id, 'cancel')
    await rig.resolver.runOnce()
    expect((await rig.claim(run))[0]).toMatchObject({ task: 'slow', cancelRequested: true })
    expect(await rig.claim(id)).toEqual([])
    if (held !== undefined) await rig.end(held, 'canceled')
    expect(await rig.play(run)).toEqual(['tidy-inner'])
    expect(await rig.play(id)).toEqual(['tidy'])
    expect([await stateOf(run), await stateOf(id)]).toEqual(['canceled', 'canceled'])
  })

  it('runs once for each item, each with its own', async () => {
    const child = await rig.store({
      tasks: [task('a', [], { inputFrom: [{ to: '', input: '/n' }] })],
      outputFrom: [{ to: '', task: 'a' }],
    })
    const each = { forEach: { from: { input: '' }, concurrency: 2 }, inputFrom: [{ to: '/n', item: '' }] }
    const parent = await rig.store({
      tasks: [{ id: 'sub', workflow: child.name, ...each }],
      outputFrom: [{ to: '/all', task: 'sub' }],
    })
    const id = await begin(parent.name, { input: [1, 2, 3] })
    const widths: number[] = []
    for (let done = 0; done < 3; ) {
      const children = await childrenOf(id)
      widths.push(children.length - done)
      await rig.play(children[done++] ?? '', (_, { input }) => ({ output: input }))
    }
    expect(widths).toEqual([2, 2, 1])
    expect(await get(id)).toMatchObject({ state: 'succeeded', output: { all: [1, 2, 3] } })
  })

  it('checks the input of what it begins, and fails with the place', async () => {
    const inputSchema = {
      type: 'object',
      properties: { day: { type: 'string', format: 'date' } },
      required: ['day'],
    }
    const child = await rig.store({ tasks: [task('a')], inputSchema })
    const parent = await rig.store({ tasks: [{ id: 'sub', workflow: child.name, input: { day: 'monday' } }] })
    const id = await begin(parent.name)
    expect(await stateOf(id)).toBe('failed')
    const { tasks } = (await rig.t.call('GET', `/v1/workflow-runs/${id}/tasks`)).body
    expect((tasks as unknown as { note: string }[])[0]?.note).toContain('/day is not a date')
  })

  it('goes eight deep, and no further', async () => {
    let { name } = await rig.store({ tasks: [task('leaf')] })
    for (let depth = 0; depth < 9; depth++)
      ({ name } = await rig.store({ tasks: [{ id: 'sub', workflow: name }] }))
    const id = await begin(name)
    expect(await stateOf(id)).toBe('failed')
    const [row] = await sql<{ notes: Record<string, string>; depth: number }>(
      `SELECT notes, depth FROM belfry.workflow_run WHERE notes::text LIKE '%deep%' ORDER BY id DESC LIMIT 1`,
    )
    expect(row).toMatchObject({ depth: 8, notes: { 0: expect.stringContaining('8 deep at most') as string } })
  })

  it('has to be there, may not be the workflow itself, and is not deleted while it is a task', async () => {
    const body = { name: 'round', tasks: [{ id: 'a', workflow: 'round' }] }
    const itself = await rig.t.call('POST', '/v1/workflows', { body })
    expect(itself.body).toMatchObject({ code: 'invalid_request', errors: [{ pointer: '/tasks/0/workflow' }] })
    const child = await rig.store({ tasks: [task('a')] }, 'nightly-load')
    const typo = { name: 'other', tasks: [{ id: 'a', workflow: 'nightly-laod' }] }
    const missing = await rig.t.call('POST', '/v1/workflows', { body: typo })
    expect(missing.body).toMatchObject({ code: 'not_found', errors: [{ pointer: '/tasks/0/workflow' }] })
    expect(missing.body.detail).toContain('did you mean "nightly-load"?')
    await rig.store({ tasks: [{ id: 'a', workflow: child.name }] }, 'uses-it')
    const gone = await rig.t.call('DELETE', `/v1/workflows/${child.id}`)
    expect(gone.body).toMatchObject({ code: 'in_use' })
    expect(gone.body.detail).toContain('workflow "uses-it"')
  })
})

describe('a limit of runs at once', () => {
  const one = { tasks: [task('a')], concurrency: { limit: 1 } }

  it('lets the others wait, by priority, then in order', async () => {
    const { name } = await rig.store(one)
    const ids = [await begin(name), await begin(name), await begin(name), await begin(name, { priority: 5 })]
    const states = () => Promise.all(ids.map(stateOf))
    expect(await states()).toEqual(['running', 'pending', 'pending', 'pending'])
    const order = [0, 3, 1, 2]
    for (const [place, index] of order.entries()) {
      expect(await rig.play(ids[index] ?? '')).toEqual(['a'])
      const now = await states()
      expect(now[index]).toBe('succeeded')
      // the last one is followed by none
      const next = order[place + 1] ?? index
      expect(now[next]).toBe(next === index ? 'succeeded' : 'running')
    }
  })

  it('holds with many resolvers at once', async () => {
    const { name } = await rig.store({ ...one, concurrency: { limit: 2 } })
    const ids = await Promise.all(Array.from({ length: 12 }, () => rig.ask(name)))
    const resolvers = [rig.resolver, rig.newResolver(), rig.newResolver(), rig.newResolver()]
    for (let done = 0; done < ids.length; ) {
      await Promise.all(resolvers.map((resolver) => resolver.runOnce()))
      const states = await Promise.all(ids.map(stateOf))
      const running = ids.filter((_, index) => states[index] === 'running')
      expect(running.length).toBe(Math.min(2, ids.length - done))
      for (const id of running) {
        const held = await rig.claim(id)
        expect(held).toHaveLength(1)
        for (const run of held) await rig.end(run, { output: null })
        done += 1
      }
    }
  })

  it('counts for each key of the input', async () => {
    const { name } = await rig.store({ ...one, concurrency: { key: 'customer' } })
    const ids = [
      await begin(name, { input: { customer: 'a' } }),
      await begin(name, { input: { customer: 'a' } }),
      await begin(name, { input: { customer: 'b' } }),
    ]
    expect(await Promise.all(ids.map(stateOf))).toEqual(['running', 'pending', 'running'])
  })

  it('tells values of several types apart; those without a value share one of their own', async () => {
    const { name } = await rig.store({ ...one, concurrency: { key: 'c' } })
    const values = [1, '1', true, 'true', [1], '[1]', '', 'null', 1]
    const inputs = [...values.map((c) => ({ c })), {}, { c: null }]
    const ids = []
    for (const input of inputs) ids.push(await begin(name, { input }))
    const states = await Promise.all(ids.map(stateOf))
    const waiting = inputs.filter((_, index) => states[index] === 'pending')
    expect(waiting).toEqual([{ c: 1 }, { c: null }])
  })

  it('skips, or takes the place of the one before', async () => {
    const skipping = await rig.store({ ...one, concurrency: { limit: 1, onLimit: 'skip' } })
    await begin(skipping.name)
    expect(await get(await begin(skipping.name))).toMatchObject({
      state: 'skipped',
      taskCounts: { not_run: 1 },
    })
    const replacing = await rig.store({ ...one, concurrency: { limit: 1, onLimit: 'replace' } })
    const ids = [await begin(replacing.name), await begin(replacing.name), await begin(replacing.name)]
    expect(await Promise.all(ids.map(stateOf))).toEqual(['canceled', 'canceled', 'running'])
  })

  it('one that waits is canceled without a start, and its time counts from its turn', async () => {
    const { name } = await rig.store({ ...one, timeoutMs: 60_000, finally: [task('tidy')] })
    const [first, second, third] = [await begin(name), await begin(name), await begin(name)]
    await rig.act(second, 'cancel')
    await rig.resolver.runOnce()
    expect(await rig.standing(second)).toEqual({
      state: 'canceled',
      tasks: { a: 'canceled', tidy: 'not_run' },
    })
    const deadline = () =>
      sql<{ deadline: Date | null }>(
        `SELECT deadline FROM belfry.workflow_progress WHERE workflow_run_id = $1`,
        [third],
      )
    expect((await deadline())[0]?.deadline).toBeNull()
    await rig.play(first)
    expect(await stateOf(third)).toBe('running')
    expect((await deadline())[0]?.deadline).not.toBeNull()
  })

  it('that is raised, or taken away, lets more in', async () => {
    const { name } = await rig.store(one)
    const ids = [await begin(name), await begin(name), await begin(name), await begin(name)]
    await rig.store({ ...one, concurrency: { limit: 2 } }, name)
    await rig.resolver.runOnce()
    expect(await Promise.all(ids.map(stateOf))).toEqual(['running', 'running', 'pending', 'pending'])
    await rig.store({ tasks: one.tasks }, name)
    await rig.resolver.runOnce()
    expect(await Promise.all(ids.map(stateOf))).toEqual(['running', 'running', 'running', 'running'])
  })

  it('is refused where it says nothing, or too much', async () => {
    const of = async (concurrency: object) => {
      const body = { name: 'limits', ...one, concurrency }
      return (await rig.t.call('POST', '/v1/workflows', { body })).body.errors[0]?.pointer
    }
    expect(await of({})).toBe('/concurrency')
    expect(await of({ limit: 1, key: 'x' })).toBe('/concurrency/limit')
    expect(await of({ limit: 1, keyLimit: 2 })).toBe('/concurrency/keyLimit')
  })
})

describe('the input of a run', () => {
  const inputSchema = {
    type: 'object',
    properties: {
      day: { type: 'string', format: 'date' },
      size: { type: 'integer', minimum: 1, maximum: 10, default: 3 },
    },
    required: ['day'],
    additionalProperties: false,
  }

  it('fits the schema of its workflow; what is left out has its default', async () => {
    const { name } = await rig.store({ tasks: [task('a')], inputSchema })
    const id = await rig.ask(name, { input: { day: '2026-12-01' } })
    expect(await get(id)).toMatchObject({ input: { day: '2026-12-01', size: 3 } })
    const refused = await rig.t.call('POST', '/v1/workflow-runs', {
      body: { workflow: name, input: { day: '2026-02-30', size: 11, more: true } },
    })
    expect(refused).toMatchObject({ status: 400, body: { code: 'invalid_request' } })
    expect(refused.body.errors.map(({ pointer }) => pointer)).toEqual([
      '/input/day',
      '/input/size',
      '/input/more',
    ])
    const none = await rig.t.call('POST', '/v1/workflow-runs', { body: { workflow: name } })
    expect(none.body.errors).toEqual([{ pointer: '/input/day', message: 'is missing; send it' }])
  })

  it('a schema with a keyword that is not known is refused when it is saved', async () => {
    const body = { name: 'odd', tasks: [task('a')], inputSchema: { properties: { x: { pattern: '^a' } } } }
    const { body: problem } = await rig.t.call('POST', '/v1/workflows', { body })
    expect(problem.errors[0]?.pointer).toContain('/inputSchema/properties/x')
  })
})

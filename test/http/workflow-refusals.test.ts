// What workflows are told off for, and what is kept of it: triggers that go round in a circle, a task that is
// taken down twice, an input that a run begun by another's end does not take, an event that was refused in
// part, and a change under a precondition that no longer holds.
import type { WorkflowRun, WorkflowRunExplanation } from '@belfry/contract'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openWorkflowApi, type WorkflowApi } from '../support/workflow-api.ts'

let w: WorkflowApi
beforeAll(async () => {
  w = await openWorkflowApi()
})
afterAll(() => w.close())

const handler = { kind: 'http', url: 'https://example.com/hook' }
const task = (id: string, more: object = {}) => ({ id, handler, ...more })
const apply = async (name: string, more: object = {}) =>
  (await w.t.call('POST', '/v1/workflows', { body: { name, tasks: [task('a')], ...more } })).body
const onEndOf = (...names: string[]) => ({ triggers: names.map((workflow) => ({ workflow })) })
const runsOf = async (workflow: string) =>
  (await w.t.call('GET', `/v1/workflow-runs?workflow=${workflow}`)).body.items
const runOf = async (id: string) =>
  (await w.t.call('GET', `/v1/workflow-runs/${id}`)).body as unknown as WorkflowRun

describe('triggers that go round in a circle', () => {
  it('are warned of by whoever closes it, with the circle in order', async () => {
    expect((await apply('ring-a', onEndOf('ring-c')))['warnings']).toEqual([])
    expect((await apply('ring-b', onEndOf('ring-a')))['warnings']).toEqual([])
    const closed = await apply('ring-c', onEndOf('elsewhere', 'ring-b'))
    expect(closed['warnings']).toEqual([
      {
        code: 'trigger_circle',
        pointer: '/triggers/1',
        message:
          'begins each other in a circle: ring-c → ring-a → ring-b → ring-c; after 50 runs it is stopped, ' +
          'so take one of these triggers out',
      },
    ])
    // also where nothing of it changes, and no longer once it is open
    expect((await apply('ring-b', onEndOf('ring-a')))['warnings']).toHaveLength(1)
    await apply('ring-a')
    expect((await apply('ring-b', onEndOf('ring-a')))['warnings']).toEqual([])
  })

  it('one that leads into a circle of others is not part of it', async () => {
    await apply('pair-a', onEndOf('pair-b'))
    await apply('pair-b', onEndOf('pair-a'))
    expect((await apply('beside', onEndOf('pair-a')))['warnings']).toEqual([])
  })
})

describe('a task that takes down another twice', () => {
  it('is refused, as one that needs another twice', async () => {
    const tasks = [task('up'), task('down', { teardownOf: ['up', 'up'], needs: ['up', 'up'] })]
    const { status, body } = await w.t.call('POST', '/v1/workflows', { body: { name: 'twice', tasks } })
    expect(status).toBe(400)
    expect(body.errors).toEqual([
      {
        pointer: '/tasks/1/needs/1',
        message: 'names "up" a second time, after /tasks/1/needs/0; keep one of them',
      },
      {
        pointer: '/tasks/1/teardownOf/1',
        message: 'names "up" a second time, after /tasks/1/teardownOf/0; keep one of them',
      },
    ])
  })
})

describe('a run that the end of another begins', () => {
  const schema = {
    type: 'object',
    properties: { rows: { type: 'integer' }, mode: { type: 'string', default: 'full' } },
    required: ['rows'],
    additionalProperties: false,
  }

  it('has the defaults of its schema where its input fits', async () => {
    const first = await w.store({ tasks: [task('a')] })
    const next = await w.store({
      tasks: [task('a')],
      inputSchema: schema,
      triggers: [{ workflow: first.name, input: { rows: 3 } }],
    })
    await w.play(await w.ask(first.name))
    const [begun] = await runsOf(next.name)
    expect(await runOf(String(begun?.id))).toMatchObject({
      state: 'running',
      input: { rows: 3, mode: 'full' },
    })
    await w.play(String(begun?.id))
  })

  it('ends failed where it does not, with the reason and the input, and can be run again', async () => {
    const first = await w.store({ tasks: [task('a')] })
    const next = await w.store({
      tasks: [task('a'), task('b', { needs: ['a'], rule: 'all_done' })],
      inputSchema: schema,
      ...onEndOf(first.name),
    })
    const after = await w.store({
      tasks: [task('a')],
      triggers: [{ workflow: next.name, states: ['failed'] }],
    })
    const cause = await w.ask(first.name)
    await w.play(cause)
    const [begun] = await runsOf(next.name)
    const id = String(begun?.id)
    const refused = await runOf(id)
    expect(refused).toMatchObject({
      state: 'failed',
      triggeredBy: cause,
      input: { workflow: first.name, workflowRunId: cause, state: 'succeeded' },
      taskCounts: { not_run: 2 },
    })
    expect(refused.note).toMatch(/^its input does not fit what the workflow takes: .*rows/)
    const told = await w.t.call('GET', `/v1/workflow-runs/${id}/explanation`)
    const why = told.body as unknown as WorkflowRunExplanation
    expect(why).toMatchObject({ verdict: 'no_run', task: null })
    expect(why.message).toContain(`No task ran: ${refused.note}`)
    expect(why.fix).toContain(`belfry workflow-run rerun ${id} --all --input`)
    // its end is an end like any other
    expect(await runsOf(after.name)).toHaveLength(1)
    // a mark does not let the others run with it
    await w.act(id, 'mark', { tasks: ['a'], state: 'skipped', reason: 'no' })
    expect(await w.play(id)).toEqual([])
    expect(await runOf(id)).toMatchObject({ state: 'failed', note: refused.note })
    // the same input is refused again, another one is taken
    const again = await w.act(id, 'rerun', { what: 'all' })
    expect(again.status).toBe(400)
    expect((await runOf(id)).state).toBe('failed')
    expect((await w.act(id, 'rerun', { what: 'all', input: { rows: 1 } })).status).toBe(200)
    await w.play(id)
    expect(await runOf(id)).toMatchObject({
      state: 'succeeded',
      note: null,
      input: { rows: 1, mode: 'full' },
    })
  })
})

describe('an event that comes again', () => {
  it('answers what it began, and who refused it', async () => {
    const inputSchema = { type: 'object', properties: { id: { type: 'integer' } }, required: ['id'] }
    await apply('takes-all', { triggers: [{ event: 'paid' }] })
    await apply('takes-ids', { triggers: [{ event: 'paid' }], inputSchema })
    const send = async () =>
      (await w.t.call('POST', '/v1/events', { body: { event: 'paid', key: 'k1', payload: { id: 'x' } } }))
        .body
    const first = await send()
    expect(first).toMatchObject({
      duplicate: false,
      runs: [{ workflow: 'takes-all' }],
      refused: [{ workflow: 'takes-ids', errors: [{ pointer: '/payload/id' }] }],
    })
    expect(await send()).toEqual({ ...first, duplicate: true })
  })
})

describe('a precondition', () => {
  it('holds a cancel, a decision and a signal to what was read', async () => {
    const { name } = await w.store({
      tasks: [
        { id: 'ask', approval: { message: 'ok?' } },
        { id: 'hear', wait: { signal: 'go' } },
        task('last', { needs: ['ask', 'hear'] }),
      ],
    })
    const id = await w.ask(name)
    await w.resolver.runOnce()
    const read = await w.t.call('GET', `/v1/workflow-runs/${id}`)
    const etag = String(read.headers['etag'])
    await w.act(id, 'skip', { tasks: ['last'] })
    const acts = [
      ['approve', { task: 'ask' }],
      ['reject', { task: 'ask', reason: 'no' }],
      ['signal', { signal: 'go' }],
      ['cancel', {}],
    ] as const
    const send = (verb: string, body: object, ifMatch: string) =>
      w.t.call('POST', `/v1/workflow-runs/${id}/${verb}`, { body, headers: { 'if-match': ifMatch } })
    for (const [verb, body] of acts) {
      const stale = await send(verb, body, etag)
      expect([verb, stale.status, stale.body.code]).toEqual([verb, 412, 'precondition_failed'])
    }
    const now = String((await w.t.call('GET', `/v1/workflow-runs/${id}`)).headers['etag'])
    expect((await send('signal', { signal: 'go' }, now)).status).toBe(202)
    expect((await send('cancel', {}, now)).status).toBe(202)
    await w.resolver.runOnce()
    expect((await w.standing(id)).state).toBe('canceled')
  })
})

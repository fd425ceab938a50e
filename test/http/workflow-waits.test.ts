// Tasks that run no job, over the API and on the real engine: approvals, waits for a time and for signals.
// Each survives whoever began it: nothing of them is kept in a process.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { JsonValue } from '@belfry/contract'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { runAlone } from '../cli/support/cli.ts'
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
const approval = (id: string, more: object = {}, task: object = {}) => ({
  id,
  approval: { message: 'Ship it?', ...more },
  ...task,
})
const sql = <Row extends Record<string, unknown>>(text: string, params: readonly unknown[] = []) =>
  rig.t.database.sql<Row>(text, [...params])

async function begin(definition: object, more: object = {}): Promise<string> {
  const { name } = await rig.store(definition)
  const id = await rig.ask(name, more)
  await rig.resolver.runOnce()
  return id
}

interface TaskView {
  readonly id: string
  readonly state: string
  readonly note: string | null
  readonly wait: Record<string, unknown> | null
  readonly items: readonly string[] | null
}
const tasksOf = async (id: string): Promise<Record<string, TaskView>> => {
  const { tasks } = (await rig.t.call('GET', `/v1/workflow-runs/${id}/tasks`)).body
  return Object.fromEntries((tasks as unknown as readonly TaskView[]).map((each) => [each.id, each]))
}
/** As if so much time had passed. */
const makeDue = (id: string) =>
  sql(`UPDATE belfry.task_wait SET due_at = belfry.now() WHERE workflow_run_id = $1 AND state IS NULL`, [id])
const inputsOf = async (id: string): Promise<JsonValue[]> => {
  const rows = await sql<{ input: JsonValue }>(
    `SELECT input FROM belfry.run WHERE workflow_run_id = $1 ORDER BY task, item, id`,
    [id],
  )
  return rows.map(({ input }) => input)
}
const leftovers = (id: string) =>
  sql(
    `SELECT 'progress' AS what FROM belfry.workflow_progress WHERE workflow_run_id = $1
     UNION ALL SELECT 'task' FROM belfry.task_run WHERE workflow_run_id = $1
     UNION ALL SELECT 'event' FROM belfry.workflow_event WHERE workflow_run_id = $1
     UNION ALL SELECT 'wait' FROM belfry.task_wait WHERE workflow_run_id = $1 AND state IS NULL`,
    [id],
  )

describe('an approval', () => {
  it('waits until somebody approves, and says who and why', async () => {
    const inputFrom = [{ to: '', task: 'ask' }]
    const id = await begin({ tasks: [approval('ask'), task('ship', ['ask'], { inputFrom })] })
    expect(await rig.play(id)).toEqual([])
    expect((await tasksOf(id))['ask']).toMatchObject({
      state: 'started',
      wait: { kind: 'approval', message: 'Ship it?', state: 'waiting', dueAt: null, by: null, open: 1 },
    })
    const { items } = (await rig.t.call('GET', '/v1/approvals')).body
    expect(items).toContainEqual(
      expect.objectContaining({ workflowRunId: id, task: 'ask', message: 'Ship it?', item: null }),
    )
    const dry = await rig.act(id, 'approve', { task: 'ask' }, '?dryRun=true')
    expect(dry.body).toMatchObject({ state: 'succeeded' })
    expect((await tasksOf(id))['ask']?.wait).toMatchObject({ state: 'waiting' })
    const answer = await rig.act(id, 'approve', { task: 'ask', reason: 'looks good' })
    expect(answer).toMatchObject({
      status: 200,
      body: { workflowRunId: id, task: 'ask', state: 'succeeded' },
    })
    expect(await rig.play(id)).toEqual(['ship'])
    const by = (await tasksOf(id))['ask']?.wait?.['by'] as { readonly name: string } | undefined
    expect((await tasksOf(id))['ask']?.wait).toMatchObject({
      state: 'succeeded',
      reason: 'looks good',
      open: 0,
    })
    expect(await inputsOf(id)).toEqual([{ approved: true, by: by?.name, reason: 'looks good' }])
    expect((await rig.standing(id)).state).toBe('succeeded')
    expect(await leftovers(id)).toEqual([])
  })

  it('is decided once: the second finds nothing open', async () => {
    const id = await begin({ tasks: [approval('ask')] })
    const answers = await Promise.all([
      ...Array.from({ length: 4 }, () => rig.act(id, 'approve', { task: 'ask' })),
      ...Array.from({ length: 4 }, () => rig.act(id, 'reject', { task: 'ask', reason: 'no' })),
    ])
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(1)
    expect(answers.filter(({ body }) => body.code === 'invalid_state')).toHaveLength(7)
    await rig.resolver.runOnce()
    expect(await leftovers(id)).toEqual([])
  })

  it('that is rejected fails, or is skipped where its workflow says so', async () => {
    const tasks = [
      approval('hard'),
      approval('soft', { onReject: 'skipped' }),
      task('after-hard', ['hard']),
      task('after-soft', ['soft']),
    ]
    const id = await begin({ tasks })
    expect((await rig.act(id, 'reject', { task: 'hard' })).body.errors[0]?.pointer).toBe('/reason')
    await rig.act(id, 'reject', { task: 'hard', reason: 'too risky' })
    await rig.act(id, 'reject', { task: 'soft', reason: 'not today' })
    await rig.resolver.runOnce()
    expect(await rig.standing(id)).toEqual({
      state: 'failed',
      tasks: { hard: 'failed', soft: 'skipped', 'after-hard': 'upstream_failed', 'after-soft': 'skipped' },
    })
    const gone = await rig.act(id, 'approve', { task: 'hard' })
    expect(gone.body).toMatchObject({ code: 'invalid_state' })
  })

  it.each([
    ['failed', undefined],
    ['skipped', 'skipped'],
    ['succeeded', 'succeeded'],
  ])('that nobody gives in time is %s', async (state, onTimeout) => {
    const id = await begin({
      tasks: [approval('ask', { atMostMs: 60_000, ...(onTimeout && { onTimeout }) })],
    })
    expect((await tasksOf(id))['ask']?.wait?.['dueAt']).toEqual(expect.any(String))
    await rig.resolver.runOnce()
    expect((await rig.standing(id)).state).toBe('running')
    await makeDue(id)
    await rig.resolver.runOnce()
    expect((await tasksOf(id))['ask']).toMatchObject({
      state,
      wait: { state, reason: 'Nothing came in time.', by: null },
    })
    expect((await rig.act(id, 'approve', { task: 'ask' })).body.code).toBe('invalid_state')
  })

  it('of each item is decided by its number', async () => {
    const each = { forEach: { from: { input: '/regions' } } }
    const id = await begin({ tasks: [approval('ask', {}, each)] }, { input: { regions: ['eu', 'us'] } })
    expect((await rig.act(id, 'approve', { task: 'ask' })).body.errors[0]?.pointer).toBe('/item')
    await rig.act(id, 'approve', { task: 'ask', item: 1 })
    await rig.resolver.runOnce()
    expect((await tasksOf(id))['ask']).toMatchObject({
      items: ['started', 'succeeded'],
      wait: { state: 'waiting', item: 0, open: 1 },
    })
    expect((await rig.act(id, 'approve', { task: 'ask', item: 1 })).body.code).toBe('invalid_state')
    await rig.act(id, 'reject', { task: 'ask', item: 0, reason: 'no' })
    await rig.resolver.runOnce()
    expect((await rig.standing(id)).state).toBe('failed')
  })

  it('names what is no approval, and what has not begun', async () => {
    const tasks = [task('build'), approval('ask', {}, { needs: ['build'] })]
    const id = await begin({ tasks })
    const of = (body: object) => rig.act(id, 'approve', body)
    expect((await of({ task: 'aks' })).body).toMatchObject({ code: 'not_found' })
    expect((await of({ task: 'aks' })).body.detail).toContain('Did you mean "ask"?')
    expect((await of({ task: 'build' })).body.detail).toContain('approvals here are ask')
    expect((await of({ task: 'ask', item: 0 })).body.errors[0]?.pointer).toBe('/item')
    expect((await of({ task: 'ask' })).body.detail).toContain('has not begun')
    const none = '00000000-0000-7000-8000-000000000000'
    expect((await rig.act(none, 'approve', { task: 'a' })).body.code).toBe('not_found')
  })
})

describe('a wait for a time', () => {
  it('ends when its time has come, without a run', async () => {
    const instant = new Date(Date.now() + 3_600_000).toISOString()
    const tasks = [
      { id: 'for', wait: { forMs: 3_600_000 } },
      { id: 'at', wait: { until: { at: instant } } },
      { id: 'from', wait: { until: { input: '/when' } } },
      task('after', ['for', 'at', 'from']),
    ]
    const id = await begin({ tasks }, { input: { when: instant } })
    const before = await tasksOf(id)
    expect(before['at']?.wait).toMatchObject({ kind: 'time', state: 'waiting', dueAt: instant })
    expect(before['from']?.wait?.['dueAt']).toBe(instant)
    expect(await rig.play(id)).toEqual([])
    await makeDue(id)
    expect(await rig.play(id)).toEqual(['after'])
    expect((await rig.standing(id)).state).toBe('succeeded')
    expect(await leftovers(id)).toEqual([])
  })

  it('that has passed ends at once; what is no instant fails with the place', async () => {
    const tasks = [
      task('a'),
      { id: 'past', wait: { until: { at: '2020-01-01T00:00:00Z' } } },
      { id: 'odd', needs: ['a'], wait: { until: { task: 'a', path: '/x' } } },
      { id: 'none', wait: { until: { input: '/nothing' } } },
    ]
    const id = await begin({ tasks })
    await rig.play(id, () => ({ output: { x: 'tomorrow' } }))
    await rig.resolver.runOnce()
    const states = await tasksOf(id)
    expect(states['past']?.state).toBe('succeeded')
    expect(states['odd']).toMatchObject({
      state: 'failed',
      note: expect.stringContaining('/x of "a"') as string,
    })
    expect(states['none']?.note).toContain('there is nothing at /nothing of the run')
  })

  it('of each item ends by its own', async () => {
    const later = new Date(Date.now() + 3_600_000).toISOString()
    const each = { id: 'each', forEach: { from: { input: '' } }, wait: { until: { item: '/at' } } }
    const id = await begin({ tasks: [each] }, { input: [{ at: '2020-01-01T00:00:00Z' }, { at: later }] })
    await rig.resolver.runOnce()
    expect((await tasksOf(id))['each']?.items).toEqual(['succeeded', 'started'])
  })

  it('is canceled with its run, and finally runs', async () => {
    const tasks = [{ id: 'wait', wait: { forMs: 3_600_000 } }, approval('ask'), task('after', ['wait'])]
    const id = await begin({ tasks, finally: [task('tidy')] })
    expect((await rig.act(id, 'cancel')).status).toBe(202)
    expect(await rig.play(id)).toEqual(['tidy'])
    expect(await rig.standing(id)).toEqual({
      state: 'canceled',
      tasks: { wait: 'canceled', ask: 'canceled', after: 'canceled', tidy: 'succeeded' },
    })
    expect(await leftovers(id)).toEqual([])
  })

  it('a thousand of them are begun and ended in few steps', async () => {
    const each = { id: 'each', forEach: { from: { input: '' } }, wait: { until: { item: '' } } }
    const later = new Date(Date.now() + 3_600_000).toISOString()
    const id = await begin({ tasks: [each] }, { input: Array.from({ length: 1_000 }, () => later) })
    expect((await tasksOf(id))['each']?.wait).toMatchObject({ open: 1_000 })
    await makeDue(id)
    await rig.resolver.runOnce()
    expect((await rig.standing(id)).state).toBe('succeeded')
  })
})

describe('a wait for a signal', () => {
  const waits = { id: 'pay', wait: { signal: 'paid' } }

  it('ends with the payload as its output', async () => {
    const id = await begin({
      tasks: [waits, task('ship', ['pay'], { inputFrom: [{ to: '', task: 'pay' }] })],
    })
    expect(await rig.play(id)).toEqual([])
    const sent = await rig.act(id, 'signal', { signal: 'paid', payload: { amount: 5 } })
    expect(sent).toMatchObject({ status: 202, body: { id, state: 'running' } })
    expect(await rig.play(id)).toEqual(['ship'])
    expect(await inputsOf(id)).toEqual([{ amount: 5 }])
    expect(await leftovers(id)).toEqual([])
  })

  it('that came before it waited ends it at once; the newest counts', async () => {
    const id = await begin({ tasks: [task('first'), { ...waits, needs: ['first'] }] })
    await rig.act(id, 'signal', { signal: 'paid', payload: 1 })
    await rig.act(id, 'signal', { signal: 'paid', payload: 2 })
    await rig.resolver.runOnce()
    expect((await tasksOf(id))['pay']?.state).toBe('waiting_for_dependencies')
    await rig.play(id)
    expect((await rig.standing(id)).state).toBe('succeeded')
    const [row] = await sql<{ output: JsonValue }>(
      `SELECT output FROM belfry.task_wait WHERE workflow_run_id = $1`,
      [id],
    )
    expect(row?.output).toBe(2)
  })

  it('sent in the moment in which the wait begins is not lost', async () => {
    const { name } = await rig.store({ tasks: [waits] })
    for (let round = 0; round < 10; round++) {
      const id = await rig.ask(name)
      const [sent] = await Promise.all([
        rig.act(id, 'signal', { signal: 'paid', payload: round }),
        rig.resolver.runOnce(),
      ])
      expect(sent.status).toBe(202)
      await rig.resolver.runOnce()
      expect((await rig.standing(id)).state).toBe('succeeded')
    }
  })

  it('has an end; names signals that nobody waits for', async () => {
    const id = await begin({
      tasks: [{ id: 'pay', wait: { signal: 'paid', atMostMs: 5_000, onTimeout: 'skipped' } }],
    })
    const wrong = await rig.act(id, 'signal', { signal: 'payd' })
    expect(wrong.body).toMatchObject({ code: 'not_found', errors: [{ pointer: '/signal' }] })
    expect(wrong.body.detail).toContain('Did you mean "paid"?')
    await makeDue(id)
    await rig.resolver.runOnce()
    expect(await rig.standing(id)).toEqual({ state: 'succeeded', tasks: { pay: 'skipped' } })
    expect((await rig.act(id, 'signal', { signal: 'paid' })).body.code).toBe('invalid_state')
  })
})

describe('the command line', () => {
  let env: Record<string, string>
  const folder = mkdtempSync(join(tmpdir(), 'belfry-workflow-waits-'))
  const belfry = (...args: string[]) => runAlone(args, { env })
  beforeAll(async () => {
    const url = await rig.t.api.listen({ host: '127.0.0.1', port: 0 })
    env = { XDG_CONFIG_HOME: folder, BELFRY_URL: url, BELFRY_API_KEY: rig.t.adminKey, TZ: 'UTC' }
  })
  afterAll(() => rmSync(folder, { recursive: true }))

  it('lists what waits for an approval, approves, rejects and signals', async () => {
    const tasks = [
      approval('ask'),
      approval('each', {}, { matrix: { n: [1, 2] } }),
      { id: 'pay', wait: { signal: 'paid' } },
    ]
    const id = await begin({ tasks })
    const listed = await belfry('workflow-run', 'approvals', '-o', 'json')
    expect(listed.out).toContain(id)
    expect((await belfry('workflow-run', 'approvals')).out).toMatch(
      /WORKFLOW RUN .*MESSAGE.*each\[1\] +Ship it\?/s,
    )
    expect((await belfry('workflow-run', 'tasks', id)).out).toMatch(/ask .*waits for an approval: Ship it\?/)
    expect((await belfry('workflow-run', 'approve', id, 'ask', '--dry-run')).err).toContain(
      'would approve ask',
    )
    const approved = await belfry('workflow-run', 'approve', id, 'ask', '--reason', 'fine')
    expect(approved.err).toContain('Approved ask; the task ends succeeded.')
    const again = await belfry('workflow-run', 'approve', id, 'ask')
    expect([again.code, again.err]).toEqual([
      1,
      expect.stringContaining('does not wait for an approval any more'),
    ])
    expect((await belfry('workflow-run', 'reject', id, 'each', '--item', '0')).code).toBe(2)
    const rejected = await belfry('workflow-run', 'reject', id, 'each', '--item', '0', '--reason', 'no')
    expect(rejected.err).toContain('Rejected each; the task ends failed.')
    const sent = await belfry('workflow-run', 'signal', id, 'paid', '--payload', '{"amount": 5}')
    expect(sent.err).toContain('Sent the signal paid.')
    await rig.resolver.runOnce()
    expect((await belfry('workflow-run', 'tasks', id)).out).toMatch(/ask +succeeded .*approved by .*: fine/)
    expect((await tasksOf(id))['pay']?.state).toBe('succeeded')
  })
})

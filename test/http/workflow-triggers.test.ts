// What begins workflow runs besides schedules: ends of other workflows, events with a key; and backfills of
// workflows over a range.
import type { EventReceipt } from '@belfry/contract'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { makeBackfiller, noonMs, type TestBackfiller } from '../support/backfilling.ts'
import { openWorkflowScheduleRig, type WorkflowScheduleRig } from '../support/workflow-schedule-rig.ts'

const hourMs = 3_600_000
let rig: WorkflowScheduleRig
let backfiller: TestBackfiller

beforeAll(async () => {
  rig = await openWorkflowScheduleRig()
  backfiller = makeBackfiller(rig.t.db)
})
afterAll(() => rig.close())

const tasks = [{ id: 'a', job: 'work' }]
const byText = (a: string, b: string): number => (a < b ? -1 : 1)
const store = (definition: object) => rig.flows.store({ tasks, ...definition })

async function runsOf(workflow: string) {
  const { body } = await rig.t.call('GET', `/v1/workflow-runs?workflow=${workflow}&limit=100`)
  const all = []
  for (const { id } of body.items.toReversed())
    all.push((await rig.t.call('GET', `/v1/workflow-runs/${id}`)).body)
  return all
}

describe('the end of another workflow', () => {
  it('begins a run of each that names it, for the ends that it names', async () => {
    const first = await store({ outputFrom: [{ to: '', task: 'a' }] })
    const good = await store({ triggers: [{ workflow: first.name }] })
    const bad = await store({
      triggers: [{ workflow: first.name, states: ['failed', 'canceled'], input: { why: 1 } }],
    })
    const id = await rig.flows.ask(first.name)
    await rig.finish(id, { output: { rows: 3 } })
    expect(await runsOf(good.name)).toMatchObject([
      {
        source: 'workflow',
        triggeredBy: id,
        state: 'running',
        input: { workflow: first.name, workflowRunId: id, state: 'succeeded', output: { rows: 3 } },
      },
    ])
    expect(await runsOf(bad.name)).toEqual([])
    await rig.finish(await rig.flows.ask(first.name), 'failed')
    expect(await runsOf(good.name)).toHaveLength(1)
    expect(await runsOf(bad.name)).toMatchObject([{ input: { why: 1 } }])
  })

  it('may be that of one made later; a newer version without the trigger begins nothing', async () => {
    const late = `late-${Date.now()}`
    const waiting = await store({ triggers: [{ workflow: late }] })
    await rig.flows.store({ tasks }, late)
    await rig.finish(await rig.flows.ask(late))
    expect(await runsOf(waiting.name)).toHaveLength(1)
    await rig.flows.store({ tasks }, waiting.name)
    await rig.finish(await rig.flows.ask(late))
    expect(await runsOf(waiting.name)).toHaveLength(1)
  })

  it('two resolvers begin it once', async () => {
    const first = await store({})
    const next = await store({ triggers: [{ workflow: first.name }] })
    const ids = await Promise.all(Array.from({ length: 20 }, () => rig.flows.ask(first.name)))
    const other = rig.flows.newResolver()
    const both = () => Promise.all([rig.flows.resolver.runOnce(), other.runOnce()])
    await both()
    for (const id of ids)
      for (const held of await rig.flows.claim(id)) await rig.flows.end(held, { output: null })
    await both()
    expect(
      (await runsOf(next.name))
        .map((run) => (run as { triggeredBy?: string }).triggeredBy ?? '')
        .toSorted(byText),
    ).toEqual(ids.toSorted(byText))
  })

  // case limit.trigger_loop
  it('a circle of workflows comes to an end, and one that names itself is refused', async () => {
    const [a, b] = ['circle-a', 'circle-b']
    const skipped = [{ id: 'a', job: 'work', when: { input: '/never', is: { exists: true } } }]
    await rig.flows.store(
      { tasks: skipped, triggers: [{ workflow: b, states: ['succeeded', 'skipped'] }] },
      a,
    )
    await rig.flows.store(
      { tasks: skipped, triggers: [{ workflow: a, states: ['succeeded', 'skipped'] }] },
      b,
    )
    await rig.flows.ask(a)
    await rig.flows.resolver.runOnce()
    expect((await runsOf(a)).length + (await runsOf(b)).length).toBe(51)
    const self = await rig.t.call('POST', '/v1/workflows', {
      body: { name: 'self', tasks, triggers: [{ workflow: 'self' }] },
    })
    expect(self.body.errors).toMatchObject([{ pointer: '/triggers/0/workflow' }])
    const twice = { name: 'twice', tasks, triggers: [{ event: 'e' }, { event: 'e' }] }
    expect((await rig.t.call('POST', '/v1/workflows', { body: twice })).body.errors).toMatchObject([
      { pointer: '/triggers/1', message: expect.stringContaining('a second time') as unknown },
    ])
  })
})

describe('an event', () => {
  const send = async (body: object, query = '') => {
    const answer = await rig.t.call('POST', `/v1/events${query}`, { body })
    return { ...answer, receipt: answer.body as unknown as EventReceipt }
  }

  it('begins a run of every workflow that names it, with its payload, once for each key', async () => {
    const one = await store({ triggers: [{ event: 'order.created' }] })
    const other = await store({
      triggers: [{ event: 'order.created', input: { fixed: true } }, { event: 'other' }],
    })
    const { status, receipt } = await send({ event: 'order.created', key: '17', payload: { order: 17 } })
    expect({ status, duplicate: receipt.duplicate }).toEqual({ status: 201, duplicate: false })
    expect(receipt.runs.map(({ workflow }) => workflow).toSorted()).toEqual([one.name, other.name].toSorted())
    expect(await runsOf(one.name)).toMatchObject([
      { source: 'event', triggeredBy: receipt.id, input: { order: 17 } },
    ])
    expect(await runsOf(other.name)).toMatchObject([{ input: { fixed: true } }])
    const again = await send({ event: 'order.created', key: '17', payload: { order: 18 } })
    expect(again.status).toBe(200)
    expect(again.receipt).toMatchObject({ id: receipt.id, duplicate: true, runs: receipt.runs })
    expect((await send({ event: 'order.created', key: '18' })).receipt.runs).toHaveLength(2)
    expect(await runsOf(one.name)).toHaveLength(2)
    await rig.flows.resolver.runOnce()
    expect(await rig.flows.claim(receipt.runs[0]?.workflowRunId ?? '')).toHaveLength(1)
  })

  it('that all refuse leaves its key to one that is mended', async () => {
    const inputSchema = { type: 'object', required: ['n'], properties: { n: { type: 'integer' } } }
    await store({ triggers: [{ event: 'mended' }], inputSchema })
    for (const payload of [{}, { n: 'x' }]) {
      const { receipt } = await send({ event: 'mended', key: 'k', payload })
      expect(receipt).toMatchObject({ key: 'k', duplicate: false, runs: [] })
      expect(receipt.refused).toHaveLength(1)
    }
    const mended = await send({ event: 'mended', key: 'k', payload: { n: 1 } })
    expect(mended.receipt).toMatchObject({ duplicate: false, refused: [] })
    const again = await send({ event: 'mended', key: 'k', payload: { n: 1 } })
    expect(mended.receipt.runs).toHaveLength(1)
    expect(again.receipt).toMatchObject({ duplicate: true, runs: mended.receipt.runs })
  })

  it('with the same key, sent many times at once, begins one run', async () => {
    const one = await store({ triggers: [{ event: 'burst' }] })
    const answers = await Promise.all(Array.from({ length: 12 }, () => send({ event: 'burst', key: 'k' })))
    expect(answers.filter(({ receipt }) => !receipt.duplicate)).toHaveLength(1)
    expect(new Set(answers.map(({ receipt }) => receipt.runs[0]?.workflowRunId)).size).toBe(1)
    expect(await runsOf(one.name)).toHaveLength(1)
  })

  it('that no workflow names is taken; a dry run begins nothing', async () => {
    expect((await send({ event: 'nobody' })).receipt).toMatchObject({ runs: [], refused: [], key: null })
    const one = await store({ triggers: [{ event: 'dry' }] })
    expect((await send({ event: 'dry', key: 'd' }, '?dryRun=true')).receipt.runs).toHaveLength(1)
    expect(await runsOf(one.name)).toEqual([])
    expect((await send({ event: 'dry', key: 'd' })).receipt).toMatchObject({ duplicate: false })
  })

  it('a payload that a workflow does not take is told, and keeps the others from nothing', async () => {
    const inputSchema = { type: 'object', properties: { n: { type: 'number' } }, required: ['n'] }
    const strict = await store({ triggers: [{ event: 'mixed' }], inputSchema })
    const lax = await store({ triggers: [{ event: 'mixed' }] })
    const { receipt } = await send({ event: 'mixed', payload: { n: 'x' } })
    expect(receipt.runs).toMatchObject([{ workflow: lax.name }])
    expect(receipt.refused).toMatchObject([{ workflow: strict.name, errors: [{ pointer: '/payload/n' }] }])
  })
})

describe('a backfill', () => {
  const iso = (ms: number): string => new Date(ms).toISOString()
  const from = iso(noonMs - 4 * hourMs)
  const to = iso(noonMs)
  const begin = async (scheduleId: string, more: object = {}) => {
    const answer = await rig.t.call('POST', `/v1/schedules/${scheduleId}/backfills`, {
      body: { from, to, ...more },
    })
    expect(answer.body.detail ?? '').toBe('')
    await backfiller.runOnce()
    return answer.body.id
  }
  const shown = async (id: string) => (await rig.t.call('GET', `/v1/backfills/${id}`)).body

  it('begins runs for times that are over, few at once, with least priority', async () => {
    const { id } = await rig.make()
    await rig.t.act(id, 'pause')
    const preview = await rig.t.call('POST', `/v1/schedules/${id}/backfills?dryRun=true`, {
      body: { from, to },
    })
    expect(preview.body).toMatchObject({ total: 4, preview: { wouldRun: 4, exact: true } })
    const backfill = await begin(id, { concurrency: 2 })
    let runs = await rig.runs(id)
    expect(runs.map(({ source, priority }) => `${source} ${priority}`)).toEqual([
      'backfill -100',
      'backfill -100',
    ])
    expect(runs[0]).toMatchObject({
      scheduledFor: from,
      dataInterval: { start: iso(noonMs - 5 * hourMs), end: from },
    })
    await rig.flows.resolver.runOnce()
    const [row] = await rig.t.database.sql<{ priority: number }>(
      'SELECT priority FROM belfry.run WHERE workflow_run_id = $1',
      [runs[0]?.id],
    )
    expect(row?.priority).toBe(-100)
    await rig.finish(runs[0]?.id ?? '')
    await backfiller.runOnce()
    runs = await rig.runs(id)
    expect(runs.map(({ state }) => state)).toEqual(['succeeded', 'running', 'running'])
    expect(await shown(backfill)).toMatchObject({ state: 'running', started: 3, alive: 2, succeeded: 1 })
    for (const [index, answer] of [{ output: null }, 'failed' as const].entries())
      await rig.finish(runs[index + 1]?.id ?? '', answer)
    await backfiller.runOnce()
    await rig.finish((await rig.runs(id)).at(-1)?.id ?? '')
    await backfiller.runOnce()
    expect(await shown(backfill)).toMatchObject({
      state: 'completed',
      started: 4,
      succeeded: 3,
      failed: 1,
      alive: 0,
    })
    const { body } = await rig.t.call('GET', `/v1/schedules/${id}/occurrences?from=${from}&to=${to}`)
    expect(body.items).toHaveLength(4)
    expect(new Set(body.items.map(({ outcome }) => outcome))).toEqual(new Set(['ran']))
    // what has run: none again, those that failed, or all
    await begin(id)
    expect(await rig.runs(id)).toHaveLength(4)
    await begin(id, { reprocess: 'failed' })
    expect((await rig.runs(id)).map(({ scheduledFor }) => scheduledFor)).toHaveLength(5)
    await rig.finish((await rig.runs(id)).at(-1)?.id ?? '')
    await begin(id, { reprocess: 'all', concurrency: 10 })
    expect(await rig.runs(id)).toHaveLength(9)
  })

  it('minds no overlap, and keeps the schedule from nothing', async () => {
    const { id } = await rig.make()
    await begin(id, { concurrency: 1 })
    await rig.t.go(hourMs)
    expect((await rig.runs(id)).map(({ source }) => source)).toEqual(['backfill', 'schedule'])
    await rig.t.act(id, 'pause')
  })

  it('is canceled with its runs', async () => {
    const { id } = await rig.make()
    await rig.t.act(id, 'pause')
    const backfill = await begin(id, { concurrency: 2, order: 'newest_first' })
    await rig.t.call('POST', `/v1/backfills/${backfill}/cancel`, { body: { cancelRuns: true } })
    await rig.flows.resolver.runOnce()
    await backfiller.runOnce()
    expect(await shown(backfill)).toMatchObject({ state: 'canceled', alive: 0, canceled: 2 })
    expect((await rig.runs(id)).map(({ state }) => state)).toEqual(['canceled', 'canceled'])
  })
})

// Schedules that run workflows: one run for each planned time with its data interval, the policies of
// schedules, what is shown of them, and what a change at the very minute does.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openWorkflowScheduleRig, type WorkflowScheduleRig } from '../support/workflow-schedule-rig.ts'

const hourMs = 3_600_000
let rig: WorkflowScheduleRig

beforeAll(async () => {
  rig = await openWorkflowScheduleRig()
})
afterAll(() => rig.close())

const paused = (id: string) => rig.t.act(id, 'pause', { reason: 'test is over' })

describe('a planned time', () => {
  it('begins one workflow run, which has the interval since the planned time before', async () => {
    const mapped = (to: string, run: string) => ({ to, run })
    const inputFrom = [
      mapped('/at', 'scheduledFor'),
      mapped('/from', 'dataIntervalStart'),
      mapped('/to', 'dataIntervalEnd'),
      { to: '/who', input: '/who' },
    ]
    const { id } = await rig.make({ input: { who: 'me' } }, { tasks: [{ id: 'a', job: 'work', inputFrom }] })
    await rig.t.go(hourMs)
    const [run] = await rig.runs(id)
    expect(await rig.runs(id)).toHaveLength(1)
    expect(run).toMatchObject({
      source: 'schedule',
      state: 'running',
      input: { who: 'me' },
      triggeredBy: null,
    })
    const { scheduledFor, dataInterval } = run ?? {}
    expect(dataInterval?.end).toBe(scheduledFor)
    expect(Date.parse(dataInterval?.end ?? '') - Date.parse(dataInterval?.start ?? '')).toBe(hourMs)
    await rig.flows.resolver.runOnce()
    const [held] = await rig.flows.claim(run?.id ?? '')
    expect(held?.input).toEqual({
      who: 'me',
      at: scheduledFor,
      from: dataInterval?.start,
      to: dataInterval?.end,
    })
    await rig.finish(run?.id ?? '')
    expect((await rig.runs(id))[0]?.state).toBe('succeeded')
    const { body } = await rig.t.call('GET', `/v1/schedules/${id}/occurrences`)
    expect(body.items).toMatchObject([{ outcome: 'ran', runId: null, workflowRunId: run?.id }])
    expect(await rig.t.runsOf(id)).toBe(0)
    const shown = await rig.t.call('GET', `/v1/schedules/${id}`)
    expect(shown.body).toMatchObject({
      job: null,
      jobId: null,
      workflow: expect.any(String) as unknown,
      state: 'active',
    })
    expect(shown.body.upcoming).toHaveLength(3)
    await paused(id)
  })

  it('has no start of its interval where none is before it', async () => {
    const startAt = new Date((await rig.nowMs()) + hourMs).toISOString()
    const { id } = await rig.make({ at: startAt, every: undefined, startAt: undefined })
    await rig.t.go(2 * hourMs)
    expect((await rig.runs(id))[0]?.dataInterval).toEqual({ start: null, end: startAt })
    expect((await rig.t.call('GET', `/v1/schedules/${id}`)).body.state).toBe('completed')
  })

  it('is caught up one run each after an outage, with intervals that join', async () => {
    const { id } = await rig.make({ overlap: 'allow', catchUp: { policy: 'all' } })
    await rig.t.go(5 * hourMs)
    const runs = await rig.runs(id)
    expect(runs).toHaveLength(5)
    const intervals = runs.map(({ dataInterval }) => dataInterval)
    expect(intervals.slice(1).map((each) => each?.start)).toEqual(
      intervals.slice(0, -1).map((each) => each?.end),
    )
    await paused(id)
  })
})

describe('overlap', () => {
  it('skip: no run while one is alive', async () => {
    const { id } = await rig.make()
    await rig.t.go(hourMs)
    await rig.t.go(hourMs)
    expect((await rig.t.ledger(id)).map((line) => line.slice(9))).toEqual(['ran', 'skipped overlap'])
    const [run] = await rig.runs(id)
    await rig.finish(run?.id ?? '')
    await rig.t.go(hourMs)
    expect((await rig.t.ledger(id)).at(-1)).toMatch(/ran$/)
    await paused(id)
  })

  it('allow: they run beside each other', async () => {
    const { id } = await rig.make({ overlap: 'allow' })
    for (let n = 0; n < 3; n++) await rig.t.go(hourMs)
    expect((await rig.runs(id)).map(({ state }) => state)).toEqual(['running', 'running', 'running'])
    await paused(id)
  })

  it('buffer_one: one waits, which begins when the first has ended', async () => {
    const { id } = await rig.make({ overlap: 'buffer_one' })
    for (let n = 0; n < 3; n++) await rig.t.go(hourMs)
    await rig.flows.resolver.runOnce()
    expect((await rig.runs(id)).map(({ state }) => state)).toEqual(['running', 'pending'])
    expect((await rig.t.ledger(id)).at(-1)).toMatch(/skipped overlap$/)
    const [first, second] = await rig.runs(id)
    expect(await rig.flows.claim(second?.id ?? '')).toEqual([])
    await rig.finish(first?.id ?? '')
    expect((await rig.runs(id)).map(({ state }) => state)).toEqual(['succeeded', 'running'])
    expect(await rig.flows.claim(second?.id ?? '')).toHaveLength(1)
    await rig.finish(second?.id ?? '')
    expect((await rig.runs(id)).map(({ state }) => state)).toEqual(['succeeded', 'succeeded'])
    await paused(id)
  })

  it('buffer_all: one after the other; one that is canceled while it waits is passed over', async () => {
    const { id } = await rig.make(
      { overlap: 'buffer_all' },
      {
        tasks: [{ id: 'a', job: 'work' }],
        finally: [{ id: 'clean', job: 'work' }],
      },
    )
    for (let n = 0; n < 4; n++) await rig.t.go(hourMs)
    await rig.flows.resolver.runOnce()
    const [first, second, third, fourth] = (await rig.runs(id)).map((run) => run.id)
    await rig.flows.act(second ?? '', 'cancel')
    await rig.flows.resolver.runOnce()
    // it never began, so there is nothing to clean up
    expect(await rig.flows.standing(second ?? '')).toMatchObject({ state: 'canceled' })
    expect(await rig.flows.claim(second ?? '')).toEqual([])
    expect((await rig.runs(id)).map(({ state }) => state)).toEqual([
      'running',
      'canceled',
      'pending',
      'pending',
    ])
    for (const run of [first, third, fourth]) {
      await rig.finish(run ?? '')
      await rig.finish(run ?? '')
      const states = (await rig.runs(id)).map(({ state }) => state)
      expect(states.filter((state) => state === 'running').length).toBeLessThanOrEqual(1)
    }
    expect((await rig.runs(id)).map(({ state }) => state)).toEqual([
      'succeeded',
      'canceled',
      'succeeded',
      'succeeded',
    ])
    await paused(id)
  })

  it('cancel_other: the one before is canceled, and the new one begins when that has ended', async () => {
    const { id } = await rig.make({ overlap: 'cancel_other' })
    await rig.t.go(hourMs)
    const [first] = await rig.runs(id)
    await rig.flows.resolver.runOnce()
    const [held] = await rig.flows.claim(first?.id ?? '')
    await rig.t.go(hourMs)
    await rig.flows.resolver.runOnce()
    expect((await rig.runs(id)).map(({ state }) => state)).toEqual(['running', 'pending'])
    if (held !== undefined) await rig.flows.end(held, 'canceled')
    await rig.flows.resolver.runOnce()
    expect((await rig.runs(id)).map(({ state }) => state)).toEqual(['canceled', 'running'])
    await paused(id)
  })

  it('terminate_other: the new one begins at once', async () => {
    const { id } = await rig.make({ overlap: 'terminate_other' })
    await rig.t.go(hourMs)
    const [first] = await rig.runs(id)
    await rig.flows.resolver.runOnce()
    await rig.flows.claim(first?.id ?? '')
    await rig.t.go(hourMs)
    await rig.flows.resolver.runOnce()
    const [, second] = await rig.runs(id)
    expect(await rig.flows.claim(second?.id ?? '')).toHaveLength(1)
    await paused(id)
  })

  it('set to allow, those that wait begin', async () => {
    const { id } = await rig.make({ overlap: 'buffer_all' })
    for (let n = 0; n < 3; n++) await rig.t.go(hourMs)
    await rig.flows.resolver.runOnce()
    expect((await rig.runs(id)).map(({ state }) => state)).toEqual(['running', 'pending', 'pending'])
    await rig.t.patch(id, { overlap: 'allow' })
    await rig.flows.resolver.runOnce()
    expect((await rig.runs(id)).map(({ state }) => state)).toEqual(['running', 'running', 'running'])
    await paused(id)
  })
})

describe('like schedules of jobs', () => {
  it('a pause at the very minute fires what has come due, once', async () => {
    const { id } = await rig.make()
    const nextAt = Date.parse((await rig.t.call('GET', `/v1/schedules/${id}`)).body.nextAt)
    await rig.t.database.setNow(new Date(nextAt + 10))
    await rig.t.act(id, 'pause')
    expect(await rig.seen(id)).toHaveLength(1)
    await rig.t.go(3 * hourMs)
    expect(await rig.seen(id)).toHaveLength(1)
    await rig.t.act(id, 'resume')
    await rig.finish((await rig.runs(id))[0]?.id ?? '')
    await rig.t.go(hourMs)
    expect(await rig.seen(id)).toHaveLength(2)
    await paused(id)
  })

  it('is paused when so many runs in a row have failed', async () => {
    const { id } = await rig.make({ pauseAfterFailures: 2 })
    for (let n = 0; n < 2; n++) {
      await rig.t.go(hourMs)
      await rig.finish((await rig.runs(id)).at(-1)?.id ?? '', 'failed')
    }
    const shown = (await rig.t.call('GET', `/v1/schedules/${id}`)).body as {
      state: string
      pausedReason?: string
    }
    expect(shown).toMatchObject({ state: 'paused', pausedReason: 'The last 2 runs failed.' })
  })

  it('ends after its limit of runs', async () => {
    const { id } = await rig.make({ runLimit: 2, overlap: 'allow' })
    for (let n = 0; n < 4; n++) await rig.t.go(hourMs)
    expect(await rig.seen(id)).toHaveLength(2)
    expect((await rig.t.call('GET', `/v1/schedules/${id}`)).body.state).toBe('completed')
  })

  it('is explained with its workflow runs', async () => {
    const { id } = await rig.make()
    await rig.t.go(hourMs)
    const [run] = await rig.runs(id)
    const { body } = await rig.t.call('GET', `/v1/schedules/${id}/explain?from=${run?.dataInterval?.start}`)
    const times = (body as unknown as { times: { verdict: string; runs: object[] }[] }).times
    expect(times.at(-1)).toMatchObject({
      verdict: 'ran',
      runs: [{ id: run?.id, source: 'schedule', state: 'running' }],
    })
    await rig.finish(run?.id ?? '', 'failed')
    const after = await rig.t.call('GET', `/v1/schedules/${id}/explain?from=${run?.dataInterval?.start}`)
    const told = (after.body as unknown as { times: { message: string; fix: string }[] }).times.at(-1)
    expect(told?.message).toContain(`the workflow run ${run?.id} failed`)
    expect(told?.fix).toBe(`See why, task by task: belfry workflow-run explain ${run?.id}.`)
    await paused(id)
  })

  it('its workflow cannot be deleted while it is there', async () => {
    const { id, workflowId, workflow } = await rig.make()
    const refused = await rig.t.call('DELETE', `/v1/workflows/${workflowId}`)
    expect(refused.body).toMatchObject({ code: 'in_use' })
    expect(refused.body.detail).toContain(`runs the workflow "${workflow}"`)
    await rig.t.call('DELETE', `/v1/schedules/${id}`)
    expect((await rig.t.call('DELETE', `/v1/workflows/${workflowId}`)).status).toBe(204)
  })

  it('takes one target, and an input that its workflow takes', async () => {
    const inputSchema = { type: 'object', properties: { day: { type: 'string' } }, required: ['day'] }
    const tasks = [{ id: 'a', job: 'work' }]
    const { name } = await rig.flows.store({ tasks, inputSchema })
    const create = (more: object) => {
      return rig.t.call('POST', '/v1/schedules', {
        body: { name: 'wrong', every: '1h', workflow: name, ...more },
      })
    }
    expect((await create({ job: 'work', input: { day: 'x' } })).body.errors).toMatchObject([
      { pointer: '/workflow', message: expect.stringContaining('one of "job"') as unknown },
    ])
    expect((await create({ queue: 'other' })).body.errors[0]).toMatchObject({ pointer: '/queue' })
    expect((await create({ input: { day: 7 } })).body.errors[0]).toMatchObject({ pointer: '/input/day' })
    expect((await create({ workflow: `${name}x` })).body).toMatchObject({ code: 'not_found' })
    const made = await create({ name: 'right', input: { day: 'monday' } })
    expect(made.status).toBe(201)
    const changed = await rig.t.patch(made.body.id, { input: { day: 7 } })
    expect(changed.body.errors[0]).toMatchObject({ pointer: '/input/day' })
    const listed = await rig.t.call(
      'GET',
      `/v1/schedules?workflowId=${(made.body as { workflowId?: string }).workflowId}`,
    )
    expect(listed.body.items.map((item) => item.name)).toEqual(['right'])
    await paused(made.body.id)
  })

  it('a trigger begins a run out of turn, also for a nominal time', async () => {
    const { id } = await rig.make()
    const now = await rig.t.act(id, 'trigger')
    expect(now.status).toBe(201)
    expect(now.body).toMatchObject({ source: 'trigger', scheduledFor: null, dataInterval: null })
    const nominal = new Date(Math.floor((await rig.nowMs()) / hourMs) * hourMs).toISOString()
    const then = await rig.t.act(id, 'trigger', { scheduledFor: nominal })
    expect(then.body).toMatchObject({ scheduledFor: nominal, dataInterval: { end: nominal } })
    expect((await rig.runs(id)).map(({ source }) => source)).toEqual(['trigger', 'trigger'])
    await paused(id)
  })
})

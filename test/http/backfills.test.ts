// Backfills by the API: what a create takes and refuses, how far one has come, and what people do with it.
// Steps are taken by a backfiller of the test; workers are played by SQL.
import type { Occurrence } from '@belfry/contract'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { TestApi } from '../support/api.ts'
import { backfillOf, type BackfillApi, iso, startBackfillApi } from '../support/backfill-api.ts'
import { hour, noonMs } from '../support/backfilling.ts'

const hourMs = 3_600_000

let rig: BackfillApi
let t: TestApi
beforeAll(async () => {
  rig = await startBackfillApi()
  t = rig.t
})
afterAll(() => t.close())
beforeEach(() => rig.newSchedule())

const cancelRun = (runId: string) => t.call('POST', `/v1/runs/${runId}/cancel`)

describe('a create', () => {
  it('takes the range and sane defaults, says where it is, and tells the backfillers', async () => {
    const answer = await rig.create({ from: iso(hour(0)) })
    expect(answer.status).toBe(201)
    const backfill = backfillOf(answer)
    expect(backfill).toMatchObject({
      scheduleId: rig.scheduleId,
      from: iso(hour(0)),
      order: 'oldest_first',
      concurrency: 4,
      reprocess: 'none',
      state: 'pending',
      reason: null,
      input: null,
      total: 11,
      started: 0,
      skipped: 0,
      alive: 0,
      succeeded: 0,
      failed: 0,
      canceled: 0,
      nextAt: iso(hour(0)),
      startedAt: null,
      endedAt: null,
      preview: null,
    })
    expect(answer.headers['etag']).toBe('"1"')
    expect(t.hints.map(({ topic }) => topic)).toEqual(['backfills'])
    expect(await rig.get(backfill.id)).toEqual(backfill)
    await rig.act(backfill.id, 'cancel')
  })

  it('takes a planned time of this very instant, and none later', async () => {
    const backfill = await rig.started({ from: iso(noonMs - 1) })
    expect([backfill.total, backfill.nextAt]).toEqual([1, iso(noonMs)])
    await rig.act(backfill.id, 'cancel')
  })

  it('answers a repeated Idempotency-Key with the same backfill', async () => {
    const headers = { 'idempotency-key': `once-${rig.scheduleId}` }
    const one = await rig.create({ from: iso(hour(0)) }, { headers })
    const two = await rig.create({ from: iso(hour(0)) }, { headers })
    expect(two.headers['idempotency-replayed']).toBe('true')
    expect(two.body.id).toBe(one.body.id)
    await rig.act(one.body.id, 'cancel')
  })

  it.each([
    ['a range ahead', { from: iso(noonMs + hourMs) }, '/from', /lies ahead of now/],
    ['an end ahead', { from: iso(hour(0)), to: iso(noonMs + hourMs) }, '/to', /leave it out/],
    ['an empty range', { from: iso(hour(3)), to: iso(hour(3)) }, '/to', /not after the start/],
    ['a range from its end', { from: iso(hour(3)), to: iso(hour(2)) }, '/to', /not after the start/],
    ['no start', {}, '/from', /./],
    ['an order that is none', { from: iso(hour(0)), order: 'upwards' }, '/order', /./],
    ['too many at once', { from: iso(hour(0)), concurrency: 101 }, '/concurrency', /./],
    ['none at once', { from: iso(hour(0)), concurrency: 0 }, '/concurrency', /./],
    ['a wish that is none', { from: iso(hour(0)), reprocess: 'missing' }, '/reprocess', /./],
    ['an unknown field', { from: iso(hour(0)), until: 1 }, '/until', /./],
  ])('refuses %s', async (_what, body, pointer, message) => {
    const before = await t.counts()
    const { status, body: problem } = await rig.create(body)
    expect([status, problem.code]).toEqual([400, 'invalid_request'])
    expect(problem.errors[0]?.pointer).toBe(pointer)
    expect(problem.errors[0]?.message).toMatch(message)
    expect(await t.counts()).toEqual(before)
  })

  it('refuses more than a million planned times by their number, without listing them', async () => {
    await rig.newSchedule({ every: '1s', startAt: '2020-01-01T00:00:00Z' })
    const startedMs = performance.now()
    const { status, body } = await rig.create({ from: iso(noonMs - 1_000_001_000) })
    expect(performance.now() - startedMs).toBeLessThan(1_000)
    expect([status, body.errors[0]?.pointer]).toEqual([400, '/from'])
    expect(body.detail).toContain('1000002 planned times')
    expect(body.detail).toContain('1,000,000')
  })

  it('refuses a schedule that is not there', async () => {
    rig.scheduleId = '019ad0c1-7f3e-7c63-9a52-6e4d8c1b2a3f'
    expect((await rig.create({ from: iso(hour(0)) })).status).toBe(404)
  })

  it('refuses the hundred and first that is not over', async () => {
    const ids: string[] = []
    while (ids.length < 100) ids.push((await rig.started({ from: iso(hour(0)) })).id)
    const { status, body } = await rig.create({ from: iso(hour(0)) })
    expect([status, body.code]).toEqual([409, 'invalid_state'])
    expect(body.detail).toContain('100 backfills')
    for (const id of ids) await rig.act(id, 'cancel')
    await rig.act((await rig.started({ from: iso(hour(0)) })).id, 'cancel')
  })
})

describe('a backfill', () => {
  it('shows how far it has come, at every moment', async () => {
    const { id } = await rig.started({ from: iso(hour(0)), to: iso(hour(4)), concurrency: 2, input: [7] })
    await rig.backfiller.runOnce()
    expect(await rig.get(id)).toMatchObject({
      state: 'running',
      started: 2,
      skipped: 0,
      alive: 2,
      nextAt: iso(hour(2)),
      input: [7],
      startedAt: iso(noonMs),
    })
    const [one, two] = await rig.aliveRuns()
    await rig.worker.claim(one ?? '')
    await rig.worker.end(one ?? '')
    await rig.worker.claim(two ?? '')
    await rig.worker.end(two ?? '', { outcome: 'failed', state: 'failed' })
    expect(await rig.get(id)).toMatchObject({ alive: 0, succeeded: 1, failed: 1 })
    await rig.backfiller.runOnce()
    for (const runId of await rig.aliveRuns()) await cancelRun(runId)
    await rig.backfiller.runOnce()
    expect(await rig.get(id)).toMatchObject({
      state: 'completed',
      started: 4,
      succeeded: 1,
      failed: 1,
      canceled: 2,
      alive: 0,
      nextAt: null,
      endedAt: iso(noonMs),
    })
    for (const what of ['pause', 'resume', 'cancel'] as const) {
      const answer = await rig.act(id, what)
      expect([what, answer.status, answer.body.code]).toEqual([what, 409, 'invalid_state'])
    }
  })

  it('tells the backfillers when one of its runs is canceled', async () => {
    const { id } = await rig.started({ from: iso(hour(0)), concurrency: 1 })
    await rig.backfiller.runOnce()
    const [runId = ''] = await rig.aliveRuns()
    t.hints.length = 0
    await cancelRun(runId)
    expect(t.hints.map(({ topic }) => topic)).toEqual(['backfills'])
    await rig.act(id, 'cancel')
  })

  it('is paused with a reason and resumed where it was; a precondition holds', async () => {
    const { id } = await rig.started({ from: iso(hour(0)) })
    const paused = await rig.act(id, 'pause', { reason: 'peak hours' }, { 'if-match': '"1"' })
    expect([paused.status, paused.headers['etag']]).toEqual([200, '"2"'])
    expect(backfillOf(paused)).toMatchObject({ state: 'paused', reason: 'peak hours' })
    expect((await rig.act(id, 'resume', undefined, { 'if-match': '"1"' })).body.code).toBe(
      'precondition_failed',
    )
    t.hints.length = 0
    expect(backfillOf(await rig.act(id, 'resume'))).toMatchObject({ state: 'pending', reason: null })
    expect(t.hints.map(({ topic }) => topic)).toEqual(['backfills'])
    expect((await rig.act(id, 'resume')).status).toBe(409)
    await rig.act(id, 'cancel')
  })

  it('is canceled: what waits or runs goes on, or ends with it where that is asked for', async () => {
    const { id } = await rig.started({ from: iso(hour(0)), concurrency: 3 })
    await rig.backfiller.runOnce()
    const [running = '', ...waiting] = await rig.aliveRuns()
    const session = await rig.worker.claim(running)
    const canceled = backfillOf(await rig.act(id, 'cancel', { reason: 'wrong input' }))
    expect(canceled).toMatchObject({
      state: 'canceled',
      reason: 'wrong input',
      alive: 3,
      endedAt: iso(noonMs),
    })
    expect(await rig.aliveRuns()).toHaveLength(3)
    t.hints.length = 0
    const again = backfillOf(await rig.act(id, 'cancel', { cancelRuns: true }))
    expect(again).toMatchObject({ state: 'canceled', reason: 'wrong input', alive: 1, canceled: 2 })
    expect(t.hints).toContainEqual({ topic: 'cancel', key: session })
    expect((await t.call('GET', `/v1/runs/${waiting[0]}`)).body.state).toBe('canceled')
    expect((await t.call('GET', `/v1/runs/${running}`)).body.cancelRequested).toBe(true)
    expect((await rig.act(id, 'cancel')).status).toBe(409)
    await rig.worker.end(running, { outcome: 'canceled', state: 'canceled' })
    await rig.backfiller.runOnce()
    expect(await rig.get(id)).toMatchObject({ alive: 0, canceled: 3, started: 3 })
  })

  it('does nothing in a dry run', async () => {
    const { id } = await rig.started({ from: iso(hour(0)), concurrency: 1 })
    await rig.backfiller.runOnce()
    const before = await rig.get(id)
    t.hints.length = 0
    for (const [what, state] of [
      ['pause', 'paused'],
      ['cancel', 'canceled'],
    ] as const) {
      const answer = await t.call('POST', `/v1/backfills/${id}/${what}?dryRun=true`)
      expect([answer.status, answer.body.state]).toEqual([200, state])
      expect(await rig.get(id)).toEqual(before)
    }
    expect(t.hints).toEqual([])
    await rig.act(id, 'cancel', { cancelRuns: true })
  })

  it('ends with its schedule', async () => {
    const { id } = await rig.started({ from: iso(hour(0)) })
    await rig.act(id, 'pause')
    await t.call('DELETE', `/v1/schedules/${rig.scheduleId}`)
    expect(await rig.get(id)).toMatchObject({ state: 'canceled', reason: 'The schedule was deleted.' })
  })
})

describe('lists', () => {
  it('show backfills newest first, by schedule and state, page by page', async () => {
    const ids: string[] = []
    while (ids.length < 3) ids.unshift((await rig.started({ from: iso(hour(0)), input: 'big' })).id)
    await rig.act(ids[1] ?? '', 'pause')
    const list = async (query: string) => {
      const { body } = await t.call('GET', `/v1/backfills?${query}`)
      return { ids: body.items.map((item) => item.id), next: body.nextCursor, items: body.items }
    }
    expect((await list(`scheduleId=${rig.scheduleId}`)).ids).toEqual(ids)
    expect((await list(`scheduleId=${rig.scheduleId}&state=paused`)).ids).toEqual([ids[1]])
    expect((await list(`scheduleId=${rig.scheduleId}&state=completed`)).ids).toEqual([])
    const first = await list('limit=2')
    expect(first.ids).toEqual(ids.slice(0, 2))
    expect(first.items[0]).not.toHaveProperty('input')
    const second = await list(`limit=2&cursor=${first.next}`)
    expect(second.ids[0]).toBe(ids[2])
    expect((await t.call('GET', `/v1/backfills?state=paused&cursor=${first.next}`)).status).toBe(400)
    for (const id of ids) await rig.act(id, 'cancel')
  })

  it('of runs can be those of a backfill', async () => {
    await rig.past('succeeded', 'failed', 'failed')
    const { id } = await rig.started({ from: iso(hour(0)), to: iso(hour(3)), reprocess: 'failed' })
    await rig.backfiller.runOnce()
    const [one = '', two = ''] = await rig.aliveRuns()
    await rig.worker.claim(two)
    await rig.worker.end(two, { outcome: 'failed', state: 'failed' })
    const list = async (query: string) =>
      (await t.call('GET', `/v1/runs?backfillId=${id}${query}`)).body.items.map((run) => run.id)
    expect((await list('')).toSorted()).toEqual([one, two].toSorted())
    expect(await list('&state=failed')).toEqual([two])
    expect(await list('&state=pending,succeeded')).toEqual([one])
    expect(await list(`&scheduleId=${id}`)).toEqual([])
    await rig.act(id, 'cancel', { cancelRuns: true })
  })

  it('of occurrences tell what ran for a missed time later on, newest first', async () => {
    await t.database.sql(
      `INSERT INTO belfry.occurrence (schedule_id, scheduled_for, tenant_id, outcome, reason, due_at)
       VALUES ($1, $2, $3, 'missed', 'catch_up_latest', $2)`,
      [rig.scheduleId, new Date(hour(1)), t.tenantId],
    )
    const runs: string[] = []
    for (const reprocess of ['none', 'failed', 'all']) {
      await rig.started({ from: iso(hour(0)), to: iso(hour(2)), reprocess })
      await rig.backfiller.runOnce()
      for (const runId of await rig.aliveRuns()) {
        await rig.worker.claim(runId)
        await rig.worker.end(runId, { outcome: 'failed', state: 'failed' })
        const { body } = await t.call('GET', `/v1/runs/${runId}`)
        if (body.scheduledFor === iso(hour(1))) runs.unshift(runId)
      }
      await rig.backfiller.runOnce()
    }
    const { body } = await t.call('GET', `/v1/schedules/${rig.scheduleId}/occurrences?to=${iso(hour(2))}`)
    const [missed, ran] = body.items as unknown as Occurrence[]
    expect(missed).toMatchObject({
      scheduledFor: iso(hour(1)),
      outcome: 'missed',
      runId: null,
      laterRunIds: runs,
    })
    expect(runs).toHaveLength(3)
    expect(ran).toMatchObject({ scheduledFor: iso(hour(0)), outcome: 'ran' })
    // its own run is not among the later ones
    expect(ran?.laterRunIds).toHaveLength(2)
    expect(ran?.laterRunIds).not.toContain(ran?.runId)
  })
})

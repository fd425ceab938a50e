// Changes of a schedule at the very instant of a planned time, before the scheduler came to it, while it is
// at it, and after: one run for that time, whatever the change, and every planned time on record.
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { Catalog } from '../../packages/server/src/ports/catalog.ts'
import { createPostgresCatalog } from '../../packages/server/src/postgres/catalog/catalog.ts'
import { eventually, startTestApi, type TestApi } from '../support/api.ts'
import { adminRights } from '../support/rights.ts'
import { startScheduledApi, type ScheduledApi } from '../support/scheduled-api.ts'

let t: ScheduledApi
/** The same, but that its transactions stop before their commit while `gate` is shut. */
let slowly: TestApi
let gate = Promise.withResolvers<void>()
let arrived = Promise.withResolvers<void>()
const hourMs = 3_600_000
const start = Date.parse('2026-06-01T12:00:00.000Z')
beforeAll(async () => {
  t = await startScheduledApi(start)
  const catalog = createPostgresCatalog({ db: t.db })
  const held: Catalog = {
    ...catalog,
    within: (access, work) =>
      catalog.within(access, async (tx) => {
        const result = await work(tx)
        arrived.resolve()
        await gate.promise
        return result
      }),
  }
  const credential = {
    ...adminRights(t.tenantId),
    keyId: t.tenantId,
    tenantId: t.tenantId,
    tenantName: 'acme',
    tenantCreatedAtMs: 0,
    scopes: ['admin'] as const,
    queues: null,
  }
  slowly = await startTestApi({
    catalog: held,
    authenticator: {
      authenticate: async () => credential,
      provedLately: () => true,
      forget: () => undefined,
    },
  })
})
afterAll(async () => {
  await slowly.close()
  await t.close()
})

/** The planned time of the test, and the time of the scheduler's process, which stands a minute before it. */
let slotMs = start
let processMs = start
let made = 0
beforeEach(async () => {
  await t.database.sql('DELETE FROM belfry.timer')
  await t.database.sql('DELETE FROM belfry.ready')
  slotMs = (Math.floor(processMs / hourMs) + 2) * hourMs
  await pass(slotMs - 60_000 - processMs)
  t.events.length = 0
  t.hints.length = 0
})
const time = (ms: number) => new Date(slotMs + ms).toISOString()
const clock = (ms: number) => time(ms).slice(11, 19)
/** Database time; the scheduler does not hear of it. */
const stand = (ms: number) => t.database.setNow(new Date(slotMs + ms))
/** The scheduler comes to what is due by then. */
const pass = async (ms: number) => {
  processMs += ms
  await t.go(ms)
}

type Target = { readonly name: string; readonly id: string; readonly body: object }
/** Planned for the slot, and for each full hour. */
async function schedule(more: object = {}): Promise<Target> {
  const body = { name: `m${made++}`, cron: '0 * * * *', overlap: 'allow', ...more }
  return { name: body.name, id: await t.make(body), body }
}
/** How often something ran for the slot under this name, deleted schedules among it. */
async function ranAtSlot(name: string): Promise<number> {
  const [row] = await t.database.sql<{ count: number }>(
    `SELECT count(*)::int FROM belfry.run r JOIN belfry.schedule s ON s.id = r.schedule_id
     WHERE s.name = $1 AND r.scheduled_for = $2`,
    [name, new Date(slotMs)],
  )
  return row?.count ?? 0
}
const recreate = async ({ name, body }: Target) => {
  const answer = await t.call('POST', '/v1/schedules', { body: { job: 'work', ...body, name } })
  expect([answer.status, answer.body.nextAt]).toEqual([201, time(hourMs)])
}

type Change = readonly [words: string, change: (target: Target) => Promise<unknown>]
const ok = async (answer: Promise<{ status: number; body: { detail: string } | undefined }>) => {
  const { status, body } = await answer
  expect([status, body?.detail]).toEqual([status === 204 ? 204 : 200, undefined])
}
const changes: readonly Change[] = [
  ['an edit of the timing', ({ id }) => ok(t.patch(id, { cron: '*/30 * * * *' }))],
  [
    'an edit and its undoing',
    async ({ id }) => {
      await ok(t.patch(id, { cron: '*/30 * * * *' }))
      await ok(t.patch(id, { cron: '0 * * * *' }))
    },
  ],
  ['an edit of the delay', ({ id }) => ok(t.patch(id, { jitterMs: 60_000 }))],
  ['an edit of the input', ({ id }) => ok(t.patch(id, { input: 1 }))],
  ['a pause', ({ id }) => ok(t.act(id, 'pause'))],
  [
    'a pause and a resume',
    async ({ id }) => {
      await ok(t.act(id, 'pause'))
      await ok(t.act(id, 'resume'))
    },
  ],
  ['a deletion', ({ id }) => ok(t.call('DELETE', `/v1/schedules/${id}`))],
  [
    'a deletion and a new one of the same name',
    async (target) => {
      await ok(t.call('DELETE', `/v1/schedules/${target.id}`))
      await recreate(target)
    },
  ],
  ['a skip of the next', ({ id }) => ok(t.act(id, 'skip'))],
  ['a sleep', ({ id }) => ok(t.act(id, 'sleep', { until: time(10 * hourMs) }))],
]

describe.each(changes)('%s', (_, change) => {
  it('at the instant, before the scheduler came to it', async () => {
    const target = await schedule()
    await stand(0)
    await change(target)
    await pass(60_000)
    expect(await ranAtSlot(target.name)).toBe(1)
    expect((await t.ledger(target.id))[0]).toBe(`${clock(0)} ran`)
    await pass(hourMs)
    expect(await ranAtSlot(target.name)).toBe(1)
  })

  it('while the scheduler is late', async () => {
    const target = await schedule()
    await stand(30_000)
    await change(target)
    await pass(91_000)
    expect(await ranAtSlot(target.name)).toBe(1)
    expect((await t.ledger(target.id))[0]).toBe(`${clock(0)} ran`)
  })

  it('right after the scheduler fired', async () => {
    const target = await schedule()
    await pass(60_000)
    await change(target)
    await pass(1_000)
    expect(await ranAtSlot(target.name)).toBe(1)
    expect(await t.ledger(target.id)).toEqual([`${clock(0)} ran`])
  })

  it('while the scheduler fires and holds the locks', async () => {
    const target = await schedule()
    const blocked = await t.database.hold(
      `INSERT INTO belfry.occurrence (schedule_id, scheduled_for, tenant_id, outcome, reason, due_at)
       VALUES ('${target.id}', '${time(0)}', '${t.tenantId}', 'skipped', 'overlap', now())`,
    )
    await blocked.take()
    const firing = pass(60_000)
    await eventually(async () => (await t.database.waiting()) === 1)
    const changing = change(target)
    await eventually(async () => (await t.database.waiting()) === 2)
    await blocked.release()
    await Promise.all([firing, changing])
    await pass(1_000)
    expect(await ranAtSlot(target.name)).toBe(1)
    expect(await t.ledger(target.id)).toEqual([`${clock(0)} ran`])
  })
})

describe.each([
  ['an edit of the timing', 'PATCH', '', { cron: '*/30 * * * *' }],
  ['a pause', 'POST', '/pause', {}],
  ['a deletion', 'DELETE', '', undefined],
  ['a skip of the next', 'POST', '/skip', {}],
] as const)('%s that holds the locks', (_, method, path, body) => {
  it('makes the scheduler wait, and leaves it nothing to fire', async () => {
    const target = await schedule()
    await stand(0)
    gate = Promise.withResolvers()
    arrived = Promise.withResolvers()
    const asked = slowly.call(method, `/v1/schedules/${target.id}${path}`, { body })
    await arrived.promise
    const firing = pass(60_000)
    await eventually(async () => (await t.database.waiting()) === 1)
    gate.resolve()
    expect((await asked).status).toBeLessThan(300)
    await firing
    await pass(1_000)
    expect(await ranAtSlot(target.name)).toBe(1)
    expect(await t.ledger(target.id)).toEqual([`${clock(0)} ran`])
  })
})

describe('what a change fires', () => {
  it('is told as any fire is, and hinted to workers', async () => {
    const { id } = await schedule()
    await stand(5_000)
    await t.act(id, 'pause')
    expect(t.events).toEqual([
      {
        name: 'occurrences_fired',
        payload: {
          outcomes: [
            { scheduleId: id, scheduledFor: slotMs, outcome: 'ran', reason: null, count: 1, lateMs: 5_000 },
          ],
          durationMs: null,
        },
      },
      { name: 'runs_enqueued', payload: { count: 1, queue: 'default', source: 'schedule' } },
    ])
    expect(t.hints).toContainEqual({ topic: 'ready', key: 'default' })
  })

  it('is fired by the plan as it was: the old input, the old policy', async () => {
    const { id } = await schedule({ input: 'old', catchUp: { policy: 'none' } })
    await stand(2 * 60_000)
    await t.patch(id, { cron: '*/30 * * * *', input: 'new', catchUp: { policy: 'latest' } })
    expect(await t.ledger(id)).toEqual([`${clock(0)} missed catch_up_none`])
    await pass(61_000 + hourMs / 2)
    const runs = await t.call('GET', `/v1/runs?scheduleId=${id}`)
    const run = await t.call('GET', `/v1/runs/${runs.body.items[0]?.id ?? ''}`)
    expect(run.body).toMatchObject({ input: 'new', scheduledFor: time(hourMs / 2) })
  })

  it('is taken back with a change that is refused, or only tried, and left to the scheduler', async () => {
    const { id, name } = await schedule()
    await stand(0)
    const refused = await t.patch(id, { cron: '*/30 * * * *', endAt: time(-hourMs) })
    expect(refused.status).toBe(400)
    const stale = { body: { every: '5m' }, headers: { 'if-match': '"9"' } }
    expect((await t.call('PATCH', `/v1/schedules/${id}`, stale)).status).toBe(412)
    expect((await t.call('POST', `/v1/schedules/${id}/pause?dryRun=true`)).body.state).toBe('paused')
    expect((await t.call('DELETE', `/v1/schedules/${id}?dryRun=true`)).status).toBe(204)
    expect(await t.ledger(id)).toEqual([])
    expect(t.events).toEqual([])
    await pass(60_000)
    expect(await ranAtSlot(name)).toBe(1)
  })

  it('catches up with an outage by the policy as it was', async () => {
    const { id } = await schedule({ catchUp: { policy: 'latest' } })
    await stand(2 * hourMs + 60_000)
    const paused = await t.act(id, 'pause')
    expect(paused.body.state).toBe('paused')
    expect(await t.ledger(id)).toEqual([
      `${clock(0)} missed catch_up_latest`,
      `${clock(hourMs)} missed catch_up_latest`,
      `${clock(2 * hourMs)} ran`,
    ])
    await t.act(id, 'resume')
    expect(await t.ledger(id)).toHaveLength(3)
    await pass(2 * hourMs + 120_000)
  })
})

describe('a single time', () => {
  it('that is paused at its instant has run and is completed', async () => {
    const { id, name } = await schedule({ cron: undefined, at: time(0) })
    await stand(0)
    const paused = await t.act(id, 'pause')
    expect(paused.body).toMatchObject({ status: 409, code: 'invalid_state' })
    await pass(60_000)
    expect(await ranAtSlot(name)).toBe(1)
    expect((await t.call('GET', `/v1/schedules/${id}`)).body.state).toBe('completed')
  })

  it('that was deleted and is made anew within the minute runs no second time', async () => {
    const target = await schedule({ cron: undefined, at: time(0) })
    await stand(1_000)
    await ok(t.call('DELETE', `/v1/schedules/${target.id}`))
    const again = () => t.call('POST', '/v1/schedules', { body: { job: 'work', ...target.body } })
    const refused = await again()
    expect(refused.body).toMatchObject({ code: 'invalid_schedule', errors: [{ pointer: '/at' }] })
    expect(refused.body.detail).toContain('a deleted schedule of this name ran then')
    await pass(61_000)
    expect(await ranAtSlot(target.name)).toBe(1)
    const now = { job: 'work', ...target.body, ifPast: 'runNow' }
    expect((await t.call('POST', '/v1/schedules', { body: now })).status).toBe(201)
  })

  it('that goes away when it completes, deleted at its instant, has run once', async () => {
    const { id, name } = await schedule({ cron: undefined, at: time(0), afterCompletion: 'delete' })
    await stand(0)
    expect((await t.call('DELETE', `/v1/schedules/${id}`)).status).toBe(204)
    await pass(60_000)
    expect(await ranAtSlot(name)).toBe(1)
    const other = await schedule({ cron: undefined, at: time(5_000), afterCompletion: 'delete' })
    await stand(5_000)
    expect((await t.patch(other.id, { cron: '0 0 * * *' })).status).toBe(404)
    // nobody hinted: it is found with the next look
    await pass(35_000)
    expect(await t.ledger(other.id)).toEqual([`${clock(5_000)} ran`])
  })
})

describe('a start that is delayed', () => {
  const delayed = async () => {
    const target = await schedule({ jitterMs: 1_800_000 })
    const [row] = await t.database.sql<{ due_at: Date }>(
      'SELECT due_at FROM belfry.timer WHERE schedule_id = $1',
      [target.id],
    )
    const delayMs = (row?.due_at.getTime() ?? 0) - slotMs
    expect(delayMs).toBeGreaterThan(2)
    await stand(1)
    return { ...target, delayMs }
  }

  it('is left alone by an edit that leaves the timer alone', async () => {
    const { id, name, delayMs } = await delayed()
    await ok(t.patch(id, { input: 2, overlap: 'skip', description: 'd' }))
    expect(await t.ledger(id)).toEqual([])
    await pass(60_000 + delayMs)
    expect(await ranAtSlot(name)).toBe(1)
  })

  it('is not lost by a pause: it starts at once', async () => {
    const { id, name } = await delayed()
    await ok(t.act(id, 'pause'))
    expect(await t.ledger(id)).toEqual([`${clock(0)} ran`])
    expect(await ranAtSlot(name)).toBe(1)
  })
})

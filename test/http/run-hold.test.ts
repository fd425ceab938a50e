// What holds a run at the gate, as `run explain` and `queue show` tell it in the same words, and the timeline
// with them; with real gatekeepers, whose looks are taken by hand. And runs that gather the inputs of
// requests.
import { queueSchema } from '@belfry/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createGatekeeper, type Gatekeeper } from '../../packages/server/src/engine/gatekeeper.ts'
import { createPostgresGate, type GateTimes } from '../../packages/server/src/postgres/gate/gate.ts'
import { startTestApi, type TestApi } from '../support/api.ts'
import { enqueue, registerFunctions } from '../support/remote-worker.ts'
import { realClock } from '../support/real-clock.ts'
import { recordEvents, recordHints } from '../support/running.ts'

let api: TestApi
let keeper: Gatekeeper
let names = 0

const keeperWith = (times: GateTimes = {}): Gatekeeper =>
  createGatekeeper({
    gate: createPostgresGate(api.db, times),
    clock: realClock,
    random: { next: () => 0.5 },
    events: recordEvents(),
    hints: recordHints(),
  })

beforeAll(async () => {
  api = await startTestApi()
  keeper = keeperWith()
})
afterAll(() => api.close())

/** A function with limits, in a queue of its own name. */
async function limited(limits: Record<string, unknown>): Promise<string> {
  const name = `mail-${names++}`
  await registerFunctions(api, { name, queue: name, ...limits })
  return name
}

/** A walk after changed limits is done again while older transactions of other tests are left. */
async function walked(): Promise<void> {
  await expect
    .poll(
      async () => {
        await keeper.runOnce()
        return api.database.sql('SELECT 1 FROM belfry.regate')
      },
      { timeout: 30_000 },
    )
    .toEqual([])
}

async function enqueueAll(job: string, inputs: readonly unknown[]): Promise<string[]> {
  const ids: string[] = []
  for (const input of inputs) ids.push(await enqueue(api, job, input))
  await keeper.runOnce()
  return ids
}

async function change(path: string, body: object = {}, method = 'POST'): Promise<void> {
  const { status } = await api.call(method, path, { body })
  expect(status).toBeLessThan(300)
  await keeper.runOnce()
}

interface Told {
  readonly verdict: string
  readonly message: string
  readonly fix: string
  readonly since: string
  readonly clearsAt: string | null
  readonly runIds: readonly string[]
}
async function explained(id: string | undefined, verdict = 'held'): Promise<Told> {
  const { body } = await api.call('GET', `/v1/runs/${id}/explanation`)
  const told = body as unknown as Told
  expect(told.verdict, told.message).toBe(verdict)
  return told
}

/** Of each group of the queue that is held. */
async function whys(queue: string): Promise<string[]> {
  const shown = queueSchema.parse((await api.call('GET', `/v1/queues/${queue}`)).body)
  return shown.heldGroups.map(({ why }) => why)
}

const untilNext = (clearsAt: string | null): number => Date.parse(clearsAt ?? '') - Date.now()

test('a limit of its tenant', async () => {
  const job = await limited({})
  await change('/v1/tenant/limit', { runLimit: 1 }, 'PATCH')
  const ids = await enqueueAll(job, [1, 2])
  const words = 'The tenant is at its limit of runs at once: 1 of 1.'
  const told = await explained(ids[1])
  expect(told).toMatchObject({ message: words, runIds: [ids[0]] })
  expect(told.fix).toContain('belfry queue limit --runs 2')
  expect(await whys(job)).toEqual([words])
  await change('/v1/tenant/limit', { runLimit: null }, 'PATCH')
  await explained(ids[1], 'no_worker')
})

test('a limit of its job, who has the places, and how many are before it', async () => {
  const job = await limited({ concurrency: { limit: 2 } })
  const ids = await enqueueAll(job, [1, 2, 3, 4, 5])
  await explained(ids[1], 'no_worker')
  const words = `The job "${job}" is at its limit of runs at once: 2 of 2.`
  const third = await explained(ids[2])
  expect(third).toMatchObject({ message: words, clearsAt: null, runIds: ids.slice(0, 2) })
  expect(third.fix).toContain(`belfry job update ${job} --concurrency 3`)
  expect((await explained(ids[3])).message).toBe(`${words} 1 run waits for the same before it.`)
  expect((await explained(ids[4])).message).toBe(`${words} 2 runs wait for the same before it.`)
  expect(await whys(job)).toEqual([words])
})

test('a limit of one key in its input', async () => {
  const job = await limited({ concurrency: { key: '/customer/id' } })
  const inputs = [1, 1, 2, 1].map((id) => ({ customer: { id } }))
  const ids = await enqueueAll(job, inputs)
  await explained(ids[2], 'no_worker')
  const words = `The job "${job}" is at its limit of runs at once with one "/customer/id": 1 of 1.`
  expect(await explained(ids[1])).toMatchObject({ message: words, runIds: [ids[0]] })
  expect((await explained(ids[3])).message).toBe(`${words} 1 run waits for the same before it.`)
  expect(await whys(job)).toEqual([words])
})

test('a pool without free slots, and the rate of one, with the time of the next token', async () => {
  await api.call('POST', '/v1/pools', { body: { name: 'database', slots: 3 } })
  const rate = { count: 1, perMs: 90_000 }
  await api.call('POST', '/v1/pools', { body: { name: 'partner', rate } })
  const heavy = await limited({ concurrency: { pools: [{ name: 'database', weight: 2 }] } })
  const ids = await enqueueAll(heavy, [1, 2])
  const words = 'The pool "database" has no room for it: 2 of 3 slots are taken.'
  expect(await explained(ids[1])).toMatchObject({ message: words, runIds: [ids[0]] })
  expect(await whys(heavy)).toEqual([words])

  const rated = await limited({ concurrency: { pools: [{ name: 'partner' }] } })
  const [, second] = await enqueueAll(rated, [1, 2])
  const told = await explained(second)
  const next = /^The rate of the pool "partner" is used up; the next run may start in 1 minute and \d+ sec/
  expect(told.message).toMatch(next)
  expect(untilNext(told.clearsAt)).toBeGreaterThan(60_000)
  expect((await whys(rated))[0]).toMatch(next)
})

test('a rate of its job, for one key', async () => {
  const job = await limited({ rateLimit: { count: 1, perMs: 3_600_000, key: 'to' } })
  const ids = await enqueueAll(job, [{ to: 'a' }, { to: 'a' }, { to: 'b' }])
  await explained(ids[2], 'no_worker')
  const told = await explained(ids[1])
  expect(told.message).toMatch(
    /^The rate of the job "mail-\d+" for one "to" is used up; .* (59 minutes|1 hour)/,
  )
  expect(told.fix).toContain('rateLimit')
})

test('a pause of its job first, with its reason, and a pause of its queue, with its start', async () => {
  const job = await limited({ concurrency: { limit: 1 } })
  const [, id] = await enqueueAll(job, [1, 2])
  const jobs = await api.call('GET', `/v1/jobs?name=${job}`)
  const path = `/v1/jobs/${jobs.body.items[0]?.id}`
  await change(`/v1/queues/${job}/pause`, { reason: 'stock-taking' })
  const queued = await explained(id)
  expect(queued.message).toMatch(new RegExp(`^The queue "${job}" is paused for .*: stock-taking\\.`))
  expect(queued.fix).toBe(`Resume it: belfry queue resume ${job}`)
  await change(`${path}/pause`, { reason: 'the target is down.' })
  const told = await explained(id)
  expect(told.message).toMatch(new RegExp(`^The job "${job}" is paused for .*: the target is down\\. 1 run`))
  expect(told.fix).toBe(`Resume it: belfry job resume ${job}`)
  expect(Date.parse(told.since)).toBeGreaterThan(Date.parse(queued.since))
  expect((await whys(job))[0]).toMatch(/ is paused for .*: the target is down\.$/)
  await change(`${path}/resume`)
  await change(`/v1/queues/${job}/resume`)
  expect((await explained(id)).message).toContain('at its limit of runs at once: 1 of 1.')
})

test('nothing yet: it was not looked at; and the timeline tells of a limit', async () => {
  const id = await enqueue(api, await limited({ concurrency: { limit: 1 } }))
  expect((await explained(id)).message).toBe('It has just come to its limits, and is looked at in a moment.')
  const { body } = await api.call('GET', `/v1/runs/${id}`)
  const { timeline } = body as unknown as { timeline: readonly { kind: string; reason: string | null }[] }
  expect(timeline.at(-1)).toMatchObject({ kind: 'delay', reason: 'limit' })
  await keeper.runOnce()
  await explained(id, 'no_worker')
})

test('it was opened, nobody claimed it, and another job waits for its slot', async () => {
  const concurrency = { pools: [{ name: 'single' }] }
  await api.call('POST', '/v1/pools', { body: { name: 'single', slots: 1 } })
  const [first, second] = [await limited({ concurrency }), await limited({ concurrency })]
  await walked()
  const [idle] = await enqueueAll(first, [1])
  const [other] = await enqueueAll(second, [1])
  await explained(idle, 'no_worker')
  expect((await explained(other)).message).toContain('The pool "single"')
  await createPostgresGate(api.db, { unclaimedMs: 0 }).tidy()
  await keeper.runOnce()
  const told = await explained(idle)
  expect(told.message).toMatch(
    /^It had a place, but no worker took it while others .* in (5\d seconds|1 minute)\.$/,
  )
  expect(untilNext(told.clearsAt)).toBeGreaterThan(30_000)
  await explained(other, 'no_worker')
})

test('a run that gathers says how many requests it has, and when it starts', async () => {
  const made = { url: 'https://example.com/hook', kind: 'http' }
  const gathering = { collect: { maxItems: 3, windowMs: 3_600_000 } }
  await api.call('POST', '/v1/jobs', { body: { name: 'report', handler: made, ...gathering } })
  const first = await enqueue(api, 'report', 1)
  const one = /^It collects .*, 1 request so far\. It starts in (59 minutes .*|1 hour), or once it has 3\.$/
  expect((await explained(first, 'gathering')).message).toMatch(one)
  await api.call('POST', '/v1/runs', { body: { job: 'report', input: 2 } })
  const told = await explained(first, 'gathering')
  expect(told.message).toContain('2 requests so far')
  expect(untilNext(told.clearsAt)).toBeGreaterThan(3_000_000)
  await api.call('POST', '/v1/runs', { body: { job: 'report', input: 3 } })
  // full: it is due now, like any other
  await explained(first, 'waiting_for_time')
  const debounce = { windowMs: 60_000, maxWaitMs: 3_600_000 }
  await api.call('POST', '/v1/jobs', { body: { name: 'sync', handler: made, debounce } })
  const newest = /the newest counts\. It starts in (5\d seconds|1 minute); .* at most (59 minutes|1 hour)/
  const { message } = await explained(await enqueue(api, 'sync', 1), 'gathering')
  expect(message).toContain('1 request so far')
  expect(message).toMatch(newest)
})

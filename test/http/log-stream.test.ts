// The log of a run as a stream of events, over a real connection: what comes in which order, where it goes on
// after a break, what ends it, how many there may be.
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { eventually, startTestApi, type TestApi } from '../support/api.ts'
import { closeStreams, openStream } from '../support/event-reader.ts'
import { enqueue, openHandWorker, registerFunctions, type HandWorker } from '../support/remote-worker.ts'

let api: TestApi
let url: string
let worker: HandWorker

beforeAll(async () => {
  api = await startTestApi({
    streamLimits: { streamsPerKey: 4, streams: 6, streamHeartbeatMs: 100, streamLifeMs: 20_000 },
  })
  url = await api.api.listen({ host: '127.0.0.1', port: 0 })
  await registerFunctions(api, { name: 'work', retry: { maxAttempts: 3, baseMs: 0, jitter: 'none' } })
  worker = await openHandWorker(api, { functions: ['work'] })
})
afterEach(() => closeStreams())
afterAll(() => api.close())

type Claimed = Awaited<ReturnType<HandWorker['claim']>>[number]

async function begin(): Promise<Claimed> {
  const id = await enqueue(api, 'work')
  return eventually(async () => (await worker.claim()).find((run) => run.runId === id))
}

const at = '2026-12-01T00:00:00.000Z'
const log = (run: Claimed, firstLine: number, ...messages: readonly string[]) =>
  worker.call('log', {
    chunks: [
      {
        runId: run.runId,
        leaseEpoch: run.leaseEpoch,
        firstLine,
        lines: messages.map((message) => ({ at, level: 'info', message })),
      },
    ],
  })
const follow = (run: { runId: string }, headers: Record<string, string> = {}, key = api.adminKey) =>
  openStream(`${url}/v1/runs/${run.runId}/logs/stream`, { authorization: `Bearer ${key}`, ...headers })

describe('the log of a run', () => {
  test('is streamed line by line as it is written, and ends with the run', async () => {
    const run = await begin()
    await log(run, 0, 'one', 'two')
    const stream = await follow(run)
    expect(stream.status).toBe(200)
    expect(stream.headers.get('content-type')).toBe('text/event-stream; charset=utf-8')
    expect(stream.headers.get('cache-control')).toBe('no-store, no-transform')
    expect(stream.headers.get('x-accel-buffering')).toBe('no')
    expect(await stream.next()).toMatchObject({
      event: 'line',
      id: '1/0',
      data: { attempt: 1, message: 'one' },
    })
    expect(await stream.next()).toMatchObject({
      event: 'line',
      id: '1/1',
      data: { number: 1, message: 'two' },
    })
    const saidMs = performance.now()
    await log(run, 2, 'three')
    expect(await stream.next()).toMatchObject({ id: '1/2', data: { message: 'three' } })
    // by a hint, and not by the look each second
    expect(performance.now() - saidMs).toBeLessThan(900)
    await worker.complete(run, { outcome: 'succeeded' })
    expect(await stream.next()).toMatchObject({
      event: 'end',
      id: '1/2',
      data: { runId: run.runId, state: 'succeeded', reason: null },
    })
    expect(await stream.next()).toBeUndefined()
  })

  test('goes on behind the last event that was seen, also in the middle of a chunk', async () => {
    const run = await begin()
    await log(run, 0, 'one', 'two', 'three')
    await worker.complete(run, { outcome: 'succeeded' })
    const stream = await follow(run, { 'last-event-id': '1/0' })
    expect((await stream.rest()).map(({ id, event }) => [event, id])).toEqual([
      ['line', '1/1'],
      ['line', '1/2'],
      ['end', '1/2'],
    ])
    const byQuery = await openStream(`${url}/v1/runs/${run.runId}/logs/stream?after=1/1`, {
      authorization: `Bearer ${api.adminKey}`,
    })
    expect((await byQuery.rest()).map(({ id }) => id)).toEqual(['1/2', '1/2'])
  })

  test('tells attempts apart, those that logged nothing left out', async () => {
    const run = await begin()
    await log(run, 0, 'first')
    await worker.complete(run, { outcome: 'failed', error: { code: 'boom', message: 'no' } })
    const stream = await follow(run)
    const again = await eventually(async () => {
      await api.database.sql(
        `WITH gone AS (DELETE FROM belfry.delayed WHERE run_id = $1 RETURNING *)
         INSERT INTO belfry.ready (run_id, tenant_id, job_id, job_version, queue, handler, tag, priority,
           available_at, timeout_ms, lease_epoch, attempt)
         SELECT run_id, tenant_id, job_id, job_version, queue, handler, 0, priority, due_at, timeout_ms,
           lease_epoch, attempt FROM gone`,
        [run.runId],
      )
      return (await worker.claim()).find(({ runId }) => runId === run.runId)
    })
    await log(again, 0, 'second')
    await worker.complete(again, { outcome: 'succeeded' })
    expect((await stream.rest()).map(({ id }) => id)).toEqual(['1/0', '2/0', '2/0'])
  })

  test('says where it is full', async () => {
    const run = await begin()
    const long = 'x'.repeat(16_000)
    await log(run, 0, ...Array.from({ length: 17 }, () => long))
    await log(run, 17, 'beyond')
    await worker.complete(run, { outcome: 'succeeded' })
    const events = await (await follow(run)).rest()
    expect(events).toHaveLength(19)
    expect(events.at(-2)).toMatchObject({ event: 'full', data: { attempt: 1, logCapBytes: 262_144 } })
    expect(events.at(-1)).toMatchObject({ event: 'end' })
  })

  test('of a run that has ended without a line is its end', async () => {
    const id = await enqueue(api, 'work')
    await api.call('POST', `/v1/runs/${id}/cancel`)
    expect(await (await follow({ runId: id })).rest()).toMatchObject([
      { event: 'end', data: { state: 'canceled', reason: 'canceled_by_request' } },
    ])
  })

  test('holds no API key', async () => {
    const run = await begin()
    await log(run, 0, `calling with ${api.adminKey}!`)
    await worker.complete(run, {
      outcome: 'failed',
      retryable: false,
      error: { code: 'x', message: `401 for ${api.adminKey}` },
    })
    const [line] = await (await follow(run)).rest()
    const prefix = api.adminKey.split('_')[1]
    expect(line?.data['message']).toBe(`calling with bfy_${prefix}_***!`)
    const { body } = await api.call('GET', `/v1/runs/${run.runId}`)
    expect(JSON.stringify(body)).not.toContain(api.adminKey)
    expect(JSON.stringify(body)).toContain(`401 for bfy_${prefix}_***`)
  })
})

describe('a stream', () => {
  test('shows that it lives while nothing happens', async () => {
    const stream = await follow(await begin())
    await stream.comment()
    await stream.comment()
    expect(stream.status).toBe(200)
  })

  test('is refused beyond the limit of a key, and free again when one has gone', async () => {
    const run = await begin()
    const key = await api.keyFor('acme', ['read'])
    const open = await Promise.all(Array.from({ length: 4 }, () => follow(run, {}, key)))
    const refused = await follow(run, {}, key)
    expect(refused.status).toBe(429)
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0)
    open[0]?.close()
    await eventually(async () => {
      const next = await follow(run, {}, key)
      return next.status === 200
    })
  })

  test('ends within seconds when its key is revoked', async () => {
    const run = await begin()
    const { body } = await api.call('POST', '/v1/keys', { body: { name: 'short', scopes: ['read'] } })
    const stream = await follow(run, {}, body.secret)
    expect(stream.status).toBe(200)
    const revoked = await api.call('POST', `/v1/keys/${body.id}/revoke`)
    expect(revoked.status).toBe(200)
    expect(await stream.next()).toMatchObject({ event: 'closed', data: { reason: 'key_refused' } })
    expect(await stream.next()).toBeUndefined()
  }, 15_000)

  test('of a run of another tenant does not exist, and neither does one from nowhere', async () => {
    const run = await begin()
    expect((await follow(run, {}, await api.keyFor('other', ['admin']))).status).toBe(404)
    expect((await follow(run, { 'last-event-id': 'nonsense' })).status).toBe(400)
    expect((await follow(run, {}, await api.keyFor('acme', ['worker']))).status).toBe(403)
  })

  test('answers the head alone to those who ask for it', async () => {
    const run = await begin()
    const head = await fetch(`${url}/v1/runs/${run.runId}/logs/stream`, {
      method: 'HEAD',
      headers: { authorization: `Bearer ${api.adminKey}` },
    })
    expect([head.status, head.headers.get('content-type')]).toEqual([200, 'text/event-stream; charset=utf-8'])
  })
})

describe('a stop', () => {
  test('ends streams and waits, and says so', async () => {
    const own = await startTestApi()
    try {
      const address = await own.api.listen({ host: '127.0.0.1', port: 0 })
      await registerFunctions(own, { name: 'work' })
      const id = await enqueue(own, 'work')
      const headers = { authorization: `Bearer ${own.adminKey}` }
      const stream = await openStream(`${address}/v1/runs/${id}/logs/stream`, headers)
      const waiting = fetch(`${address}/v1/runs/${id}/wait`, { headers })
      await stream.begun()
      own.api.drain()
      expect(await stream.next()).toMatchObject({ event: 'closed', data: { reason: 'shutting_down' } })
      expect(await stream.next()).toBeUndefined()
      // answered as it is, or refused where it came after the drain
      expect([200, 503]).toContain((await waiting).status)
    } finally {
      await own.close()
    }
  })
})

describe('a wait', () => {
  test('answers when the run ends, at once where it has ended, and as it is when time is up', async () => {
    const run = await begin()
    const path = `/v1/runs/${run.runId}/wait`
    expect((await api.call('GET', `${path}?waitMs=50`)).body.state).toBe('running')
    const waiting = api.call('GET', path)
    await eventually(async () => api.hints.some(({ topic, key }) => topic === 'watch' && key === run.runId))
    await worker.complete(run, { outcome: 'succeeded' })
    expect((await waiting).body.state).toBe('succeeded')
    expect((await api.call('GET', path)).body.state).toBe('succeeded')
    expect((await api.call('GET', `${path}?waitMs=99999`)).status).toBe(400)
  })
})

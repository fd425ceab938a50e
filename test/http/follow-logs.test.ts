// The client follows logs and waits for ends: over connections that break, by a server that is too old for
// it, and inside a program without any server.
import { createServer, connect, type Socket } from 'node:net'
import type { AddressInfo } from 'node:net'
import { createBelfry, createClient, defineJob, type Client, type LogEvent } from 'belfry'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { eventually, startTestApi, type TestApi } from '../support/api.ts'
import { createTestDatabase } from '../support/postgres.ts'
import { enqueue, openHandWorker, registerFunctions, type HandWorker } from '../support/remote-worker.ts'

let api: TestApi
let worker: HandWorker
let proxy: CuttingProxy

beforeAll(async () => {
  api = await startTestApi({ streamLimits: { streamHeartbeatMs: 200 } })
  const url = new URL(await api.api.listen({ host: '127.0.0.1', port: 0 }))
  proxy = await startProxy(Number(url.port))
  await registerFunctions(api, { name: 'work' })
  worker = await openHandWorker(api, { functions: ['work'] })
})
afterAll(async () => {
  await proxy.close()
  await api.close()
})

type CuttingProxy = {
  readonly url: string
  readonly cut: () => void
  readonly count: () => number
  readonly close: () => Promise<void>
}

/** Carries connections to a port, and breaks all of them when told to. */
async function startProxy(port: number): Promise<CuttingProxy> {
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    const target = connect(port, '127.0.0.1')
    for (const each of [socket, target]) {
      sockets.add(each)
      each.on('error', () => undefined).once('close', () => sockets.delete(each))
    }
    socket.pipe(target).pipe(socket)
    socket.once('close', () => target.destroy())
    target.once('close', () => socket.destroy())
  })
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve))
  const cut = (): void => {
    for (const socket of sockets) socket.destroy()
  }
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    cut,
    count: () => sockets.size,
    async close() {
      cut()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

const clientOf = (fetcher?: typeof fetch): Client =>
  createClient({ url: proxy.url, apiKey: api.adminKey, ...(fetcher === undefined ? {} : { fetch: fetcher }) })

async function begin() {
  const id = await enqueue(api, 'work')
  return eventually(async () => (await worker.claim()).find((run) => run.runId === id))
}

const at = '2026-12-01T00:00:00.000Z'
async function log(run: { runId: string; leaseEpoch: number }, firstLine: number, ...messages: string[]) {
  const { runId, leaseEpoch } = run
  const lines = messages.map((message) => ({ at, level: 'info', message }))
  await worker.call('log', { chunks: [{ runId, leaseEpoch, firstLine, lines }] })
}

async function collect(events: AsyncIterable<LogEvent>, seen: LogEvent[] = []): Promise<LogEvent[]> {
  for await (const event of events) seen.push(event)
  return seen
}
const wordsOf = (events: readonly LogEvent[]) =>
  events.map((event) => (event.kind === 'line' ? event.line.message : event.kind))

describe('followLogs', () => {
  test('tells every line once, in order, over connections that break', async () => {
    const run = await begin()
    await log(run, 0, 'a', 'b')
    const seen: LogEvent[] = []
    const following = collect(clientOf().runs.followLogs(run.runId), seen)
    await eventually(async () => seen.length === 2)
    proxy.cut()
    await log(run, 2, 'c')
    await eventually(async () => seen.length === 3)
    proxy.cut()
    await log(run, 3, 'd')
    await worker.complete(run, { outcome: 'succeeded' })
    expect(wordsOf(await following)).toEqual(['a', 'b', 'c', 'd', 'end'])
    expect(seen.at(-1)).toEqual({ kind: 'end', state: 'succeeded', reason: null })
  })

  test('asks page after page where the server has no streams', async () => {
    const asked: string[] = []
    const old = clientOf((input, init) => {
      const { pathname } = urlOf(input)
      asked.push(pathname)
      return pathname.endsWith('/logs/stream') ? Promise.resolve(noSuchRoute()) : fetch(input, init)
    })
    const run = await begin()
    await log(run, 0, 'a')
    const seen: LogEvent[] = []
    const following = collect(old.runs.followLogs(run.runId), seen)
    await eventually(async () => seen.length === 1)
    await log(run, 1, 'b')
    await worker.complete(run, { outcome: 'succeeded' })
    expect(wordsOf(await following)).toEqual(['a', 'b', 'end'])
    expect(asked.filter((path) => path.endsWith('/stream'))).toHaveLength(1)
  })

  test('stops at its signal, and fails for a run that is not there', async () => {
    const run = await begin()
    const stop = new AbortController()
    const following = collect(clientOf().runs.followLogs(run.runId, { signal: stop.signal }))
    stop.abort(new Error('enough'))
    await expect(following).rejects.toThrow('enough')
    const none = clientOf().runs.followLogs('019ad0c1-7f3e-7c63-9a52-6e4d8c1b2a3f')
    await expect(collect(none)).rejects.toMatchObject({ code: 'not_found' })
  })

  test('works inside a program, and who breaks off leaves nothing open', async () => {
    const database = await createTestDatabase()
    const { host, port, user, database: name } = database.connection
    const end = Promise.withResolvers<void>()
    const job = defineJob({
      name: 'talk',
      run: async (_input, ctx) => {
        ctx.log.info('one')
        await end.promise
        ctx.log.info('two')
      },
    })
    const belfry = createBelfry({
      databaseUrl: `postgres://${user}@localhost:${port}/${name}?host=${encodeURIComponent(host)}`,
      migrate: false,
      logLevel: 'error',
      jobs: [job],
    })
    await belfry.start()
    try {
      const { id } = await belfry.enqueue(job)
      // more of them than may be open at a time
      for (let count = 0; count < 60; count++) {
        for await (const event of belfry.client.runs.followLogs(id)) {
          expect(event).toMatchObject({ kind: 'line', line: { message: 'one' } })
          break
        }
      }
      const following = collect(belfry.client.runs.followLogs(id))
      end.resolve()
      expect(wordsOf(await following)).toEqual(['one', 'two', 'end'])
    } finally {
      await belfry.stop()
      await database.drop()
    }
  }, 30_000)
})

const urlOf = (input: Parameters<typeof fetch>[0]): URL =>
  new URL(input instanceof Request ? input.url : input)

const noSuchRoute = (): Response =>
  Response.json({ code: 'not_found', detail: 'There is no such route here.' }, { status: 404 })

describe('waitForRun', () => {
  async function countRequests(answersWait: boolean, ms: number): Promise<string[]> {
    const asked: string[] = []
    const client = clientOf((input, init) => {
      const path = urlOf(input).pathname
      asked.push(path.endsWith('/wait') ? 'wait' : 'get')
      return path.endsWith('/wait') && !answersWait ? Promise.resolve(noSuchRoute()) : fetch(input, init)
    })
    const run = await begin()
    const waiting = client.waitForRun(run.runId)
    const ending = setTimeout(() => void worker.complete(run, { outcome: 'succeeded' }), ms)
    expect((await waiting).state).toBe('succeeded')
    clearTimeout(ending)
    return asked
  }

  test('is two requests, however long it takes', async () => {
    expect(await countRequests(true, 1_500)).toEqual(['get', 'wait'])
  })

  test('asks again and again where the server cannot wait', async () => {
    const asked = await countRequests(false, 600)
    expect(asked.filter((each) => each === 'wait')).toHaveLength(1)
    expect(asked.filter((each) => each === 'get').length).toBeGreaterThan(2)
  })

  test('ends in time, and goes on after a broken connection', async () => {
    const run = await begin()
    const late = clientOf().waitForRun(run.runId, { timeoutMs: 200 })
    await expect(late).rejects.toMatchObject({ code: 'wait_timeout' })
    const waiting = clientOf().waitForRun(run.runId)
    await eventually(async () => proxy.count() > 0)
    proxy.cut()
    await worker.complete(run, { outcome: 'canceled' })
    expect(await waiting).toMatchObject({ state: 'canceled' })
  })
})

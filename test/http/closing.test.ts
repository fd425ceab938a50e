// Closing the API while connections are open: each ends once what it asked for is answered, and the close is
// over soon, whatever the other side does. No client here ever ends a connection by itself.
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { eventually, startTestApi, type TestApi } from '../support/api.ts'
import { enqueue, makeKey, openHandWorker, registerFunctions } from '../support/remote-worker.ts'

let api: TestApi
let url: URL
let sockets: Socket[] = []

beforeEach(async () => {
  api = await startTestApi({ closeWithinMs: 1_500 })
  url = new URL(await api.api.listen({ host: '127.0.0.1', port: 0 }))
  await registerFunctions(api, { name: 'work' })
})
afterEach(async () => {
  for (const socket of sockets) socket.destroy()
  sockets = []
  await api.close()
})

/** Opens a connection and sends what is given; answers how to see what has come. */
async function send(text: string, read = true): Promise<() => string> {
  const socket = connect({ host: url.hostname, port: Number(url.port) })
  sockets.push(socket)
  let received = ''
  if (read) socket.on('data', (chunk) => (received += chunk.toString('utf8')))
  socket.on('error', () => {})
  await once(socket, 'connect')
  if (text !== '') socket.write(text)
  return () => received
}

const request = (line: string, body?: unknown, key = api.adminKey): string => {
  const content = body === undefined ? '' : JSON.stringify(body)
  const about = content === '' ? [] : ['Content-Type: application/json', `Content-Length: ${content.length}`]
  const head = [`${line} HTTP/1.1`, 'Host: belfry', `Authorization: Bearer ${key}`, ...about]
  return `${head.join('\r\n')}\r\n\r\n${content}`
}

async function msToClose(): Promise<number> {
  const fromMs = performance.now()
  await api.api.close()
  return performance.now() - fromMs
}

test('a stream is told, and its connection ends with it', async () => {
  const received = await send(request(`GET /v1/runs/${await enqueue(api, 'work')}/logs/stream`))
  await eventually(async () => received().includes('retry:'))
  expect(await msToClose()).toBeLessThan(1_000)
  await eventually(async () => received().endsWith('\r\n0\r\n\r\n'))
  expect(received()).toContain('event: closed\ndata: {"reason":"shutting_down"}')
})

test('a claim that waits is answered, and its connection ends with it', async () => {
  const key = await makeKey(api, { scopes: ['worker'], queues: ['default'] })
  const worker = await openHandWorker(api, { functions: ['work'], key })
  const received = await send(request(`POST /v1/workers/${worker.id}/claim`, { max: 1, waitMs: 20_000 }, key))
  await new Promise((resolve) => setTimeout(resolve, 300))
  expect(received()).toBe('')
  expect(await msToClose()).toBeLessThan(1_000)
  await eventually(async () => received().startsWith('HTTP/1.1 '))
})

test('connections on which nothing was asked, or all was answered, end at once', async () => {
  await send('')
  const received = await send(request('GET /'))
  await eventually(async () => received().includes('belfry'))
  expect(await msToClose()).toBeLessThan(1_000)
})

test('a request that never comes to an end, in head or body, ends when the time is over', async () => {
  await send('POST /v1/jobs HTTP/1.1\r\nHost: bel')
  await send(request('POST /v1/jobs', { name: 'x' }).slice(0, -3))
  await new Promise((resolve) => setTimeout(resolve, 100))
  expect(await msToClose()).toBeLessThan(2_500)
})

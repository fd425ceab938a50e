// What a function says while it runs, log lines and progress, whatever it says and however the API is: it
// costs neither the function nor its neighbours anything, and what could not be kept is named.
import { type Belfry, createBelfry, type JobContext } from 'belfry'
import {
  type Client,
  createClient,
  createWorker,
  defineJob,
  type Worker,
  type WorkerEvent,
} from '@belfry/sdk'
import type { LogLine } from '@belfry/contract'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { eventually, startTestApi, type TestApi } from '../support/api.ts'
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts'
import { makeKey } from '../support/remote-worker.ts'

type Body = (ctx: JobContext) => unknown

let api: TestApi
let client: Client
let url: string
let database: TestDatabase
let belfry: Belfry | undefined
const started: Worker[] = []

beforeAll(async () => {
  api = await startTestApi()
  url = await api.api.listen({ host: '127.0.0.1', port: 0 })
  client = createClient({ url, apiKey: api.adminKey })
  database = await createTestDatabase()
})
afterEach(async () => {
  await Promise.all(started.splice(0).map((worker) => worker.stop()))
  await belfry?.stop()
})
afterAll(async () => {
  await api.close()
  await database.drop()
})

let names = 0
const jobOf = (run: Body) =>
  defineJob({ name: `says-${names++}`, retry: { maxAttempts: 1 }, run: (_, ctx) => run(ctx) })

async function remotely(run: Body, through: typeof fetch = fetch) {
  const job = jobOf(run)
  const events: WorkerEvent[] = []
  const worker = createWorker({
    jobs: [job],
    url,
    token: await makeKey(api, { scopes: ['worker'] }),
    handleSignals: false,
    fetch: through,
    onEvent: (event) => events.push(event),
  })
  started.push(worker)
  await worker.start()
  const { id } = await client.enqueue(job)
  const ended = await client.waitForRun(id, { timeoutMs: 20_000 })
  const lines: LogLine[] = []
  for await (const event of client.runs.followLogs(id)) if (event.kind === 'line') lines.push(event.line)
  return { ended, events, lines }
}

async function inside(run: Body) {
  const job = jobOf(run)
  const { host, port, user, database: name } = database.connection
  const databaseUrl = `postgres://${user}@localhost:${port}/${name}?host=${encodeURIComponent(host)}`
  belfry = createBelfry({ databaseUrl, migrate: false, logLevel: 'error', drainMs: 2_000, jobs: [job] })
  await belfry.start()
  const { id } = await belfry.enqueue(job)
  const ended = await belfry.client.waitForRun(id, { timeoutMs: 20_000 })
  return { ended, lines: (await belfry.client.logs.get(id)).lines }
}

const circular: Record<string, unknown> = {}
circular['itself'] = circular

function sayOddThings({ log }: JobContext): string {
  log.info('first')
  log.info('deep', JSON.parse(`${'{"a":'.repeat(80)}1${'}'.repeat(80)}`) as Record<string, unknown>)
  log.info('key', JSON.parse('{"__proto__":{"x":1}}') as Record<string, unknown>)
  log.info('large', { id: 2 ** 60, none: Number.NaN, text: 10n })
  log.info('keys', { 'a\u0000b': 1, '\ud800': 2 })
  log.info('circle', circular)
  log.error(new Error('real problem'), { at: 'checkout' })
  log.info(undefined)
  log.info({ a: 1 })
  log.info(Symbol('odd'))
  log.info(Object.create(null))
  log.info('last')
  return 'went on'
}

const said = [
  { message: 'first' },
  { message: 'deep' },
  { message: 'key', fields: { '[__proto__]': { x: 1 } } },
  { message: 'large', fields: { id: String(2 ** 60), none: null, text: '10' } },
  { message: 'keys', fields: { 'a\uFFFDb': 1, '\uFFFD': 2 } },
  { message: 'circle', fields: 'fields that are not JSON' },
  {
    message: 'real problem',
    level: 'error',
    fields: { at: 'checkout', stack: expect.stringContaining('Error: real') as unknown },
  },
  { message: 'undefined' },
  { message: '{"a":1}' },
  { message: 'Symbol(odd)' },
  { message: '{}' },
  { message: 'last' },
]

describe.each([
  ['a remote worker', (run: Body) => remotely(run)],
  ['this process', inside],
])('in %s', (_, inPlace) => {
  test('odd words and fields are tidied, and the log goes on', async () => {
    const { ended, lines } = await inPlace(sayOddThings)
    expect(ended).toMatchObject({ state: 'succeeded', attemptList: [{ result: 'went on' }] })
    expect(lines).toMatchObject(said)
  })

  test('progress that cannot be kept is refused at the call', async () => {
    const refused: unknown[] = []
    const { ended } = await inPlace(({ heartbeat }) => {
      for (const word of [{ n: 1n }, circular, 'x'.repeat(20_000), 2 ** 60, () => 1, '\u0000']) {
        try {
          heartbeat(word as string)
        } catch (error) {
          refused.push(error)
        }
      }
    })
    expect(ended.state).toBe('succeeded')
    const refusal = { code: 'invalid_request', errors: [{ pointer: '/progress' }] }
    expect(refused).toMatchObject(Array.from({ length: 6 }, () => refusal))
  })
})

const isLog = (input: Parameters<typeof fetch>[0]): boolean =>
  (input instanceof Request ? input.url : String(input)).endsWith('/log')

const bodyOf = (init: RequestInit | undefined): string => (typeof init?.body === 'string' ? init.body : '')

test('an API that is away for a while costs no line', async () => {
  let failures = 4
  const { lines, events } = await remotely(
    async ({ log }) => {
      log.info('while it is away')
      await eventually(() => Promise.resolve(failures === 0 || undefined))
      log.info('when it is back')
    },
    async (input, init) => {
      if (!isLog(input) || failures === 0) return fetch(input, init)
      failures -= 1
      throw new TypeError('away')
    },
  )
  expect(lines).toMatchObject([{ message: 'while it is away' }, { message: 'when it is back' }])
  expect(events.filter((event) => event.kind === 'trouble' && event.what === 'log')).toHaveLength(4)
})

test('lines for which there is no room are counted, and a line names the gap', async () => {
  let away = true
  let triedOnce = false
  const { lines, events } = await remotely(
    async ({ log }) => {
      log.info('first')
      await eventually(() => Promise.resolve(triedOnce || undefined))
      for (let n = 0; n < 3_000; n++) log.debug('x'.repeat(4_000))
      away = false
    },
    async (input, init) => {
      if (!isLog(input)) return fetch(input, init)
      triedOnce = true
      if (away) throw new TypeError('away')
      // what waited is not of interest here, and would fill the log
      const body = bodyOf(init).replaceAll(/x{4000}/g, '')
      return fetch(input, { ...init, body })
    },
  )
  const dropped = events.flatMap((event) => (event.kind === 'log_dropped' ? [event.lines] : []))
  expect(dropped).toHaveLength(1)
  expect(dropped[0]).toBeGreaterThan(500)
  expect(lines.at(-1)).toMatchObject({
    level: 'warn',
    message: `${dropped[0]} lines are missing here: too much of the log was waiting to be sent`,
  })
  // the first, those that were kept, and the one about the gap
  expect(lines.length + (dropped[0] ?? 0)).toBe(3_002)
})

test('a chunk that is refused is split until only the line at fault is gone', async () => {
  const { lines, ended } = await remotely(
    ({ log }) => {
      for (let n = 0; n < 9; n++) log.info(`line ${n}`)
    },
    (input, init) => {
      if (!isLog(input)) return fetch(input, init)
      const body = bodyOf(init)
      // as a server would that knows of another fault
      return fetch(input, { ...init, body: body.replace('"message":"line 4"', '"message":"line 4","odd":1') })
    },
  )
  expect(ended.state).toBe('succeeded')
  expect(lines.map(({ message }) => message.slice(0, 18))).toEqual(
    Array.from({ length: 9 }, (_, n) => (n === 4 ? 'A line was refused' : `line ${n}`)),
  )
})

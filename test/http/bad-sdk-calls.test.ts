// Every call of the SDK with what cannot be meant: a typed error with a code and a place to look at, and
// nothing stored. The nouns and verbs are read off the client itself, so new ones are tried as soon as they
// are there.
import { errorTable } from '@belfry/contract'
import { BelfryError, type Client, createClient, createWorker, defineJob } from '@belfry/sdk'
import { createBelfry } from 'belfry'
import pg from 'pg'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { httpJob, startTestApi, type TestApi } from '../support/api.ts'

let t: TestApi
let client: Client
let before: Record<string, number>
const job = defineJob({ name: 'known-function', run: () => null })

beforeAll(async () => {
  t = await startTestApi()
  client = createClient({
    url: 'http://injected.invalid',
    apiKey: t.adminKey,
    fetch: injected,
    retry: { retries: 0 },
  })
  await client.jobs.create({ ...httpJob('known'), handler: { kind: 'http', url: 'https://example.com/' } })
  await client.functions.register([job])
})
beforeEach(async () => {
  before = await t.counts()
})
afterAll(() => t.close())

const injected: typeof fetch = async (input, init = {}) => {
  const { pathname, search } = new URL(input instanceof Request ? input.url : input)
  const { authorization, ...headers } = Object.fromEntries(new Headers(init.headers))
  if (authorization !== `Bearer ${t.adminKey}`) throw new Error('the client sends its key')
  const raw = typeof init.body === 'string' ? { raw: init.body } : {}
  const { status, body } = await t.call(init.method ?? 'GET', `${pathname}${search}`, { headers, ...raw })
  return new Response(status === 204 ? null : JSON.stringify(body ?? null), { status })
}

type Fault = { readonly code: string; readonly pointers: readonly string[] }

/** What the call throws; anything but a BelfryError of the table fails the test. */
async function faultOf(call: () => unknown): Promise<Fault | undefined> {
  const thrown = await Promise.resolve()
    .then(call)
    .then(consume)
    .then(
      () => undefined,
      (error: unknown) => ({ error }),
    )
  if (thrown === undefined) return undefined
  const { error } = thrown
  expect(error, error instanceof Error ? error.stack : String(error)).toBeInstanceOf(BelfryError)
  const { code, message, errors } = error as BelfryError
  expect(Object.keys(errorTable)).toContain(code)
  expect(code, message).not.toBe('internal')
  expect(code, 'it must not look as if the server were away').not.toBe('server_unreachable')
  expect(message.length).toBeGreaterThan(10)
  return { code, pointers: (errors ?? []).map(({ pointer }) => pointer) }
}

/** Lists ask for nothing before their first item is wanted. */
async function consume(answer: unknown): Promise<void> {
  if (typeof answer !== 'object' || answer === null || !(Symbol.asyncIterator in answer)) return
  for await (const _ of answer as AsyncIterable<unknown>) return
}

const itself: Record<string, unknown> = {}
itself['itself'] = itself
const noId = '0190b1a2-0000-7000-8000-000000000000'

/** Lists of arguments that no call can take. */
const badArguments: readonly [what: string, args: readonly unknown[]][] = [
  ['nothing', []],
  ['null', [null, null]],
  ['a number', [42, 42]],
  ['empty texts', ['', '']],
  ['dots', ['..', {}]],
  ['half a surrogate pair', ['\ud800', {}]],
  ['an unknown field', [{ unheardOf: 1 }, { unheardOf: 1 }]],
  ['a list', [[], []]],
  ['what holds itself', [itself, itself]],
  ['a bigint', [{ name: 1n, input: 1n }, { input: 1n }]],
  ['a function', [() => 1, () => 1]],
  ['a symbol', [Symbol('x'), Symbol('x')]],
  ['no such id', [noId, { unheardOf: 1 }]],
  ['an id and a body that holds itself', [noId, itself]],
  ['a key with a line break', [{}, { idempotencyKey: 'a\r\nb', ifMatch: 'a\nb' }]],
  ['an id and a key with a line break', [noId, {}, { idempotencyKey: 'a\r\nb', ifMatch: 'a\nb' }]],
]

/** `jobs.create`, …, and those that stand on the client itself. */
function callsOf(object: object, path = ''): [name: string, call: (...args: unknown[]) => unknown][] {
  return Object.entries(object).flatMap(([key, value]) => {
    if (typeof value === 'function')
      return [[`${path}${key}`, value as (...args: unknown[]) => unknown] as [string, () => unknown]]
    return typeof value === 'object' && value !== null ? callsOf(value as object, `${path}${key}.`) : []
  })
}

/** By the name of a route, for those who know it: the types keep everybody else out. */
const low = new Set(['call', 'request', 'events'])
const named = callsOf(createClient({ url: 'http://injected.invalid' })).filter(([name]) => !low.has(name))

describe('calls of the client', () => {
  it.each(named.map(([name]) => name))('%s', async (name) => {
    const call = callsOf(client).find(([each]) => each === name)?.[1]
    for (const [what, args] of badArguments) {
      const fault = await faultOf(() => call?.(...args))
      if (fault === undefined || fault.code !== 'invalid_request') continue
      expect(fault.pointers.length, `${name}: ${what}`).toBeGreaterThan(0)
    }
    expect(await t.counts()).toEqual(before)
  })
})

const invalid = (pointer: string, code = 'invalid_request'): Fault => ({ code, pointers: [pointer] })

describe('enqueue', () => {
  const calls: [string, unknown, unknown, object, Fault][] = [
    ['no job', undefined, null, {}, invalid('/job')],
    ['the name instead of the job', 'known-function', null, {}, invalid('/job')],
    ['an invalid Date', job, null, { runAt: new Date(Number.NaN) }, invalid('/runAt')],
    ['a time that is none', job, null, { runAt: 'soon' }, invalid('/runAt')],
    ['a queue that is none', job, null, { queue: 'a b' }, invalid('/queue')],
    ['a priority that is none', job, null, { priority: 1.5 }, invalid('/priority')],
    ['a bigint', job, { a: [1n] }, {}, invalid('/input/a/0')],
    ['not a number', job, { a: Number.NaN }, {}, invalid('/input/a')],
    ['an input that holds itself', job, itself, {}, invalid('/input/itself')],
    ['an option that is none', job, null, { delay: 5_000 }, invalid('/delay')],
    ['a queue that is no text', job, null, { queue: 5 }, invalid('/queue')],
    ['a dedupe key that is no text', job, null, { dedupeKey: 5 }, invalid('/dedupeKey')],
    ['no signal', job, null, { signal: 'now' }, invalid('/signal')],
    ['a bad key', job, null, { idempotencyKey: 'a b' }, invalid('/headers/idempotency-key')],
  ]
  it.each(calls)('%s is refused', async (_, wanted, input, options, fault) => {
    expect(await faultOf(() => client.enqueue(wanted as typeof job, input as null, options))).toEqual(fault)
    expect(await t.counts()).toEqual(before)
  })

  it.each(calls.filter(([what]) => what !== 'a bad key'))(
    '%s is refused inside a transaction of the caller',
    async (_, wanted, input, options, fault) => {
      const { host, port, user, database } = t.database.connection
      const query = `?host=${encodeURIComponent(host ?? '')}`
      const databaseUrl = `postgres://${user}@localhost:${port}/${database}${query}`
      const belfry = createBelfry({ databaseUrl, tenant: 'acme', work: false, migrate: false })
      const own = new pg.Client(t.database.connection)
      try {
        await belfry.start()
        await own.connect()
        await own.query('BEGIN')
        const inside = { ...options, client: own }
        const enqueue = () => belfry.enqueue(wanted as typeof job, input as null, inside)
        expect(await faultOf(enqueue)).toEqual(fault)
        await own.query('COMMIT')
      } finally {
        await own.end()
        await belfry.stop()
      }
      expect(await t.counts()).toEqual(before)
    },
  )
})

it.each<[string, unknown, unknown, string]>([
  ['options that are null', [null], null, '/options'],
  ['options that are a list', [null], [], '/options'],
  ['an option that is none', [null], { delay: 5_000 }, '/delay'],
  ['an option of one', [null], { idempotencyKey: 'a' }, '/idempotencyKey'],
  ['a dedupe key for all', [null], { dedupeKey: 'a' }, '/dedupeKey'],
  ['no inputs', 5, {}, '/inputs'],
])('enqueueMany: %s', async (_, inputs, options, pointer) => {
  const many = () => client.enqueueMany(job, inputs as null[], options as object)
  expect(await faultOf(many)).toEqual(invalid(pointer))
  expect(await t.counts()).toEqual(before)
})

it('enqueue: options that are null', async () => {
  const call = () => client.enqueue(job, null, null as unknown as object)
  expect(await faultOf(call)).toEqual(invalid('/options'))
})

it('a definition that does not fit names its job, and where a misplaced option belongs', () => {
  const define = (more: object) => () => defineJob({ name: 'mine', run: () => null, ...more })
  expect(define({ onLimit: 'skip' })).toThrow(
    /^The job "mine" cannot be defined like this: \/onLimit belongs in/,
  )
  expect(define({ nonsense: 1 })).toThrow(/^The job "mine" cannot be defined like this: \S+ /)
  expect(define({ nonsense: 1 })).not.toThrow(/ {2}/)
})

describe('what makes things', () => {
  const run = () => null
  const jobs = [job]
  const url = 'http://injected.invalid'
  const worker = (more: object) => () => createWorker({ jobs, url, token: 'x', ...more })
  const belfry = (more: object) => () => createBelfry({ ...more })
  const makers: [string, (() => unknown)[], Fault][] = [
    ['createClient without a URL', [() => createClient({} as never)], invalid('/url', 'invalid_config')],
    ['createClient with no URL', [() => createClient({ url: 'x' })], invalid('/url', 'invalid_config')],
    [
      'createClient with a key that no header can hold',
      [() => createClient({ url, apiKey: 'a\nb' })],
      invalid('/apiKey', 'invalid_config'),
    ],
    [
      'createClient with no time',
      [() => createClient({ url, timeoutMs: Number.NaN }), () => createClient({ url, timeoutMs: -1 })],
      invalid('/timeoutMs', 'invalid_config'),
    ],
    [
      'createClient with a misspelled option',
      [() => createClient({ url, apikey: 'x' } as never)],
      invalid('/apikey', 'invalid_config'),
    ],
    ['defineJob without a function', [() => defineJob({ name: 'x' } as never)], invalid('/run')],
    ['defineJob without a name', [() => defineJob({ run } as never)], invalid('/name')],
    [
      'defineJob of nothing',
      [() => defineJob(undefined as never), () => defineJob([] as never)],
      invalid(''),
    ],
    ['defineJob, bad limit', [() => defineJob({ name: 'x', run, timeoutMs: 0 })], invalid('/timeoutMs')],
    ['defineJob, bad schema', [() => defineJob({ name: 'x', run, input: {} as never })], invalid('/input')],
    [
      'defineJob, bad policy',
      [() => defineJob({ name: 'x', run, retry: { maxAttempts: 0 } })],
      invalid('/retry/maxAttempts'),
    ],
    ['createWorker of nothing', [() => createWorker(undefined as never)], invalid('')],
    ['createWorker without jobs', [worker({ jobs: [] }), worker({ jobs: [{}] })], invalid('/jobs')],
    ['createWorker, twice a job', [worker({ jobs: [job, job] })], invalid('/jobs')],
    ['createWorker without a token', [worker({ token: '' })], invalid('/token')],
    ['createWorker, slots', [worker({ slots: 0 }), worker({ slots: Number.NaN })], invalid('/slots')],
    ['createWorker, drain', [worker({ drainMs: -1 }), worker({ drainMs: 2 ** 40 })], invalid('/drainMs')],
    ['createWorker, queues', [worker({ queues: 'default' })], invalid('/queues')],
    ['createWorker, URL', [worker({ url: 'x' })], invalid('/url', 'invalid_config')],
    ['createBelfry, slots', [belfry({ slots: 0 })], invalid('/slots', 'invalid_config')],
    ['createBelfry, jobs', [belfry({ jobs: ['x'] })], invalid('/jobs', 'invalid_config')],
    ['createBelfry, URL', [belfry({ databaseUrl: '' })], invalid('/databaseUrl', 'invalid_config')],
    ['createBelfry, misspelled', [belfry({ setings: {} })], invalid('/setings', 'invalid_config')],
  ]
  it.each(makers)('%s is refused', async (_, calls, fault) => {
    for (const call of calls) expect(await faultOf(call)).toEqual(fault)
  })

  it('createBelfry, a setting that there is not: start is refused, and opens nothing', async () => {
    const made = createBelfry({ databaseUrl: 'postgres://x@localhost/y', settings: { worker_slots: 1 } })
    expect(await faultOf(() => made.start())).toMatchObject({ code: 'invalid_config' })
    const other = createBelfry({ databaseUrl: 'mysql://x@localhost/y' })
    expect(await faultOf(() => other.start())).toMatchObject({ code: 'invalid_config' })
    expect(await faultOf(() => made.enqueue(job, null))).toMatchObject({ code: 'invalid_state' })
  })
})

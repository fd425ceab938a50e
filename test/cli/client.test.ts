// The client against a server that speaks the contract: every route typed and reachable, retries only where
// they are safe, errors with code and request id, lists that page by themselves, the wait for a run.
import { BelfryError, type RouteName, routes } from '@belfry/contract'
import { AnswerError, type Client, createClient } from '@belfry/sdk'
import { afterAll, afterEach, beforeEach, describe, expect, it } from 'vitest'
import { callsOfAll } from './support/client-calls.ts'
import { problem, requestId, startContractServer, testKey } from './support/contract-server.ts'
import { nextId } from './support/contract-records.ts'

const server = await startContractServer()
afterAll(() => server.close())
const fast = { retries: 3, baseMs: 1, capMs: 5 }
const client = createClient({ url: `${server.url}/`, apiKey: testKey, retry: fast })

beforeEach(() => {
  server.store.jobs.clear()
  server.store.runs.clear()
  server.seen.length = 0
})
afterEach(() => {
  server.intercept = () => undefined
})

/** Answers the first `count` requests by `what` and leaves the others to the store. */
function failFirst(count: number, what: ReturnType<typeof server.intercept>): void {
  server.intercept = () => (server.seen.length <= count ? what : undefined)
}

async function failure(promise: Promise<unknown>): Promise<BelfryError> {
  const error = await promise.then(
    () => undefined,
    (reason: unknown) => reason,
  )
  if (error instanceof BelfryError) return error
  throw new Error(`expected a BelfryError, got ${String(error)}`)
}

const handler = { kind: 'http', url: 'https://example.com/hook' } as const
const overloaded = { status: 503, body: problem('database_unavailable', 'Wait a moment.') }

describe('routes', () => {
  const bodies: Partial<Record<RouteName, unknown>> = {
    tenantCreate: { name: 't' },
    keyCreate: { name: 'k', scopes: ['read'] },
    jobCreate: { name: 'j', handler },
    calendarCreate: { name: 'c', dates: ['2026-12-24'] },
    scheduleCreate: { name: 's', every: '5m', job: 'j' },
    runCreate: { job: 'j' },
    runBatch: { items: [{ job: 'j' }] },
    poolCreate: { name: 'p' },
  }

  it.each(Object.keys(routes) as RouteName[])('%s is asked for by its own method and path', async (name) => {
    const id = nextId()
    await client
      .request(name, { params: { id, queue: id, tenant: id, runId: id }, body: bodies[name] } as never)
      .catch(() => undefined)
    const seen = server.seen[0]
    expect(seen).toMatchObject({
      route: name,
      method: routes[name].method,
      path: routes[name].path.replace(/:(?:id|queue|tenant|runId)/, id),
    })
    expect(seen?.headers['authorization']).toBe(`Bearer ${testKey}`)
    expect(seen?.headers['idempotency-key'] !== undefined).toBe(routes[name].effect === 'create')
  })

  it('are all behind a noun', async () => {
    server.intercept = () => ({ status: 200, body: { items: [], nextCursor: null } })
    const id = nextId()
    for (const call of callsOfAll(client, id)) await call()
    // the rest of the worker protocol is spoken by `createWorker` alone, callbacks by targets, and a browser
    // goes to the OpenID provider
    const isCalled = (name: string) => !/^(worker(?!List$)|callback|oidc)/.test(name)
    const expected = Object.keys(routes).filter(isCalled)
    expect(new Set(server.seen.map((seen) => seen.route))).toEqual(new Set(expected))
    expect(server.seen.find((seen) => seen.route === 'runList')?.query).toEqual({ state: 'failed,running' })
  })

  it('encode what stands in a path, and refuse what would leave it', async () => {
    await client.jobs.get('a/../../b?x').catch(() => undefined)
    expect(server.seen[0]?.path).toBe('/v1/jobs/a%2F..%2F..%2Fb%3Fx')
    for (const id of ['..', '.', ''])
      expect((await failure(client.jobs.get(id))).code).toBe('invalid_request')
    expect(server.seen).toHaveLength(1)
  })

  it('carry dryRun, ifMatch and the ETag', async () => {
    const job = server.store.addJob('a')
    const { etag, requestId: id, data, replayed } = await client.call('jobGet', { params: { id: job.id } })
    expect({ etag, id, data, replayed }).toEqual({ etag: '"1"', id: requestId, data: job, replayed: false })
    await client.jobs.update(job.id, { priority: 1 }, { ifMatch: etag ?? undefined, dryRun: true })
    expect(server.seen[1]).toMatchObject({ query: { dryRun: 'true' }, headers: { 'if-match': '"1"' } })
    expect(await client.jobs.delete(job.id)).toBeUndefined()
  })
})

describe('retries', () => {
  it('repeat a read until it succeeds', async () => {
    failFirst(3, overloaded)
    await client.jobs.list().page()
    expect(server.seen).toHaveLength(4)
  })

  it('repeat a creation under one Idempotency-Key', async () => {
    failFirst(2, 'hang up')
    const job = await client.jobs.create({ name: 'a', handler })
    expect(job.name).toBe('a')
    expect(new Set(server.seen.map((seen) => seen.headers['idempotency-key'])).size).toBe(1)
    expect(server.seen).toHaveLength(3)
    await client.jobs.create({ name: 'b', handler }, { idempotencyKey: 'mine' })
    expect(server.seen.at(-1)?.headers['idempotency-key']).toBe('mine')
  })

  it('never repeat a change that carries no such key', async () => {
    const { id } = server.store.addJob('a')
    server.intercept = () => overloaded
    const changes = [
      () => client.jobs.update(id, {}),
      () => client.jobs.delete(id),
      () => client.runs.cancel(id),
    ]
    for (const change of changes) {
      server.seen.length = 0
      await failure(change())
      expect(server.seen).toHaveLength(1)
    }
  })

  it('do not repeat what cannot help', async () => {
    server.intercept = () => ({ status: 403, body: problem('forbidden', 'No.') })
    await failure(client.jobs.list().page())
    expect(server.seen).toHaveLength(1)
  })

  it('wait as long as the server asks for', async () => {
    failFirst(1, { ...overloaded, headers: { 'retry-after': '1' } })
    const before = performance.now()
    await client.jobs.list().page()
    expect(performance.now() - before).toBeGreaterThanOrEqual(990)
  })

  it('leave a long Retry-After to the caller', async () => {
    server.intercept = () => ({ ...overloaded, headers: { 'retry-after': '3600' } })
    const error = await failure(client.jobs.list().page())
    expect(error).toMatchObject({ code: 'database_unavailable', retryAfterMs: 3_600_000 })
    expect(server.seen).toHaveLength(1)
  })

  it('end when the caller gives up', async () => {
    const giveUp = new AbortController()
    server.intercept = () => {
      if (server.seen.length === 1) setImmediate(() => giveUp.abort(new Error('enough')))
      return { ...overloaded, headers: { 'retry-after': '30' } }
    }
    await expect(client.jobs.list({}, { signal: giveUp.signal }).page()).rejects.toThrow('enough')
  })
})

describe('errors', () => {
  it('keep code, words, faults and request id', async () => {
    const body = problem('invalid_schedule', 'Not valid.', [{ pointer: '/cron', message: 'is odd' }])
    server.intercept = () => ({ status: 400, body })
    const error = await failure(client.jobs.list().page())
    expect(error).toBeInstanceOf(AnswerError)
    expect(error).toMatchObject({
      code: 'invalid_schedule',
      message: 'Not valid.',
      requestId,
      problem: body,
      errors: body.errors,
    })
  })

  it.each([
    [404, '<html>', 'not_found', /without a Belfry problem/],
    [502, undefined, 'server_unreachable', /without a Belfry problem/],
    [418, { code: 1 }, 'invalid_response', /without a Belfry problem/],
    [409, { ...problem('in_use', 'x'), code: 'of_a_newer_server' }, 'invalid_response', /of_a_newer_server/],
  ])('%i %j is %s', async (status, body, code, words) => {
    server.intercept = () => ({ status, body })
    const error = await failure(
      createClient({ url: server.url, retry: { retries: 0 } })
        .jobs.list()
        .page(),
    )
    expect(error.code).toBe(code)
    expect(error.message).toMatch(words)
  })

  it('does not follow a redirect, and says where it leads', async () => {
    server.intercept = () => ({
      status: 308,
      body: undefined,
      headers: { location: 'https://elsewhere.example/' },
    })
    expect((await failure(client.jobs.list().page())).message).toContain(
      'redirects to https://elsewhere.example/',
    )
  })

  it.each([['words'], [{ things: [] }], [[1]], [null]])('refuses a list answered as %j', async (body) => {
    server.intercept = () => ({ status: 200, body })
    expect((await failure(client.jobs.list().page())).code).toBe('invalid_response')
  })

  it('takes fields that a newer server adds', async () => {
    server.intercept = () => ({ status: 200, body: { items: [{ new: 1 }], nextCursor: null, more: 2 } })
    expect((await client.jobs.list().page()).items).toEqual([{ new: 1 }])
  })

  it('says that nobody answers, or not in time', async () => {
    const nobody = createClient({ url: 'http://127.0.0.1:1', retry: { retries: 0 } })
    const unreachable = await failure(nobody.jobs.list().page())
    expect(unreachable).toMatchObject({ code: 'server_unreachable', retryable: true })
    const never: typeof fetch = (_url, init) =>
      new Promise((_resolve, reject) =>
        init?.signal?.addEventListener('abort', () => reject(init.signal?.reason as Error)),
      )
    const slow = createClient({ url: server.url, fetch: never, timeoutMs: 20, retry: { retries: 0 } })
    expect((await failure(slow.jobs.list().page())).message).toContain('did not answer within 20 ms')
  })

  it.each(['', 'localhost:4680', 'ftp://a', 'https://u:p@a', 'https://a?b', 'https://a#b'])(
    'refuses the URL %j',
    (url) => {
      expect(() => createClient({ url })).toThrow(/URL of the server/)
    },
  )
})

describe('lists', () => {
  const names = (count: number) => Array.from({ length: count }, (_item, index) => `job-${index}`)

  it('page by themselves, and no further than they are read', async () => {
    for (const name of names(7)) server.store.addJob(name)
    const read: string[] = []
    for await (const job of client.jobs.list({ limit: 3 })) read.push(job.name)
    expect(read).toEqual(names(7))
    expect(server.seen).toHaveLength(3)
    expect(await client.jobs.list({ limit: 3 }).take(4)).toHaveLength(4)
    expect(server.seen).toHaveLength(5)
    expect(await client.jobs.list().take(0)).toEqual([])
    expect(server.seen).toHaveLength(5)
  })

  it('go on at a cursor', async () => {
    for (const name of names(5)) server.store.addJob(name)
    const pages: number[] = []
    for await (const page of client.jobs.list({ limit: 2, cursor: '2' }).pages())
      pages.push(page.items.length)
    expect(pages).toEqual([2, 1])
  })
})

describe('waitForRun', () => {
  const wait = (id: string, options: Parameters<Client['waitForRun']>[1] = {}) =>
    client.waitForRun(id, options)

  it('rides out failures that pass, once the run was seen', async () => {
    const { id } = server.store.addRun()
    const once = createClient({ url: server.url, apiKey: testKey, retry: { retries: 0 } })
    server.intercept = () => {
      const run = server.store.runs.get(id)
      if (server.seen.length === 2) return 'hang up'
      if (server.seen.length === 3 && run !== undefined)
        server.store.runs.set(id, { ...run, state: 'failed' })
      return undefined
    }
    expect(await once.waitForRun(id)).toMatchObject({ id, state: 'failed' })
  })

  it('fails at once for a run that is not there', async () => {
    expect((await failure(wait(nextId()))).code).toBe('not_found')
    expect(server.seen).toHaveLength(1)
  })

  it('ends with its time limit, and with its signal', async () => {
    const { id } = server.store.addRun()
    expect((await failure(wait(id, { timeoutMs: 30 }))).code).toBe('wait_timeout')
    const giveUp = new AbortController()
    const waiting = wait(id, { signal: giveUp.signal, onChange: () => giveUp.abort(new Error('enough')) })
    await expect(waiting).rejects.toThrow('enough')
  })
})

// `dependsOn` of runs: over the API, in a batch, from a program within its own transaction; how such a run is
// shown, explained and canceled; what is refused. With the real workers and the real resolver.
import { type Belfry, createBelfry, defineJob } from 'belfry'
import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { z } from 'zod'
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts'

let database: TestDatabase
let belfry: Belfry
const opened = new Map<string, () => void>()
const order: string[] = []

const gate = (name: string): Promise<void> => new Promise((resolve) => void opened.set(name, resolve))
const input = z.object({ name: z.string(), fail: z.boolean().optional() })
const held = defineJob({
  name: 'held',
  input,
  async run({ name, fail }) {
    await gate(name)
    order.push(name)
    if (fail === true) throw new Error('as it was told')
    return name
  },
  retry: { maxAttempts: 1 },
})
const after = defineJob({ name: 'after', input, run: ({ name }) => void order.push(name) })
const digest = defineJob({
  name: 'digest',
  input,
  collect: { maxItems: 3, windowMs: 60_000 },
  run: (inputs) => inputs.length,
})

beforeAll(async () => {
  database = await createTestDatabase()
  const { host, port, user, database: name } = database.connection
  belfry = createBelfry({
    databaseUrl: `postgres://${user}@localhost:${port}/${name}?host=${encodeURIComponent(host)}`,
    migrate: false,
    logLevel: 'error',
    drainMs: 2_000,
    jobs: [held, after, digest],
  })
  await belfry.start()
})
afterAll(async () => {
  for (const open of opened.values()) open()
  await belfry.stop()
  await database.drop()
})

async function open(name: string): Promise<void> {
  const deadline = Date.now() + 10_000
  while (!opened.has(name)) {
    if (Date.now() > deadline) throw new Error(`${name} did not start`)
    await new Promise((resolve) => setImmediate(resolve))
  }
  opened.get(name)?.()
}
const ended = (id: string) => belfry.client.waitForRun(id, { timeoutMs: 20_000 })

test('a run starts when those that it depends on have ended, and is explained until then', async () => {
  const a = await belfry.enqueue(held, { name: 'a' })
  const b = await belfry.enqueue(held, { name: 'b' })
  const child = await belfry.enqueue(after, { name: 'child' }, { dependsOn: [a.id, b.id] })
  expect(child).toMatchObject({
    state: 'waiting_for_dependencies',
    nextAttemptAt: null,
    rule: 'none_failed_min_one_success',
    dependsOn: [a.id, b.id].toSorted().map((runId) => ({ runId, state: null })),
  })
  await open('a')
  await ended(a.id)
  expect(order).toEqual(['a'])
  const explained = await belfry.client.runs.explain(child.id)
  expect(explained).toMatchObject({ verdict: 'waiting_for_dependencies', state: 'waiting_for_dependencies' })
  expect(explained.message).toContain('2 runs that it depends on, by the rule none_failed_min_one_success')
  expect(explained.runIds).toContain(b.id)
  const listed = await belfry.client.runs.list({ state: ['waiting_for_dependencies'] }).take(5)
  expect(listed.map(({ id }) => id)).toEqual([child.id])
  expect((await belfry.client.runs.get(child.id)).timeline.at(-1)).toMatchObject({
    kind: 'delay',
    reason: 'dependencies',
  })
  await open('b')
  expect(await ended(child.id)).toMatchObject({
    state: 'succeeded',
    dependsOn: [a.id, b.id].toSorted().map((runId) => ({ runId, state: 'succeeded' })),
  })
  expect(order).toEqual(['a', 'b', 'child'])
})

test('it depends on what has ended, too: by its end', async () => {
  const done = await belfry.enqueue(after, { name: 'done' })
  await ended(done.id)
  const child = await belfry.enqueue(after, { name: 'late' }, { dependsOn: [done.id], rule: 'all_succeeded' })
  expect((await ended(child.id)).state).toBe('succeeded')
})

test('a failure ends it as upstream_failed, with words; a run that is to mend starts', async () => {
  const bad = await belfry.enqueue(held, { name: 'bad', fail: true })
  const child = await belfry.enqueue(after, { name: 'never' }, { dependsOn: [bad.id] })
  const mender = await belfry.enqueue(after, { name: 'mender' }, { dependsOn: [bad.id], rule: 'one_failed' })
  await open('bad')
  const seen = await ended(child.id)
  expect(seen).toMatchObject({ state: 'upstream_failed', reason: 'dependency_failed', attempts: 0 })
  expect(seen.attemptList[0]?.error?.message).toContain('1 failed; the rule none_failed_min_one_success')
  expect((await belfry.client.runs.explain(child.id)).message).toContain('A run that it depends on failed')
  expect((await ended(mender.id)).state).toBe('succeeded')
  expect(order).not.toContain('never')
})

test('it can be canceled while it waits; and who waits for a canceled one is told', async () => {
  const slow = await belfry.enqueue(held, { name: 'slow' })
  const child = await belfry.enqueue(after, { name: 'c1' }, { dependsOn: [slow.id] })
  const behind = await belfry.enqueue(after, { name: 'c2' }, { dependsOn: [child.id], rule: 'all_done' })
  const filter = { state: ['waiting_for_dependencies' as const], job: 'after', createdAfter: child.createdAt }
  expect((await belfry.client.runs.cancelMany({ filter })).canceled).toBe(2)
  expect((await ended(behind.id)).state).toBe('canceled')
  const again = await belfry.enqueue(after, { name: 'c3' }, { dependsOn: [slow.id] })
  const last = await belfry.enqueue(after, { name: 'c4' }, { dependsOn: [again.id], rule: 'all_done' })
  await belfry.client.runs.cancel(again.id, { reason: 'not needed' })
  expect((await ended(last.id)).state).toBe('succeeded')
  await open('slow')
  await ended(slow.id)
  expect(order).not.toContain('c1')
})

test('in a batch each item is judged by itself', async () => {
  const first = await belfry.enqueue(after, { name: 'first' })
  const unknown = '019ad0c1-7f3e-7c63-9a52-6e4d8c1b2a3f'
  const body = (dependsOn: string[]) => ({ job: 'after', input: { name: 'batch' }, dependsOn })
  const answer = await belfry.client.runs.enqueueBatch({
    items: [body([first.id]), body([first.id, unknown])],
  })
  expect(answer).toMatchObject({ created: 1, refused: 1 })
  expect(answer.results[1]?.error?.errors).toMatchObject([{ pointer: '/items/1/dependsOn/1' }])
  expect((await ended(answer.results[0]?.run?.id ?? '')).state).toBe('succeeded')
})

test('what is not known and what is no longer on record are told apart', async () => {
  const ask = (body: object) =>
    belfry.client.runs.create({ job: 'after', input: { name: 'x' }, ...body }).then(
      () => 'taken',
      (error: unknown) => error,
    )
  const madeNow = Date.now().toString(16).padStart(12, '0')
  const unknown = `${madeNow.slice(0, 8)}-${madeNow.slice(8)}-7c63-9a52-6e4d8c1b2a3f`
  expect(await ask({ dependsOn: [unknown] })).toMatchObject({
    code: 'not_found',
    errors: [{ pointer: '/dependsOn/0', message: expect.stringContaining('there is no run') as unknown }],
  })
  expect(await ask({ dependsOn: ['01890000-7f3e-7c63-9a52-6e4d8c1b2a3f'] })).toMatchObject({
    code: 'invalid_request',
    errors: [{ pointer: '/dependsOn/0', message: expect.stringContaining('older than the 30 ') as unknown }],
  })
  expect(await ask({ rule: 'all_done' })).toMatchObject({ errors: [{ pointer: '/rule' }] })
  const { id } = await belfry.enqueue(after, { name: 'y' })
  expect(await ask({ dependsOn: [id, id] })).toMatchObject({ errors: [{ pointer: '/dependsOn' }] })
  expect(await ask({ job: 'digest', dependsOn: [id] })).toMatchObject({
    errors: [{ pointer: '/dependsOn', message: expect.stringContaining('collect') as unknown }],
  })
})

test('within the transaction of a program: there if that commits, holding up no parent', async () => {
  const parent = await belfry.enqueue(held, { name: 'tx-parent' })
  const client = new pg.Client(database.connection)
  await client.connect()
  try {
    await client.query('BEGIN')
    const gone = await belfry.enqueue(after, { name: 'gone' }, { client, dependsOn: [parent.id] })
    await client.query('ROLLBACK')
    await expect(belfry.client.runs.get(gone.id)).rejects.toMatchObject({ code: 'not_found' })
    await client.query('BEGIN')
    const first = await belfry.enqueue(after, { name: 'tx-first' }, { client, dependsOn: [parent.id] })
    const second = await belfry.enqueue(after, { name: 'tx-second' }, { client, dependsOn: [first.id] })
    // the parent ends while the transaction is open
    await open('tx-parent')
    expect((await ended(parent.id)).state).toBe('succeeded')
    expect(order).not.toContain('tx-first')
    await client.query('COMMIT')
    expect((await ended(second.id)).state).toBe('succeeded')
    expect(order.slice(-2)).toEqual(['tx-first', 'tx-second'])
  } finally {
    await client.end()
  }
})

test('a time of its own and dependencies: whichever is later', async () => {
  const parent = await belfry.enqueue(after, { name: 'p' })
  await ended(parent.id)
  const runAt = new Date(Date.now() + 3_600_000)
  const child = await belfry.enqueue(after, { name: 'later' }, { dependsOn: [parent.id], runAt })
  const deadline = Date.now() + 10_000
  const shown = () => belfry.client.runs.get(child.id)
  while ((await shown()).state !== 'pending' && Date.now() < deadline);
  expect(await shown()).toMatchObject({ state: 'pending', nextAttemptAt: runAt.toISOString() })
})

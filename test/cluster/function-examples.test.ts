// The examples with functions, run as they are: in a throw-away Belfry with a Postgres of its own, and, where
// they need tables of their own, on the database of this test.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Belfry, createBelfry } from 'belfry'
import { startThrowAwayBelfry, type ThrowAwayBelfry } from 'belfry/testing'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { type MailAnswer, sendMail } from '../../examples/email-retry/jobs.ts'
import { thumbnail } from '../../examples/image-thumbnails/jobs.ts'
import { nightlyReport } from '../../examples/nightly-report/jobs.ts'
import { confirmOrder, placeOrder, shopSchema } from '../../examples/transactional-outbox/shop.ts'
import { deliver, fanOut } from '../../examples/webhook-fan-out/jobs.ts'
import { arenaHarness } from './support/arena.ts'

const folder = mkdtempSync(join(tmpdir(), 'belfry-function-examples-'))
const answers: MailAnswer[] = []
const sent: string[] = []
let subscribers: string[] = []

const report = nightlyReport(folder)
const mail = sendMail({
  send: async ({ to, key }) => {
    sent.push(`${to} ${key}`)
    return answers.shift() ?? { status: 'sent' }
  },
})
const fan = fanOut(
  () => belfry.client,
  () => subscribers,
)
let belfry: ThrowAwayBelfry

beforeAll(async () => {
  belfry = await startThrowAwayBelfry({ jobs: [report, mail, thumbnail, deliver, fan] })
})
afterAll(async () => {
  await belfry.stop()
  rmSync(folder, { recursive: true, force: true })
})

test('nightly-report: the planned time says which day', async () => {
  const planned = new Date(Date.now() + 1_000)
  const day = new Date(planned.getTime() - 86_400_000).toISOString().slice(0, 10)
  writeFileSync(join(folder, 'sales.csv'), `${day},10.50\n2000-01-01,99\n${day},2\n`)
  const { id } = await belfry.client.schedules.create({
    name: 'tonight',
    at: planned.toISOString(),
    job: report.name,
  })
  const fired = async () => (await belfry.client.runs.list({ scheduleId: id }).take(1))[0]
  await expect.poll(fired, { timeout: 20_000 }).toBeDefined()
  const [run] = await belfry.client.runs.list({ scheduleId: id }).take(1)
  expect(await belfry.ended(run ?? { id: '' })).toMatchObject({ state: 'succeeded' })
  expect(readFileSync(join(folder, `report-${day}.txt`), 'utf8')).toBe(`${day}: 12.50\n`)
})

describe('email-retry', () => {
  test('is tried again while the server is busy, with the same key', async () => {
    answers.push({ status: 'busy', retryAfterMs: 50 }, { status: 'sent' })
    const run = await belfry.enqueue(mail, { to: 'a@example.com', text: 'hello' })
    expect(await belfry.ended(run)).toMatchObject({ state: 'succeeded', attempts: 2 })
    expect(sent).toEqual([`a@example.com ${run.id}`, `a@example.com ${run.id}`])
  })

  test('is given up where there is no such address', async () => {
    answers.push({ status: 'no_such_address' })
    const run = await belfry.enqueue(mail, { to: 'nobody@example.com', text: 'hello' })
    expect(await belfry.ended(run)).toMatchObject({ state: 'failed', reason: 'not_retryable', attempts: 1 })
  })
})

describe('image-thumbnails', () => {
  test('shrinks an image', async () => {
    const from = join(folder, 'large.ppm')
    const to = join(folder, 'small.ppm')
    const rows = Array.from({ length: 400 }, (_, y) => Buffer.alloc(600 * 3, y < 200 ? 10 : 200))
    writeFileSync(from, Buffer.concat([Buffer.from('P6\n600 400\n255\n'), ...rows]))
    const run = await belfry.enqueue(thumbnail, { from, to, width: 60 })
    expect((await belfry.ended(run)).attemptList.at(-1)?.result).toEqual({ width: 60, height: 40 })
    const small = readFileSync(to)
    expect(small.subarray(0, 13).toString()).toBe('P6 60 40 255\n')
    expect([small.at(13), small.at(-1)]).toEqual([10, 200])
  })

  test('fails for good on what is no image', async () => {
    const from = join(folder, 'text.ppm')
    writeFileSync(from, 'this is no image')
    const run = await belfry.enqueue(thumbnail, { from, to: from, width: 10 })
    expect(await belfry.ended(run)).toMatchObject({ state: 'failed', attempts: 1 })
  })
})

test('webhook-fan-out: each subscriber by itself, one that is down later', async () => {
  const got: string[] = []
  let isDown = true
  const server = createServer((request, response) => {
    request.resume()
    const down = request.url === '/b' && isDown
    isDown = isDown && request.url !== '/b'
    if (!down) got.push(request.url ?? '')
    response.writeHead(request.url === '/gone' ? 410 : down ? 503 : 200).end()
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void server.close())
  const base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  subscribers = [`${base}/a`, `${base}/b`, `${base}/gone`]
  await belfry.ended(await belfry.enqueue(fan, { id: 'e1', kind: 'order.paid' }))
  const runs = await belfry.client.runs.list({ job: deliver.name }).take(10)
  const ended = await Promise.all(runs.map((run) => belfry.ended(run)))
  expect(ended.map(({ state, attempts }) => `${state} ${attempts}`).toSorted()).toEqual([
    'failed 1',
    'succeeded 1',
    'succeeded 2',
  ])
  expect(got.toSorted()).toEqual(['/a', '/b', '/gone'])
})

const harness = arenaHarness()

/** Its end does not wait until the connections are closed: the server may be the first to close them. */
function openPool(connection: pg.PoolConfig): pg.Pool {
  const pool = new pg.Pool({ ...connection, max: 4 })
  pool.on('error', () => undefined)
  harness.defer(() => pool.end())
  return pool
}

test('transactional-outbox: a confirmation for each order that is there, and for no other', async () => {
  const arena = await harness.open()
  const database = openPool(arena.postgres.adminConnection)
  await database.query(shopSchema)
  await database.query(
    'GRANT USAGE ON SCHEMA shop TO belfry; GRANT ALL ON ALL TABLES IN SCHEMA shop TO belfry',
  )
  const shop = openPool(arena.postgres.connection)
  const confirm = confirmOrder(shop)
  const embedded: Belfry = createBelfry({
    databaseUrl: arena.databaseUrl,
    migrate: false,
    jobs: [confirm],
    logLevel: 'error',
  })
  harness.defer(() => embedded.stop())
  await embedded.start()
  const parts = { database: shop, belfry: embedded, confirm }
  const place = (id: number) =>
    placeOrder(parts, { id, total: id % 3 === 0 ? -1 : 10 }).catch(() => undefined)
  await Promise.all(Array.from({ length: 12 }, (_, id) => place(id)))
  const ordered = await arena.rows<{ id: number }>('SELECT id FROM shop.orders ORDER BY id')
  expect(ordered).toHaveLength(8)
  const confirmed = () =>
    arena.rows<{ id: number }>('SELECT order_id AS id FROM shop.confirmations ORDER BY order_id')
  await expect.poll(confirmed, { timeout: 20_000 }).toEqual(ordered)
  expect(await embedded.client.runs.list({ job: confirm.name }).take(20)).toHaveLength(8)
})

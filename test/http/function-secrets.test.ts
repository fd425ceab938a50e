// Secrets of functions: given to a worker with the run, where the job was granted them; masked in all that
// the function sends back. The same in a program that Belfry is embedded in.
import { createClient, createWorker, defineJob, type Client, type Worker } from '@belfry/sdk'
import { type Belfry, createBelfry } from 'belfry'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { keyRingText } from '../../packages/server/src/domain/key-ring.ts'
import { startTestApi, type TestApi } from '../support/api.ts'
import { makeKey, openHandWorker } from '../support/remote-worker.ts'
import { randomRing, vaultOn } from '../support/test-vault.ts'

const ring = randomRing(1)
const value = 'the-secret-of-functions'
let api: TestApi
let client: Client
let url: string
const stops: (() => Promise<void>)[] = []

beforeAll(async () => {
  api = await startTestApi({ vault: vaultOn(ring) })
  url = await api.api.listen({ host: '127.0.0.1', port: 0 })
  client = createClient({ url, apiKey: api.adminKey })
})
afterEach(async () => {
  for (const stop of stops.splice(0)) await stop()
})
afterAll(() => api.close())

/** Says its secret in every way that there is. */
const leaky = (name: string, secret: string) =>
  defineJob({
    name,
    secrets: [secret],
    retry: { maxAttempts: 1 },
    run(input, ctx) {
      const given = ctx.secrets[secret] ?? ''
      ctx.log.info(`it is ${given}`, { auth: `Basic ${Buffer.from(`me:${given}`).toString('base64')}` })
      ctx.log.error(new Error(`failed with ${given}`))
      ctx.heartbeat({ now: given })
      if (input === 'fail') throw new Error(`bad ${given}`)
      return { length: given.length, echo: [given], [given]: 1 }
    },
  })

async function startWorker(job: ReturnType<typeof leaky>): Promise<Worker> {
  const token = await makeKey(api, { scopes: ['worker'] })
  const worker = createWorker({ url, token, jobs: [job], handleSignals: false })
  stops.push(() => worker.stop())
  await worker.start()
  return worker
}

/** What is kept of a run, all of it. */
async function keptOf(of: Client, id: string): Promise<string> {
  const run = await of.waitForRun(id, { timeoutMs: 15_000 })
  const log = await of.logs.get(id)
  return JSON.stringify({ run, log })
}

async function checkLeaks(of: Client, name: string): Promise<void> {
  const good = await keptOf(of, (await of.runs.create({ job: name })).id)
  expect(JSON.parse(good)).toMatchObject({
    run: { state: 'succeeded', attemptList: [{ result: { length: value.length, echo: ['***'], '***': 1 } }] },
    log: { lines: [{ message: 'it is ***' }, { message: 'failed with ***' }] },
  })
  const bad = await keptOf(of, (await of.runs.create({ job: name, input: 'fail' })).id)
  expect(JSON.parse(bad)).toMatchObject({
    run: { state: 'failed', attemptList: [{ error: { message: 'bad ***' } }] },
  })
  const forms = [value, Buffer.from(`me:${value}`).toString('base64').slice(6, -4)]
  for (const form of forms) for (const kept of [good, bad]) expect(kept).not.toContain(form)
}

test('a worker is given what the job names, once it was granted, and masks it', async () => {
  const secret = await client.secrets.create({ name: 'remote', value })
  const job = leaky('remote-leaky', 'remote')
  await startWorker(job)
  const [listed] = await client.jobs.list({ name: 'remote-leaky' }).take(1)
  expect((await client.jobs.get(listed?.id ?? '')).handler).toMatchObject({ secrets: ['remote'] })
  const refused = await client.waitForRun((await client.runs.create({ job: 'remote-leaky' })).id)
  expect([refused.state, refused.attemptList[0]?.error?.code]).toEqual(['failed', 'secret_denied'])
  const granted = await client.secrets.grant(secret.id, { job: 'remote-leaky' })
  expect(granted.grants).toMatchObject([{ targets: ['name remote-leaky'] }])
  await checkLeaks(client, 'remote-leaky')
  const rows = await api.database.sql<{ text: string }>('SELECT a::text AS text FROM belfry.attempt a')
  expect(rows.map(({ text }) => text).join()).not.toContain(value)
})

test('the server masks what a worker sends back that does not mask', async () => {
  const secret = await client.secrets.create({ name: 'by-hand', value })
  const token = await makeKey(api, { scopes: ['worker'] })
  const functions = [{ name: 'hand-leaky', secrets: ['by-hand'], retry: { maxAttempts: 1 } }]
  const made = await api.call('POST', '/v1/functions', { key: token, body: { jobs: functions } })
  expect(made.status, JSON.stringify(made.body)).toBe(200)
  await client.secrets.grant(secret.id, { job: 'hand-leaky' })
  const worker = await openHandWorker(api, { functions: ['hand-leaky'] })
  const said = { value, encoded: Buffer.from(`me:${value}`).toString('base64'), [value]: 1 }
  const error = { code: 'leak', message: `it was ${value}` }
  for (const end of [
    { outcome: 'succeeded', result: said },
    { outcome: 'failed', error },
  ]) {
    const { id } = await client.runs.create({ job: 'hand-leaky' })
    const [run] = await worker.claim()
    if (run === undefined) throw new Error('claimed nothing')
    const { runId, leaseEpoch } = run
    await worker.call('heartbeat', { progress: [{ runId, leaseEpoch, progress: said }] })
    const running = JSON.stringify(await client.runs.get(id))
    await worker.complete(run, end)
    const over = JSON.stringify(await client.runs.get(id))
    for (const kept of [running, over]) {
      expect(kept).toContain('***')
      expect(kept).not.toContain(value)
      expect(kept).not.toContain(said.encoded)
    }
  }
})

test('a worker does not start with a secret that is not there', async () => {
  await expect(startWorker(leaky('no-such', 'nowhere'))).rejects.toThrow('names the secret "nowhere"')
})

test('so does a program that Belfry is embedded in', async () => {
  const { host, port, user, database } = api.database.connection
  const belfry: Belfry = createBelfry({
    databaseUrl: `postgres://${user}@localhost:${port}/${database}?host=${encodeURIComponent(host)}`,
    tenant: 'acme',
    migrate: false,
    logLevel: 'error',
    drainMs: 2_000,
    settings: { secretKeys: keyRingText(ring) },
    jobs: [leaky('own-leaky', 'own')],
  })
  stops.push(() => belfry.stop())
  const secret = await client.secrets.create({ name: 'own', value })
  await belfry.start()
  await belfry.client.secrets.grant(secret.id, { job: 'own-leaky' })
  await checkLeaks(belfry.client, 'own-leaky')
  expect((await belfry.client.secrets.get(secret.id)).grants).toHaveLength(1)
})

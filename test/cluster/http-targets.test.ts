// docs/how-to/http-targets.md against a whole Belfry: a target that checks signatures by the code of the
// page, secrets that are stored and granted, a token endpoint, and what is shown of the attempts afterwards.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type Client, createClient } from '@belfry/sdk'
import { startBelfry } from '@belfry/server'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { ok } from '../support/target-behaviours.ts'
import { createTargetServer, type TargetServer } from '../support/target-server.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
const page = readFileSync(join(root, 'docs/how-to/http-targets.md'), 'utf8')
const keyOf = (byte: number) => `whsec_${Buffer.alloc(32, byte).toString('base64')}`

let client: Client
let target: TargetServer
const undo: (() => unknown)[] = []
beforeAll(async () => {
  const dataDir = mkdtempSync(join(tmpdir(), 'belfry-targets-'))
  undo.push(() => rmSync(dataDir, { recursive: true, force: true }))
  const flags = { dataDir, port: 0, opsPort: 0, logLevel: 'silent', egressAllow: ['127.0.0.0/8'] }
  const belfry = await startBelfry({ flags })
  undo.push(() => belfry.stop())
  client = createClient(belfry)
  target = await createTargetServer()
  undo.push(() => target.close())
})
afterAll(async () => {
  for (const each of undo.toReversed()) await each()
})

type Handler = Parameters<Client['jobs']['create']>[0]['handler']

/** A job that is granted the secrets that it names. */
async function createJob(name: string, handler: Handler, secrets: Readonly<Record<string, string>>) {
  const stored = []
  for (const [secret, value] of Object.entries(secrets))
    stored.push(await client.secrets.create({ name: secret, value }))
  const job = await client.jobs.create({ name, handler, retry: { maxAttempts: 1 } })
  for (const { id } of stored) await client.secrets.grant(id, { job: name })
  return job
}

async function ran(job: string, input: string | null = null) {
  const { id } = await client.runs.create({ job, input })
  return await client.waitForRun(id, { timeoutMs: 20_000 })
}

/** The target of the page, as it stands there but for its port. */
async function startPageTarget(key: string): Promise<number> {
  const [, code = ''] = /```js\n(import[^`]*verifySignature[^`]*)```/.exec(page) ?? []
  const heard = '.listen(0, "127.0.0.1", function () { console.log(this.address().port) })'
  expect(code).toContain('.listen(8080)')
  const child = spawn(
    process.execPath,
    ['--conditions=source', '--input-type=module', '--eval', code.replace('.listen(8080)', heard)],
    { cwd: root, env: { ...process.env, REPORT_KEY: key }, stdio: ['ignore', 'pipe', 'inherit'] },
  )
  onTestFinished(() => void child.kill('SIGKILL'))
  const [port] = (await once(child.stdout, 'data')) as [Buffer]
  return Number(port.toString())
}

test('a target with the code of the page takes what is signed with its key, and nothing else', async () => {
  const url = `http://127.0.0.1:${await startPageTarget(keyOf(2))}/`
  const signing = { keys: [{ secret: 'old-key' }, { secret: 'new-key' }] }
  const { id } = await createJob(
    'signed',
    { kind: 'http', url, signing },
    { 'old-key': keyOf(1), 'new-key': keyOf(2) },
  )
  expect(await ran('signed', 'ünder 🙂')).toMatchObject({
    state: 'succeeded',
    attemptList: [{ response: 'done' }],
  })

  await client.jobs.update(id, { handler: { kind: 'http', url, signing: { keys: [{ secret: 'old-key' }] } } })
  expect(await ran('signed')).toMatchObject({
    state: 'failed',
    attemptList: [{ httpStatus: 401, response: 'no_match' }],
  })

  await client.jobs.update(id, { handler: { kind: 'http', url } })
  expect(await ran('signed')).toMatchObject({ attemptList: [{ httpStatus: 401, response: 'unsigned' }] })
})

test('a secret in a header and a token: sent, and shown nowhere', async () => {
  const token = JSON.stringify({
    access_token: 'token-of-the-endpoint',
    token_type: 'Bearer',
    expires_in: 60,
  })
  target.program('/token', ok(token))
  target.program('/hook', (response) => {
    const { authorization, 'x-api-key': key } = response.req.headers
    response.writeHead(200, { 'x-request-id': 'r-17', 'x-echo': String(key) })
    response.end(JSON.stringify({ status: 'done', authorization, key }))
  })
  const handler: Handler = {
    kind: 'http',
    url: target.url('/hook'),
    headers: { 'X-Api-Key': 'v1:{{secrets.partner}}' },
    oauth2: { tokenUrl: target.url('/token'), clientId: 'me', clientSecret: { secret: 'client' } },
    success: { json: { pointer: '/status', equals: 'done' } },
    capture: { headers: ['X-Request-Id', 'x-echo'] },
  }
  await createJob('partner', handler, { partner: 'partner-value-1', client: 'client-value-1' })
  const run = await ran('partner')
  expect(target.callsTo('/hook')[0]?.headers).toMatchObject({
    'x-api-key': 'v1:partner-value-1',
    authorization: 'Bearer token-of-the-endpoint',
  })
  expect(run).toMatchObject({
    state: 'succeeded',
    attemptList: [
      {
        response: '{"status":"done","authorization":"Bearer ***","key":"***"}',
        responseHeaders: { 'x-request-id': 'r-17', 'x-echo': '***' },
      },
    ],
  })
})

test('a wrong field, and a job without a grant', async () => {
  target.program('/wrong', ok('{"status":"failed"}'))
  const success = { json: { pointer: '/status', equals: 'done' } }
  await createJob('wrong', { kind: 'http', url: target.url('/wrong'), success }, {})
  expect(await ran('wrong')).toMatchObject({
    state: 'failed',
    attemptList: [{ httpStatus: 200, error: { code: 'response_mismatch' } }],
  })

  const before = target.ledger.length
  const headers = { 'X-Token': '{{secrets.partner}}' }
  await client.jobs.create({ name: 'stranger', handler: { kind: 'http', url: target.url('/hook'), headers } })
  expect(await ran('stranger')).toMatchObject({
    state: 'failed',
    attemptList: [{ error: { code: 'secret_denied' } }],
  })
  expect(target.ledger).toHaveLength(before)
})

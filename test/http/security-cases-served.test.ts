// Cases of test/cases/security.json that take a server with data: each named by its id, over the real API and
// two tenants.
import { connect, type Socket } from 'node:net'
import { Writable } from 'node:stream'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openZoneSource } from '../../packages/server/src/adapters/zones/zone-source.ts'
import { createLogger } from '../../packages/server/src/telemetry/logger.ts'
import { type Answer, httpJob, startTestApi, type TestApi } from '../support/api.ts'
import { openHandWorker, registerFunctions } from '../support/remote-worker.ts'

let t: TestApi
/** The tenant B, and what it has. */
let b: { readonly key: string; readonly job: string; readonly run: string; readonly workflowRun: string }
const handler = { kind: 'http', url: 'https://example.com/hook' }
const unknownId = '019ad0c1-7f3e-7c63-9a52-6e4d8c1b2a3f'

beforeAll(async () => {
  t = await startTestApi()
  const key = await t.keyFor('other', ['admin'])
  const job = await t.call('POST', '/v1/jobs', { key, body: httpJob('of-b') })
  const run = await t.call('POST', '/v1/runs', { key, body: { job: 'of-b' } })
  const tasks = [{ id: 'a', handler }]
  await t.call('POST', '/v1/workflows', { key, body: { name: 'flow-of-b', tasks } })
  const flow = await t.call('POST', '/v1/workflow-runs', { key, body: { workflow: 'flow-of-b' } })
  b = { key, job: job.body.id, run: run.body.id, workflowRun: flow.body.id }
  await t.call('POST', '/v1/jobs', { body: httpJob('of-a') })
})
afterAll(() => t.close())

const plain = ({ status, body }: Answer, id: string) => ({
  status,
  text: JSON.stringify({ ...body, instance: '' }).replaceAll(id, 'ID'),
})

describe('things of another tenant are answered as what does not exist', () => {
  it.each([
    ['tenant.idor_get', 'GET', (id: string) => `/v1/jobs/${id}`, undefined],
    ['tenant.idor_patch', 'PATCH', (id: string) => `/v1/jobs/${id}`, { priority: 1 }],
    ['tenant.idor_delete', 'DELETE', (id: string) => `/v1/jobs/${id}`, undefined],
    ['tenant.idor_trigger', 'POST', (id: string) => `/v1/schedules/${id}/trigger`, {}],
    ['tenant.idor_logs', 'GET', (id: string) => `/v1/runs/${id}/log`, undefined],
    ['tenant.idor_cancel', 'POST', (id: string) => `/v1/runs/${id}/cancel`, {}],
  ] as const)('%s', async (_id, method, path, body) => {
    const before = await t.counts()
    const options = body === undefined ? {} : { body }
    for (const theirs of [b.job, b.run, b.workflowRun]) {
      const answer = plain(await t.call(method, path(theirs), options), theirs)
      expect(answer.status).toBe(404)
      expect(answer).toEqual(plain(await t.call(method, path(unknownId), options), unknownId))
    }
    expect(await t.counts()).toEqual(before)
  })

  it('tenant.batch_mixed: each of a batch by itself', async () => {
    const items = [{ job: 'of-a' }, { job: 'of-b' }]
    const { body } = await t.call('POST', '/v1/runs/batch', { body: { items, atomic: false } })
    const results = body.results as unknown as readonly { run?: object; error?: { code: string } }[]
    expect(results[0]).toHaveProperty('run')
    expect(results[1]).toMatchObject({ error: { code: 'not_found' } })
    const theirs = await t.call('GET', '/v1/runs?limit=10', { key: b.key })
    expect(theirs.body.items).toHaveLength(1)
  })

  it.each([
    ['tenant.nested_tenant', [{ id: 'a', job: 'of-b' }]],
    ['tenant.dag_cross_edge', [{ id: 'a', workflow: 'flow-of-b' }]],
  ])('%s: named in a workflow', async (id, tasks) => {
    const answer = await t.call('POST', '/v1/workflows', { body: { name: id.replace('.', '-'), tasks } })
    expect([400, 404]).toContain(answer.status)
    const unknown = JSON.stringify(tasks).replaceAll('of-b', 'of-nobody')
    const same = await t.call('POST', '/v1/workflows', {
      body: { name: id.replace('.', '-'), tasks: JSON.parse(unknown) as unknown },
    })
    expect(same.status).toBe(answer.status)
  })

  it('tenant.dag_cross_edge: as what a run waits for', async () => {
    const answer = await t.call('POST', '/v1/runs', { body: { job: 'of-a', dependsOn: [b.run] } })
    expect([400, 404]).toContain(answer.status)
  })
})

describe('the tenant comes from the credential', () => {
  it('tenant.header_override and audit.actor_spoof: headers say nothing', async () => {
    const headers = { 'x-tenant-id': 'other', 'x-user': 'root', 'x-forwarded-user': 'root' }
    const who = await t.call('GET', '/v1/whoami', { headers })
    expect(who.body).toMatchObject({ tenant: { name: 'acme' } })
    expect(JSON.stringify(who.body)).not.toContain('root')
    const jobs = await t.call('GET', '/v1/jobs', { headers })
    expect(jobs.body.items.map(({ name }) => name)).not.toContain('of-b')
  })

  it('tenant.body_override: a field of a body is refused', async () => {
    const body = { ...httpJob('mine'), tenantId: b.job }
    const answer = await t.call('POST', '/v1/jobs', { body })
    expect(answer.body).toMatchObject({ status: 400, errors: [{ pointer: '/tenantId' }] })
  })

  it('limit.search_sql: text to look for is a parameter', async () => {
    for (const text of ["' OR 1=1--", "'; DROP TABLE belfry.job;--", '%', '_', '\\']) {
      const answer = await t.call('GET', `/v1/jobs?name=${encodeURIComponent(text)}`)
      expect([200, 400]).toContain(answer.status)
      expect(answer.body.items ?? []).toEqual([])
    }
  })
})

describe('what a job prints is text', () => {
  it.each([
    ['output.set_env', '::set-env name=PATH::/evil'],
    ['output.delimiter', 'x\n_GitHubActionsFileCommandDelimeter_\nPATH=/evil'],
    ['output.result_template', '{"next":"{{secret:prod-db}}"}'],
    ['ui.osc8', '\u001b]8;;javascript:alert(1)\u0007click\u001b]8;;\u0007'],
    ['ui.name_svg', '"><svg/onload=alert(1)>'],
    ['ui.name_script_end', '</script><script>alert(1)</script>'],
    ['ui.name_attr', '" autofocus onfocus=alert(1) x="'],
    ['ui.name_template', '{{7*7}}${7*7}'],
    ['ui.name_bidi', 'abc\u202egnp.exe'],
  ])('%s: kept as it came, in a log and as a result', async (id, text) => {
    const name = id.replaceAll(/[._]/g, '-')
    await registerFunctions(t, { name })
    const worker = await openHandWorker(t, { functions: [name] })
    const { body } = await t.call('POST', '/v1/runs', { body: { job: name, input: { text } } })
    const [run] = await worker.claim()
    expect(run?.input).toEqual({ text })
    if (run === undefined) return
    const { runId, leaseEpoch } = run
    const lines = [{ at: '2026-11-30T12:00:00Z', level: 'info', message: text }]
    await worker.call('log', { chunks: [{ runId, leaseEpoch, firstLine: 0, lines }] })
    await worker.complete(run, { outcome: 'succeeded', result: { text } })
    const log = await t.call('GET', `/v1/runs/${body.id}/log`)
    expect(log.headers['content-type']).toMatch(/^application\/json/)
    expect(log.headers['x-content-type-options']).toBe('nosniff')
    expect(log.body.lines).toMatchObject([{ message: text }])
    const ended = await t.call('GET', `/v1/runs/${body.id}`)
    expect(ended.body).toMatchObject({ state: 'succeeded', attemptList: [{ result: { text } }] })
  })

  it.each([
    ['ui.name_svg', '"><svg/onload=alert(1)>'],
    ['log.newline', 'x\n{"level":"info","msg":"admin login ok"}'],
    ['log.ls', 'x\u2028y'],
  ])('%s: and no name', async (_id, name) => {
    const answer = await t.call('POST', '/v1/jobs', { body: httpJob(name) })
    expect(answer.body).toMatchObject({ status: 400, errors: [{ pointer: '/name' }] })
  })
})

describe('the log of the server', () => {
  it.each([
    ['log.newline', 'x\n{"level":"info","msg":"admin login ok"}'],
    ['log.ls', 'x\u2028y\u0085z'],
  ])('%s: is one JSON record a line, whatever is said', (_id, text) => {
    const lines: string[] = []
    const destination = new Writable({
      write(chunk: Buffer, _encoding, done) {
        lines.push(chunk.toString())
        done()
      },
    })
    createLogger({ version: '0', destination }).warn({ job: text }, text)
    expect(lines).toHaveLength(1)
    expect(lines[0]?.trimEnd().split('\n')).toHaveLength(1)
    expect(JSON.parse(lines[0] ?? '')).toMatchObject({ job: text, message: text })
  })
})

describe('ui.error_page: a fault of the server', () => {
  it('tells no stack, no SQL and no path', async () => {
    const broken = await startTestApi({
      zones: {
        ...openZoneSource(),
        get: () => {
          throw new Error('SELECT secret FROM belfry.secret at /srv/belfry/src/zones.ts:1')
        },
      },
    })
    try {
      const body = { name: 's', every: '1h', handler, zone: 'Europe/Berlin' }
      const answer = await broken.call('POST', '/v1/schedules', { body })
      expect(answer.body).toMatchObject({ status: 500, code: 'internal' })
      expect(JSON.stringify(answer.body)).not.toMatch(/SELECT|srv|zones|stack|at \//)
    } finally {
      await broken.close()
    }
  })
})

describe('limit.slowloris: connections that send their head byte by byte', () => {
  it('keep nobody else waiting, and have an end', async () => {
    const { port } = new URL(await t.api.listen({ host: '127.0.0.1', port: 0 }))
    const open: Socket[] = []
    try {
      for (let made = 0; made < 300; made++) {
        const socket = connect(Number(port), '127.0.0.1').on('error', () => undefined)
        socket.write('GET /v1/whoami HTTP/1.1\r\nHost: a')
        open.push(socket)
      }
      const answer = await fetch(`http://127.0.0.1:${port}/`)
      expect(answer.status).toBe(200)
      // Node ends them by itself after that, and looks every 30 s
      const { headersTimeout, requestTimeout } = t.api.app.server
      for (const limitMs of [headersTimeout, requestTimeout]) {
        expect(limitMs).toBeGreaterThan(0)
        expect(limitMs).toBeLessThanOrEqual(60_000)
      }
    } finally {
      for (const socket of open) socket.destroy()
    }
  })
})

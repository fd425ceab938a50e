// Workflows over the API and the command line: what is stored and under which version, what is refused and
// where, what differs between versions, and the jobs that tasks run.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { runAlone } from '../cli/support/cli.ts'
import { httpJob, startTestApi, type TestApi } from '../support/api.ts'

let t: TestApi
let env: Record<string, string>
const folder = mkdtempSync(join(tmpdir(), 'belfry-workflows-'))
beforeAll(async () => {
  t = await startTestApi()
  env = {
    XDG_CONFIG_HOME: folder,
    BELFRY_URL: await t.api.listen({ host: '127.0.0.1', port: 0 }),
    BELFRY_API_KEY: t.adminKey,
    TZ: 'UTC',
  }
  for (const name of ['extract', 'load']) await t.call('POST', '/v1/jobs', { body: httpJob(name) })
})
afterAll(async () => {
  rmSync(folder, { recursive: true, force: true })
  await t.close()
})

let made = 0
const handler = { kind: 'http', url: 'https://example.com/hook' }
const apply = (body: object, query = '', headers: Record<string, string> = {}) =>
  t.call('POST', `/v1/workflows${query}`, { body, headers })
const make = async (tasks: readonly object[], more: object = {}) => {
  const answer = await apply({ name: `w${made++}`, tasks, ...more })
  expect(answer.body.detail ?? '').toBe('')
  return answer.body
}
const get = async (id: string, query = '') => (await t.call('GET', `/v1/workflows/${id}${query}`)).body
const ownJobs = (name: string) =>
  t.database.sql<{ name: string; version: number; definition: { retry: { maxAttempts: number } } }>(
    `SELECT name, version, definition FROM belfry.job
     WHERE name LIKE '${name}/%' AND deleted_at IS NULL ORDER BY name`,
  )

describe('what is stored', () => {
  it('many times at once under one new name is made once', async () => {
    const body = { name: 'at-once', tasks: [{ id: 'a', handler }] }
    const answers = await Promise.all(Array.from({ length: 10 }, () => apply(body)))
    expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 200))
    const outcomes = answers.map((answer) => answer.body['outcome'])
    expect(outcomes.filter((outcome) => outcome === 'created')).toHaveLength(1)
    expect(outcomes.filter((outcome) => outcome === 'unchanged')).toHaveLength(9)
    expect(await ownJobs('at-once')).toMatchObject([{ version: 1 }])
  })

  it('is what was sent, with defaults, in the order of the schema', async () => {
    const tasks = [
      { needs: [], id: 'a', job: 'extract' },
      { id: 'b', job: 'load', needs: ['a'], when: { task: 'a', output: '/rows', is: { atLeast: 1 } } },
    ]
    const workflow = await make(tasks, { description: 'nightly', timeoutMs: 60_000 })
    expect(workflow).toMatchObject({ version: 1, outcome: 'created', description: 'nightly', warnings: [] })
    const shown = await get(workflow.id)
    expect(shown.tasks).toMatchObject([
      { id: 'a', job: 'extract', rule: 'none_failed_min_one_success' },
      { id: 'b', needs: ['a'], when: tasks[1]?.when },
    ])
    expect(Object.keys(shown.tasks[0] ?? {}).slice(0, 3)).toEqual(['id', 'job', 'needs'])
    const listed = await t.call('GET', `/v1/workflows?name=${workflow.name}`)
    expect(listed.body.items).toMatchObject([{ id: workflow.id, version: 1, tasks: 2 }])
  })

  it('the same again makes no version, another one does, and versions stay as they were', async () => {
    const first = await make([{ id: 'a', job: 'extract' }])
    const again = await apply({ name: first.name, tasks: [{ job: 'extract', id: 'a' }] })
    expect(again.body).toMatchObject({ id: first.id, version: 1, outcome: 'unchanged' })
    const changed = await apply({ name: first.name, tasks: [{ id: 'a', job: 'load' }] })
    expect(changed.body).toMatchObject({ id: first.id, version: 2, outcome: 'changed' })
    expect(changed.headers['etag']).toBe('"2"')
    expect((await get(first.id, '?version=1')).tasks[0]?.job).toBe('extract')
    expect((await get(first.id)).tasks[0]?.job).toBe('load')
    const versions = (await t.call('GET', `/v1/workflows/${first.id}/versions?limit=1`)).body
    expect(versions.items).toMatchObject([{ version: 2, tasks: 1 }])
    const next = await t.call('GET', `/v1/workflows/${first.id}/versions?cursor=${versions.nextCursor}`)
    expect(next.body).toMatchObject({ items: [{ version: 1 }], nextCursor: null })
    const missing = await get(first.id, '?version=9')
    expect(missing).toMatchObject({ code: 'not_found', errors: [{ pointer: '/query/version' }] })
  })

  it('keeps to If-Match, Idempotency-Key and dry run', async () => {
    const first = await make([{ id: 'a', job: 'extract' }])
    const other = { name: first.name, tasks: [{ id: 'b', job: 'extract' }] }
    expect((await apply(other, '', { 'if-match': '"7"' })).body.code).toBe('precondition_failed')
    const dry = await apply(other, '?dryRun=true')
    expect(dry.body).toMatchObject({ version: 2, outcome: 'changed' })
    expect((await get(first.id)).version).toBe(1)
    const headers = { 'if-match': '"1"', 'idempotency-key': `k-${first.id}` }
    expect((await apply(other, '', headers)).body.version).toBe(2)
    const replayed = await apply(other, '', headers)
    expect([replayed.body.outcome, replayed.headers['idempotency-replayed']]).toEqual(['changed', 'true'])
    expect((await get(first.id)).version).toBe(2)
  })

  it('many who make the same one at once make one', async () => {
    const body = { name: `w${made++}`, tasks: [{ id: 'a', handler }] }
    const answers = await Promise.all(Array.from({ length: 8 }, () => apply(body)))
    const done = answers.filter((answer) => answer.status === 200)
    expect(done.filter(({ body: { outcome } }) => outcome === 'created')).toHaveLength(1)
    expect(new Set(done.map(({ body: { id, version } }) => `${id} ${version}`)).size).toBe(1)
    for (const {
      status,
      body: { code },
    } of answers.filter((answer) => answer.status !== 200))
      expect([status, code]).toEqual([503, 'serialization_conflict'])
  })

  it('takes 5,000 tasks in a wide and deep graph', async () => {
    const tasks = Array.from({ length: 5_000 }, (_, index) => {
      return { id: `t${index}`, job: 'extract', needs: index % 2_500 === 0 ? [] : [`t${index - 1}`] }
    })
    const workflow = await make(tasks)
    expect((await get(workflow.id)).tasks).toHaveLength(5_000)
  })
})

describe('jobs of its own', () => {
  it('inline handlers and other limits are jobs in no list, one version for each change', async () => {
    const tasks = [
      { id: 'inline', handler },
      { id: 'often', job: 'load', retry: { maxAttempts: 7 } },
      { id: 'plain', job: 'load', priority: 5 },
    ]
    const { name, id } = await make(tasks)
    const own = await ownJobs(name)
    expect(own.map((job) => [job.name, job.version, job.definition.retry.maxAttempts])).toEqual([
      [`${name}/inline`, 1, 3],
      [`${name}/often`, 1, 7],
    ])
    const listed = await t.call('GET', '/v1/jobs?limit=1000')
    expect(listed.body.items.filter((job) => job.name.includes('/'))).toEqual([])
    await apply({
      name,
      tasks: [{ id: 'inline', handler: { ...handler, method: 'PUT' } }, ...tasks.slice(1)],
    })
    expect((await ownJobs(name)).map((job) => job.version)).toEqual([2, 1])
    const rows = await t.database.sql<{ job_versions: (number | null)[] }>(
      `SELECT job_versions FROM belfry.workflow_version WHERE workflow_id = '${id}' ORDER BY version`,
    )
    expect(rows.map((row) => row.job_versions)).toEqual([
      [1, 1, null],
      [2, 1, null],
    ])
    expect((await t.call('DELETE', `/v1/workflows/${id}`)).status).toBe(204)
    expect(await ownJobs(name)).toEqual([])
    expect((await make(tasks)).version).toBe(1)
  })

  it('a job that a workflow names stays', async () => {
    await t.call('POST', '/v1/jobs', { body: httpJob('named') })
    const workflow = await make([{ id: 'a', job: 'named' }])
    const { body } = await t.call('GET', '/v1/jobs?name=named')
    const path = `/v1/jobs/${body.items[0]?.id}`
    expect((await t.call('DELETE', path)).body).toMatchObject({
      code: 'in_use',
      detail: `The workflow "${workflow.name}" uses the job "named"; delete that workflow first.`,
    })
    await apply({ name: workflow.name, tasks: [{ id: 'a', job: 'load' }] })
    expect((await t.call('DELETE', path)).status).toBe(204)
  })

  it('secrets of headers are never shown, and stay where the mask comes back', async () => {
    const secret = { ...handler, headers: { Authorization: 'Bearer s3cret' } }
    const workflow = await make([{ id: 'a', handler: secret }])
    const shown = await get(workflow.id)
    expect(JSON.stringify([workflow, shown])).not.toContain('s3cret')
    expect(shown.tasks[0]?.handler).toMatchObject({ headers: { Authorization: '***' } })
    const masked = { ...handler, method: 'PUT', headers: { Authorization: '***' } }
    expect((await apply({ name: workflow.name, tasks: [{ id: 'a', handler: masked }] })).body.version).toBe(2)
    const [row] = await t.database.sql<{ header: string }>(
      `SELECT definition #>> '{handler,headers,Authorization}' AS header FROM belfry.job
       WHERE name = '${workflow.name}/a'`,
    )
    expect(row?.header).toBe('Bearer s3cret')
    const stolen = { ...masked, url: 'https://elsewhere.example/' }
    const refused = await apply({ name: workflow.name, tasks: [{ id: 'a', handler: stolen }] })
    expect(refused.body.errors[0]?.pointer).toBe('/tasks/0/handler/headers/Authorization')
    const other = { ...handler, headers: { Authorization: 'Bearer 0ther' } }
    await apply({ name: workflow.name, tasks: [{ id: 'a', handler: other }] })
    const diff = (await t.call('GET', `/v1/workflows/${workflow.id}/diff?from=1`)).body
    expect(diff.changes.map(({ message }) => message)).toEqual([
      'a: handler.headers.Authorization has another value',
    ])
  })
})

describe('what is refused', () => {
  const deep = (levels: number): object =>
    levels === 0 ? { input: '', is: { exists: true } } : { not: deep(levels - 1) }
  it.each<[string, object, string, string]>([
    [
      'a circle',
      {
        tasks: [
          { id: 'a', job: 'load', needs: ['b'] },
          { id: 'b', job: 'load', needs: ['a'] },
        ],
      },
      'invalid_request',
      '/tasks/0/needs',
    ],
    ['no tasks', { tasks: [] }, 'invalid_request', '/tasks'],
    ['an unknown job', { tasks: [{ id: 'a', job: 'laod' }] }, 'not_found', '/tasks/0/job'],
    ['an unknown field', { tasks: [{ id: 'a', job: 'load', need: [] }] }, 'invalid_request', '/tasks/0/need'],
    [
      'a mask',
      {
        tasks: [],
        finally: [],
        onFailure: [{ id: 'a', handler: { ...handler, headers: { Cookie: '***' } } }],
      },
      'invalid_request',
      '/tasks',
    ],
    [
      'a condition in a condition in …',
      { tasks: [{ id: 'a', job: 'load', when: deep(9) }] },
      'invalid_request',
      '/tasks/0/when',
    ],
    [
      'a target inside',
      {
        tasks: [{ id: 'a', job: 'load' }],
        finally: [{ id: 'z', handler: { kind: 'http', url: 'http://169.254.169.254/' } }],
      },
      'invalid_target',
      '/finally/0/handler/url',
    ],
  ])('%s', async (_words, body, code, pointer) => {
    const before = await t.counts()
    const answer = await apply({ name: 'refused', ...body })
    expect(answer.body).toMatchObject({ code, errors: [{ pointer }] })
    expect(await t.counts()).toEqual(before)
  })

  it('suggests the job that was meant', async () => {
    expect((await apply({ name: 'refused', tasks: [{ id: 'a', job: 'laod' }] })).body.detail).toContain(
      'did you mean "load"?',
    )
  })
})

describe('another tenant', () => {
  it('sees nothing, and may use the same names', async () => {
    const workflow = await make([{ id: 'a', handler }])
    const key = await t.keyFor(`stranger-${workflow.id}`, ['admin'])
    for (const path of ['', '/versions', '/diff'])
      expect((await t.call('GET', `/v1/workflows/${workflow.id}${path}`, { key })).status).toBe(404)
    expect((await t.call('DELETE', `/v1/workflows/${workflow.id}`, { key })).status).toBe(404)
    const body = { name: workflow.name, tasks: [{ id: 'a', handler }] }
    const own = await t.call('POST', '/v1/workflows', { key, body })
    expect(own.body).toMatchObject({ outcome: 'created', version: 1 })
    const foreignJob = { name: 'other', tasks: [{ id: 'a', job: 'load' }] }
    expect((await t.call('POST', '/v1/workflows', { key, body: foreignJob })).body.code).toBe('not_found')
  })
})

describe('the command line', () => {
  const belfry = (...argv: string[]) => runAlone(argv, { env, now: () => Date.now() })
  it('applies a file, shows, compares, draws and deletes it', async () => {
    const file = join(folder, 'nightly.yaml')
    writeFileSync(
      file,
      'name: nightly\ntasks:\n  - { id: a, job: extract }\n  - { id: b, job: load, needs: [a] }\n',
    )
    const dry = await belfry('workflow', 'apply', '-f', file, '--dry-run')
    expect([dry.code, dry.err]).toEqual([
      0,
      'Dry run, nothing was stored: would create the workflow nightly.\n',
    ])
    expect((await belfry('workflow', 'apply', '-f', file)).err).toContain('Created the workflow nightly.')
    expect((await belfry('workflow', 'apply', '-f', file)).err).toContain('stays at version 1')
    writeFileSync(
      file,
      'name: nightly\ntasks: [{ id: a, job: load }, { id: c, job: load, needs: [a], rule: all_done }]\n',
    )
    const changed = await belfry('workflow', 'apply', '-f', file)
    expect(changed.err).toContain('its version is 2')
    const diff = await belfry('workflow', 'diff', 'nightly', 'v1', 'v2')
    expect(diff.out).toBe('~ a: job extract → load\n- b was removed\n+ c was added, which needs a\n')
    expect((await belfry('workflow', 'diff', 'nightly')).out).toBe(diff.out)
    expect((await belfry('workflow', 'diff', 'nightly', '2', '2')).err).toContain('do not differ')
    expect((await belfry('workflow', 'diff', 'nightly', 'one')).code).toBe(2)
    expect((await belfry('workflow', 'get', 'nightly')).out).toMatch(/Task +c: job load, needs a, all_done/)
    expect((await belfry('workflow', 'list')).out).toMatch(/nightly +2 +2 /)
    expect((await belfry('workflow', 'versions', 'nightly', '-o', 'name')).out).toBe('2\n1\n')
    const old = await belfry('workflow', 'graph', 'nightly', '--version', '1', '--as', 'mermaid')
    expect(old.out).toContain('t0 --> t1')
    expect((await belfry('workflow', 'graph', 'nightly', '-f', file)).code).toBe(2)
    expect((await belfry('workflow', 'delete', 'nightly')).err).toContain('Deleted the workflow nightly.')
    const gone = await belfry('workflow', 'get', 'nightly')
    expect([gone.code, gone.err.includes('There is no workflow "nightly"')]).toEqual([1, true])
  })
})

// Workflow runs over the API and the command line, and with functions in a program: a workflow as code runs
// from its first task to its last on the whole engine.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { at, createBelfry, defineJob, defineWorkflow } from 'belfry'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { createPostgresEventBus } from '../../packages/server/src/postgres/event-bus.ts'
import { createPostgresWorkflowResolving } from '../../packages/server/src/postgres/workflow-resolving.ts'
import { createFairTags } from '../../packages/server/src/engine/fair-tags.ts'
import { createResolver, type Resolver } from '../../packages/server/src/engine/resolver.ts'
import { createPostgresQueueProgress } from '../../packages/server/src/postgres/queue-progress.ts'
import { runAlone } from '../cli/support/cli.ts'
import { startTestApi, type TestApi } from '../support/api.ts'
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts'
import { realClock, realRandom } from '../support/real-clock.ts'
import { eventually, recordEvents, recordHints, testIds } from '../support/running.ts'

let t: TestApi
let resolver: Resolver
let env: Record<string, string>
const folder = mkdtempSync(join(tmpdir(), 'belfry-workflow-runs-'))
const handler = { kind: 'http', url: 'https://example.com/hook' }
beforeAll(async () => {
  t = await startTestApi()
  const tags = createFairTags({ clock: realClock, progress: createPostgresQueueProgress(t.db) })
  const shared = { clock: realClock, random: realRandom, ids: testIds, tags }
  const resolving = createPostgresWorkflowResolving(t.db)
  const hints = recordHints()
  const bus = createPostgresEventBus({ resolving, hints })
  resolver = createResolver({ ...shared, resolving, bus, events: recordEvents(), hints })
  env = {
    XDG_CONFIG_HOME: folder,
    BELFRY_URL: await t.api.listen({ host: '127.0.0.1', port: 0 }),
    BELFRY_API_KEY: t.adminKey,
    TZ: 'UTC',
  }
  const tasks = [
    { id: 'a', handler },
    { id: 'b', handler, needs: ['a'] },
  ]
  await t.call('POST', '/v1/workflows', { body: { name: 'flow', tasks } })
})
afterAll(async () => {
  rmSync(folder, { recursive: true, force: true })
  await t.close()
})

const belfry = (...argv: string[]) => runAlone(argv, { env, now: () => Date.now() })

describe('over the API', () => {
  it('a run is asked for, begun, shown and canceled; the hint goes out', async () => {
    const made = await t.call('POST', '/v1/workflow-runs', { body: { workflow: 'flow', input: { x: 1 } } })
    expect(made.body).toMatchObject({
      workflow: 'flow',
      version: 1,
      state: 'running',
      input: { x: 1 },
      taskCounts: { waiting_for_dependencies: 2 },
    })
    expect(t.hints).toContainEqual({ topic: 'workflows', key: 'any' })
    await resolver.runOnce()
    const path = `/v1/workflow-runs/${made.body.id}`
    const { tasks } = (await t.call('GET', `${path}/tasks`)).body
    expect(tasks).toMatchObject([
      { id: 'a', state: 'started', runs: 1, items: null, note: null },
      { id: 'b', state: 'waiting_for_dependencies', runs: 0, runId: null },
    ])
    const [run] = await t.database.sql<{ id: string }>(
      `SELECT id FROM belfry.run WHERE workflow_run_id = $1`,
      [made.body.id],
    )
    expect((await t.call('GET', `/v1/runs/${run?.id}`)).body).toMatchObject({
      source: 'workflow',
      job: 'flow/a',
      state: 'pending',
    })
    expect((await t.call('POST', `${path}/cancel?dryRun=true`)).status).toBe(202)
    expect((await t.call('POST', `${path}/cancel`)).status).toBe(202)
    await resolver.runOnce()
    expect((await t.call('GET', path)).body).toMatchObject({ state: 'canceled', taskCounts: { canceled: 2 } })
    expect((await t.call('POST', `${path}/cancel`)).body.code).toBe('invalid_state')
  })

  it('a task that a person cancels while it waits fails nothing in silence', async () => {
    const made = await t.call('POST', '/v1/workflow-runs', { body: { workflow: 'flow' } })
    await resolver.runOnce()
    const [run] = await t.database.sql<{ id: string }>(
      `SELECT id FROM belfry.run WHERE workflow_run_id = $1`,
      [made.body.id],
    )
    expect((await t.call('POST', `/v1/runs/${run?.id}/cancel`)).status).toBe(202)
    await resolver.runOnce()
    expect((await t.call('GET', `/v1/workflow-runs/${made.body.id}`)).body).toMatchObject({
      state: 'canceled',
      taskCounts: { canceled: 1, upstream_failed: 1 },
    })
  })

  it('an unknown workflow is named with the one that was meant', async () => {
    const { body } = await t.call('POST', '/v1/workflow-runs', { body: { workflow: 'flwo' } })
    expect(body).toMatchObject({ code: 'not_found', errors: [{ pointer: '/workflow' }] })
    expect(body.detail).toContain('Did you mean "flow"?')
  })
})

describe('the command line', () => {
  it('runs, lists, shows and cancels', async () => {
    const made = await belfry('workflow', 'run', 'flow', '--input', '{"x": 1}', '-o', 'name')
    const id = made.out.trim()
    expect(made.err).toContain(`Next: belfry workflow-run get ${id} --watch`)
    await resolver.runOnce()
    expect((await belfry('workflow-run', 'list', '--workflow', 'flow')).out).toMatch(`${id} `)
    expect((await belfry('workflow-run', 'list', '--workflow', 'none')).err).toContain(
      'No workflow runs match',
    )
    expect((await belfry('workflow-run', 'tasks', id)).out).toMatch(/^TASK .*\na +started +- +1 /)
    expect((await belfry('workflow-run', 'cancel', id)).err).toContain('Asked for the end')
    await resolver.runOnce()
    expect((await belfry('workflow-run', 'get', id)).out).toMatch(/State +canceled/)
    expect((await belfry('workflow-run', 'get', 'x')).code).toBe(2)
    const waited = await belfry('workflow', 'run', 'flow', '--wait', '--timeout', '10ms')
    expect(waited.code).toBe(6)
  })
})

describe('with functions in a program', () => {
  let database: TestDatabase
  beforeAll(async () => {
    database = await createTestDatabase()
  })
  afterAll(() => database.drop())

  it('a workflow as code runs from its first task to its last', async () => {
    const split = defineJob({
      name: 'split',
      input: z.object({ text: z.string() }),
      output: z.array(z.string()),
      run: ({ text }) => text.split(' '),
    })
    const size = defineJob({
      name: 'size',
      input: z.string(),
      output: z.number(),
      run: (word) => word.length,
    })
    const total = defineJob({
      name: 'total',
      input: z.object({ sizes: z.array(z.number()), first: z.string() }),
      output: z.string(),
      run: ({ sizes, first }) => `${first}: ${sizes.reduce((sum, each) => sum + each, 0)}`,
    })
    const flow = defineWorkflow({ name: 'count', input: z.object({ text: z.string() }) }, (w) => {
      const words = w.task('split', split, { input: { text: w.input.text } })
      const sizes = w.forEach('size', size, words.output, (word) => word)
      w.task('total', total, { input: { sizes: sizes.output, first: at(words.output, 0) } })
    })
    const { host, port, user, database: name } = database.connection
    const databaseUrl = `postgres://${user}@localhost:${port}/${name}?host=${encodeURIComponent(host)}`
    const options = { databaseUrl, migrate: false, logLevel: 'error', drainMs: 2_000 } as const
    const program = createBelfry({ ...options, jobs: flow.jobs })
    await program.start()
    try {
      const { workflows, workflowRuns } = program.client
      await workflows.apply(flow.file)
      const { id } = await workflowRuns.create({ workflow: 'count', input: { text: 'some short words' } })
      const over = async () => (await workflowRuns.get(id)).state !== 'running'
      await eventually(over, 'the end of the workflow run', 20_000)
      const { tasks } = await workflowRuns.tasks(id)
      expect(tasks.map((task) => [task.id, task.state, task.runs])).toEqual([
        ['split', 'succeeded', 1],
        ['size', 'succeeded', 3],
        ['total', 'succeeded', 1],
      ])
      const { attemptList } = await program.client.runs.get(tasks[2]?.runId ?? '')
      expect(attemptList[0]?.result).toBe('some: 14')
    } finally {
      await program.stop()
    }
  })
})

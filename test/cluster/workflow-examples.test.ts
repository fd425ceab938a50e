// The files of examples/workflows, run as they are in a throw-away Belfry with the functions that stand
// beside them; and the tutorial, command by command, against a server and a worker.
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { workflowFileSchema } from '@belfry/contract'
import { createWorker } from 'belfry'
import { startThrowAwayBelfry, type ThrowAwayBelfry } from 'belfry/testing'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { workflowJobs } from '../../examples/workflows/jobs.ts'
import { runAlone } from '../cli/support/cli.ts'
import { arenaHarness } from './support/arena.ts'

const examples = fileURLToPath(new URL('../../examples/workflows', import.meta.url))
const files = readdirSync(examples).filter((name) => name.endsWith('.yaml'))
const folder = mkdtempSync(join(tmpdir(), 'belfry-workflow-examples-'))
const day = '2026-11-30'
/** What `diamond.yaml` reads. */
function writeData(at: string): void {
  mkdirSync(at, { recursive: true })
  writeFileSync(join(at, 'sales.csv'), `${day},10.50\n2000-01-01,99\n${day},2\n`)
  writeFileSync(join(at, 'rate.txt'), '2\n')
}
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const cli = (server: { url: string; key: string }, ...argv: readonly string[]) =>
  runAlone(argv, {
    env: { BELFRY_URL: server.url, BELFRY_API_KEY: server.key, TZ: 'UTC', XDG_CONFIG_HOME: folder },
  })

describe('examples/workflows', () => {
  let belfry: ThrowAwayBelfry
  beforeAll(async () => {
    writeData(folder)
    belfry = await startThrowAwayBelfry({ jobs: workflowJobs(folder) })
    // one that another runs as a task has to be there first
    for (const name of files.toSorted((one, other) => one.localeCompare(other))) {
      const file = parse(readFileSync(join(examples, name), 'utf8')) as unknown
      await belfry.client.workflows.apply(workflowFileSchema.parse(file))
    }
  })
  afterAll(() => belfry.stop())

  const begin = async (workflow: string, input?: Record<string, number>): Promise<string> =>
    (await belfry.client.workflowRuns.create({ workflow, ...(input === undefined ? {} : { input }) })).id

  /** State of the run and of its tasks, once it has ended. */
  async function ended(id: string): Promise<{ state: string; tasks: Record<string, string> }> {
    const state = async () => (await belfry.client.workflowRuns.get(id)).state
    await expect.poll(state, { timeout: 20_000, interval: 50 }).not.toBe('running')
    const { tasks } = await belfry.client.workflowRuns.tasks(id)
    return { state: await state(), tasks: Object.fromEntries(tasks.map((task) => [task.id, task.state])) }
  }

  /** What the newest run of a task answered. */
  async function resultOf(id: string, task: string): Promise<unknown> {
    const { tasks } = await belfry.client.workflowRuns.tasks(id)
    const runId = tasks.find((each) => each.id === task)?.runId ?? ''
    return (await belfry.client.runs.get(runId)).attemptList.at(-1)?.result
  }

  const waitsFor = async (id: string, task: string): Promise<void> => {
    const open = async () =>
      (await belfry.client.workflowRuns.tasks(id)).tasks.find((each) => each.id === task)?.wait?.state
    await expect.poll(open, { timeout: 10_000, interval: 50 }).toBe('waiting')
  }

  test.each<[string, Record<string, number> | undefined, string, Record<string, string>]>([
    ['diamond', undefined, 'succeeded', { begin: 'S', sales: 'S', rate: 'S', report: 'S' }],
    ['ci', undefined, 'succeeded', { lint: 'F', unit: 'S', build: 'S', deploy: 'S' }],
    ['branch', { rows: 5_000 }, 'succeeded', { choose: 'S', small: 'K', large: 'S', store: 'S' }],
    ['branch', undefined, 'succeeded', { choose: 'S', small: 'S', large: 'K', store: 'S' }],
    ['condition', { rows: 2 }, 'succeeded', { count: 'S', load: 'S', tell: 'K' }],
    ['condition', undefined, 'succeeded', { count: 'S', load: 'K', tell: 'S' }],
    ['fan-out', undefined, 'succeeded', { list: 'S', shrink: 'S', album: 'S' }],
    ['clean-up', undefined, 'failed', { work: 'F', publish: 'U', tell: 'S', tidy: 'S' }],
    ['setup', undefined, 'failed', { make: 'S', test: 'F', drop: 'S' }],
    ['fail-fast', undefined, 'failed', { one: 'C', two: 'F', three: 'C', merge: 'U' }],
    ['region', { rows: 3 }, 'succeeded', { count: 'S' }],
    ['regions', undefined, 'succeeded', { each: 'S', sum: 'S' }],
  ])('%s with %j', async (name, input, state, tasks) => {
    const words: Record<string, string> = {
      S: 'succeeded',
      F: 'failed',
      K: 'skipped',
      U: 'upstream_failed',
      C: 'canceled',
    }
    const found = await ended(await begin(name, input))
    expect(found).toMatchObject({
      state,
      tasks: Object.fromEntries(Object.entries(tasks).map(([id, letter]) => [id, words[letter]])),
    })
  })

  test('outputs go from task to task', async () => {
    const [diamond, fanOut, setup, regions] = await Promise.all(
      ['diamond', 'fan-out', 'setup', 'regions'].map((name) => begin(name)),
    )
    for (const id of [diamond, fanOut, setup, regions]) await ended(id ?? '')
    expect(await resultOf(diamond ?? '', 'report')).toBe('sold for 25.00')
    expect(await resultOf(fanOut ?? '', 'album')).toEqual(['small-a.png', 'small-b.png'])
    expect(await resultOf(setup ?? '', 'drop')).toBe('test-17 is gone')
    expect(await resultOf(regions ?? '', 'sum')).toEqual({ loaded: { regions: [{ rows: 3 }, { rows: 5 }] } })
  })

  test('approval: a yes goes on, a no skips what follows', async () => {
    const [yes, no] = [await begin('approval'), await begin('approval')]
    for (const id of [yes, no]) await waitsFor(id, 'go')
    await belfry.client.workflowRuns.approve(yes, { task: 'go', reason: 'looks good' })
    await belfry.client.workflowRuns.reject(no, { task: 'go', reason: 'not on Friday' })
    expect(await ended(yes)).toEqual({
      state: 'succeeded',
      tasks: { plan: 'succeeded', go: 'succeeded', apply: 'succeeded' },
    })
    expect(await ended(no)).toEqual({
      state: 'succeeded',
      tasks: { plan: 'succeeded', go: 'skipped', apply: 'skipped' },
    })
  })

  test('payment: a signal brings its payload along', async () => {
    const id = await begin('payment')
    await waitsFor(id, 'paid')
    await belfry.client.workflowRuns.signal(id, { signal: 'paid', payload: { amount: 12 } })
    expect(await ended(id)).toEqual({
      state: 'succeeded',
      tasks: { paid: 'succeeded', ship: 'succeeded', remind: 'skipped' },
    })
    expect(await resultOf(id, 'ship')).toEqual({ shipped: 12 })
  })
})

const harness = arenaHarness()

test('the tutorial: see it run, break a task, mend it, run again only what failed', async () => {
  const arena = await harness.open()
  const node = await arena.start('a')
  const server = { url: node.apiUrl, key: await arena.keyOf('tutorial') }
  const data = join(folder, 'tutorial')
  writeData(data)
  const made = await cli(server, 'key', 'create', 'worker', '--scope', 'worker', '-o', 'json')
  const { secret } = JSON.parse(made.out) as { secret: string }
  const worker = createWorker({ jobs: workflowJobs(data), url: server.url, token: secret })
  await worker.start()
  harness.defer(() => worker.stop())
  const file = join(examples, 'diamond.yaml')

  expect(await cli(server, 'workflow', 'validate', '-f', file)).toMatchObject({ code: 0 })
  expect(await cli(server, 'workflow', 'apply', '-f', file)).toMatchObject({ code: 0 })
  const good = await cli(server, 'workflow', 'run', 'diamond', '--wait', '-o', 'json')
  expect(good.code, good.err).toBe(0)
  expect(JSON.parse(good.out)).toMatchObject({ state: 'succeeded', taskCounts: { succeeded: 4 } })

  rmSync(join(data, 'rate.txt'))
  const bad = await cli(server, 'workflow', 'run', 'diamond', '--wait', '-o', 'json')
  expect(bad.code).toBe(5)
  const { id } = JSON.parse(bad.out) as { id: string }
  const graph = await cli(server, 'workflow', 'graph', '--run', id)
  expect(graph.out).toBe(
    [
      '1 ─ begin: succeeded',
      '2 ┬ sales: succeeded  ← begin',
      '  └ rate: failed  ← begin',
      '3 ─ report: upstream_failed  ← sales, rate',
      '',
    ].join('\n'),
  )

  writeFileSync(join(data, 'rate.txt'), '3\n')
  const preview = await cli(server, 'workflow-run', 'rerun', id, '--dry-run')
  expect(preview.code, preview.err).toBe(0)
  expect(preview.out).toMatch(/rate/)
  expect(preview.out).not.toMatch(/^sales/m)
  expect(await cli(server, 'workflow-run', 'rerun', id)).toMatchObject({ code: 0 })
  const watched = await cli(server, 'workflow-run', 'get', id, '--watch')
  expect(watched.code, watched.err).toBe(0)
  expect(watched.out).toMatch(/report:? succeeded/)
  const tasks = await cli(server, 'workflow-run', 'tasks', id, '-o', 'json')
  const runs = (JSON.parse(tasks.out) as { items: { id: string; runs: number }[] }).items
  expect(Object.fromEntries(runs.map((task) => [task.id, task.runs]))).toEqual({
    begin: 1,
    sales: 1,
    rate: 2,
    report: 1,
  })
})

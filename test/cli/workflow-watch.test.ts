// `belfry workflow-run get --watch` and `belfry workflow graph --run`: what is drawn, and when it is drawn
// again, on a terminal and elsewhere. The server's answers are given; for the real one see
// test/cluster/workflow-examples.test.ts.
import { workflowRunSchema, workflowRunTasksSchema, workflowSchema } from '@belfry/contract'
import { expect, it } from 'vitest'
import { runAlone } from './support/cli.ts'
import { newWorkflow, newWorkflowRun } from './support/contract-workflow.ts'

const id = '019ad0c1-7f3e-7c63-9a52-6e4d8c1b2a3f'
const task = (name: string, needs: string[] = [], more: object = {}) => ({
  id: name,
  job: 'x',
  needs,
  ...more,
})
const flow = workflowSchema.parse(
  newWorkflow(id, {
    name: 'flow',
    tasks: [
      task('list'),
      task('each', ['list'], { forEach: { from: { task: 'list' } } }),
      { id: 'go', approval: { message: 'Go?' }, needs: ['each'] },
    ],
  }),
)

const wait = {
  kind: 'approval',
  item: null,
  message: 'Go?',
  signal: null,
  workflowRunId: null,
  since: '2026-11-29T12:00:00Z',
  dueAt: null,
  state: 'waiting',
  endedAt: null,
  by: null,
  reason: null,
  open: 1,
}

/** How the tasks stand, look by look. */
const looks = [
  { list: 'succeeded', each: 'started', go: 'waiting_for_dependencies', items: ['succeeded', 'started'] },
  { list: 'succeeded', each: 'started', go: 'waiting_for_dependencies', items: ['succeeded', 'started'] },
  { list: 'succeeded', each: 'succeeded', go: 'started', items: ['succeeded', 'succeeded'] },
  { list: 'succeeded', each: 'succeeded', go: 'failed', items: ['succeeded', 'succeeded'] },
]

function answers() {
  let look = 0
  const tasks = () => {
    const { items, ...states } = looks[Math.min(look++, looks.length - 1)] ?? { items: [] }
    return workflowRunTasksSchema.parse({
      tasks: Object.entries(states).map(([name, state]) => ({
        id: name,
        state,
        runId: null,
        runs: 0,
        items: name === 'each' ? items : null,
        note: null,
        wait: name === 'go' && state === 'started' ? wait : null,
      })),
    })
  }
  const run = () => {
    const ended = look >= looks.length - 1
    const state = { state: ended ? 'failed' : 'running', endedAt: ended ? '2026-11-29T12:00:05Z' : null }
    return workflowRunSchema.parse({ ...newWorkflowRun(id, 'flow'), ...state })
  }
  return async (input: string | URL | Request): Promise<Response> => {
    const path = new URL(input instanceof Request ? input.url : input).pathname
    return Response.json(path.endsWith('/tasks') ? tasks() : path.includes('workflow-runs') ? run() : flow)
  }
}

const cli = (argv: readonly string[], tty = false) =>
  runAlone(argv, {
    fetch: answers(),
    tty,
    env: { BELFRY_URL: 'http://127.0.0.1:9', BELFRY_API_KEY: 'bfy_x', TZ: 'UTC', NO_COLOR: '1' },
  })

const picture = (each: string, go: string) =>
  ['1 ─ list: succeeded', `2 ─ each (for each): ${each}  ← list`, `3 ─ go${go}  ← each`, ''].join('\n')

it('draws the picture again on a terminal, where it has changed', async () => {
  const { code, out } = await cli(['workflow-run', 'get', id, '--watch'], true)
  expect(code).toBe(5)
  const [first, second, third, rest] = out.split('\u001b[3A\u001b[J')
  expect(first).toBe(picture('started 1/2', ''))
  expect(second).toBe(picture('succeeded', ': waits for an approval'))
  expect(third?.startsWith(picture('succeeded', ': failed'))).toBe(true)
  expect(rest).toBeUndefined()
})

it('tells each change in a line elsewhere, behind the picture', async () => {
  const { out, err } = await cli(['workflow-run', 'get', id, '--watch'])
  expect(out.startsWith(picture('started 1/2', ''))).toBe(true)
  expect(out).not.toContain('\u001b')
  const lines = out.split('\n').slice(3, 6)
  expect(lines.map((line) => line.replace(/^[-\d]+ [:\d]+ /, ''))).toEqual([
    'each succeeded',
    'go started',
    'go failed',
  ])
  expect(err).toContain(`belfry workflow-run explain ${id}`)
})

it('gives programs the run as it ended, and nothing else', async () => {
  const { code, out } = await cli(['workflow-run', 'get', id, '--watch', '-o', 'json'])
  expect(code).toBe(5)
  expect(JSON.parse(out)).toMatchObject({ id, state: 'failed' })
})

it('draws a run once, in every form', async () => {
  expect((await cli(['workflow', 'graph', '--run', id])).out).toBe(picture('started 1/2', ''))
  const as = async (format: string) => (await cli(['workflow', 'graph', '--run', id, '--as', format])).out
  expect(await as('mermaid')).toContain('t1["each (for each): started 1/2"]')
  expect(await as('mermaid')).toContain('style t0 fill:#d3f2d9')
  expect(await as('dot')).toContain('"list" [label="list: succeeded", style="rounded,filled"')
  expect(await as('svg')).toContain('<title>list: succeeded</title>')
})

it('gives programs the graph of a run, with the states', async () => {
  const graph = ['workflow', 'graph', '--run', id]
  expect(JSON.parse((await cli([...graph, '-o', 'json'])).out)).toMatchObject({
    nodes: [
      { id: 'list', state: 'succeeded', items: null },
      { id: 'each', state: 'started', forEach: true, items: ['succeeded', 'started'] },
      { id: 'go', state: 'waiting_for_dependencies' },
    ],
    edges: [
      { from: 'list', to: 'each' },
      { from: 'each', to: 'go' },
    ],
  })
  const both = await cli([...graph, '-o', 'json', '--as', 'svg'])
  expect([both.code, both.err.includes('give only one')]).toEqual([2, true])
})

it('says what does not go together', async () => {
  expect((await cli(['workflow', 'graph', '--run', 'nightly'])).err).toContain('no id of a workflow run')
  expect((await cli(['workflow', 'graph', 'nightly', '--run', id])).err).toContain('leave the name')
})

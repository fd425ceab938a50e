// The verdict of the cluster demo: it must see what was lost, doubled or out of order, or its "Nothing was
// lost." is worth nothing.
import type { Client } from '@belfry/sdk'
import { expect, it } from 'vitest'
import { clusterSummary, judgeCluster } from '../../packages/cli/src/demo/cluster/cluster-verdict.ts'
import type { Call } from '../../packages/cli/src/demo/receiver.ts'

type World = {
  occurrences: { scheduledFor: string; runId: string | null }[]
  runs: Record<string, { state: string; attempts: number }>
  workflow: { state: string }
  calls: Call[]
}

const iso = (ms: number): string => new Date(ms).toISOString()
const call = (runId: string, atMs: number, more: Partial<Call> = {}): Call => ({
  path: '/',
  runId,
  idempotencyKey: runId,
  attempt: 1,
  status: 200,
  atMs,
  plannedMs: null,
  ...more,
})

/** Two planned times and a workflow run; all is well. */
function world(): World {
  return {
    occurrences: [1_000, 2_000].map((ms) => ({ scheduledFor: iso(ms), runId: `run-${ms}` })),
    runs: {
      'run-1000': { state: 'succeeded', attempts: 1 },
      'run-2000': { state: 'succeeded', attempts: 2 },
    },
    workflow: { state: 'succeeded' },
    calls: [
      call('run-1000', 1_010, { plannedMs: 1_000 }),
      call('run-2000', 2_040, { plannedMs: 2_000 }),
      call('run-2000', 6_000, { plannedMs: 2_000, attempt: 2 }),
      ...['begin', 'left', 'right', 'join'].map((name, index) => call(name, 100 * index)),
    ],
  }
}

function judge({ occurrences, runs, workflow, calls }: World) {
  const client = {
    schedules: {
      async *occurrences() {
        yield* occurrences
      },
    },
    runs: { get: async (id: string) => runs[id] },
    workflowRuns: {
      get: async () => workflow,
      tasks: async () => ({ tasks: ['begin', 'left', 'right', 'join'].map((id) => ({ id, runId: id })) }),
    },
  } as unknown as Client
  const schedule = { name: 'each', words: '', scheduleId: 's', timesUntil: () => [1_000, 2_000] }
  const plan = { schedules: [schedule], words: [], startWorkflow: async () => 'w' }
  return judgeCluster(client, { plan, workflowRunIds: ['w'] }, calls, 2_000)
}

it('finds nothing where all is well, and tells of what was called again', async () => {
  const verdict = await judge(world())
  expect(verdict).toMatchObject({ ok: true, calledAgain: 1, lateMs: [10, 40] })
  const summary = clusterSummary(verdict).join('\n')
  expect(summary).toMatch(/each +2 +2 {2}ok/)
  expect(summary).toContain('the worst 40 ms')
  expect(summary).toMatch(/1 run was called again .*same key/)
  expect(summary).toContain('Nothing was lost.')
})

it.each<readonly [string, (world: World) => unknown, RegExp]>([
  ['a planned time without an occurrence', (w) => w.occurrences.pop(), /2\.000Z|02\.000Z did not run/],
  ['a skipped one', (w) => (w.occurrences[0] = { scheduledFor: iso(1_000), runId: null }), /did not run/],
  ['one with two occurrences', (w) => w.occurrences.push(...w.occurrences), /two occurrences/],
  ['a run that failed', (w) => (w.runs['run-1000'] = { state: 'failed', attempts: 1 }), /is failed/],
  ['a run that never came', (w) => w.calls.shift(), /never came/],
  ['more calls than attempts', (w) => w.calls.push(call('run-1000', 1)), /begun 1 times and called 2/],
  ['another key', (w) => w.calls.push(call('run-2000', 1, { idempotencyKey: 'x' })), /several keys/],
  ['a workflow run that failed', (w) => (w.workflow.state = 'failed'), /workflow run w is failed/],
  ['a task too soon', (w) => w.calls.push(...w.calls.splice(3, 1, call('begin', 999))), /in order/],
])('finds %s', async (_, spoil, words) => {
  const spoilt = world()
  spoil(spoilt)
  const verdict = await judge(spoilt)
  expect(verdict.ok).toBe(false)
  expect(clusterSummary(verdict).join('\n')).toMatch(words)
})

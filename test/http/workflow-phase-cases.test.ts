// Cases of several phases (a start, reruns, marks) on the real engine: each phase is asked for over the API.
// What has to come out is what the simulation gives, which
// test/cli/workflow-simulate.test.ts holds against what each case expects.
import { readFileSync } from 'node:fs'
import type { TaskState, WorkflowTask } from '@belfry/contract'
import * as rules from '@belfry/server/workflow'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Case, graphOf } from '../../packages/cli/src/commands/workflow-case-graph.ts'
import { playPhases } from '../../packages/cli/src/commands/workflow-case-phases.ts'
import { openWorkflowApi, type TaskAnswer, type WorkflowApi } from '../support/workflow-api.ts'

interface Phase {
  readonly action: string
  readonly select?: {
    readonly only_failed?: boolean
    readonly include_downstream?: boolean
    readonly nodes?: readonly string[]
  }
  readonly node?: string
  readonly state?: string
  readonly outcomes?: Readonly<Record<string, readonly string[]>>
}
interface Shown {
  readonly run: string
  readonly tasks: Readonly<Record<string, TaskState>>
  readonly attempts: Readonly<Record<string, number>>
  readonly executed: readonly string[]
}

const acts = new Set(['start', 'rerun', 'restart', 'mark'])
/** Of items, choices, cancels and retries the other cases on the engine speak. */
const fields = new Set(['action', 'select', 'node', 'state', 'outcomes', 'expected'])
const selects = new Set(['only_failed', 'include_downstream', 'nodes'])
const isPlain = (phase: Phase): boolean =>
  acts.has(phase.action) &&
  Object.keys(phase).every((field) => fields.has(field)) &&
  Object.keys(phase.select ?? {}).every((field) => selects.has(field))
const defaults = { rule: 'all_success' }
const cases = ['dag.json', 'dag-more.json'].flatMap((name) => {
  const file = JSON.parse(readFileSync(new URL(`../cases/${name}`, import.meta.url), 'utf8')) as {
    readonly cases: readonly (Case & { readonly id: string; readonly phases?: readonly Phase[] })[]
  }
  return file.cases.filter(({ phases = [], ...entry }) => {
    const retries = JSON.stringify(entry).includes('"retries"')
    return entry['normative'] === true && phases.length > 0 && phases.every(isPlain) && !retries
  })
})

let w: WorkflowApi
beforeAll(async () => {
  w = await openWorkflowApi()
})
afterAll(() => w.close())

function definitionOf(entry: Case) {
  const { shapes } = graphOf(entry, defaults)
  const of = (role: string) =>
    shapes
      .filter((shape) => shape.role === role)
      .map(
        ({ id, needs, rule, allowFailure, teardownOf }): Partial<WorkflowTask> => ({
          id,
          handler: { kind: 'http', url: 'https://example.com/hook', method: 'POST', headers: {} },
          needs: [...needs],
          rule,
          allowFailure,
          ...(teardownOf === undefined
            ? {}
            : { teardownOf: teardownOf as NonNullable<WorkflowTask['teardownOf']> }),
        }),
      )
  return { tasks: of('main'), onFailure: of('on_failure'), finally: of('finally') }
}

function bodyOf({ action, select = {} }: Phase): object {
  if (action === 'restart') return { what: 'all' }
  if (select.only_failed === true) return { what: 'failed' }
  const what = select.include_downstream === false ? 'only' : 'from'
  return { what, tasks: select.nodes }
}

/** What changes nothing is refused. */
async function act(id: string, phase: Phase, isNothing: boolean): Promise<void> {
  const marks = { success: 'succeeded', failed: 'failed', skipped: 'skipped' } as const
  const { status, body } =
    phase.action === 'mark'
      ? await w.act(id, 'mark', {
          tasks: [phase.node],
          state: marks[phase.state as keyof typeof marks],
          reason: 'the case says so',
        })
      : await w.act(id, 'rerun', bodyOf(phase))
  expect([status, body.code]).toEqual(isNothing ? [409, 'invalid_state'] : [200, undefined])
}

describe('cases of several phases on the engine', () => {
  it('there are enough of them', () => {
    expect(cases.length).toBeGreaterThan(10)
  })

  it.each(cases)('$id', async (entry) => {
    const expected = playPhases(entry, defaults, rules) as { readonly phases: readonly Shown[] }
    const { name } = await w.store(definitionOf(entry))
    const id = await w.ask(name)
    for (const [index, phase] of (entry.phases ?? []).entries()) {
      const shown = expected.phases[index]
      if (phase.action !== 'start') await act(id, phase, shown?.executed.length === 0)
      const started = await w.play(id, (task): TaskAnswer => {
        const outcome = phase.outcomes?.[task]?.[0] ?? 'ok'
        return outcome === 'ok' ? { output: null } : 'failed'
      })
      expect(await w.standing(id)).toEqual({ state: shown?.run, tasks: shown?.tasks })
      expect(started.toSorted()).toEqual([...(shown?.executed ?? [])].toSorted())
      const { tasks } = (await w.t.call('GET', `/v1/workflow-runs/${id}/tasks`)).body
      const counted = tasks as unknown as readonly { readonly id: string; readonly runs: number }[]
      expect(Object.fromEntries(counted.map((task) => [task.id, task.runs]))).toEqual(shown?.attempts)
    }
  })
})

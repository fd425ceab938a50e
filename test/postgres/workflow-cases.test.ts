// Every normative case of the public file, and of our own, on the real engine: the workflow is stored, its
// tasks are started by the resolver and ended by a worker as the case says. What has to come out is what the
// simulation gives, which test/cli/workflow-simulate.test.ts holds against what each case expects.
import { readFileSync } from 'node:fs'
import { type FailFastMode, taskIdSchema, type TerminalRunState, type WorkflowTask } from '@belfry/contract'
import * as rules from '@belfry/server/workflow'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Case, graphOf, NotApplicable } from '../../packages/cli/src/commands/workflow-case-graph.ts'
import { failFastOf, scriptOf } from '../../packages/cli/src/commands/workflow-case-script.ts'
import { type ClaimedTask, openWorkflowRig, type WorkflowRig } from '../support/workflow-rig.ts'

interface CaseFile {
  readonly cases: readonly Case[]
  readonly defaults: { readonly rule: string }
}

const files = ['dag.json', 'dag-more.json'].map((name) => {
  return JSON.parse(readFileSync(new URL(`../cases/${name}`, import.meta.url), 'utf8')) as CaseFile
})

interface Played {
  readonly id: string
  readonly plan: rules.WorkflowPlan
  readonly definition: object
  readonly script: rules.WorkflowScript
  readonly expected: rules.Simulated
}

/** Cases of one run that is valid here, that begins with all its tasks, and that is not too large. */
function played(entry: Case, defaultRule: string): Played[] {
  const scenario = (entry['scenario'] ?? {}) as Case
  if (entry['normative'] !== true || entry['phases'] !== undefined) return []
  if (scenario['targets'] !== undefined || entry['targets'] !== undefined) return []
  try {
    const graph = graphOf(entry, defaultRule)
    const failFast = failFastOf(entry, scenario)
    const opened = rules.openWorkflow(graph.shapes, failFast)
    if (!opened.ok || graph.shapes.length > 300) return []
    const script = scriptOf(scenario, graph)
    // ids that no definition has, and lists that are made while it runs
    const isStrange = graph.shapes.some(({ id }) => !taskIdSchema.safeParse(id).success)
    const isOpen = graph.nodes.some(({ id }) => graph.sources[id] && script.itemCounts?.[id] === undefined)
    // the lists are constant here, so none is missing because its task was skipped (workflow-items.test.ts)
    const outcomes = (scenario['outcomes'] ?? {}) as Record<string, unknown>
    const producers = Object.values(graph.sources).flat()
    const isMissing = producers.some((id) => [outcomes[id]].flat().includes('skip'))
    if (isStrange || isOpen || isMissing) return []
    const expected = rules.simulate(opened.value, script)
    const definition = definitionOf(opened.value, script, failFast)
    return [{ id: String(entry['id']), plan: opened.value, definition, script, expected }]
  } catch (error) {
    if (error instanceof NotApplicable) return []
    throw error
  }
}

function definitionOf(plan: rules.WorkflowPlan, script: rules.WorkflowScript, failFast: FailFastMode) {
  const of = (role: string) =>
    plan.tasks
      .filter((task) => task.role === role)
      .map(({ id, needs, rule, kind, when, allowFailure, mapped, teardownOf }): Partial<WorkflowTask> => {
        const count = script.itemCounts?.[id] ?? null
        const items = Array.from({ length: count ?? 0 }, (_, item) => item)
        const forEach = { from: count === null ? { input: '/none' } : { items }, maxItems: 1_024 }
        return {
          id,
          job: 'work',
          needs: [...needs],
          rule,
          kind,
          allowFailure,
          ...(when === undefined ? {} : { when }),
          ...(teardownOf === undefined ? {} : { teardownOf: [teardownOf].flat() }),
          ...(mapped ? { forEach } : {}),
        }
      })
  return { tasks: of('main'), onFailure: of('on_failure'), finally: of('finally'), failFast }
}

const cases = files.flatMap((file) => file.cases.flatMap((entry) => played(entry, file.defaults.rule)))
let rig: WorkflowRig
beforeAll(async () => {
  rig = await openWorkflowRig()
})
afterAll(() => rig.close())

/** The state that all attempts of a run lead to. */
function endOf(run: ClaimedTask, script: rules.WorkflowScript): TerminalRunState {
  if (run.cancelRequested) return 'canceled'
  const own = script.outcomes?.[run.task] ?? ['ok']
  const outcomes = script.itemOutcomes?.[run.task]?.[run.item ?? -1] ?? own
  for (let made = 1; ; made++) {
    const outcome = outcomes[Math.min(made, outcomes.length) - 1] ?? 'ok'
    if (outcome === 'ok') return 'succeeded'
    if (outcome === 'skip') return 'skipped'
    if (outcome === 'cancel') return 'canceled'
    if (outcome === 'fail_final' || made > (script.retries?.[run.task] ?? 0)) return 'failed'
  }
}

function pick(
  held: readonly ClaimedTask[],
  script: rules.WorkflowScript,
  stopped: boolean,
  failFast: FailFastMode,
) {
  // where a failure ends what runs, every item runs still when the first one fails
  const isFirst = (run: ClaimedTask): boolean => run.item !== null && endOf(run, script) === 'failed'
  const first = failFast === 'cancel_running' ? held.find(isFirst) : undefined
  if (first !== undefined) return first
  const order = script.finishOrder ?? []
  const quick = held.filter(({ task }) => script.slow?.includes(task) !== true)
  const mayEnd = ({ task }: ClaimedTask): boolean => {
    const before = order.slice(0, Math.max(0, order.indexOf(task)))
    return !held.some((other) => before.includes(other.task))
  }
  return quick.find(mayEnd) ?? quick[0] ?? (stopped ? held[0] : undefined)
}

async function stop(id: string, cause: 'canceled' | 'timed_out' | 'failed_fast' | undefined): Promise<void> {
  if (cause === 'canceled') await rig.cancel(id)
  if (cause === 'timed_out') {
    await rig.fixture.database.sql(
      `UPDATE belfry.workflow_progress SET deadline = belfry.now() WHERE workflow_run_id = $1`,
      [id],
    )
  }
}

async function run({ definition, script, plan }: Played): Promise<string> {
  const id = await rig.begin(definition)
  let stopped = false
  for (;;) {
    await rig.resolver.runOnce()
    const held = await rig.claim()
    if (held.length === 0) return id
    const next = pick(held, script, stopped, plan.failFast)
    if (next === undefined) {
      stopped = true
      await stop(id, script.stop)
      continue
    }
    const chosen = script.chooses?.[next.task]
    // a short circuit that lets everything pass answers something, and nothing otherwise
    const isGate = plan.byId.get(next.task)?.kind === 'short_circuit'
    await rig.end(next, endOf(next, script), isGate ? chosen?.length !== 0 : chosen)
  }
}

describe('cases on the engine', () => {
  it('there are enough of them', () => {
    expect(cases.length).toBeGreaterThan(100)
  })

  it.each(cases)('$id', async (each) => {
    const id = await run(each)
    const { state, tasks } = await rig.standing(id)
    expect({ state, tasks }).toEqual({
      state: each.expected.run,
      tasks: rules.statesByTask(each.expected.progress),
    })
  })
})

/**
 * `belfry workflow simulate --batch`: a file of cases (graphs and the outcomes of their nodes), one JSON line
 * for each, in order, decided by the rules that the engine uses.
 *
 *     {"defaults": {"rule": "all_success"}, "cases": [{"id": "c1", "nodes": [{"id": "a"}, {"id": "b"}],
 *       "edges": [["a", "b"]], "scenario": {"outcomes": {"a": ["fail"]}}}]}
 *     → {"id":"c1","valid":true,"run":"failed","tasks":{"a":"failed","b":"upstream_failed"},"attempts":{…}}
 *
 * A case of several phases has `phases`, each with what stands after it. A graph that is refused has
 * `"valid":false` and its faults, one that asks for what Belfry does not do says so in `notApplicable`.
 */
import type * as Workflow from '@belfry/server/workflow'
import { UsageError } from '../exit-codes.ts'
import type { Stream } from '../io.ts'
import { toJsonLine } from '../output/structured.ts'
import type { Case, CaseGraph } from './workflow-case-graph.ts'
import { graphOf, isObject, listOf, NotApplicable, objectOf, textOf, textsOf } from './workflow-case-graph.ts'

type Rules = typeof Workflow

const defaultRule = 'none_failed_min_one_success'
/** Tasks of a matrix, at most: what systems that have one allow. */
const maxMatrix = 256
const linesPerWrite = 200

/** Writes one line a case. */
export function answerWorkflowBatch(text: string, rules: Rules, out: Stream): void {
  const file = fileOf(text)
  const rule = objectOf(file['defaults'])['rule']
  const lines: string[] = []
  const flush = (): void => {
    if (lines.length > 0) out.write(`${lines.splice(0).join('\n')}\n`)
  }
  for (const entry of listOf(file['cases'])) {
    lines.push(toJsonLine(lineOf(entry, rules, typeof rule === 'string' ? rule : defaultRule)))
    if (lines.length >= linesPerWrite) flush()
  }
  flush()
}

function fileOf(text: string): Case {
  const fault = (what: string): UsageError =>
    new UsageError(
      `--batch ${what}; the file is {"cases": [{"id": "c1", "nodes": [{"id": "a"}], "edges": []}, …]}`,
    )
  let file: unknown
  try {
    file = JSON.parse(text)
  } catch (cause) {
    throw fault(`is not valid JSON (${cause instanceof Error ? cause.message : 'unreadable'})`)
  }
  if (!isObject(file) || !Array.isArray(file['cases'])) throw fault('has no list "cases"')
  return file
}

function lineOf(entry: unknown, rules: Rules, rule: string): object {
  const id = isObject(entry) ? (entry['id'] ?? null) : null
  if (!isObject(entry)) return { id, notApplicable: 'a case is an object' }
  try {
    return { id, ...answerOf(entry, rules, rule) }
  } catch (error) {
    if (error instanceof NotApplicable) return { id, notApplicable: error.message }
    throw error
  }
}

function answerOf(entry: Case, rules: Rules, rule: string): object {
  if (listOf(entry['phases']).some((phase) => objectOf(phase)['action'] === 'start_run'))
    return playGroup(entry)
  const graph = graphOf(entry, rule)
  const scenario = objectOf(entry['scenario'])
  const opened = rules.openWorkflow(graph.shapes, failFastOf(entry, scenario))
  const errors = [...(opened.ok ? [] : opened.error), ...matrixFaults(graph)]
  if (!opened.ok || errors.length > 0) return { valid: false, errors }
  const plan = opened.value
  if (Array.isArray(entry['phases'])) return { valid: true, ...playPhases(entry, graph, plan, rules) }
  const targets = scenario['targets'] ?? entry['targets']
  const played = rules.simulate(
    plan,
    scriptOf(scenario, graph),
    Array.isArray(targets) ? textsOf(targets) : undefined,
  )
  return { valid: true, ...shown(played, plan, rules, played.attempts) }
}

const matrixFaults = ({ shapes, fixedCounts }: CaseGraph): Workflow.WorkflowFault[] =>
  Object.entries(fixedCounts).flatMap(([id, count]) => {
    const pointer = `/tasks/${shapes.findIndex((shape) => shape.id === id)}/matrix`
    const message = `makes ${count} tasks; a matrix makes ${maxMatrix} at most`
    return count > maxMatrix ? [{ code: 'too_many_tasks', pointer, message }] : []
  })

/** Where one failure stops the rest, what runs goes on in some systems and is ended in others. */
export function failFastOf(entry: Case, scenario: Case): 'off' | 'finish_running' | 'cancel_running' {
  if (scenario['fail_fast'] !== true && entry['fail_fast'] !== true) return 'off'
  return entry['system'] === 'argo' ? 'finish_running' : 'cancel_running'
}

export function scriptOf(scenario: Case, graph: CaseGraph): Workflow.WorkflowScript {
  const items = objectOf(scenario['items'])
  const stops = (['cancel', 'run_timeout'] as const).filter((name) => isObject(scenario[name]))
  const slow = [
    ...stops.flatMap((name) => textsOf(objectOf(scenario[name])['when_running'])),
    ...Object.values(objectOf(scenario['running_when'])).flatMap(textsOf),
  ]
  const counts = Object.entries(graph.sources).map(
    ([id, source]) => [id, Number(items[source] ?? 0)] as const,
  )
  const latest = graph.nodes
    .filter((node) => node['kind'] === 'latest_only')
    .map((node) => String(node['id']))
  const chosen = latest.map((id): [string, string[]] => [
    id,
    scenario['is_latest_run'] === false ? [] : childrenOf(graph, id),
  ])
  return {
    outcomes: outcomesIn(scenario['outcomes']),
    itemOutcomes: eachOf(scenario['item_outcomes'], outcomesIn),
    retries: Object.fromEntries(
      graph.nodes.map((node): [string, number] => [String(node['id']), Number(node['retries'] ?? 0)]),
    ),
    itemCounts: { ...graph.fixedCounts, ...Object.fromEntries(counts) },
    chooses: { ...Object.fromEntries(chosen), ...eachOf(scenario['chooses'], textsOf) },
    finishOrder: textsOf(scenario['finish_order']),
    slow,
    stop: stops.includes('cancel') ? 'canceled' : stops.includes('run_timeout') ? 'timed_out' : undefined,
  }
}

const eachOf = <Value>(value: unknown, of: (each: unknown) => Value): Record<string, Value> =>
  Object.fromEntries(Object.entries(objectOf(value)).map(([id, each]) => [id, of(each)]))

const attemptWords = ['ok', 'fail', 'fail_final', 'timeout', 'skip', 'cancel'] as const

/** Throws NotApplicable for an outcome that no attempt can have. */
const outcomesIn = (value: unknown): Record<string, readonly Workflow.AttemptScript[]> =>
  eachOf(value, (each) =>
    textsOf(each).map((word) => {
      const known = attemptWords.find((attempt) => attempt === word)
      if (known === undefined) throw new NotApplicable(`attempts do not end as "${word}" here`)
      return known
    }),
  )

const childrenOf = ({ shapes }: CaseGraph, id: string): string[] =>
  shapes.filter((shape) => shape.needs.includes(id)).map((shape) => shape.id)

/** The phases of one run: it starts, parts of it run again, tasks are marked by hand. */
function playPhases(entry: Case, graph: CaseGraph, plan: Workflow.WorkflowPlan, rules: Rules): object {
  const attempts = new Map<string, number>()
  const phases: object[] = []
  let progress = rules.createProgress(plan)
  for (const phase of listOf(entry['phases']).map(objectOf)) {
    const script = scriptOf({ ...objectOf(entry['scenario']), ...phase }, graph)
    const begun = beginPhase(phase, progress, rules)
    const played = rules.play(begun.progress, begun.commands, script)
    progress = played.progress
    for (const [id, made] of played.attempts) attempts.set(id, (attempts.get(id) ?? 0) + made)
    phases.push({ ...shown(played, plan, rules, attempts), executed: executed(played.attempts) })
  }
  return { ...phases.at(-1), phases }
}

const executed = (attempts: ReadonlyMap<string, number>): string[] =>
  [...attempts].filter(([, made]) => made > 0).map(([id]) => id)

function beginPhase(
  phase: Case,
  progress: Workflow.WorkflowProgress,
  rules: Rules,
): { progress: Workflow.WorkflowProgress; commands: Workflow.WorkflowCommand[] } {
  const select = objectOf(phase['select'])
  switch (phase['action']) {
    case 'start':
      return { progress, commands: rules.beginWorkflow(progress) }
    case 'restart':
      return rules.rerunWorkflow(progress, { what: 'all' })
    case 'rerun': {
      if (select['only_failed'] === true) return rules.rerunWorkflow(progress, { what: 'failed' })
      const tasks = textsOf(select['nodes'])
      const what = select['include_downstream'] === false ? 'only' : 'from'
      return rules.rerunWorkflow(progress, { what, tasks })
    }
    case 'mark': {
      const node = textOf(phase['node'], textsOf(phase['nodes'])[0] ?? textsOf(select['nodes'])[0] ?? '')
      const state = textOf(phase['state'], textOf(phase['as'], 'success'))
      const marks = { success: 'succeeded', failed: 'failed', skipped: 'skipped' } as const
      return rules.markTask(progress, node, marks[state as keyof typeof marks] ?? 'succeeded')
    }
    default:
      throw new NotApplicable(`the action "${textOf(phase['action'], '')}" is not known here`)
  }
}

/** Runs of one concurrency group, of which one is at work at a time. */
function playGroup(entry: Case): object {
  const states = new Map<string, string>()
  const phases = listOf(entry['phases']).map((each) => {
    const phase = objectOf(each)
    const run = textOf(phase['run'], '')
    const active = [...states].filter(([, state]) => state === 'running' || state === 'pending')
    const replaces = phase['cancel_in_progress'] === true
    for (const [other] of replaces ? active : []) states.set(other, 'canceled')
    states.set(run, active.length > 0 && !replaces ? 'pending' : 'running')
    return { runs: Object.fromEntries(states) }
  })
  return { valid: true, phases }
}

function shown(
  played: Workflow.Simulated,
  plan: Workflow.WorkflowPlan,
  rules: Rules,
  attempts: ReadonlyMap<string, number>,
): object {
  return {
    run: played.run,
    tasks: rules.statesByTask(played.progress),
    attempts: Object.fromEntries(plan.tasks.map(({ id }) => [id, attempts.get(id) ?? 0])),
  }
}

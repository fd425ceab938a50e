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
import { maxMatrixTasks } from '@belfry/contract'
import type * as Workflow from '@belfry/server/workflow'
import { UsageError } from '../exit-codes.ts'
import type { Stream } from '../io.ts'
import { toJsonLine } from '../output/structured.ts'
import { type CaseDefaults, type CaseGraph, graphOf, timeoutFields } from './workflow-case-graph.ts'
import { playPhases, shown, targetsOf } from './workflow-case-phases.ts'
import { isOfRuns, playRuns } from './workflow-case-runs.ts'
import { failFastOf, maxItemsOf, scenarioFields, scriptOf } from './workflow-case-script.ts'
import {
  type Case,
  isObject,
  listOf,
  NotApplicable,
  objectIn,
  objectOf,
  onlyKnown,
  own,
  textOf,
  fieldsOf,
} from './workflow-case-words.ts'

type Rules = typeof Workflow

const usualRule = 'none_failed_min_one_success'
const linesPerWrite = 200
const caseFields = new Set(
  fieldsOf(`id nodes edges generate scenario phases targets fail_fast any_of defaults concurrency
    version`),
)

/** Writes one line a case. */
export function answerWorkflowBatch(text: string, rules: Rules, out: Stream): void {
  const file = fileOf(text)
  const lines: string[] = []
  const flush = (): void => {
    if (lines.length > 0) out.write(`${lines.splice(0).join('\n')}\n`)
  }
  for (const entry of listOf(file['cases'])) {
    lines.push(toJsonLine(lineOf(entry, rules, objectOf(file['defaults']))))
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

/** Whatever a case is, it has its line: the others go on. */
function lineOf(entry: unknown, rules: Rules, defaults: Case): object {
  const id = isObject(entry) ? (entry['id'] ?? null) : null
  if (!isObject(entry)) return { id, notApplicable: 'a case is an object' }
  try {
    return { id, ...answerOf(entry, rules, { ...defaults, ...objectOf(entry['defaults']) }) }
  } catch (error) {
    if (error instanceof NotApplicable) return { id, notApplicable: error.message }
    // nested too deeply to be walked
    if (error instanceof RangeError) return { id, notApplicable: `it cannot be played (${error.message})` }
    throw error
  }
}

function answerOf(entry: Case, rules: Rules, given: Case): object {
  for (const [field, value] of Object.entries(entry)) {
    // a field in prose is a remark, unless it seems to say how the case is played
    if (typeof value !== 'string' || /rule|mode|policy|strategy|default|fail|kind/.test(field))
      onlyKnown({ [field]: value }, caseFields, 'the case')
  }
  if (isOfRuns(entry)) return playRuns(entry)
  const whole = withDefaults(entry, given)
  const defaults = { rule: textOf(given['rule'], usualRule), kind: textOf(given['kind'], 'task') }
  const scenario = objectIn(entry, 'scenario')
  onlyKnown(scenario, scenarioFields, 'the scenario')
  if (Array.isArray(entry['phases']) && entry['phases'].length > 0) return playPhases(whole, defaults, rules)
  return playOne(whole, scenario, defaults, rules)
}

/** Fields that each node has unless it says otherwise. */
function withDefaults(entry: Case, given: Case): Case {
  const common = Object.fromEntries(
    ['retries', 'allow_failure'].flatMap((field) => (given[field] ? [[field, given[field]]] : [])),
  )
  if (Object.keys(common).length === 0 || !Array.isArray(entry['nodes'])) return entry
  const nodes = entry['nodes'].map((node: unknown) => (isObject(node) ? { ...common, ...node } : node))
  return { ...entry, nodes }
}

function playOne(entry: Case, scenario: Case, defaults: CaseDefaults, rules: Rules): object {
  const graph = graphOf(entry, defaults)
  const opened = rules.openWorkflow(graph.shapes, failFastOf(entry, scenario))
  const targets = targetsOf(scenario['targets'] ?? entry['targets'])
  const errors = [...(opened.ok ? targetFaults(opened.value, targets) : opened.error), ...fieldFaults(graph)]
  if (!opened.ok || errors.length > 0) return { valid: false, errors }
  const plan = opened.value
  const played = rules.simulate(plan, scriptOf(scenario, graph), targets)
  return { valid: true, ...shown(played, plan, rules, played.attempts) }
}

const targetFaults = (
  { byId }: Workflow.WorkflowPlan,
  targets: readonly string[] | undefined,
): Workflow.WorkflowFault[] =>
  (targets ?? []).flatMap((id, place) => {
    const message = `there is no task "${id}" in this workflow`
    return byId.has(id) ? [] : [{ code: 'unknown_task', pointer: `/targets/${place}`, message }]
  })

interface FieldFault extends Omit<Workflow.WorkflowFault, 'code'> {
  readonly code: Workflow.WorkflowFault['code'] | 'invalid_value'
}

/** What a definition is refused for by single fields, in the fields of a case. */
function fieldFaults({ nodes, fixedCounts }: CaseGraph): FieldFault[] {
  return nodes.flatMap(({ id, kind, form }, index): FieldFault[] => {
    const faults: FieldFault[] = []
    const fault = (code: FieldFault['code'], field: string, message: string): void => {
      faults.push({ code, pointer: `/tasks/${index}/${field}`, message })
    }
    const isBelow = (value: unknown, least: number): boolean => typeof value === 'number' && value < least
    if (isBelow(form['retries'], 0)) fault('invalid_value', 'retry', 'is below 0; write 0 for one attempt')
    if (timeoutFields.some((field) => form[field] === 0 || isBelow(form[field], 0)))
      fault('invalid_value', 'attemptTimeoutMs', 'is no time; write more than 0, or leave it out')
    const count = own(fixedCounts, id)
    if (count === undefined) return faults
    if (kind === 'matrix') {
      if (count === 0) fault('no_items', 'matrix', 'has an axis without values; give it some')
      if (count > maxMatrixTasks)
        fault('too_many_tasks', 'matrix', `makes ${count} tasks; a matrix makes ${maxMatrixTasks} at most`)
      return faults
    }
    const most = maxItemsOf(form)
    if (count > most) fault('too_many_items', 'forEach', `has ${count} items; maxItems allows ${most}`)
    return faults
  })
}

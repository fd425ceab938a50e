/**
 * Cases of several phases (workflow-cases.ts): one run that starts, of which parts run again, whose tasks are
 * set by hand, or that moves to a newer version of its graph; with what stands after each phase.
 */
import type * as Workflow from '@belfry/server/workflow'
import { type CaseDefaults, type CaseGraph, graphOf } from './workflow-case-graph.ts'
import { failFastOf, scenarioFields, scriptOf } from './workflow-case-script.ts'
import {
  type Case,
  listOf,
  NotApplicable,
  objectIn,
  objectOf,
  onlyKnown,
  textIn,
  textOf,
  textsOf,
  fieldsOf,
} from './workflow-case-words.ts'

type Rules = typeof Workflow
type Progress = Workflow.WorkflowProgress

interface Played {
  readonly graph: CaseGraph
  readonly plan: Workflow.WorkflowPlan
  readonly progress: Progress
}

const graphFields = ['nodes', 'edges', 'generate']
/** Who acts, why and with what input plays no part in what follows. */
const phaseFields = new Set([
  ...scenarioFields,
  ...graphFields,
  ...fieldsOf(`action select node nodes include_downstream include_upstream state as to
    definition definition_version version by input
    params parameters payload reason any_of name`),
])
const selectFields = new Set(
  fieldsOf('only_failed restart_successful include_downstream include_upstream nodes node from all states'),
)
/** What a later phase says nothing of stays as it was said; how attempts end is said anew. */
const lasting = ['items', 'chooses', 'is_latest_run', 'short_circuit', 'returns', 'conditions', 'passes']

const actions: Readonly<Record<string, 'start' | 'failed' | 'all' | 'mark' | 'edit'>> = {
  start: 'start',
  run: 'start',
  rerun: 'all',
  rerun_all: 'all',
  restart: 'all',
  replay: 'all',
  clear: 'all',
  rerun_job: 'all',
  rerun_all_jobs: 'all',
  rerun_failed: 'failed',
  rerun_failed_jobs: 'failed',
  clear_failed: 'failed',
  retry: 'failed',
  resume: 'failed',
  rerun_from: 'all',
  mark: 'mark',
  mark_success: 'mark',
  mark_failed: 'mark',
  mark_skipped: 'mark',
  set_state: 'mark',
  skip: 'mark',
  edit: 'edit',
  edit_definition: 'edit',
  change_definition: 'edit',
  new_version: 'edit',
  update: 'edit',
}

export function playPhases(entry: Case, defaults: CaseDefaults, rules: Rules): object {
  const attempts = new Map<string, number>()
  const phases: object[] = []
  let said = objectIn(entry, 'scenario')
  let newest: Case = entry
  let now: Played | undefined
  for (const [index, each] of listOf(entry['phases']).entries()) {
    const phase = objectIn({ phase: each }, 'phase')
    onlyKnown(phase, phaseFields, `phase ${index + 1}`)
    const action = actionOf(phase, index)
    newest = graphAfter(newest, phase, action)
    if (action === 'edit') {
      phases.push(phases.at(-1) ?? {})
      continue
    }
    said = {
      ...said,
      ...Object.fromEntries(lasting.flatMap((field) => (field in phase ? [[field, phase[field]]] : []))),
    }
    const opened = now === undefined || wantsNewest(phase) ? open(newest, said, phase, defaults, rules) : now
    if ('errors' in opened) return { valid: false, errors: opened.errors }
    const standing: Played = now === undefined ? opened : { ...opened, progress: movedTo(opened, now, rules) }
    const begun = begin(action, phase, standing, rules)
    const played = rules.play(begun.progress, begun.commands, scriptOf({ ...said, ...phase }, standing.graph))
    now = { ...standing, progress: played.progress }
    for (const [id, made] of played.attempts) attempts.set(id, (attempts.get(id) ?? 0) + made)
    const executed = [...played.attempts].filter(([, made]) => made > 0).map(([id]) => id)
    phases.push({ ...shown(played, standing.plan, rules, attempts), executed })
  }
  return { valid: true, ...phases.at(-1), phases }
}

function actionOf(phase: Case, index: number): 'start' | 'failed' | 'all' | 'mark' | 'edit' {
  const word = textIn(phase, ['action'], index === 0 ? 'start' : '')
  const action = Object.hasOwn(actions, word) ? actions[word] : undefined
  if (action === undefined || (index === 0 && action !== 'start'))
    throw new NotApplicable(`the action "${word}" is not known here`)
  return action
}

/** A phase may say the graph anew: as `definition`, or field by field. `nodes` of a mark are other nodes. */
function graphAfter(before: Case, phase: Case, action: string): Case {
  const given = objectOf(phase['definition'])
  const fields = action === 'edit' || action === 'start' ? graphFields : []
  const own = Object.fromEntries(fields.flatMap((field) => (field in phase ? [[field, phase[field]]] : [])))
  const next = { ...given, ...own }
  return Object.keys(next).length === 0 ? before : { system: before['system'], edges: [], ...next }
}

const wantsNewest = (phase: Case): boolean =>
  phase['definition'] !== undefined ||
  ['newest', 'latest', 'new'].includes(textOf(phase['definition_version'] ?? phase['version'], ''))

function open(
  graphCase: Case,
  said: Case,
  phase: Case,
  defaults: CaseDefaults,
  rules: Rules,
): Played | { readonly errors: readonly Workflow.WorkflowFault[] } {
  const graph = graphOf(graphCase, defaults)
  const opened = rules.openWorkflow(graph.shapes, failFastOf(graphCase, { ...said, ...phase }))
  if (!opened.ok) return { errors: opened.error }
  return { graph, plan: opened.value, progress: rules.createProgress(opened.value) }
}

/** What the tasks came to in the version before goes along, by their names. */
function movedTo(to: Played, from: Played, rules: Rules): Progress {
  if (to.plan === from.plan) return from.progress
  const { states, items } = rules.carryOver(from.plan, to.plan, {
    ...from.progress,
    launched: new Map(),
    notes: {},
  })
  return rules.restoreProgress(to.plan, {
    states: [...states],
    items: new Map(items),
    turn: null,
    stop: null,
  })
}

function begin(
  action: 'start' | 'failed' | 'all' | 'mark',
  phase: Case,
  { progress, plan }: Played,
  rules: Rules,
): { readonly progress: Progress; readonly commands: readonly Workflow.WorkflowCommand[] } {
  if (action === 'start') {
    const targets = targetsOf(phase['targets'])
    return { progress, commands: rules.beginWorkflow(progress, targets === undefined ? {} : { targets }) }
  }
  const select = { ...reachOf(phase), ...objectIn(phase, 'select') }
  onlyKnown(select, selectFields, 'the selection')
  const named = textsOf(
    select['nodes'] ?? select['node'] ?? select['from'] ?? phase['nodes'] ?? phase['node'],
  )
  const stray = named.find((name) => !plan.byId.has(name))
  if (stray !== undefined) throw new NotApplicable(`the selection names "${stray}", which is no node`)
  if (action === 'mark' && (select['include_downstream'] === true || select['include_upstream'] === true))
    throw new NotApplicable('a mark sets the tasks that it names, and no others')
  return action === 'mark'
    ? rules.markTasks(progress, named, stateToSet(phase))
    : rules.rerunWorkflow(progress, selectionOf(action, select, named, progress, rules))
}

const reachOf = (phase: Case): Case =>
  Object.fromEntries(
    ['include_downstream', 'include_upstream'].flatMap((field) =>
      phase[field] === undefined ? [] : [[field, phase[field]]],
    ),
  )

export const targetsOf = (value: unknown): readonly string[] | undefined => {
  const names = (typeof value === 'string' ? value.split(/[\s,]+/) : textsOf(value)).filter(
    (name) => name !== '',
  )
  return names.length === 0 ? undefined : names
}

function stateToSet(phase: Case): 'succeeded' | 'failed' | 'skipped' {
  const word = textOf(phase['state'] ?? phase['as'] ?? phase['to'], textOf(phase['action'], ''))
  const state = (['succeeded', 'failed', 'skipped'] as const).find((each) => {
    return [each, `mark_${each}`, each.slice(0, 4), each === 'succeeded' ? 'mark_success' : ''].includes(word)
  })
  if (state !== undefined) return state
  if (word === 'success' || word === 'mark' || word === 'set_state') return 'succeeded'
  throw new NotApplicable(`tasks are not set to "${word}" here`)
}

function selectionOf(
  action: 'failed' | 'all',
  select: Case,
  named: readonly string[],
  progress: Progress,
  rules: Rules,
): Workflow.RerunSelection {
  const { plan, states } = progress
  const below = select['include_downstream'] !== false
  const onlyFailed = select['only_failed'] === true || select['states'] !== undefined
  if (select['states'] !== undefined && !textsOf(select['states']).includes('failed'))
    throw new NotApplicable('only what failed can be selected by its state here')
  if (named.length === 0) {
    if (!onlyFailed && action === 'all') return { what: 'all' }
    if (below) return { what: 'failed' }
    const failed = plan.tasks.filter(({ index }) => states[index] === 'failed').map(({ id }) => id)
    return { what: 'only', tasks: failed }
  }
  const also = select['restart_successful'] === true
  const wrong = also ? [...rules.tasksToReset(progress, { what: 'failed' })] : []
  const indexes = [...wrong, ...named.flatMap((id) => plan.byId.get(id)?.index ?? [])]
  const above = select['include_upstream'] === true ? [...rules.reachable(plan, indexes, 'parents')] : indexes
  // what failed among them, and among what follows if that is meant too
  const among = onlyFailed && !also && below ? [...rules.reachable(plan, above, 'children')] : above
  const isWrong = (index: number): boolean =>
    ['failed', 'upstream_failed', 'canceled'].includes(states[index] ?? '')
  const chosen = onlyFailed && !also ? among.filter(isWrong) : among
  const tasks = chosen.flatMap((index) => plan.tasks[index]?.id ?? [])
  return { what: below ? 'from' : 'only', tasks }
}

/** What stands after a play, in Belfry's words. */
export function shown(
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

/**
 * The graph of a case (workflow-cases.ts) in Belfry's words: tasks, edges, rules. A case speaks of nodes and
 * of the kinds of other systems; what Belfry does not have is named, and the case does not apply.
 */
import type { TriggerRule } from '@belfry/contract'
import type { TaskShape } from '@belfry/server/workflow'
import { conditionFields, conditionOf, literalOf, namesIn } from './workflow-case-condition.ts'
import { generatedGraph } from './workflow-case-generate.ts'
import {
  type Case,
  firstOf,
  isObject,
  listOf,
  NotApplicable,
  objectOf,
  onlyKnown,
  own,
  ruleOf,
  textIn,
  textOf,
  textsOf,
  wholeOf,
  fieldsOf,
} from './workflow-case-words.ts'

export { type Case, NotApplicable } from './workflow-case-words.ts'

export interface CaseNode {
  readonly id: string
  readonly kind: string
  readonly form: Case
}

export interface CaseGraph {
  readonly shapes: readonly TaskShape[]
  readonly nodes: readonly CaseNode[]
  /** Which nodes give a mapped one its items; with several, it runs for each combination. */
  readonly sources: Readonly<Record<string, readonly string[]>>
  /** Of nodes that are a fixed number of tasks. */
  readonly fixedCounts: Readonly<Record<string, number>>
}

export interface CaseDefaults {
  readonly rule: string
  readonly kind?: string
}

const kindGroups: Readonly<Record<string, readonly string[]>> = {
  task: [
    ...fieldsOf(`task http job step function script shell container lambda sensor sleep wait timer signal
    event approval suspend dummy empty noop pass reduce join watcher workflow flow subflow sub_dag
    subworkflow sub_workflow child_workflow trigger`),
  ],
  setup: ['setup'],
  teardown: ['teardown'],
  mapped: ['mapped', 'map', 'for_each', 'foreach', 'fan_out'],
  matrix: ['matrix'],
  branch: ['branch', 'switch', 'choice'],
  latest_only: ['latest_only'],
  short_circuit: ['short_circuit', 'gate'],
  failure_handler: fieldsOf(`failure_handler on_failure error_handler failure_hook failure_callback
    failure_function on_error errors`),
  exit_handler: ['exit_handler', 'on_exit', 'exit_hook', 'finally', 'after_execution'],
}
const kindOfWord = new Map(
  Object.entries(kindGroups).flatMap(([kind, words]) => words.map((word) => [word, kind] as const)),
)
const isHandler = (kind: string): boolean => kind === 'failure_handler' || kind === 'exit_handler'

const parentFields = ['needs', 'depends_on', 'dependencies', 'upstream', 'parents']
const allowFields = ['allow_failure', 'continue_on', 'continue_on_error', 'continue_on_failure']
/** How long a node may take: it has to be a time, but outcomes are given. */
export const timeoutFields = fieldsOf('timeout timeout_s timeout_ms execution_timeout')
/** Of nodes that run for each item of something. */
const listFields = fieldsOf('over count items max_items axes matrix')
const nodeFields = new Set([
  ...listFields,
  ...fieldsOf(`id name kind rule trigger_rule retries depends ignore_downstream_trigger_rules group fail_fast
    teardown_of setups`),
  ...conditionFields,
  ...parentFields,
  ...allowFields,
  ...timeoutFields,
  // these say how long or where it runs, not what comes of it: outcomes are given
  ...fieldsOf(`retry_delay retry_delay_s priority priority_weight weight pool queue concurrency max_parallel
    max_active_tis_per_dag max_active_tis_per_dagrun on_failure_fail_dagrun soft_fail command image url`),
])

/** Throws NotApplicable. A node that is unknown in an edge stays there: the check of the shape names it. */
export function graphOf(entry: Case, defaults: CaseDefaults | string): CaseGraph {
  const { rule: defaultRule, kind: defaultKind } =
    typeof defaults === 'string' ? { rule: defaults, kind: undefined } : defaults
  const generated = isObject(entry['generate']) ? generatedGraph(entry['generate']) : { ids: [], edges: [] }
  if (!isObject(entry['nodes']) && !Array.isArray(entry['nodes']) && !isObject(entry['generate']))
    throw new NotApplicable('the case has no nodes')
  const nodes = allNodes(generated.ids, saidOf(entry), defaultKind ?? 'task')
  const byId = new Map(nodes.map((node) => [node.id, node]))
  const edges = [...generated.edges, ...edgesOf(entry['edges'], nodes), ...nodes.flatMap(edgesInto)]
  const needs = new Map<string, Set<string>>()
  for (const [parent, child] of edges) {
    const its = needs.get(child)
    if (its === undefined) needs.set(child, new Set([parent]))
    else its.add(parent)
  }
  const shapes = nodes.map((node) => shapeOf(node, [...(needs.get(node.id) ?? [])], byId, defaultRule))
  const strays = [...needs.keys()].filter((child) => !byId.has(child))
  return {
    nodes,
    // an edge into nowhere is told like one from nowhere
    shapes:
      strays.length === 0
        ? shapes
        : shapes.map((shape, at) => (at > 0 ? shape : { ...shape, needs: [...shape.needs, ...strays] })),
    sources: Object.fromEntries(
      nodes.flatMap((node) => (hasItems(node) ? [[node.id, sourcesOf(node)]] : [])),
    ),
    fixedCounts: Object.fromEntries(nodes.flatMap(fixedCount)),
  }
}

/** What a case says of single nodes; of the join of a generated fan it may say the rule there. */
function saidOf(entry: Case): unknown {
  const { join, join_rule: rule } = objectOf(entry['generate'])
  return rule === undefined ? entry['nodes'] : [{ id: join, rule }, ...listOf(entry['nodes'])]
}

/** Those that are generated, with what the case says of some of them, and the ones that it lists. */
function allNodes(ids: readonly string[], listed: unknown, defaultKind: string): readonly CaseNode[] {
  const forms = isObject(listed)
    ? Object.entries(listed).map(([id, form]): Case => ({ id, ...objectOf(form) }))
    : listOf(listed).map((form): Case => (isObject(form) ? form : { id: form }))
  const made = new Set(ids)
  const said = new Map(forms.flatMap((form) => (made.has(idOf(form)) ? [[idOf(form), form] as const] : [])))
  return [
    ...ids.map((id): Case => said.get(id) ?? { id }),
    ...forms.filter((form) => !made.has(idOf(form))),
  ].map((form): CaseNode => {
    const id = idOf(form)
    onlyKnown(form, nodeFields, `node "${id}"`)
    const word = textIn(form, ['kind'], defaultKind)
    const kind = kindOfWord.get(word)
    if (kind === undefined) throw new NotApplicable(`nodes of the kind "${word}" are not known here`)
    const stray =
      kind === 'mapped' || kind === 'matrix' ? undefined : listFields.find((field) => field in form)
    if (stray !== undefined) throw new NotApplicable(`"${stray}" of "${id}", a ${word}, is not known here`)
    return { id, kind, form }
  })
}

function idOf(form: Case): string {
  const [id] = textsOf(form['id'] ?? form['name'])
  if (id === undefined) throw new NotApplicable('a node has no id')
  return id
}

const wrongEdge = (edge: unknown): NotApplicable =>
  new NotApplicable(`an edge is a pair of nodes, not ${JSON.stringify(edge)}`)

/** An edge from or to a group stands for edges from its last and to its first members. */
function edgesOf(listed: unknown, nodes: readonly CaseNode[]): (readonly [string, string])[] {
  if (listed !== undefined && !Array.isArray(listed)) throw wrongEdge(listed)
  const pairs = listOf(listed).flatMap((edge): (readonly [string, string])[] => {
    const [from, to] = isObject(edge) ? [edge['from'], edge['to']] : listOf(edge)
    if (isObject(edge)) onlyKnown(edge, new Set(['from', 'to']), 'an edge')
    const ends = [textsOf(from), textsOf(to)] as const
    if (ends.some((names) => names.length === 0) || listOf(edge).length > 2) throw wrongEdge(edge)
    return ends[0].flatMap((parent) => ends[1].map((child) => [parent, child] as const))
  })
  const ids = new Set(nodes.map(({ id }) => id))
  const groups = Map.groupBy(
    nodes.filter(({ form }) => typeof form['group'] === 'string'),
    ({ form }) => textOf(form['group'], ''),
  )
  const membersOf = (name: string, end: 0 | 1): readonly string[] => {
    const members = ids.has(name) ? undefined : groups.get(name)
    if (members === undefined) return [name]
    const inside = new Set(members.map(({ id }) => id))
    const bound = new Set(
      pairs.flatMap((pair) => (inside.has(pair[0]) && inside.has(pair[1]) ? pair[end] : [])),
    )
    return members.filter(({ id, kind }) => !bound.has(id) && kind !== 'teardown').map(({ id }) => id)
  }
  return pairs.flatMap(([parent, child]) =>
    membersOf(parent, 0).flatMap((from) => membersOf(child, 1).map((to) => [from, to] as const)),
  )
}

/** Edges that a node names itself: what it needs, what its condition looks at, what gives it its items. */
function edgesInto({ id, kind, form }: CaseNode): (readonly [string, string])[] {
  const parents = [
    ...parentFields.flatMap((field) => textsOf(form[field])),
    ...(form['depends'] === undefined ? [] : namesIn(form['depends'])),
    ...(kind === 'mapped' || kind === 'matrix' ? sourcesOf({ id, kind, form }) : []),
    ...textsOf(form['teardown_of'] ?? form['setups']),
  ]
  return parents.map((parent) => [parent, id])
}

const hasItems = ({ kind }: CaseNode): boolean => kind === 'mapped' || kind === 'matrix'

/** Names of nodes; a list of other values is the list itself (`fixedCount`). */
function sourcesOf({ form }: CaseNode): readonly string[] {
  const { over } = form
  if (typeof over === 'string') return [over]
  return Array.isArray(over) && over.length > 0 && over.every((each) => typeof each === 'string') ? over : []
}

function fixedCount(node: CaseNode): [string, number][] {
  if (!hasItems(node)) return []
  const { form, id } = node
  const axes = form['axes'] ?? form['matrix']
  const given = form['count'] ?? form['items']
  if (isObject(axes)) {
    if (Object.keys(axes).length === 0) return [[id, 0]]
    const sizes = Object.values(axes).map((axis) => (Array.isArray(axis) ? axis.length : undefined))
    if (sizes.includes(undefined))
      throw new NotApplicable(`the matrix of "${id}" has an axis that is no list`)
    return [[id, sizes.reduce<number>((product, size) => product * (size ?? 0), 1)]]
  }
  if (Array.isArray(given)) return [[id, given.length]]
  if (given !== undefined) return [[id, wholeOf(given, 0, `the count of "${id}"`)]]
  const { over } = form
  return Array.isArray(over) && sourcesOf(node).length === 0 ? [[id, over.length]] : []
}

function shapeOf(
  node: CaseNode,
  parents: readonly string[],
  byId: ReadonlyMap<string, CaseNode>,
  defaultRule: string,
): TaskShape {
  const { id, form } = node
  const isMain = (parent: string): boolean => !isHandler(byId.get(parent)?.kind ?? 'task')
  // a handler that names what it handles is one of the tasks, one that names nothing looks at the whole run
  const kind = node.kind === 'failure_handler' && parents.some(isMain) ? 'task' : node.kind
  const handles = kind !== node.kind
  const needs = kind === 'exit_handler' ? parents.filter((parent) => !isMain(parent)) : parents
  const literal = literalOf(id, form)
  const rule = literal.rule ?? textIn(form, ['rule', 'trigger_rule'], handles ? 'one_failed' : defaultRule)
  const setups = kind === 'teardown' ? needs.filter((parent) => byId.get(parent)?.kind === 'setup') : []
  const depends = form['depends']
  return {
    id,
    role: kind === 'failure_handler' ? 'on_failure' : kind === 'exit_handler' ? 'finally' : 'main',
    needs,
    rule: (depends !== undefined || kind === 'teardown' ? 'all_done' : ruleOf(rule)) as TriggerRule,
    kind: behaviourOf(kind, form),
    when: literal.when ?? (depends === undefined ? undefined : conditionOf(depends)),
    allowFailure: allowsFailure(form),
    mapped: hasItems(node),
    ...(setups.length === 0 ? {} : { teardownOf: setups }),
  }
}

/** A short circuit that heeds the rules below it skips its own children only: it is a branch. */
function behaviourOf(kind: string, form: Case): TaskShape['kind'] {
  if (kind === 'branch' || kind === 'latest_only') return 'branch'
  if (kind !== 'short_circuit') return 'task'
  return form['ignore_downstream_trigger_rules'] === false ? 'branch' : 'short_circuit'
}

function allowsFailure(form: Case): boolean {
  const given = firstOf(form, allowFields)
  if (given === undefined || typeof given === 'boolean') return given === true
  if (isObject(given)) {
    onlyKnown(given, new Set(['failed', 'error']), 'allow_failure')
    return own(given, 'failed') === true || own(given, 'error') === true
  }
  throw new NotApplicable(`allow_failure is ${JSON.stringify(given)}, which is not known here`)
}

/**
 * The graph of a case (workflow-cases.ts) in Belfry's words: tasks, edges, rules. A case speaks of nodes and
 * of the rules of other systems; what Belfry does not have is named, and the case does not apply.
 */
import type { Condition, TaskState, TriggerRule } from '@belfry/contract'
import type { TaskShape } from '@belfry/server/workflow'

export type Case = Readonly<Record<string, unknown>>

/** A case that asks for what Belfry does not do. */
export class NotApplicable extends Error {}

export const isObject = (value: unknown): value is Case =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
export const objectOf = (value: unknown): Case => (isObject(value) ? value : {})
export const listOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : [])
export const textOf = (value: unknown, otherwise: string): string =>
  typeof value === 'string' ? value : otherwise
export const textsOf = (value: unknown): string[] => listOf(value).filter((each) => typeof each === 'string')

/** States of a case, in Belfry's words. */
const stateWords: Readonly<Record<string, TaskState>> = {
  success: 'succeeded',
  succeeded: 'succeeded',
  failed: 'failed',
  skipped: 'skipped',
  upstream_failed: 'upstream_failed',
  cancelled: 'canceled',
  canceled: 'canceled',
  not_run: 'not_run',
}

const ruleWords: Readonly<Record<string, string>> = { all_success: 'all_succeeded' }

const roles = { failure_handler: 'on_failure', exit_handler: 'finally' } as const
const plainKinds = new Set(['task', 'http', 'setup', 'teardown', 'mapped', 'matrix', 'latest_only'])

export interface CaseGraph {
  readonly shapes: readonly TaskShape[]
  /** Of nodes that are a fixed number of tasks. */
  readonly fixedCounts: Readonly<Record<string, number>>
  /** Which node gives a mapped one its items. */
  readonly sources: Readonly<Record<string, string>>
  readonly nodes: readonly Case[]
}

/** Throws NotApplicable. A node that is unknown in an edge stays there: the check of the shape names it. */
export function graphOf(entry: Case, defaultRule: string): CaseGraph {
  const generated = generate(objectOf(entry['generate']))
  const nodes = [...generated.nodes, ...listOf(entry['nodes']).map(objectOf)]
  const edges = [...generated.edges, ...listOf(entry['edges']).map(textsOf)]
  const kinds = new Map(nodes.map((node) => [String(node['id']), kindOf(node)]))
  const needs = new Map<string, string[]>()
  for (const [parent = '', child = ''] of edges) needs.set(child, [...(needs.get(child) ?? []), parent])
  const shapes = nodes.map((node) => shapeOf(node, needs.get(String(node['id'])) ?? [], kinds, defaultRule))
  const unknown = [...needs.keys()].filter((child) => !kinds.has(child))
  return {
    nodes,
    // an edge into nowhere is told like one from nowhere
    shapes:
      unknown.length === 0
        ? shapes
        : shapes.map((shape, at) => (at > 0 ? shape : { ...shape, needs: [...shape.needs, ...unknown] })),
    fixedCounts: Object.fromEntries(
      nodes.flatMap((node) =>
        typeof node['count'] === 'number' ? [[String(node['id']), node['count']]] : [],
      ),
    ),
    sources: Object.fromEntries(
      nodes.flatMap((node) => (typeof node['over'] === 'string' ? [[String(node['id']), node['over']]] : [])),
    ),
  }
}

const kindOf = (node: Case): string => (typeof node['kind'] === 'string' ? node['kind'] : 'task')

function shapeOf(
  node: Case,
  needs: readonly string[],
  kinds: ReadonlyMap<string, string>,
  defaultRule: string,
): TaskShape {
  const kind = kindOf(node)
  const known = plainKinds.has(kind) || kind === 'branch' || kind === 'short_circuit' || kind in roles
  if (!known) throw new NotApplicable(`nodes of the kind "${kind}" are not known here`)
  const depends = node['depends']
  const rule = textOf(node['rule'], defaultRule)
  const setup = kind === 'teardown' ? needs.find((parent) => kinds.get(parent) === 'setup') : undefined
  return {
    id: String(node['id']),
    role: kind in roles ? roles[kind as keyof typeof roles] : 'main',
    needs,
    rule: (depends === undefined ? (ruleWords[rule] ?? rule) : 'all_done') as TriggerRule,
    kind: kind === 'branch' || kind === 'latest_only' ? 'branch' : kind === 'short_circuit' ? kind : 'task',
    when: depends === undefined ? undefined : conditionOf(depends),
    allowFailure: node['allow_failure'] === true,
    mapped: kind === 'mapped' || kind === 'matrix',
    ...(setup === undefined ? {} : { teardownOf: setup }),
  }
}

/** `{all|any: […]}`, `{not: …}` or `{node, in: [states]}`. */
function conditionOf(depends: unknown): Condition {
  const form = objectOf(depends)
  if (Array.isArray(form['all'])) return { all: form['all'].map(conditionOf) }
  if (Array.isArray(form['any'])) return { any: form['any'].map(conditionOf) }
  if ('not' in form) return { not: conditionOf(form['not']) }
  if (typeof form['node'] !== 'string')
    throw new NotApplicable('an edge condition of a form that is not known here')
  const states = textsOf(form['in']).map((word) => {
    const state = stateWords[word]
    if (state === undefined)
      throw new NotApplicable(`edge conditions on the state "${word}" are not known here`)
    return state
  })
  return { task: form['node'], in: states }
}

/** Generated graphs: numbers have four digits and begin at 1. */
function generate(form: Case): { nodes: Case[]; edges: string[][] } {
  const { kind } = form
  if (kind === undefined) return { nodes: [], edges: [] }
  const prefix = textOf(form['prefix'], 'n')
  const name = (number: number): string => `${prefix}${String(number).padStart(4, '0')}`
  const numbers = (count: unknown, first = 1): number[] =>
    Array.from({ length: Number(count) || 0 }, (_, place) => first + place)
  if (kind === 'chain') {
    const ids = numbers(form['count']).map(name)
    return { nodes: ids.map((id) => ({ id })), edges: ids.slice(1).map((id, at) => [ids[at] ?? '', id]) }
  }
  if (kind === 'fan') {
    const ids = numbers(form['count']).map(name)
    const [root, join] = [form['root'], form['join']]
    const ends = [root, join].filter((each) => typeof each === 'string')
    return {
      nodes: [...ends, ...ids].map((id) => ({ id })),
      edges: ids.flatMap((id) => [
        ...(typeof root === 'string' ? [[root, id]] : []),
        ...(typeof join === 'string' ? [[id, join]] : []),
      ]),
    }
  }
  if (kind === 'layers') {
    const width = Number(form['width'] ?? form['per_layer'] ?? form['count'])
    const layers = numbers(form['layers'] ?? form['depth'], 0).map((layer) =>
      numbers(width, layer * width + 1).map(name),
    )
    const edges = layers.slice(1).flatMap((layer, at) => {
      return layer.flatMap((child) => (layers[at] ?? []).map((parent) => [parent, child]))
    })
    return { nodes: layers.flat().map((id) => ({ id })), edges }
  }
  throw new NotApplicable(`graphs generated as "${textOf(kind, '')}" are not known here`)
}

/**
 * Graphs of cases (workflow-case-graph.ts) that are described by their form: a chain, a fan, layers. Numbers
 * begin at 1.
 */
import { type Case, firstOf, NotApplicable, onlyKnown, textOf, wholeOf } from './workflow-case-words.ts'

/** More than a workflow may have: what is larger is refused, whatever its size, and not made for that. */
const mostNodes = 25_000
const mostEdges = 2_000_000
const widths = ['width', 'per_layer', 'nodes_per_layer', 'layer_size', 'count']
const depths = ['sizes', 'layers', 'depth']
const known = new Set(['kind', 'prefix', 'count', 'root', 'join', 'join_rule', ...widths, ...depths])

export interface GeneratedGraph {
  readonly ids: readonly string[]
  readonly edges: readonly (readonly [string, string])[]
}

/** Throws NotApplicable for a form that is not known. */
export function generatedGraph(form: Case): GeneratedGraph {
  const kind = textOf(form['kind'], '')
  onlyKnown(form, known, 'a generated graph')
  const prefix = textOf(form['prefix'], 'n')
  const nameOf = (number: number): string => `${prefix}${String(number).padStart(4, '0')}`
  const names = (count: number, first = 1): string[] =>
    Array.from({ length: count }, (_, place) => nameOf(first + place))
  if (kind === 'chain') {
    const ids = names(countOf(form['count']))
    return { ids, edges: ids.slice(1).map((id, at) => [ids[at] ?? '', id]) }
  }
  if (kind === 'fan') return fan(form, names(countOf(form['count'])))
  if (kind !== 'layers') throw new NotApplicable(`graphs generated as "${kind}" are not known here`)
  let first = 1
  const layers = sizesOf(form).map((size) => {
    first += size
    return names(size, first - size)
  })
  return { ids: layers.flat(), edges: layers.flatMap((layer, at) => between(layers[at - 1] ?? [], layer)) }
}

function fan(form: Case, ids: readonly string[]): GeneratedGraph {
  const { root, join } = form
  const hasRoot = typeof root === 'string'
  const hasJoin = typeof join === 'string'
  return {
    ids: [...(hasRoot ? [root] : []), ...ids, ...(hasJoin ? [join] : [])],
    edges: ids.flatMap((id) => [
      ...(hasRoot ? [[root, id] as const] : []),
      ...(hasJoin ? [[id, join] as const] : []),
    ]),
  }
}

function sizesOf(form: Case): readonly number[] {
  const given = firstOf(form, depths)
  const width = firstOf(form, widths)
  const sizes = Array.isArray(given)
    ? given.map(countOf)
    : Array.from({ length: countOf(given) }, () => countOf(width))
  countOf(sizes.reduce((sum, size) => sum + size, 0))
  const edges = sizes.reduce((sum, size, at) => sum + size * (sizes[at - 1] ?? 0), 0)
  if (edges > mostEdges)
    throw new NotApplicable(`a graph of ${edges} edges is larger than what is played here`)
  return sizes
}

const between = (parents: readonly string[], children: readonly string[]): [string, string][] =>
  children.flatMap((child) => parents.map((parent): [string, string] => [parent, child]))

function countOf(value: unknown): number {
  return Math.min(wholeOf(value, 0, 'the count of a generated graph'), mostNodes)
}

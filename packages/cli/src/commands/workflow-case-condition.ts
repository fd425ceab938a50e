/**
 * Conditions on edges, as cases write them (workflow-case-graph.ts): `{all|any: […]}`, a list (all of it),
 * `{not: …}` or `{node, in: [states]}`.
 */
import type { Condition } from '@belfry/contract'
import { isObject, NotApplicable, onlyKnown, statesOf } from './workflow-case-words.ts'

const unknownForm = (): NotApplicable =>
  new NotApplicable('an edge condition of a form that is not known here')
const fields = new Set(['all', 'any', 'not', 'node', 'in'])

/** Throws NotApplicable for another form, and for states that no task has. */
export function conditionOf(depends: unknown): Condition {
  if (Array.isArray(depends)) return { all: depends.map(conditionOf) }
  if (!isObject(depends)) throw unknownForm()
  onlyKnown(depends, fields, 'an edge condition')
  if (Array.isArray(depends['all'])) return { all: depends['all'].map(conditionOf) }
  if (Array.isArray(depends['any'])) return { any: depends['any'].map(conditionOf) }
  if ('not' in depends) return { not: conditionOf(depends['not']) }
  if (typeof depends['node'] !== 'string') throw unknownForm()
  return { task: depends['node'], in: statesOf(depends['in'], 'an edge condition') }
}

/** The nodes that a condition looks at. */
export function namesIn(depends: unknown): string[] {
  const found: string[] = []
  const look = (condition: Condition): void => {
    if ('task' in condition) found.push(condition.task)
    else if ('not' in condition) look(condition.not)
    else if ('all' in condition) condition.all.forEach(look)
    else if ('any' in condition) condition.any.forEach(look)
  }
  look(conditionOf(depends))
  return found
}

/**
 * Conditions on edges, as cases write them (workflow-case-graph.ts): `{all|any: […]}`, a list (all of it),
 * `{not: …}` or `{node, in: [states]}`.
 */
import type { Condition } from '@belfry/contract'
import {
  type Case,
  firstOf,
  isObject,
  NotApplicable,
  onlyKnown,
  own,
  statesOf,
} from './workflow-case-words.ts'

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

/** A condition of a node as a text or a constant, by several names. */
export const conditionFields = ['when', 'if', 'run_if'] as const

/** What is no expression: `true`, `false`, and the functions of GitHub Actions that are rules here. */
const literals: Readonly<Record<string, { readonly rule?: string; readonly when?: Condition }>> = {
  true: {},
  // there is no input
  false: { when: { input: '', is: { exists: true } } },
  'success()': { rule: 'all_success' },
  'always()': { rule: 'all_done' },
  '!cancelled()': { rule: 'all_done' },
  'failure()': { rule: 'one_failed' },
}

/** Throws NotApplicable for an expression, which nobody evaluates here. */
export function literalOf(id: string, form: Case): { readonly rule?: string; readonly when?: Condition } {
  const given = firstOf(form, conditionFields)
  if (given === undefined) return {}
  const text = typeof given === 'string' ? given : JSON.stringify(given)
  const literal = own(literals, text.replace(/^\$\{\{(.*)\}\}$/, '$1').trim())
  const isAlone = firstOf(form, ['rule', 'trigger_rule', 'depends']) === undefined
  if (literal !== undefined && (isAlone || (literal.rule ?? literal.when) === undefined)) return literal
  const field = conditionFields.find((name) => name in form)
  throw new NotApplicable(`the condition "${field}" of "${id}" is not known here`)
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

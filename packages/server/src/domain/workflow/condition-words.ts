/**
 * Why a condition does not hold, in words: the comparisons that decided it, with what they found. What is
 * shown of a value is cut. Pure.
 */
import type { Comparison, Condition, JsonValue } from '@belfry/contract'
import { type ConditionFacts, holdsFor, valueAt } from './condition.ts'

const longestValue = 60
const mostShown = 3

/** Of a condition that does not hold. */
export function whyFalse(condition: Condition, facts: ConditionFacts): string {
  const found = [...new Set(deciding(condition, facts, false))]
  const more = found.length - mostShown
  return found.slice(0, mostShown).join('; ') + (more > 0 ? `; and ${more} more` : '')
}

/** The comparisons because of which it holds, or does not. */
function deciding(condition: Condition, facts: ConditionFacts, holds: boolean): string[] {
  if ('not' in condition) return deciding(condition.not, facts, !holds)
  const parts = 'all' in condition ? condition.all : 'any' in condition ? condition.any : undefined
  if (parts === undefined) return [leafWords(condition, facts, holds)]
  return parts
    .filter((part) => holdsFor(part, facts) === holds)
    .flatMap((part) => deciding(part, facts, holds))
}

function leafWords(condition: Condition, facts: ConditionFacts, holds: boolean): string {
  const asked = holds ? 'not ' : ''
  if ('in' in condition) {
    const state = facts.stateOf(condition.task)
    return `"${condition.task}" is ${state}, and it asks for ${asked}${condition.in.join(' or ')}`
  }
  if ('input' in condition) {
    const what = condition.input === '' ? 'the input' : `${condition.input} of the input`
    return compared(what, valueAt(facts.input, condition.input), condition.is, asked)
  }
  if (!('output' in condition)) return ''
  const { task, output, is } = condition
  const what = output === '' ? `the output of "${task}"` : `${output} of the output of "${task}"`
  return compared(what, valueAt(facts.outputOf(task), output), is, asked)
}

function compared(what: string, value: JsonValue | undefined, is: Comparison, asked: string): string {
  const found = value === undefined ? 'not there' : valueWords(value)
  return `${what} is ${found}, and it asks for ${asked}${askedWords(is)}`
}

function askedWords(is: Comparison): string {
  if ('exists' in is) return is.exists ? 'one that is there' : 'none'
  if ('equals' in is) return valueWords(is.equals)
  if ('notEquals' in is) return `something else than ${valueWords(is.notEquals)}`
  if ('oneOf' in is) return `one of ${valueWords(is.oneOf)}`
  if ('contains' in is) return `one that contains ${valueWords(is.contains)}`
  if ('greaterThan' in is) return `more than ${is.greaterThan}`
  if ('atLeast' in is) return `at least ${is.atLeast}`
  return 'lessThan' in is ? `less than ${is.lessThan}` : `at most ${is.atMost}`
}

function valueWords(value: JsonValue): string {
  const text = JSON.stringify(value)
  return text.length <= longestValue ? text : `${text.slice(0, longestValue - 1)}…`
}

/**
 * `when`: a small closed form of comparisons on states and outputs of direct parents and on the run's input.
 * Data, not an expression language: nothing is parsed, nothing is looked up but what is named. Pure.
 *
 * Where a condition does not hold because a parent failed, its task is `upstream_failed`, not skipped: the
 * failure must not look as if nobody had wanted the task to run.
 */
import type { Comparison, Condition, JsonValue, TaskState } from '@belfry/contract'
import type { RuleVerdict } from './trigger-rules.ts'

/** What a condition may look at. Paths are JSON pointers (RFC 6901). */
export interface ConditionFacts {
  readonly stateOf: (task: string) => TaskState
  /** Undefined: it has none, for example because it was skipped. */
  readonly outputOf: (task: string) => JsonValue | undefined
  readonly input: JsonValue | undefined
}

const failures: ReadonlySet<TaskState> = new Set(['failed', 'canceled', 'upstream_failed'])

interface Judged {
  readonly holds: boolean
  /** It came out like this because a parent failed. */
  readonly byFailure: boolean
}

/** Whether a task whose rule holds starts in view of its condition. */
export function judgeCondition(condition: Condition, facts: ConditionFacts): RuleVerdict {
  const { holds, byFailure } = judge(condition, facts)
  if (holds) return 'run'
  return byFailure ? 'upstream_failed' : 'skip'
}

export const holdsFor = (condition: Condition, facts: ConditionFacts): boolean =>
  judge(condition, facts).holds

function judge(condition: Condition, facts: ConditionFacts): Judged {
  if ('all' in condition) {
    const parts = condition.all.map((part) => judge(part, facts))
    const against = parts.filter((part) => !part.holds)
    return { holds: against.length === 0, byFailure: (against.length > 0 ? against : parts).some(failed) }
  }
  if ('any' in condition) {
    const parts = condition.any.map((part) => judge(part, facts))
    const behind = parts.filter((part) => part.holds)
    return { holds: behind.length > 0, byFailure: (behind.length > 0 ? behind : parts).some(failed) }
  }
  if ('not' in condition) {
    const inner = judge(condition.not, facts)
    return { holds: !inner.holds, byFailure: inner.byFailure }
  }
  if ('input' in condition)
    return { holds: compare(valueAt(facts.input, condition.input), condition.is), byFailure: false }
  const state = facts.stateOf(condition.task)
  const byFailure = failures.has(state)
  if ('in' in condition) return { holds: condition.in.includes(state), byFailure }
  return {
    holds: compare(valueAt(facts.outputOf(condition.task), condition.output), condition.is),
    byFailure,
  }
}

const failed = (judged: Judged): boolean => judged.byFailure

/** The value that a JSON pointer names; undefined where there is none. '' is the whole. */
export function valueAt(value: JsonValue | undefined, pointer: string): JsonValue | undefined {
  let at = value
  for (const raw of pointer.split('/').slice(1)) {
    const key = raw.replaceAll('~1', '/').replaceAll('~0', '~')
    if (typeof at !== 'object' || at === null) return undefined
    if (Array.isArray(at) && !/^(?:0|[1-9]\d*)$/.test(key)) return undefined
    // an array is read by its numbers like an object by its names
    at = Object.hasOwn(at, key) ? (at as Record<string, JsonValue>)[key] : undefined
  }
  return at
}

export function compare(value: JsonValue | undefined, is: Comparison): boolean {
  if ('exists' in is) return (value !== undefined) === is.exists
  if ('notEquals' in is) return value === undefined || !sameJson(value, is.notEquals)
  if (value === undefined) return false
  if ('equals' in is) return sameJson(value, is.equals)
  if ('oneOf' in is) return is.oneOf.some((each) => sameJson(value, each))
  if ('contains' in is) {
    if (typeof value === 'string') return typeof is.contains === 'string' && value.includes(is.contains)
    return Array.isArray(value) && value.some((each: JsonValue) => sameJson(each, is.contains))
  }
  if (typeof value !== 'number') return false
  if ('greaterThan' in is) return value > is.greaterThan
  if ('atLeast' in is) return value >= is.atLeast
  if ('lessThan' in is) return value < is.lessThan
  return value <= is.atMost
}

/** Equal as JSON: the order of keys does not count. */
function sameJson(one: JsonValue, other: JsonValue): boolean {
  if (one === other) return true
  if (typeof one !== 'object' || typeof other !== 'object' || one === null || other === null) return false
  if (Array.isArray(one) !== Array.isArray(other)) return false
  const keys = Object.keys(one)
  if (keys.length !== Object.keys(other).length) return false
  const [left, right] = [one as Record<string, JsonValue>, other as Record<string, JsonValue>]
  return keys.every((key) => {
    const [a, b] = [left[key], right[key]]
    return Object.hasOwn(right, key) && a !== undefined && b !== undefined && sameJson(a, b)
  })
}

/**
 * Conditions on references, for the `when` of a task: comparisons, and `all`, `any`, `not` of them. Data that
 * goes into the definition as it is.
 */
import type { Comparison, Condition, JsonValue } from '@belfry/contract'
import { type Ref, sourceOf } from './refs.ts'

type ComparisonOf<T> = T extends number
  ? Comparison
  : Exclude<
      Comparison,
      { greaterThan: number } | { atLeast: number } | { lessThan: number } | { atMost: number }
    >

/** `is(rows.output.count, { atLeast: 1 })`. Of an output of a task, or of the input of the run. */
export function is<T>(ref: Ref<T>, comparison: ComparisonOf<T> & Comparison): Condition {
  const origin = sourceOf(ref)?.origin
  if (origin?.kind === 'task') return { task: origin.task, output: origin.path, is: comparison }
  if (origin?.kind === 'input') return { input: origin.path, is: comparison }
  throw new TypeError('is() takes a reference to an output of a task or to the input.')
}

/** Short for `is(ref, { equals: value })`. */
export const equals = <T>(ref: Ref<T>, value: T & JsonValue): Condition => is(ref, { equals: value })

export const all = (...conditions: readonly Condition[]): Condition => ({ all: conditions })
export const any = (...conditions: readonly Condition[]): Condition => ({ any: conditions })
export const not = (condition: Condition): Condition => ({ not: condition })

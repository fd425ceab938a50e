// The shape of a set of values, for words: all of them, one, evenly spaced, an unbroken stretch (which may go
// on through the end of the field), or just a list.

import type { CronPlan } from './cron-plan.ts'

export type ValuePattern =
  | { readonly kind: 'all' }
  | { readonly kind: 'one'; readonly value: number }
  | { readonly kind: 'stretch'; readonly from: number; readonly to: number }
  | { readonly kind: 'steps'; readonly from: number; readonly to: number; readonly by: number }
  | { readonly kind: 'list'; readonly values: readonly number[] }

/** `values` in order, out of `size` from `min` on. */
export function patternOf(values: readonly number[], min: number, size: number): ValuePattern {
  const [first = min, second = first] = values
  const last = values.at(-1) ?? first
  if (values.length === size) return { kind: 'all' }
  if (values.length === 1) return { kind: 'one', value: first }
  const by = second - first
  const even = values.every((value, i) => value === first + i * by)
  if (even && by === 1 && values.length > 2) return { kind: 'stretch', from: first, to: last }
  const stretch = wrappedStretch(values, min, size)
  if (stretch) return stretch
  const steps = { kind: 'steps', from: first, to: last, by } as const
  return even && (values.length > 3 || goesRound(steps, min, size)) ? steps : { kind: 'list', values }
}

/** 22, 23, 0, 1, 2 in order of the clock. */
function wrappedStretch(values: readonly number[], min: number, size: number): ValuePattern | undefined {
  if (values[0] !== min || values.at(-1) !== min + size - 1 || values.length < 3) return undefined
  const breaks = values.filter((value, i) => i > 0 && value !== (values[i - 1] ?? 0) + 1)
  const [from] = breaks
  if (breaks.length !== 1 || from === undefined) return undefined
  return { kind: 'stretch', from, to: values[values.indexOf(from) - 1] ?? min }
}

/** Whether steps go on evenly from the end of the field into its next round. */
export function goesRound(pattern: ValuePattern, min: number, size: number): boolean {
  return pattern.kind === 'steps' && pattern.from - min + size - (pattern.to - min) === pattern.by
}

export function secondsOf(plan: CronPlan): readonly number[] {
  return bitsOf(plan.secondsLow, plan.secondsHigh)
}

export function minutesOf(plan: CronPlan): readonly number[] {
  return bitsOf(plan.minutesLow, plan.minutesHigh)
}

export function hoursOf(plan: CronPlan): readonly number[] {
  return bitsOf(plan.hours, 0)
}

/** The set bits of a pair of words, in order. */
export function bitsOf(low: number, high: number): readonly number[] {
  const values: number[] = []
  for (let bit = 0; bit < 64; bit++) {
    if ((((bit < 32 ? low : high) >>> (bit % 32)) & 1) === 1) values.push(bit)
  }
  return values
}

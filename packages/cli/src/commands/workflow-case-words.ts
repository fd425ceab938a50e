/**
 * Reading cases of other systems (workflow-cases.ts): their values as they come, their words in Belfry's, and
 * what is not known here. A field that nobody knows may change what has to come out, so a case that has one
 * does not apply; a wrong answer would be worse than none.
 */
import type { TaskState } from '@belfry/contract'

export type Case = Readonly<Record<string, unknown>>

/** A case that asks for what Belfry does not do, or says it in a way that is not known here. */
export class NotApplicable extends Error {}

export const isObject = (value: unknown): value is Case =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
export const objectOf = (value: unknown): Case => (isObject(value) ? value : {})
export const listOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : [])
export const textOf = (value: unknown, otherwise: string): string =>
  typeof value === 'string' ? value : otherwise

const wrongForm = (name: string, value: unknown, wanted: string): NotApplicable =>
  new NotApplicable(`"${name}" is ${JSON.stringify(value)?.slice(0, 60)}, and not ${wanted}`)

/** A field that is an object, or is left out. Throws NotApplicable for anything else. */
export function objectIn(form: Case, name: string): Case {
  const value = form[name] ?? {}
  if (isObject(value)) return value
  throw wrongForm(name, value, 'an object')
}

/** The first of these fields that is there, a text. Throws NotApplicable for anything else. */
export function textIn(form: Case, names: readonly string[], otherwise: string): string {
  const value = firstOf(form, names) ?? otherwise
  if (typeof value === 'string') return value
  throw wrongForm(names.join(' or '), value, 'a text')
}

/** Names, as a list or as one; numbers are names too. */
export const textsOf = (value: unknown): string[] =>
  (Array.isArray(value) ? value : [value]).flatMap((each: unknown) =>
    typeof each === 'string' || typeof each === 'number' ? String(each) : [],
  )

/** Names that stand in one text. */
export const fieldsOf = (text: string): readonly string[] => text.split(/\s+/)

/** A field of an object's own: a task may be called "constructor". */
export const own = <Value>(record: Readonly<Record<string, Value>>, key: string): Value | undefined =>
  Object.hasOwn(record, key) ? record[key] : undefined

/** The first of several names for the same field. */
export const firstOf = (form: Case, names: readonly string[]): unknown =>
  names.map((name) => own(form, name)).find((value) => value !== undefined && value !== null)

/** What says nothing of the outcome, wherever it stands. */
const remarks = new Set(
  `about basis category comment comments contested date description disputed doc docs
    expected expected_native feature features label native normative note notes published
    published_example quirk reason requires see_also since source sources system tags title
    url verified`.split(/\s+/),
)

/** Throws NotApplicable for the first field that is not among the known ones. */
export function onlyKnown(form: Case, known: ReadonlySet<string>, where: string): void {
  for (const name of Object.keys(form)) {
    if (known.has(name) || remarks.has(name) || name.startsWith('expected_')) continue
    throw new NotApplicable(`${where} has the field "${name}", which is not known here`)
  }
}

/** A whole number that is not below `least`. Throws NotApplicable for anything else. */
export function wholeOf(value: unknown, least: number, what: string): number {
  if (typeof value === 'number' && Number.isSafeInteger(value) && value >= least) return value
  throw new NotApplicable(`${what} is ${JSON.stringify(value)}, and not a whole number from ${least}`)
}

/** States of a case, in Belfry's words. */
const stateWords: Readonly<Record<string, readonly TaskState[]>> = {
  success: ['succeeded'],
  succeeded: ['succeeded'],
  warning: ['succeeded'],
  failed: ['failed'],
  failure: ['failed'],
  error: ['failed'],
  errored: ['failed'],
  skipped: ['skipped'],
  upstream_failed: ['upstream_failed'],
  omitted: ['upstream_failed', 'not_run'],
  cancelled: ['canceled'],
  canceled: ['canceled'],
  not_run: ['not_run'],
}

/** Throws NotApplicable for a state that no task has. */
export function statesOf(words: unknown, where: string): readonly TaskState[] {
  return textsOf(words).flatMap((word) => {
    const states = own(stateWords, word)
    if (states === undefined) throw new NotApplicable(`${where} on the state "${word}" is not known here`)
    return states
  })
}

/** Rules, in Belfry's words; one that is none stays as it is, and is refused as such. */
export const ruleOf = (word: string): string => (word === 'all_success' ? 'all_succeeded' : word)

/**
 * References to values that are not there yet: outputs of tasks, the input of a workflow run, the item of a
 * task that runs for each. Reading a field of one gives a reference to that field, at any depth; nothing else
 * can be done with it. Compiling turns it into a JSON pointer.
 */
import type { JsonValue } from '@belfry/contract'

declare const mark: unique symbol

/** What a field of it would be: of whatever is not known, anything. */
type Fields<T> = unknown extends T
  ? { readonly [key: string]: Ref<unknown> }
  : NonNullable<T> extends readonly unknown[]
    ? unknown
    : NonNullable<T> extends object
      ? { readonly [K in keyof NonNullable<T>]-?: Ref<Exclude<NonNullable<T>[K], undefined>> }
      : unknown

/** A value of type `T` at the time a task starts. */
export type Ref<T> = { readonly [mark]: T } & Fields<T>

/** A value, or where it comes from, as a whole or in parts. */
export type Mapped<T> =
  | T
  | Ref<T>
  | (T extends readonly (infer Item)[]
      ? readonly Mapped<Item>[] | Ref<readonly Item[]>
      : T extends object
        ? { readonly [K in keyof T]: Mapped<T[K]> }
        : never)

export type RunField = 'id' | 'scheduledFor' | 'dataIntervalStart' | 'dataIntervalEnd'

/** Where a reference points; `path` is a JSON pointer into it. */
export type Origin =
  | { readonly kind: 'task'; readonly task: string; readonly path: string }
  | { readonly kind: 'input'; readonly path: string }
  | { readonly kind: 'item'; readonly path: string }
  | { readonly kind: 'run'; readonly field: RunField }

export interface Source {
  readonly origin: Origin
  /** Taken where there is no value. */
  readonly fallback?: { readonly value: JsonValue } | undefined
}

/** Whatever can be mistaken for a field of every object is none: it is looked up here. */
const sources = new WeakMap<object, Source>()

export const sourceOf = (value: object): Source | undefined => sources.get(value)

export const pointerPart = (key: string): string => `/${key.replaceAll('~', '~0').replaceAll('/', '~1')}`

export function makeRef<T>(source: Source): Ref<T> {
  const { origin } = source
  const made = new Proxy(Object.freeze({}), {
    get(_target, key) {
      // as text it has no meaning, and so nothing that makes a text of it
      if (typeof key === 'symbol' || origin.kind === 'run') return undefined
      return makeRef({ origin: { ...origin, path: `${origin.path}${pointerPart(key)}` } })
    },
  })
  sources.set(made, source)
  return made as Ref<T>
}

/** An item of a list, counted from 0. */
export function at<Item>(list: Ref<readonly Item[]> | Ref<Item[]>, index: number): Ref<Item> {
  const source = sources.get(list)
  const origin = source?.origin
  if (origin === undefined || origin.kind === 'run')
    throw new TypeError('at() takes a reference to an output, an input or an item.')
  return makeRef({ origin: { ...origin, path: `${origin.path}/${index}` } })
}

/** The same, with what is taken where there is no value, for example because its task was skipped. */
export function orElse<T>(ref: Ref<T>, value: T & JsonValue): Ref<T> {
  const source = sources.get(ref)
  if (source === undefined) throw new TypeError('orElse takes a reference to an output or an input.')
  return makeRef({ ...source, fallback: { value } })
}

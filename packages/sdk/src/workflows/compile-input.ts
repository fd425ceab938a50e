/**
 * From an input with references in it to what a definition says: the constant part, and for each reference
 * where its value goes. Throws for what is no JSON.
 */
import type { InputMapping, JsonValue } from '@belfry/contract'
import { BelfryError } from '@belfry/contract'
import { type Origin, pointerPart, type Source, sourceOf } from './refs.ts'

export interface CompiledInput {
  readonly constant: JsonValue | undefined
  readonly mappings: readonly InputMapping[]
  /** Tasks whose outputs it takes. */
  readonly tasks: readonly string[]
}

/** `where` is for the words of a fault. */
export function compileInput(given: unknown, where: string): CompiledInput {
  const mappings: InputMapping[] = []
  const constant = walk(given, '')
  const tasks = mappings.flatMap((mapping) => ('task' in mapping ? mapping.task : []))
  return { constant, mappings, tasks: [...new Set(tasks)] }

  /** The constant part of a value; undefined: all of it comes from elsewhere, or is left out. */
  function walk(value: unknown, to: string): JsonValue | undefined {
    if (value === undefined || value === null) return value
    if (typeof value === 'string' || typeof value === 'boolean' || typeof value === 'number') return value
    if (typeof value !== 'object') throw notJson(to)
    const source = sourceOf(value)
    if (source !== undefined) {
      mappings.push(mappingOf(source, to))
      return undefined
    }
    // a place in a list is kept by null until its value is put there
    if (Array.isArray(value)) return value.map((item, index) => walk(item, `${to}/${index}`) ?? null)
    const prototype: unknown = Object.getPrototypeOf(value)
    if (prototype !== Object.prototype && prototype !== null) throw notJson(to)
    const entries = Object.entries(value).map(
      ([key, item]) => [key, walk(item, to + pointerPart(key))] as const,
    )
    return Object.fromEntries(entries.filter(([, item]) => item !== undefined)) as JsonValue
  }

  function notJson(at: string): BelfryError {
    const message = 'is not JSON; give text, a number, true, false, null, a list, an object or a reference'
    return new BelfryError('invalid_request', `The input of ${where} ${message}.`, {
      errors: [{ pointer: `/input${at}`, message }],
    })
  }
}

function mappingOf({ origin, fallback }: Source, to: string): InputMapping {
  return { ...from(origin), to, ...(fallback === undefined ? {} : { default: fallback.value }) }
}

function from(origin: Origin) {
  switch (origin.kind) {
    case 'task':
      return { task: origin.task, path: origin.path }
    case 'input':
      return { input: origin.path }
    case 'item':
      return { item: origin.path }
    case 'run':
      return { run: origin.field }
    default:
      return origin satisfies never
  }
}

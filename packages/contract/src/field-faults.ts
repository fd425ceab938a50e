/**
 * From what zod found to what people can act on: a JSON pointer and a sentence with the fix for each fault,
 * and for an unknown field the known one that was probably meant. One place for these words, so that a file
 * that is checked without a server is refused as the server refuses it.
 */
import type { z } from 'zod'
import type { ErrorDetail } from './errors.ts'
import { nearest } from './nearest.ts'

type Issue = z.core.$ZodIssue
type Path = readonly PropertyKey[]

const maxKnownShown = 12
const maxValueShown = 64

/** All faults of what was parsed. `prefix` is put before every pointer. */
export function fieldFaults(
  schema: z.ZodType,
  data: unknown,
  issues: readonly Issue[],
  prefix = '',
): ErrorDetail[] {
  return issues.flatMap((issue) => detailsOf(issue, schema, data, prefix))
}

/** Words that a schema has of its own, in place of those that zod has for every fault of the kind. */
const hasOwnWords = ({ message }: Issue): boolean => !message.startsWith('Invalid ')

function detailsOf(issue: Issue, schema: z.ZodType, data: unknown, prefix: string): ErrorDetail[] {
  if (issue.code === 'unrecognized_keys') {
    const known = knownKeys(schema, issue.path)
    return issue.keys.map((key) => ({
      pointer: prefix + pointerOf([...issue.path, key]),
      message: unknownKey(key, known),
    }))
  }
  const value = valueAt(data, issue.path)
  // What stands in a query is text throughout: its value says more than its type.
  const shown = prefix === '/query' && typeof value === 'string' ? quoted(value) : kindOf(value)
  return [{ pointer: prefix + pointerOf(issue.path), message: messageOf(issue, value, shown) }]
}

function unknownKey(key: string, known: readonly string[]): string {
  const meant = nearest(key, known)
  if (meant !== undefined) return `is not a known field; did you mean "${meant}"?`
  if (known.length === 0) return 'is not a known field; nothing may be given here'
  const shown = known.slice(0, maxKnownShown).join(', ')
  return `is not a known field; known are ${shown}${known.length > maxKnownShown ? ' and others' : ''}`
}

function messageOf(issue: Issue, value: unknown, shown: string): string {
  switch (issue.code) {
    case 'invalid_type':
      if (value === undefined) return `is required: ${article(issue.expected)}`
      return `must be ${article(issue.expected)}, not ${shown}`
    case 'invalid_value':
      if (hasOwnWords(issue)) return issue.message
      return oneOf(issue.values.map(String), value)
    case 'invalid_union':
      if (hasOwnWords(issue)) return issue.message
      return 'options' in issue && Array.isArray(issue.options)
        ? oneOf(issue.options.map(String), value)
        : 'fits none of the allowed forms'
    case 'too_small':
      return `must be at least ${issue.minimum}${unitOf(issue.origin)}`
    case 'too_big':
      return `must be at most ${issue.maximum}${unitOf(issue.origin)}`
    case 'not_multiple_of':
      return `must be a multiple of ${issue.divisor}`
    case 'invalid_format':
      if (issue.format === 'uuid') return 'is not an id; ids look like 019ad0c1-7f3e-7c63-9a52-6e4d8c1b2a3f'
      return issue.message
    case 'invalid_key':
      return issue.issues[0]?.message ?? issue.message
    case 'custom':
    case 'invalid_element':
    case 'unrecognized_keys':
      return issue.message
    default:
      return issue satisfies never
  }
}

function oneOf(allowed: readonly string[], value: unknown): string {
  const meant = typeof value === 'string' ? nearest(value, allowed) : undefined
  const words = allowed.map((each) => `"${each}"`).join(', ')
  const list = allowed.length === 1 ? `must be ${words}` : `must be one of ${words}`
  return meant === undefined ? list : `${list}; did you mean "${meant}"?`
}

function unitOf(origin: string): string {
  if (origin === 'string') return ' characters long'
  return origin === 'array' || origin === 'set' ? ' items long' : ''
}

function article(expected: string): string {
  const names: Readonly<Record<string, string>> = {
    int: 'a whole number',
    number: 'a number',
    object: 'a JSON object',
    record: 'a JSON object',
    array: 'a list',
    boolean: 'true or false',
  }
  return names[expected] ?? `a ${expected}`
}

function quoted(text: string): string {
  return JSON.stringify(text.length > maxValueShown ? `${text.slice(0, maxValueShown)}…` : text)
}

function kindOf(value: unknown): string {
  if (value === null) return 'null'
  if (Array.isArray(value)) return 'a list'
  if (typeof value === 'number') return Number.isInteger(value) ? 'that number' : 'a number with a fraction'
  return typeof value === 'object' ? 'a JSON object' : `a ${typeof value}`
}

function valueAt(data: unknown, path: Path): unknown {
  let value = data
  for (const key of path) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, key)) return undefined
    value = (value as Record<PropertyKey, unknown>)[key]
  }
  return value
}

function pointerOf(path: Path): string {
  return path.map((key) => `/${String(key).replaceAll('~', '~0').replaceAll('/', '~1')}`).join('')
}

/** The fields that an object schema knows at a path. */
function knownKeys(schema: z.core.$ZodType, path: Path): readonly string[] {
  const [key, ...rest] = path
  return objectsIn(schema).flatMap(({ def }) => {
    if (def.type === 'object') {
      const { shape } = def as z.core.$ZodObjectDef
      if (key === undefined) return Object.keys(shape)
      const next = shape[String(key)]
      return next === undefined ? [] : knownKeys(next, rest)
    }
    if (key === undefined) return []
    if (def.type === 'array') return knownKeys((def as z.core.$ZodArrayDef).element, rest)
    return def.type === 'record' ? knownKeys((def as z.core.$ZodRecordDef).valueType, rest) : []
  })
}

/**
 * The schemas that do the work behind wrappers such as optional and default, and in each branch of a union.
 */
function objectsIn(schema: z.core.$ZodType): readonly { readonly def: z.core.$ZodTypeDef }[] {
  const { def } = schema._zod
  if ('innerType' in def) return objectsIn(def.innerType as z.core.$ZodType)
  if (def.type === 'pipe') return objectsIn((def as z.core.$ZodPipeDef).in)
  if (def.type === 'union') return (def as z.core.$ZodUnionDef).options.flatMap(objectsIn)
  return [{ def }]
}

/**
 * The input of a workflow run against the schema that its workflow gives: every fault with its place and the
 * fix, and the defaults of properties that were left out put in. Pure. The work is bounded, whatever schema
 * and input are: what would take longer is refused.
 */
import type { ErrorDetail, InputSchema, InputType, JsonValue } from '@belfry/contract'
import { refuse, type Result, succeed } from '../zone/result.ts'
import { formatFault } from './input-formats.ts'

/** Places in an input that are looked at, counted once for each part of the schema that does. */
const mostLooks = 200_000
const mostFaults = 20
const mostNames = 20

type JsonObject = Readonly<Record<string, JsonValue>>

class TooMuch extends Error {}

interface Check {
  readonly faults: ErrorDetail[]
  looks: number
}

/** With `input` undefined: none was given. Pointers begin with `at`. */
export function checkInput(
  schema: InputSchema,
  input: JsonValue | undefined,
  at = '/input',
): Result<JsonValue | undefined, readonly ErrorDetail[]> {
  // an object whose properties are all left out is the same as none at all
  const isOfObject = schema.type === 'object' || schema.properties !== undefined
  const given = input ?? schema.default ?? (input === undefined && isOfObject ? {} : input)
  const check: Check = { faults: [], looks: 0 }
  try {
    const filled = given === undefined ? undefined : withDefaults(check, schema, given)
    look(check, schema, filled ?? null, at)
    return check.faults.length === 0 ? succeed(filled) : refuse(check.faults.slice(0, mostFaults))
  } catch (error) {
    if (!(error instanceof TooMuch)) throw error
    const message = `takes too long to be checked against inputSchema; send less, or a simpler schema`
    return refuse([{ pointer: at, message }])
  }
}

function count(check: Check): void {
  check.looks += 1
  if (check.looks > mostLooks) throw new TooMuch()
}

const isObject = (value: JsonValue): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
const listOf = (value: JsonValue): readonly JsonValue[] => value as readonly JsonValue[]
const pointerPart = (key: string): string => `/${key.replaceAll('~', '~0').replaceAll('/', '~1')}`

/** A copy with what is left out and has a default, at any depth below `properties` and `items`. */
function withDefaults(check: Check, schema: InputSchema, value: JsonValue): JsonValue {
  count(check)
  if (Array.isArray(value)) {
    const { items } = schema
    const list = listOf(value)
    return items === undefined ? list : list.map((each) => withDefaults(check, items, each))
  }
  if (!isObject(value) || schema.properties === undefined) return value
  const filled: Record<string, JsonValue> = { ...value }
  for (const [key, inner] of Object.entries(schema.properties)) {
    const own = Object.hasOwn(value, key) ? value[key] : inner.default
    if (own !== undefined) filled[key] = withDefaults(check, inner, own)
  }
  return filled
}

function look(check: Check, schema: InputSchema, value: JsonValue, at: string): void {
  count(check)
  const fault = (message: string, pointer = at): void => {
    check.faults.push({ pointer, message })
  }
  if (schema.type !== undefined) {
    const types = typeof schema.type === 'string' ? [schema.type] : schema.type
    if (!types.some((type) => isOfType(value, type)))
      return fault(`is ${wordOf(value)}; send ${types.map((type) => typeWords[type]).join(' or ')}`)
  }
  if (schema.const !== undefined && !isOneOf(check, [schema.const], value))
    fault(`has to be ${JSON.stringify(schema.const)}`)
  if (schema.enum !== undefined && !isOneOf(check, schema.enum, value))
    fault(`is none of ${namesOf(schema.enum.map((each) => JSON.stringify(each)))}`)
  if (typeof value === 'string') lookAtText(schema, value, fault)
  else if (typeof value === 'number') lookAtNumber(schema, value, fault)
  else if (Array.isArray(value)) lookAtList(check, schema, listOf(value), at, fault)
  else if (isObject(value)) lookAtObject(check, schema, value, at, fault)
  lookAtBranches(check, schema, value, at, fault)
}

type Fault = (message: string, pointer?: string) => void

function lookAtText(schema: InputSchema, value: string, fault: Fault): void {
  const { minLength = 0, maxLength = Infinity, format } = schema
  if (minLength > 0 || maxLength < Infinity) {
    const length = Array.from(value).length
    if (length < minLength) fault(`has ${length} characters; at least ${minLength} are asked for`)
    if (length > maxLength) fault(`has ${length} characters; at most ${maxLength} are allowed`)
  }
  const wrong = format === undefined ? undefined : formatFault(format, value)
  if (wrong !== undefined) fault(wrong)
}

function lookAtNumber(schema: InputSchema, value: number, fault: Fault): void {
  const { minimum = -Infinity, maximum = Infinity, exclusiveMinimum, exclusiveMaximum, multipleOf } = schema
  if (value < minimum) fault(`is ${value}; at least ${minimum} is asked for`)
  if (value > maximum) fault(`is ${value}; at most ${maximum} is allowed`)
  if (exclusiveMinimum !== undefined && value <= exclusiveMinimum)
    fault(`is ${value}; it has to be above ${exclusiveMinimum}`)
  if (exclusiveMaximum !== undefined && value >= exclusiveMaximum)
    fault(`is ${value}; it has to be below ${exclusiveMaximum}`)
  if (multipleOf !== undefined && !isMultiple(value, multipleOf))
    fault(`is ${value}; it has to be a multiple of ${multipleOf}`)
}

/** 0.3 is a multiple of 0.1, though not as binary fractions. */
function isMultiple(value: number, of: number): boolean {
  const quotient = value / of
  return Math.abs(quotient - Math.round(quotient)) <= 1e-9 * Math.max(1, Math.abs(quotient))
}

function lookAtList(
  check: Check,
  schema: InputSchema,
  value: readonly JsonValue[],
  at: string,
  fault: Fault,
): void {
  const { minItems = 0, maxItems = Infinity, uniqueItems, items } = schema
  if (value.length < minItems) fault(`has ${value.length} items; at least ${minItems} are asked for`)
  if (value.length > maxItems) fault(`has ${value.length} items; at most ${maxItems} are allowed`)
  if (uniqueItems === true && new Set(value.map(canonical)).size < value.length)
    fault('holds the same value twice; each may be there once')
  if (items === undefined) return
  for (const [index, each] of value.entries()) look(check, items, each, `${at}/${index}`)
}

function lookAtObject(check: Check, schema: InputSchema, value: JsonObject, at: string, fault: Fault): void {
  const { properties = {}, required = [], additionalProperties = true } = schema
  const { minProperties = 0, maxProperties = Infinity } = schema
  const keys = Object.keys(value)
  if (keys.length < minProperties)
    fault(`has ${keys.length} properties; at least ${minProperties} are asked for`)
  if (keys.length > maxProperties)
    fault(`has ${keys.length} properties; at most ${maxProperties} are allowed`)
  for (const key of required)
    if (!Object.hasOwn(value, key)) fault('is missing; send it', `${at}${pointerPart(key)}`)
  for (const key of keys) {
    count(check)
    const own = value[key] ?? null
    const inner = Object.hasOwn(properties, key) ? properties[key] : undefined
    const place = `${at}${pointerPart(key)}`
    if (inner !== undefined) look(check, inner, own, place)
    else if (additionalProperties === false) {
      const names = Object.keys(properties)
      const known = names.length === 0 ? 'there are none' : `known are ${namesOf(names)}`
      fault(`is no property of the input; ${known}`, place)
    } else if (additionalProperties !== true) look(check, additionalProperties, own, place)
  }
}

function lookAtBranches(check: Check, schema: InputSchema, value: JsonValue, at: string, fault: Fault): void {
  for (const each of schema.allOf ?? []) look(check, each, value, at)
  const fitting = (branches: readonly InputSchema[]): number =>
    branches.filter((each) => {
      const apart: Check = { faults: [], looks: check.looks }
      look(apart, each, value, at)
      check.looks = apart.looks
      return apart.faults.length === 0
    }).length
  if (schema.anyOf !== undefined && fitting(schema.anyOf) === 0)
    fault(`fits none of the ${schema.anyOf.length} forms that anyOf allows`)
  if (schema.oneOf !== undefined) {
    const found = fitting(schema.oneOf)
    if (found !== 1)
      fault(`fits ${found} of the ${schema.oneOf.length} forms of oneOf; exactly one has to fit`)
  }
}

const typeWords: Readonly<Record<InputType, string>> = {
  string: 'text',
  number: 'a number',
  integer: 'a whole number',
  boolean: 'true or false',
  object: 'an object',
  array: 'a list',
  null: 'null',
}

function wordOf(value: JsonValue): string {
  if (value === null) return 'null'
  if (Array.isArray(value)) return 'a list'
  if (typeof value === 'boolean') return String(value)
  return typeof value === 'string' ? 'text' : typeof value === 'number' ? `the number ${value}` : 'an object'
}

function isOfType(value: JsonValue, type: InputType): boolean {
  if (type === 'null') return value === null
  if (type === 'array') return Array.isArray(value)
  if (type === 'object') return isObject(value)
  if (type === 'integer') return Number.isInteger(value)
  return typeof value === type
}

/** Equal values have the same text, whatever the order of their keys. */
function canonical(value: JsonValue): string {
  if (Array.isArray(value)) return `[${listOf(value).map(canonical).join(',')}]`
  if (!isObject(value)) return JSON.stringify(value)
  const entries = Object.keys(value)
    .toSorted()
    .map((key) => `${JSON.stringify(key)}:${canonical(value[key] ?? null)}`)
  return `{${entries.join(',')}}`
}

function isOneOf(check: Check, allowed: readonly JsonValue[], value: JsonValue): boolean {
  check.looks += allowed.length
  if (typeof value !== 'object' || value === null) return allowed.includes(value)
  const text = canonical(value)
  return allowed.some((each) => canonical(each) === text)
}

const namesOf = (names: readonly string[]): string =>
  names.slice(0, mostNames).join(', ') + (names.length > mostNames ? ', …' : '')

// Values that nearly fit a JSON Schema: mostly what it asks for, with its bounds and just beyond them, now
// and then something else altogether. For property tests that send to every route what its own schema
// describes, so that a new field is tried without a word about it.
import fc from 'fast-check'

export type JsonSchema = {
  readonly $ref?: string
  readonly type?: string | readonly string[]
  readonly enum?: readonly unknown[]
  readonly const?: unknown
  readonly properties?: Readonly<Record<string, JsonSchema>>
  readonly items?: JsonSchema
  readonly anyOf?: readonly JsonSchema[]
  readonly oneOf?: readonly JsonSchema[]
  readonly allOf?: readonly JsonSchema[]
  readonly minimum?: number
  readonly maximum?: number
  readonly maxItems?: number
  readonly format?: string
}

/** Texts that a field of this name is likely to take seriously. */
const telling: Readonly<Record<string, readonly string[]>> = {
  at: ['2030-01-01T00:00:00Z', '2030-03-31T02:30:00', 'yesterday', '2030-02-30', '1969-12-31'],
  every: ['5m', '1s', 'rate(1 minutes)', 'every 2 weeks on fri', 'every 120 months on the 31st', '0s'],
  cron: ['* * * * *', '0 0 30 2 *', '0 0 29 2 *', 'H H * * *', '*-02-29', 'cron(0 0 L * ? 2199)', '@daily'],
  zone: ['Europe/Berlin', 'Antarctica/Troll', 'Mars/Olympus', 'utc'],
  handler: [],
}
const instants = [
  '2030-01-01T00:00:00Z',
  '1970-01-01T00:00:00Z',
  '2199-12-31T23:59:59.999Z',
  '+010000-01-01T00:00:00Z',
]
const odd = [null, true, 0, -1, 1.5, 1e308, '', '\u0000', '\ud800', 'x'.repeat(3_000), [], {}, [[]]]

const anything = fc.oneof(
  fc.constantFrom(...odd),
  fc.jsonValue({ maxDepth: 2 }),
  fc.string({ unit: 'binary', maxLength: 40 }),
)

/** A definition that holds itself is followed so often. */
const mostOften = 2

/** `root` holds the definitions that references name, `within` those that this schema is a part of. */
export function nearlyValid(
  schema: JsonSchema,
  root: object,
  name = '',
  within: readonly string[] = [],
): fc.Arbitrary<unknown> {
  const arbitrary = fitting(schema, root, name, within)
  return fc.oneof({ arbitrary, weight: 9 }, { arbitrary: anything, weight: 1 })
}

function fitting(
  schema: JsonSchema,
  root: object,
  name: string,
  within: readonly string[],
): fc.Arbitrary<unknown> {
  const { $ref: reference } = schema
  const inner = (part: JsonSchema, as = name): fc.Arbitrary<unknown> => nearlyValid(part, root, as, within)
  if (reference !== undefined) {
    if (within.filter((each) => each === reference).length >= mostOften) return anything
    return nearlyValid(resolved(reference, root), root, name, [...within, reference])
  }
  if (schema.const !== undefined) return fc.constant(schema.const)
  if (schema.enum !== undefined) return fc.constantFrom(...schema.enum)
  const choices = schema.anyOf ?? schema.oneOf
  if (choices !== undefined) return fc.oneof(...choices.map((choice) => inner(choice)))
  if (schema.allOf !== undefined) return fc.oneof(...schema.allOf.map((part) => inner(part)))
  const type = Array.isArray(schema.type) ? (schema.type as readonly string[])[0] : schema.type
  switch (String(type)) {
    case 'object':
      return objectOf(schema.properties ?? {}, inner)
    case 'array':
      return fc.array(inner(schema.items ?? {}), { maxLength: Math.min(schema.maxItems ?? 4, 4) + 1 })
    case 'integer':
    case 'number':
      return numbersOf(schema)
    case 'boolean':
      return fc.boolean()
    case 'null':
      return fc.constant(null)
    case 'string':
      return textsOf(schema, name)
    default:
      return anything
  }
}

function objectOf(
  properties: Readonly<Record<string, JsonSchema>>,
  inner: (part: JsonSchema, as: string) => fc.Arbitrary<unknown>,
): fc.Arbitrary<unknown> {
  const fields = Object.entries(properties).map(([key, part]) => [key, inner(part, key)] as const)
  const known = fc.record(Object.fromEntries(fields), { requiredKeys: [] })
  const unknown = fc.dictionary(fc.string({ maxLength: 10 }), anything, { maxKeys: 1 })
  return fc.oneof(
    { arbitrary: known, weight: 9 },
    { arbitrary: fc.tuple(known, unknown).map(([one, other]) => ({ ...one, ...other })), weight: 1 },
  )
}

function numbersOf({ minimum = -10, maximum = 1_000 }: JsonSchema): fc.Arbitrary<number> {
  return fc.oneof(
    fc.constantFrom(minimum, maximum, minimum - 1, maximum + 1, minimum + 0.5),
    fc.integer({ min: Math.max(minimum, -(2 ** 31)), max: Math.min(maximum, 2 ** 31 - 1) }),
  )
}

function textsOf({ format }: JsonSchema, name: string): fc.Arbitrary<string> {
  if (format === 'date-time') return fc.constantFrom(...instants)
  const known = Object.hasOwn(telling, name) ? telling[name] : undefined
  if (known !== undefined && known.length > 0) return fc.constantFrom(...known)
  return fc.oneof(fc.constantFrom('known', 'a', '5m', '2030-01-01', 'none'), fc.string({ maxLength: 20 }))
}

function resolved(reference: string, root: object): JsonSchema {
  let found: unknown = root
  for (const key of reference.replace(/^#\/?/, '').split('/').filter(Boolean)) {
    found = (found as Readonly<Record<string, unknown>>)[key]
  }
  return found ?? {}
}

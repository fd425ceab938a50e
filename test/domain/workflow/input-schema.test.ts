// Inputs of workflow runs against their schema: every fault with its place, defaults, and an end of the work
// however large schema and input are.
import { type InputSchema, inputSchemaSchema, type JsonValue } from '@belfry/contract'
import { describe, expect, it } from 'vitest'
import { checkInput } from '../../../packages/server/src/domain/workflow/input-schema.ts'

const parsed = (schema: InputSchema): InputSchema => inputSchemaSchema.parse(schema)

function faults(schema: InputSchema, input: JsonValue | undefined): string[] {
  const checked = checkInput(parsed(schema), input)
  return checked.ok ? [] : checked.error.map(({ pointer, message }) => `${pointer} ${message}`)
}

describe('an input', () => {
  it.each<[InputSchema, JsonValue, JsonValue]>([
    [{ type: 'string' }, 'x', 1],
    [{ type: 'integer' }, 3, 3.5],
    [{ type: 'number' }, 3.5, '3.5'],
    [{ type: 'boolean' }, false, 0],
    [{ type: 'null' }, null, {}],
    [{ type: 'array' }, [], {}],
    [{ type: 'object' }, {}, []],
    [{ type: ['string', 'null'] }, null, 0],
    [{ const: { a: [1], b: 2 } }, { b: 2, a: [1] }, { a: [1] }],
    [{ enum: ['a', 1, { x: 1 }] }, { x: 1 }, 'b'],
    [{ minLength: 2, maxLength: 3 }, '🜁🜁', '🜁'],
    [{ maxLength: 3 }, 'abc', 'abcd'],
    [{ minimum: 1, maximum: 3 }, 3, 0],
    [{ exclusiveMinimum: 1, exclusiveMaximum: 3 }, 2, 3],
    [{ multipleOf: 0.1 }, 0.3, 0.35],
    [{ minItems: 1, maxItems: 2 }, [1], []],
    [
      { uniqueItems: true },
      [{ a: 1 }, { a: 2 }],
      [
        { a: 1, b: 2 },
        { b: 2, a: 1 },
      ],
    ],
    [{ items: { type: 'integer' } }, [1, 2], [1, 'x']],
    [{ minProperties: 1, maxProperties: 1 }, { a: 1 }, {}],
    [{ properties: { a: { type: 'string' } } }, { a: 'x', b: 1 }, { a: 1 }],
    [{ additionalProperties: { type: 'integer' } }, { a: 1 }, { a: 'x' }],
    [{ properties: { a: {} }, additionalProperties: false }, { a: 1 }, { b: 1 }],
    [{ anyOf: [{ type: 'string' }, { minimum: 5 }] }, 7, 3],
    [{ oneOf: [{ type: 'integer' }, { minimum: 5 }] }, 3, 7],
    [{ allOf: [{ type: 'integer' }, { minimum: 5 }] }, 7, 3],
    [{ format: 'date' }, '2028-02-29', '2026-02-29'],
    [{ format: 'date-time' }, '2026-12-01T02:30:00+01:00', '2026-12-01 02:30'],
    [{ format: 'date-time' }, '2026-12-01T02:30:00.5Z', '2026-02-30T02:30:00Z'],
    [{ format: 'time' }, '23:59:00', '24:00:00'],
    [{ format: 'email' }, 'ada@example.com', 'ada@example'],
    [{ format: 'uri' }, 'https://example.com/a', 'example.com'],
    [{ format: 'uuid' }, '019ad0c1-7f3e-7c63-9a52-6e4d8c1b2a3f', '019ad0c1'],
  ])('%j takes %j, not %j', (schema, fitting, other) => {
    expect(faults(schema, fitting)).toEqual([])
    expect(faults(schema, other)).not.toEqual([])
  })

  it('has each of its faults named with its place', () => {
    const schema: InputSchema = {
      type: 'object',
      properties: { 'a/b': { type: 'array', items: { type: 'integer' } }, c: { minimum: 3 } },
      required: ['d'],
      additionalProperties: false,
    }
    expect(faults(schema, { 'a/b': [1, 'x'], c: 2, e: 1 })).toEqual([
      '/input/d is missing; send it',
      '/input/a~1b/1 is text; send a whole number',
      '/input/c is 2; at least 3 is asked for',
      '/input/e is no property of the input; known are a/b, c',
    ])
  })

  it('that is left out is an empty object where one is asked for', () => {
    expect(faults({ type: 'object', required: ['a'] }, undefined)).toEqual(['/input/a is missing; send it'])
    expect(faults({ type: 'string' }, undefined)).toEqual(['/input is null; send text'])
    expect(faults({}, undefined)).toEqual([])
  })

  it('has defaults put in where something is left out, and only there', () => {
    const schema = parsed({
      properties: {
        size: { type: 'integer', default: 3 },
        deep: { default: {}, properties: { x: { default: [1] } } },
        list: { items: { properties: { y: { default: true } } } },
      },
    })
    const of = (input: JsonValue | undefined) => checkInput(schema, input)
    expect(of(undefined)).toEqual({ ok: true, value: { size: 3, deep: { x: [1] } } })
    expect(of({ size: null, list: [{}] })).toMatchObject({ ok: false })
    expect(of({ size: 5, list: [{}, 1] })).toEqual({
      ok: true,
      value: { size: 5, deep: { x: [1] }, list: [{ y: true }, 1] },
    })
    const given = JSON.parse('{"__proto__":{"size":1}}') as JsonValue
    expect(faults({ properties: { size: {} }, additionalProperties: false }, given)).toEqual([
      '/input/__proto__ is no property of the input; known are size',
    ])
  })

  it('a default that does not fit is a fault too', () => {
    expect(faults({ properties: { a: { type: 'string', default: 1 } } }, {})).toEqual([
      '/input/a is the number 1; send text',
    ])
  })

  it('that would take too long is refused, soon', () => {
    const branch = (depth: number): InputSchema =>
      depth === 0
        ? { items: { type: 'string' } }
        : { anyOf: Array.from({ length: 20 }, () => branch(depth - 1)) }
    const startMs = performance.now()
    const [fault] = faults(
      branch(2),
      Array.from({ length: 50_000 }, (_, n) => n),
    )
    expect(fault).toContain('takes too long')
    expect(performance.now() - startMs).toBeLessThan(5_000)
  })
})

describe('a schema', () => {
  it.each([
    { pattern: '^a' },
    { $ref: '#/x' },
    { properties: { x: { tpye: 'string' } } },
    { type: 'text' },
    { anyOf: [] },
    { items: [{}] },
  ])('%j is refused', (schema) => {
    expect(inputSchemaSchema.safeParse(schema).success).toBe(false)
  })
})

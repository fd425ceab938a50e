/**
 * JSON Schema of the input of a workflow run: a closed part of draft 2020-12. A keyword that is not here is
 * refused when the workflow is saved, not passed over when a run begins. There is no `pattern`, whose cost
 * has no bound, and no `$ref`.
 */
import { z } from 'zod'
import { jsonUpTo, safeText } from './common.ts'

export const inputTypes = ['string', 'number', 'integer', 'boolean', 'object', 'array', 'null'] as const
export type InputType = (typeof inputTypes)[number]

export const inputFormats = ['date-time', 'date', 'time', 'email', 'uri', 'uuid'] as const

const small = jsonUpTo(4_096)
const count = z.int().min(0).max(1_000_000)
const inner: z.ZodType<InputSchema> = z.lazy(() => inputSchemaSchema)
const branches = z.array(inner).min(1).max(20)

const fields = z.strictObject({
  $schema: safeText(256).optional(),
  title: safeText(256).optional(),
  description: safeText(4_096).optional(),
  examples: z.array(small).max(20).optional(),
  default: small.optional().meta({ description: 'Put in where a property is left out' }),
  type: z
    .union([z.enum(inputTypes), z.array(z.enum(inputTypes)).min(1).max(inputTypes.length)], {
      error: `is no type; use ${inputTypes.join(', ')}, or a list of these`,
    })
    .optional(),
  enum: z.array(small).min(1).max(1_000).optional(),
  const: small.optional(),
  minLength: count.optional(),
  maxLength: count.optional(),
  format: z.enum(inputFormats).optional(),
  minimum: z.number().optional(),
  maximum: z.number().optional(),
  exclusiveMinimum: z.number().optional(),
  exclusiveMaximum: z.number().optional(),
  multipleOf: z.number().positive().optional(),
  items: inner.optional(),
  minItems: count.optional(),
  maxItems: count.optional(),
  uniqueItems: z.boolean().optional(),
  properties: z.record(z.string().min(1).max(128), inner).optional(),
  required: z.array(z.string().min(1).max(128)).max(1_000).optional(),
  additionalProperties: z
    .union([z.boolean(), inner], { error: 'is neither true, false nor a schema' })
    .optional(),
  minProperties: count.optional(),
  maxProperties: count.optional(),
  anyOf: branches.optional(),
  oneOf: branches.optional(),
  allOf: branches.optional(),
})

export interface InputSchema
  extends Omit<
    z.infer<typeof fields>,
    'items' | 'properties' | 'additionalProperties' | 'anyOf' | 'oneOf' | 'allOf'
  > {
  readonly items?: InputSchema | undefined
  readonly properties?: Readonly<Record<string, InputSchema>> | undefined
  readonly additionalProperties?: boolean | InputSchema | undefined
  readonly anyOf?: readonly InputSchema[] | undefined
  readonly oneOf?: readonly InputSchema[] | undefined
  readonly allOf?: readonly InputSchema[] | undefined
}

export const inputSchemaSchema: z.ZodType<InputSchema> = (fields as unknown as z.ZodType<InputSchema>).meta({
  id: 'InputSchema',
  description: 'A closed part of JSON Schema (draft 2020-12)',
})

/**
 * What comes of asking for runs: one, or up to 1,000 in a call; whether it was a duplicate and of what; which
 * run took the input where a job gathers them.
 */
import { z } from 'zod'
import { idSchema, instantSchema, nameSchema } from './common.ts'
import { gatheredSchema } from './gathering.ts'
import { runSchema } from './runs.ts'

/** Runs that one call asks for, at most. */
export const maxBatchItems = 1000
/** Bytes of the body of such a call. */
export const maxBatchBytes = 8 * 1024 * 1024

const outcomeFields = {
  duplicate: z.boolean().meta({ description: 'The dedupe key is held by a run; no other was made' }),
  duplicateOf: idSchema.nullable().meta({ description: 'The run that holds the key; null: no duplicate' }),
  gathered: gatheredSchema
    .nullable()
    .meta({ description: 'Of a job that debounces or collects: how the run took the input; null otherwise' }),
}

/** A duplicate shows the run that holds the key. */
export const runCreatedSchema = z
  .strictObject({ ...runSchema.shape, ...outcomeFields })
  .meta({ id: 'RunCreated' })
export type RunCreated = z.infer<typeof runCreatedSchema>

export const runBatchSchema = z
  .strictObject({
    items: z
      .array(
        z.unknown().meta({
          description: 'As the body of a single request (RunCreate); each is judged by itself',
          type: 'object',
        }),
      )
      .min(1)
      .max(maxBatchItems),
    atomic: z
      .boolean()
      .default(false)
      .meta({ description: 'All or nothing: one item that is refused refuses the call' }),
  })
  .meta({ id: 'RunBatch' })

export const runReceiptSchema = z
  .strictObject({
    id: idSchema,
    job: nameSchema,
    dueAt: instantSchema.nullable().meta({ description: 'Null for a duplicate: look at the run' }),
    ...outcomeFields,
  })
  .meta({ id: 'RunReceipt' })
export type RunReceipt = z.infer<typeof runReceiptSchema>

export const runRefusalSchema = z
  .strictObject({
    code: z.string(),
    message: z.string(),
    errors: z.array(z.strictObject({ pointer: z.string(), message: z.string() })),
  })
  .meta({ id: 'RunRefusal', description: 'Why an item was refused; pointers begin with /items/N' })
export type RunRefusal = z.infer<typeof runRefusalSchema>

export const runBatchResultSchema = z
  .strictObject({
    results: z
      .array(z.strictObject({ run: runReceiptSchema.nullable(), error: runRefusalSchema.nullable() }))
      .meta({ description: 'One for each item, in order; either `run` or `error` is not null' }),
    created: z.int().meta({ description: 'Runs that were made' }),
    duplicates: z.int(),
    gathered: z.int().meta({ description: 'Inputs that runs took together with others' }),
    refused: z.int(),
  })
  .meta({ id: 'RunBatchResult' })
export type RunBatchResult = z.infer<typeof runBatchResultSchema>

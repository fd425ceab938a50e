/**
 * Workflows as they are stored: versions that never change once they are there, what differs between two of
 * them, and the answers that show them. How a definition is written is in workflows.ts.
 */
import { z } from 'zod'
import { idSchema, instantSchema, nameSchema, pageOf, pageQuery, smallPageQuery } from './common.ts'
import { workflowDefinitionSchema } from './workflows.ts'

const versionSchema = z.int().min(1)
/** Of a query, where everything is text. */
const versionQuery = z.coerce.number().int().min(1).max(2_147_483_647)

const core = {
  id: idSchema,
  name: nameSchema,
  description: z.string(),
  version: versionSchema,
  createdAt: instantSchema,
  updatedAt: instantSchema,
}

export const workflowSummarySchema = z
  .strictObject({ ...core, tasks: z.int().meta({ description: 'How many there are, in all parts' }) })
  .meta({ id: 'WorkflowSummary' })
export type WorkflowSummary = z.infer<typeof workflowSummarySchema>

export const workflowSchema = z
  .strictObject({
    ...core,
    ...workflowDefinitionSchema.shape,
    warnings: z
      .array(z.strictObject({ code: z.string(), pointer: z.string(), message: z.string() }))
      .meta({ description: 'What is allowed, and yet likely not meant' }),
  })
  .meta({ id: 'Workflow' })
export type Workflow = z.infer<typeof workflowSchema>

export const workflowAppliedSchema = z
  .strictObject({
    ...workflowSchema.shape,
    outcome: z.enum(['created', 'changed', 'unchanged']),
  })
  .meta({ id: 'WorkflowApplied' })
export type WorkflowApplied = z.infer<typeof workflowAppliedSchema>

export const workflowListQuery = z.strictObject({ ...pageQuery, name: nameSchema.optional() })
export const workflowPageSchema = pageOf(workflowSummarySchema)

export const workflowGetQuery = z.strictObject({
  version: versionQuery.optional().meta({ description: 'The newest if left out' }),
})

export const workflowVersionSchema = z
  .strictObject({ version: versionSchema, tasks: z.int(), createdAt: instantSchema })
  .meta({ id: 'WorkflowVersion' })
export type WorkflowVersion = z.infer<typeof workflowVersionSchema>
export const workflowVersionListQuery = z.strictObject({ ...smallPageQuery })
export const workflowVersionPageSchema = pageOf(workflowVersionSchema)

export const workflowDiffQuery = z.strictObject({
  from: versionQuery.optional().meta({ description: 'The version before; that before `to` if left out' }),
  to: versionQuery.optional().meta({ description: 'The version after; the newest if left out' }),
})

/** Changes that a comparison names, at most. */
export const maxShownChanges = 1_000

export const workflowDiffSchema = z
  .strictObject({
    from: versionSchema,
    to: versionSchema,
    changes: z
      .array(
        z.strictObject({
          kind: z.enum(['added', 'removed', 'changed']),
          task: z.string().nullable().meta({ description: 'Null: the workflow itself' }),
          message: z.string().meta({ description: 'What differs, in words' }),
        }),
      )
      .meta({ description: `At most ${maxShownChanges}` }),
    changesTotal: z.int(),
  })
  .meta({ id: 'WorkflowDiff' })
export type WorkflowDiff = z.infer<typeof workflowDiffSchema>
export type WorkflowChange = WorkflowDiff['changes'][number]

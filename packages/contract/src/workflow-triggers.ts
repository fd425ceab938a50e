/**
 * What begins runs of a workflow besides people and schedules: the end of another workflow, and events that
 * are sent to the API. Both stand in the definition of the workflow that begins.
 */
import { z } from 'zod'
import { idSchema, jsonSchema, nameSchema, safeText } from './common.ts'

export const triggeringStates = ['succeeded', 'failed', 'canceled', 'skipped'] as const

/** Triggers of one workflow. */
export const maxWorkflowTriggers = 32

const input = jsonSchema.optional()

export const workflowTriggerSchema = z
  .union(
    [
      z.strictObject({
        workflow: nameSchema.meta({ description: 'Another workflow; it may be made later' }),
        states: z
          .array(z.enum(triggeringStates))
          .min(1)
          .default(['succeeded'])
          .meta({ description: 'How its run has to end' }),
        input: input.meta({
          description: 'Instead of {workflow, workflowRunId, state, output} of the run that ended',
        }),
      }),
      z.strictObject({
        event: nameSchema.meta({ description: 'Name of an event, as it is sent to POST /v1/events' }),
        input: input.meta({ description: 'Instead of the payload of the event' }),
      }),
    ],
    {
      error:
        `is no trigger; write {workflow: name, states: [${triggeringStates.join(', ')}]} or {event: name}, ` +
        'each with input if wanted, like {workflow: import} or {event: order-paid}',
    },
  )
  .meta({ id: 'WorkflowTrigger' })
export type WorkflowTrigger = z.infer<typeof workflowTriggerSchema>

const nameOf = (trigger: WorkflowTrigger): string =>
  'event' in trigger ? `event ${trigger.event}` : `workflow ${trigger.workflow}`

export const workflowTriggersSchema = z
  .array(workflowTriggerSchema)
  .max(maxWorkflowTriggers)
  .superRefine((triggers, context) => {
    const names = triggers.map(nameOf)
    for (const [index, name] of names.entries()) {
      if (names.indexOf(name) === index) continue
      const message = `names the ${name} a second time; keep one of them`
      context.addIssue({ code: 'custom', path: [index], message })
    }
  })

export const eventSendSchema = z
  .strictObject({
    event: nameSchema.meta({ description: 'What happened; workflows name it in their triggers' }),
    key: safeText(256, 1).optional().meta({
      description: 'Which one it is: the same event with the same key again begins nothing more',
    }),
    payload: jsonSchema.optional().meta({ description: 'The input of the runs that it begins' }),
  })
  .meta({ id: 'EventSend' })
export type EventSend = z.infer<typeof eventSendSchema>

export const eventReceiptSchema = z
  .strictObject({
    id: idSchema,
    event: nameSchema,
    key: z.string().nullable(),
    duplicate: z
      .boolean()
      .meta({ description: 'It came before with this key; `runs` and `refused` are those of then' }),
    runs: z
      .array(z.strictObject({ workflow: nameSchema, workflowRunId: idSchema }))
      .meta({ description: 'The runs that it began; none where no workflow names it' }),
    refused: z
      .array(
        z.strictObject({
          workflow: nameSchema,
          message: z.string(),
          errors: z.array(z.strictObject({ pointer: z.string(), message: z.string() })),
        }),
      )
      .meta({ description: 'Workflows that name it, of which the input does not fit the schema' }),
  })
  .meta({ id: 'EventReceipt' })
export type EventReceipt = z.infer<typeof eventReceiptSchema>

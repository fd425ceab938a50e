/**
 * What a target that took a run over reports of it: `POST /v1/callbacks/:runId`, with the token of the
 * attempt that came in the header `Belfry-Callback-Token`. The token proves that one attempt of one run is
 * meant and allows nothing else; it is dead as soon as that attempt is over, however it ended.
 *
 *   call (headers: token, URL) ──► 202 ──► heartbeat | log … ──► complete | fail
 *
 * Each may be sent again when its answer was lost. What comes after the end of the attempt is refused with
 * `callback_over`, but for the very report that ended it.
 */
import { z } from 'zod'
import { durationMsSchema, idSchema, instantSchema, jsonUpTo, maxResultBytes, safeText } from './common.ts'
import { runStates } from './states.ts'
import { logChunkSchema, maxLogBytes, maxProgressBytes } from './workers.ts'

export const callbackTokenHeader = 'Belfry-Callback-Token'
export const callbackUrlHeader = 'Belfry-Callback-Url'

export const callbackParams = z.strictObject({ runId: idSchema })

export const callbackReportSchema = z
  .discriminatedUnion('action', [
    z.strictObject({
      action: z.literal('complete'),
      result: jsonUpTo(maxResultBytes)
        .optional()
        .meta({ description: `What the run answers: JSON, at most ${maxResultBytes} bytes` }),
    }),
    z.strictObject({
      action: z.literal('fail'),
      error: z.strictObject({ code: safeText(128, 1), message: safeText(16_384) }),
      retryable: z.boolean().default(true).meta({ description: 'False: another attempt cannot help' }),
      retryAfterMs: durationMsSchema(86_400_000)
        .optional()
        .meta({ description: 'The next attempt not before' }),
    }),
    z.strictObject({
      action: z.literal('heartbeat'),
      progress: jsonUpTo(maxProgressBytes).optional().meta({ description: 'How far it is' }),
    }),
    z.strictObject({
      action: z.literal('log'),
      firstLine: logChunkSchema.shape.firstLine,
      lines: logChunkSchema.shape.lines,
    }),
  ])
  .meta({ id: 'CallbackReport', description: 'Every report counts as a sign of life' })
export type CallbackReport = z.infer<typeof callbackReportSchema>

export const callbackAnswerSchema = z
  .strictObject({
    runId: idSchema,
    state: z.enum(runStates).meta({
      description: 'Of the run: `running` until the end was reported; `pending`: it is tried again',
    }),
    cancelRequested: z
      .boolean()
      .meta({ description: 'Its cancel was asked for: stop, and report the end with `fail`' }),
    reportBy: instantSchema
      .nullable()
      .meta({ description: 'The end must be reported by then; null: not known yet, or over' }),
    heartbeatBy: instantSchema
      .nullable()
      .meta({ description: 'The next sign of life is due by then; null: none is asked for' }),
    logFull: z
      .boolean()
      .optional()
      .meta({ description: `Of a report of lines: nothing beyond ${maxLogBytes} bytes is kept` }),
  })
  .meta({ id: 'CallbackAnswer' })
export type CallbackAnswer = z.infer<typeof callbackAnswerSchema>

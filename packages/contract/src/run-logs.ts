/**
 * The log of a run as it is written: `GET /v1/runs/:id/logs/stream` answers a stream of events
 * (text/event-stream). What each event says is described here; the order is
 *
 *   line … (full) line … ── end        of all attempts, one after the other; `full` where one met its cap
 *   closed                             instead of `end`: the server lets go; ask again, behind the last line
 *
 * 1. `id` of an event is where it stands: `<attempt>/<line>`. Sent back as `Last-Event-ID` (or as `after`)
 *    it goes on behind that line, on any server, and no line is missed or told twice.
 * 2. Lines beginning with a colon are comments: they keep proxies from closing what is silent.
 * 3. `end` comes when the run has ended and every line was sent.
 */
import { z } from 'zod'
import { idSchema, instantSchema } from './common.ts'
import { runReasons, runStates } from './states.ts'
import { logLineSchema } from './workers.ts'

/** How long `GET /v1/runs/:id/wait` waits, at most. */
export const maxRunWaitMs = 20_000

const number = '(0|[1-9]\\d{0,8})'
const cursorPattern = new RegExp(`^${number}/(-1|${number})$`)

/** Where a reader of a log stands: behind a line of an attempt; `-1` is before the first. */
export interface LogCursor {
  readonly attempt: number
  readonly line: number
}

export const logCursorText = ({ attempt, line }: LogCursor): string => `${attempt}/${line}`

/** Undefined where the text is no cursor. */
export function parseLogCursor(text: string): LogCursor | undefined {
  const [, attempt, line] = cursorPattern.exec(text) ?? []
  return attempt === undefined || line === undefined
    ? undefined
    : { attempt: Number(attempt), line: Number(line) }
}

export const logCursorSchema = z
  .string()
  .regex(cursorPattern, { error: 'is not a place in a log; send the `id` of an event, such as 1/42' })
  .meta({ description: 'The `id` of the last event that was seen', examples: ['1/42'] })

export const runLogStreamQuery = z.strictObject({
  after: logCursorSchema.optional().meta({
    description: 'As the header `Last-Event-ID`, which wins: only lines behind this one',
  }),
})

export const streamedLineSchema = z
  .strictObject({
    attempt: z.int(),
    number: z.int().meta({ description: 'Of the line among those of its attempt, from 0' }),
    ...logLineSchema.shape,
    at: instantSchema,
  })
  .meta({ id: 'StreamedLine', description: 'Event `line`' })
export type StreamedLine = z.infer<typeof streamedLineSchema>

export const streamedFullSchema = z
  .strictObject({ attempt: z.int(), logCapBytes: z.int() })
  .meta({ id: 'StreamedFull', description: 'Event `full`: further lines of the attempt were dropped' })

export const streamedEndSchema = z
  .strictObject({ runId: idSchema, state: z.enum(runStates), reason: z.enum(runReasons).nullable() })
  .meta({ id: 'StreamedEnd', description: 'Event `end`: the run has ended, and all lines were sent' })
export type StreamedEnd = z.infer<typeof streamedEndSchema>

export const streamCloseReasons = ['shutting_down', 'key_refused', 'time_limit'] as const

export const streamedClosedSchema = z.strictObject({ reason: z.enum(streamCloseReasons) }).meta({
  id: 'StreamedClosed',
  description:
    'Event `closed`: the server ends the stream before the end of the run. `key_refused`: the key was ' +
    'revoked or has expired; else ask again',
})

/** What may stand in `data` of an event. */
export const runLogStreamSchema = z
  .union([streamedLineSchema, streamedFullSchema, streamedEndSchema, streamedClosedSchema])
  .meta({ id: 'RunLogStream' })

export const runWaitQuery = z.strictObject({
  waitMs: z.coerce
    .number()
    .int()
    .min(0)
    .max(maxRunWaitMs)
    .default(maxRunWaitMs)
    .meta({ description: 'How long to wait where it has not ended' }),
})

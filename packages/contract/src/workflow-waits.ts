/**
 * Tasks that run no job: they wait for a decision by hand, for a time, or for a signal. What ends one is
 * stored with it, so that a restart, or a process that dies, changes nothing.
 */
import { z } from 'zod'
import { durationMsSchema, givenInstantSchema, nameSchema, safeText } from './common.ts'
import { jsonPointerSchema, valueSources } from './workflow-paths.ts'

const dayMs = 86_400_000
const longestWait = (min: number) => durationMsSchema(365 * dayMs, min)

/** How deep workflows lie in each other: one in one in one … */
export const maxWorkflowDepth = 8

/** How a task ends for which nothing came in time. */
export const timeoutStates = ['failed', 'skipped', 'succeeded'] as const
/** How a task ends that was rejected. */
export const rejectStates = ['failed', 'skipped'] as const

const atMostMs = longestWait(1_000)
  .optional()
  .meta({ description: 'How long it waits at most, ms; without an end if left out' })
const onTimeout = z
  .enum(timeoutStates)
  .default('failed')
  .meta({ description: 'How it ends when nothing came within `atMostMs`' })

export const approvalSchema = z
  .strictObject({
    message: safeText(1_024, 1).meta({ description: 'What is to be decided' }),
    atMostMs,
    onTimeout,
    onReject: z.enum(rejectStates).default('failed').meta({ description: 'How it ends when it is rejected' }),
  })
  .meta({ id: 'Approval' })
export type Approval = z.infer<typeof approvalSchema>

const untilError =
  'takes one of {at: instant}, {task, path}, {input: path}, {item: path}, ' +
  'like {at: "2027-01-31T08:00:00Z"} or {input: /startAt}'

export const waitSchema = z
  .union(
    [
      z.strictObject({ forMs: longestWait(1) }),
      z.strictObject({
        until: z.union(
          [
            z.strictObject({ at: givenInstantSchema }),
            ...valueSources,
            z.strictObject({ item: jsonPointerSchema }),
          ],
          { error: untilError },
        ),
      }),
      z.strictObject({ signal: nameSchema, atMostMs, onTimeout }),
    ],
    {
      error:
        'is no wait; write one of {forMs: milliseconds}, {until: …}, {signal: name, atMostMs, onTimeout}, ' +
        `like {forMs: 60000}, {signal: paid} or {until: {at: "2027-01-31T08:00:00Z"}}; until ${untilError}`,
    },
  )
  .meta({
    id: 'Wait',
    description: 'For a duration, until an instant (RFC 3339), or for a signal by the API',
  })
export type Wait = z.infer<typeof waitSchema>

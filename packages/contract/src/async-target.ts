/**
 * HTTP targets that work for longer than a request should: they take the run over by answering 202 and report
 * its end later, by `POST /v1/callbacks/:runId` (callbacks.ts).
 */
import { z } from 'zod'
import { durationMsSchema } from './common.ts'

const dayMs = 86_400_000

/** How long a target may take to report, at most. */
export const longestReportMs = 30 * dayMs

export const asyncTargetSchema = z
  .strictObject({
    deadlineMs: durationMsSchema(longestReportMs, 1_000).meta({
      description: 'The target must have reported the end of the attempt so long after its 202',
    }),
    heartbeatMs: durationMsSchema(dayMs, 1_000)
      .optional()
      .meta({
        description:
          'The longest silence: without a report of any kind for so long the attempt has failed. Left out: ' +
          'only the deadline counts',
      }),
  })
  .refine(({ deadlineMs, heartbeatMs }) => heartbeatMs === undefined || heartbeatMs <= deadlineMs, {
    error: 'must not be longer than deadlineMs',
    path: ['heartbeatMs'],
  })
  .meta({
    id: 'AsyncTarget',
    description:
      'Where it is given, a target that answers 202 has taken the run over and reports its end later. Any ' +
      'other answer is judged as usual',
  })
export type AsyncTarget = z.infer<typeof asyncTargetSchema>

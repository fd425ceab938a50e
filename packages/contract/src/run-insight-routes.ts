/**
 * The routes that follow one run: its log as it is written, its end, and why it is as it is. Part of the one
 * table of routes.
 */
import { z } from 'zod'
import { idSchema } from './common.ts'
import { runExplanationSchema } from './run-explanations.ts'
import { runLogStreamQuery, runLogStreamSchema, runWaitQuery } from './run-logs.ts'
import { runSchema } from './runs.ts'

const look = {
  method: 'GET',
  permission: 'run.read',
  tag: 'runs',
  params: z.strictObject({ id: idSchema }),
  status: 200,
  effect: 'none',
  errors: ['not_found'],
} as const

export const runInsightRoutes = {
  runLogStream: {
    ...look,
    path: '/v1/runs/:id/logs/stream',
    summary: 'What its attempts log, as a stream of events that goes on until the run has ended',
    query: runLogStreamQuery,
    response: runLogStreamSchema,
    media: 'text/event-stream',
  },
  runWait: {
    ...look,
    path: '/v1/runs/:id/wait',
    summary: 'Get a run when it has ended, or as it is when the wait is over',
    query: runWaitQuery,
    response: runSchema,
  },
  runExplain: {
    ...look,
    path: '/v1/runs/:id/explanation',
    summary: 'What holds a run back now, or why it ended as it did',
    response: runExplanationSchema,
  },
} as const

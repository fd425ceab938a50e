/**
 * Many requests, one run: a job that debounces runs once with the newest input when requests pause; a job
 * that collects runs once with the list of their inputs. Both hold for what is asked for by a request (API,
 * SDK, CLI); planned times of schedules and replays are runs of their own.
 */
import { z } from 'zod'
import type { JsonValue } from './common.ts'
import { durationMsSchema, maxInputBytes } from './common.ts'
import { inputKeySchema } from './limits.ts'

const dayMs = 86_400_000
/** Inputs in one run of a job that collects. */
export const maxCollectedItems = 1000

const keyOf = (what: string) =>
  inputKeySchema
    .nullable()
    .default(null)
    .meta({
      description: `${what} Name of a field of the input, or a JSON pointer; null: all requests are one`,
    })

export const debounceSchema = z
  .strictObject({
    windowMs: durationMsSchema(dayMs, 100).meta({
      description: 'The run is due when no request came for so long; it has the input of the newest',
    }),
    maxWaitMs: durationMsSchema(7 * dayMs, 100).meta({
      description: 'At the latest so long after the first request, however many follow',
    }),
    key: keyOf('Requests with the same value there are one run.'),
  })
  .refine(({ windowMs, maxWaitMs }) => maxWaitMs >= windowMs, {
    path: ['maxWaitMs'],
    error: 'must be at least windowMs; make it longer',
  })
  .meta({ id: 'Debounce' })
export type Debounce = z.infer<typeof debounceSchema>

export const collectSchema = z
  .strictObject({
    maxItems: z.int().min(1).max(maxCollectedItems).meta({
      description: 'A run that has so many inputs is due at once, and the next request starts another',
    }),
    windowMs: durationMsSchema(dayMs, 100).meta({
      description: 'The run is due so long after its first request, with what it has then',
    }),
    key: keyOf('Requests with the same value there are collected together.'),
  })
  .meta({ id: 'Collect' })
export type Collect = z.infer<typeof collectSchema>

/** Fields of a job's definition; null: a run for each request. */
export const gatherFields = {
  debounce: debounceSchema.nullable().meta({
    description: 'Requests that follow each other closely are one run, with the newest input',
  }),
  collect: collectSchema.nullable().meta({
    description:
      `Requests are collected into one run; its input is the list of theirs, of at most ${maxInputBytes} ` +
      'bytes: a request that would pass that starts the next run. Not with debounce, nor for schedules',
  }),
}

/** What a name of a field or a JSON pointer points at in an input; undefined: nothing. */
export function inputAt(input: JsonValue | undefined, path: string): JsonValue | undefined {
  const parts = path.slice(1).split('/')
  const names = path.startsWith('/')
    ? parts.map((name) => name.replaceAll('~1', '/').replaceAll('~0', '~'))
    : [path]
  let value: unknown = input
  for (const name of names) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, name)) return undefined
    value = (value as Record<string, unknown>)[name]
  }
  return value as JsonValue
}

export const gatheredSchema = z
  .strictObject({
    kind: z.enum(['debounce', 'collect']),
    position: z.int().meta({
      description:
        'Which request of this run it is, from 1 on; of a job that collects, where its input stands',
    }),
  })
  .meta({ id: 'Gathered', description: 'The run took the input of this request together with others' })
export type Gathered = z.infer<typeof gatheredSchema>

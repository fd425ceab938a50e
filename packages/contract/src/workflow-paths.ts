/**
 * How a workflow names its tasks, and places within JSON: where a value comes from and where it goes. Data,
 * not expressions: a path is a JSON pointer.
 */
import { z } from 'zod'

export const taskIdSchema = z
  .string()
  .min(1)
  .max(64)
  .regex(/^[A-Za-z0-9][A-Za-z0-9_-]*$/, {
    error: 'use letters, digits, "_" and "-", starting with a letter or digit',
  })
  .meta({ examples: ['extract'] })

/** RFC 6901; '' is the whole value. */
export const jsonPointerSchema = z
  .string()
  .max(512)
  .regex(/^(?:\/(?:[^~/]|~[01])*)*$/, {
    error: 'is no JSON pointer; write it like /rows/0/id, or "" for all',
  })

/** Where a value comes from: the output of a task, or the input of the run. */
export const valueSources = [
  z.strictObject({ task: taskIdSchema, path: jsonPointerSchema.default('') }),
  z.strictObject({ input: jsonPointerSchema }),
] as const

/**
 * What a server tells of itself, and replans of zones: future times that are computed again, for all tenants,
 * because the rules of a zone have changed.
 */
import { z } from 'zod'
import { idSchema, instantSchema, pageOf, pageQuery } from './common.ts'

const release = z.string().meta({ description: 'Release of the IANA time zone data', examples: ['2026f'] })

export const serverSchema = z
  .strictObject({
    version: z.string().meta({ description: 'Of Belfry, as the process that answers runs it' }),
    time: instantSchema.meta({ description: 'Now, by the clock of the database' }),
    zoneData: z
      .strictObject({
        version: release,
        source: z.enum(['system', 'bundled']),
        path: z.string().nullable().meta({ description: 'Of the tree; null for the data in the package' }),
        newestOnRecord: release.nullable().meta({
          description:
            'The newest that a scheduler came with; where it is newer than `version`, update this one',
        }),
      })
      .meta({ description: 'What this process computes times with' }),
  })
  .meta({ id: 'Server' })
export type Server = z.infer<typeof serverSchema>

/** `superseded`: newer data came before it was done. */
export const replanStates = ['pending', 'running', 'done', 'superseded'] as const
export type ReplanState = (typeof replanStates)[number]

const count = z.int().min(0)

export const replanSchema = z
  .strictObject({
    id: idSchema,
    zone: z.string(),
    state: z.enum(replanStates),
    fromVersion: release.nullable(),
    toVersion: release,
    total: count.nullable().meta({ description: 'About how many schedules; null before the first batch' }),
    done: count.meta({ description: 'Schedules that were looked at' }),
    moved: count.meta({ description: 'Those of them that have another next time now' }),
    failed: count.meta({ description: 'Those that the new data cannot evaluate; they keep their time' }),
    error: z.string().nullable().meta({ description: 'What is wrong with one of those' }),
    requestedAt: instantSchema,
    startedAt: instantSchema.nullable(),
    endedAt: instantSchema.nullable(),
  })
  .meta({ id: 'Replan' })
export type Replan = z.infer<typeof replanSchema>
export const replanListQuery = z.strictObject({ ...pageQuery })
export const replanPageSchema = pageOf(replanSchema)

/**
 * What a queue needs of workers: how much waits and runs, how many places there are, and how many workers
 * would be enough. For KEDA, an HPA and `belfry worker pool`, which scale by it.
 */
import { z } from 'zod'
import { instantSchema, nameSchema } from './common.ts'
import { maxCounted } from './queues.ts'

const count = z.int().min(0)
const ms = z.number().min(0)

export const workerDemandSchema = z
  .strictObject({
    backlog: count.meta({
      description: `Runs that may start now, up to ${maxCounted}; held ones do not count`,
    }),
    oldestAgeMs: ms
      .nullable()
      .meta({ description: 'For how long the oldest of them has waited, by the clock of the database' }),
    running: count.meta({ description: `Up to ${maxCounted}` }),
    meanRunMs: ms.nullable().meta({
      description: 'How long attempts took lately, half of it of the last minute; null: none ended',
    }),
    workers: count.meta({ description: 'Workers that serve the queue and are alive' }),
    slots: count.meta({ description: 'Runs that they can execute at once, in all queues that they serve' }),
    freeSlots: count.meta({
      description: 'Slots that none of the counted runs holds; with tenants=all: that are free',
    }),
    wantedSlots: count.meta({
      description: 'Slots that would be enough, before `minWorkers` and `maxWorkers`',
    }),
    wantedWorkers: count.meta({ description: 'Workers that would be enough' }),
    why: z.string().meta({ description: 'In words' }),
  })
  .meta({ id: 'WorkerDemand' })
export type WorkerDemand = z.infer<typeof workerDemandSchema>

export const queueStatsSchema = z
  .strictObject({
    queue: nameSchema,
    time: instantSchema.meta({ description: 'When, by the clock of the database' }),
    tenants: z.enum(['own', 'all']).meta({ description: 'Whose runs were counted' }),
    servers: workerDemandSchema.meta({
      description:
        'Of workers of servers (`belfry server --roles worker`), which call targets for all tenants',
    }),
    functions: workerDemandSchema.nullable().meta({
      description: 'Of workers of the functions of this tenant; null where all tenants are counted',
    }),
  })
  .meta({ id: 'QueueStats' })
export type QueueStats = z.infer<typeof queueStatsSchema>

const workerCount = z.coerce.number().int().min(0).max(10_000)

export const queueStatsQuery = z.strictObject({
  tenants: z.enum(['own', 'all']).default('own').meta({
    description: 'Whose runs are counted; `all` needs the scope `platform`, `own` one of `read` and `worker`',
  }),
  targetStartDelayMs: z.coerce
    .number()
    .int()
    .min(10)
    .max(86_400_000)
    .default(1_000)
    .meta({ description: 'Within which time what waits should start' }),
  slotsPerWorker: z.coerce.number().int().min(1).max(10_000).optional().meta({
    description: 'Slots of a worker; if left out, as those that are alive have on average, or else 50',
  }),
  minWorkers: workerCount.default(0),
  maxWorkers: workerCount.default(1_000),
})

/**
 * The processes of an installation as they tell of themselves, who leads which shard, what is late, and what
 * is wrong. Every length of time is measured by the clock of the database, so it is true whatever the clocks
 * of processes and readers say.
 */
import { z } from 'zod'
import { idSchema, instantSchema } from './common.ts'

const count = z.int().min(0)
const ms = z.number().min(0)

export const clusterPartSchema = z
  .strictObject({
    part: z.string().meta({ description: 'What is missing', examples: ['redis'] }),
    state: z.string().meta({ examples: ['away'] }),
    forMs: ms.meta({ description: 'For how long' }),
    fault: z.string().nullable(),
  })
  .meta({ id: 'ClusterPart' })

export const clusterNodeSchema = z
  .strictObject({
    id: idSchema.meta({ description: 'Of the process; a new one each time it starts' }),
    host: z.string(),
    version: z.string(),
    roles: z.array(z.string()),
    state: z.enum(['alive', 'silent']).meta({
      description: '`silent`: it neither stopped in good order nor was heard of for 20 s',
    }),
    startedAt: instantSchema,
    upMs: ms,
    seenAgoMs: ms.meta({ description: 'When it was last heard of' }),
    shards: count.meta({ description: 'Shards that it leads' }),
    skewMs: z
      .number()
      .nullable()
      .meta({ description: 'Its clock minus that of the database; null: it has not looked yet' }),
    skewErrorMs: ms.nullable().meta({ description: 'The most that `skewMs` may be wrong by' }),
    lagMs: ms
      .nullable()
      .meta({ description: 'Largest lateness of what it fired in the last minute; null: nothing' }),
    worker: z
      .strictObject({ queues: z.array(z.string()), slots: count, busy: count })
      .nullable()
      .meta({ description: 'Of a worker that calls targets' }),
    parts: z.array(clusterPartSchema).meta({ description: 'What it does without at present' }),
  })
  .meta({ id: 'ClusterNode' })
export type ClusterNode = z.infer<typeof clusterNodeSchema>

export const clusterShardSchema = z
  .strictObject({
    shard: count,
    term: count.meta({ description: 'Number of the present term, or of the last one' }),
    nodeId: idSchema.nullable().meta({ description: 'Who leads it; null: nobody' }),
    endsInMs: ms.nullable().meta({
      description: 'When the term ends unless it is renewed; null: with its holder, or nobody leads',
    }),
  })
  .meta({ id: 'ClusterShard' })

/** What is wrong; each has a section in the runbooks. */
export const clusterProblemCodes = [
  'no_scheduler',
  'no_worker',
  'shards_unheld',
  'timers_late',
  'part_away',
  'clock_skew',
  'node_silent',
  'mixed_versions',
] as const
export type ClusterProblemCode = (typeof clusterProblemCodes)[number]

export const clusterProblemSchema = z
  .strictObject({
    code: z.enum(clusterProblemCodes),
    level: z.enum(['fail', 'warn']).meta({ description: '`fail`: something stands still' }),
    nodeId: idSchema.nullable().meta({ description: 'Where' }),
    message: z.string().meta({ description: 'What is wrong, and what to do' }),
  })
  .meta({ id: 'ClusterProblem' })
export type ClusterProblem = z.infer<typeof clusterProblemSchema>

export const clusterSchema = z
  .strictObject({
    time: instantSchema.meta({ description: 'Now, by the clock of the database' }),
    state: z
      .enum(['ok', 'degraded', 'failing'])
      .meta({ description: 'By the worst of `problems`: none, `warn`, `fail`' }),
    problems: z.array(clusterProblemSchema),
    nodes: z.array(clusterNodeSchema).meta({ description: 'The oldest first' }),
    shards: z.strictObject({
      total: count,
      held: count,
      items: z.array(clusterShardSchema),
    }),
    lag: z.strictObject({ timersMs: ms, delayedMs: ms }).meta({
      description: 'For how long the oldest schedule and the oldest delayed run are overdue; 0: none',
    }),
    versions: z
      .array(z.strictObject({ version: z.string(), nodes: count }))
      .meta({ description: 'Of processes that are alive' }),
  })
  .meta({ id: 'Cluster' })
export type Cluster = z.infer<typeof clusterSchema>

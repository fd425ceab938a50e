/**
 * Quotas: what one tenant may have, and how fast. The operator sets them: a default for every tenant in the
 * configuration, and others for single tenants. `stock`: how many there may be. `rate`: how many in a
 * stretch of time, from a bucket that fills evenly. `shape`: how large or how frequent one thing may be.
 */
import { z } from 'zod'
import { instantSchema, nameSchema } from './common.ts'

type QuotaRow = { readonly kind: 'stock' | 'rate' | 'shape'; readonly unit: string; readonly words: string }

export const quotaTable = {
  jobs: { kind: 'stock', unit: 'jobs', words: 'Jobs that a tenant may have' },
  schedules: { kind: 'stock', unit: 'schedules', words: 'Schedules that a tenant may have' },
  workflows: { kind: 'stock', unit: 'workflows', words: 'Workflows that a tenant may have' },
  keys: { kind: 'stock', unit: 'keys', words: 'API keys of a tenant that are not revoked' },
  secrets: { kind: 'stock', unit: 'secrets', words: 'Secrets that a tenant may have' },
  runs: { kind: 'stock', unit: 'runs', words: 'Runs of a tenant that wait or run, as requests add to them' },
  streams: { kind: 'stock', unit: 'streams', words: 'Logs that a tenant may follow at once, at one process' },
  runsInFlight: { kind: 'stock', unit: 'runs', words: 'Runs of a tenant at once; more of them wait' },
  runRate: { kind: 'rate', unit: 'runs per second', words: 'Runs that a tenant may ask for in a second' },
  startRate: {
    kind: 'rate',
    unit: 'starts per second',
    words: 'Attempts of a tenant that start in a second; more of them wait',
  },
  logBytes: {
    kind: 'rate',
    unit: 'bytes per day',
    words: 'Bytes of logs that are kept of a tenant in a day',
  },
  inputBytes: { kind: 'shape', unit: 'bytes', words: 'Bytes of the input of one run' },
  scheduleIntervalMs: {
    kind: 'shape',
    unit: 'ms',
    words: 'Least time between two planned times of a schedule',
  },
  workflowTasks: { kind: 'shape', unit: 'tasks', words: 'Tasks of one workflow' },
  workflowEdges: { kind: 'shape', unit: 'edges', words: 'Edges between tasks of one workflow' },
} as const satisfies Record<string, QuotaRow>

export type QuotaName = keyof typeof quotaTable
export const quotaNames = Object.keys(quotaTable) as [QuotaName, ...QuotaName[]]

export const maxQuota = 1_000_000_000_000
/** More runs at once than a tenant can set for itself either. */
const maxInFlight = 10_000
const leastOf: Readonly<Partial<Record<QuotaName, number>>> = { runsInFlight: 1, startRate: 1, runRate: 1 }
const mostOf: Readonly<Partial<Record<QuotaName, number>>> = {
  runsInFlight: maxInFlight,
  startRate: 1_000_000,
  runRate: 1_000_000,
}

/** A limit of this quota, as a number. */
export const quotaLimitSchema = (name: QuotaName) =>
  z
    .int()
    .min(leastOf[name] ?? 0)
    .max(mostOf[name] ?? maxQuota)

const settable = Object.fromEntries(
  quotaNames.map((name) => [
    name,
    z
      .union([quotaLimitSchema(name), z.literal('default')])
      .nullable()
      .optional()
      .meta({ description: `${quotaTable[name].words} (${quotaTable[name].unit})` }),
  ]),
) as Record<QuotaName, z.ZodOptional<z.ZodNullable<z.ZodUnion<[z.ZodInt, z.ZodLiteral<'default'>]>>>>

export const quotaUpdateSchema = z
  .strictObject(settable)
  .refine((quotas) => Object.values(quotas).some((limit) => limit !== undefined), {
    error: 'sets nothing; name at least one quota',
  })
  .meta({
    id: 'QuotaUpdate',
    description: 'A number; null: no limit; `default`: as the configuration says',
  })
export type QuotaUpdate = z.infer<typeof quotaUpdateSchema>

/** More than this is not counted out. */
export const quotaCountedUpTo = 10_000

export const quotaSchema = z
  .strictObject({
    quota: z.enum(quotaNames),
    kind: z.enum(['stock', 'rate', 'shape']),
    unit: z.string(),
    description: z.string(),
    limit: z.int().nullable().meta({ description: 'Null: no limit' }),
    source: z
      .enum(['default', 'tenant'])
      .meta({ description: '`tenant`: set for this tenant; `default`: as the configuration says' }),
    used: z.int().nullable().meta({
      description: 'Of a stock, as it is now; 10,001: more than 10,000; null: not known, or of no meaning',
    }),
    setAt: instantSchema.nullable(),
  })
  .meta({ id: 'Quota' })
export type Quota = z.infer<typeof quotaSchema>
export const quotaListSchema = z
  .strictObject({ tenant: nameSchema, items: z.array(quotaSchema) })
  .meta({ id: 'QuotaList' })
export type QuotaList = z.infer<typeof quotaListSchema>

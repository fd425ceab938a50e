/**
 * Every setting of a Belfry server: one schema, one default each. `load.ts` fills it from flags, environment,
 * file and defaults, in that order of strength; `render.ts` makes docs/reference/configuration.md of it.
 * Error texts follow the name of the setting, as in "port is not a whole number from 0 to 65535".
 */
import { homedir } from 'node:os'
import { join } from 'node:path'
import { z } from 'zod'
import { parseRange } from '../domain/egress/address.ts'
import { defaultPorts } from '../domain/egress/egress-policy.ts'
import { auditFields } from './audit-fields.ts'
import { containerFields } from './container-fields.ts'
import { databaseFields } from './database-fields.ts'
import { about, commaSeparated, flag, list, oneOf, text, whole } from './fields.ts'
import { kafkaFields } from './kafka-fields.ts'
import { kubernetesFields } from './kubernetes-fields.ts'
import { peopleFields } from './people-fields.ts'
import { quotaFields } from './quota-fields.ts'
import { lambdaFields } from './lambda-fields.ts'
import { publicFields } from './public-fields.ts'
import { secretFields } from './secret-fields.ts'
import { sqsFields } from './sqs-fields.ts'

const roles = ['api', 'scheduler', 'worker', 'resolver'] as const

const port = whole(0, 65_535)

const notPorts = 'is not a list of ports from 1 to 65535; write it like 80,443, or * for every port'
const egressPorts = z.preprocess(
  (value) => {
    const ports = typeof value === 'number' ? [value] : commaSeparated(value)
    return Array.isArray(ports) && ports.length === 1 && ports[0] === '*' ? '*' : ports
  },
  z.union([z.literal('*'), z.array(whole(1, 65_535, notPorts))], { error: notPorts }),
)

const queueName = z
  .string({ error: 'is not a list of names' })
  .regex(/^(\*|[A-Za-z0-9][A-Za-z0-9._-]{0,127})$/, {
    error: 'holds what is not a queue name; use letters, digits, ".", "_", "-", or "*" for every queue',
  })

/** The same rule by which the egress module reads it, so that a server which starts has no bad range. */
const cidr = z.string({ error: 'is not a list of address ranges' }).superRefine((range, context) => {
  const parsed = parseRange(range)
  if (!parsed.ok) context.addIssue({ code: 'custom', message: `holds a bad range: ${parsed.message}` })
})

/** As root the embedded Postgres runs as another user, who cannot enter root's home. */
function defaultDataDir(): string {
  if (process.getuid?.() === 0 && process.env['XDG_DATA_HOME'] === undefined) return '/var/lib/belfry'
  return join(process.env['XDG_DATA_HOME'] ?? join(homedir(), '.local', 'share'), 'belfry')
}

export const configSchema = z.strictObject({
  ...databaseFields,
  redisUrl: z
    .url({
      protocol: /^rediss?$/,
      error: 'is not a Redis URL; write it like redis://user:password@host:6379/0, or rediss:// for TLS',
    })
    .optional()
    .meta(
      about('Redis 6.2 or newer, for timers, leadership and hints; it may lose everything at any moment'),
    ),
  redisPrefix: z
    .string({ error: 'is not text' })
    .regex(/^[A-Za-z0-9._-]{1,64}$/, { error: 'is not 1 to 64 letters, digits, ".", "_", "-"' })
    .default('belfry')
    .meta(
      about(
        'How the names of all keys in Redis begin; the installation comes next, so that none meets another',
      ),
    ),
  ...kafkaFields,
  ...auditFields,
  ...sqsFields,
  ...secretFields,
  ...publicFields,
  ...peopleFields,
  ...lambdaFields,
  migrateAtStart: flag
    .default(false)
    .meta(about('Bring the schema of `databaseUrl` up to date at start; the embedded one always is')),
  dataDir: text
    .default(defaultDataDir)
    .meta(
      about(
        'Where the embedded Postgres keeps its data',
        '`belfry` in `$XDG_DATA_HOME`; without it in `~/.local/share`, for root `/var/lib/belfry`',
      ),
    ),
  embeddedPort: whole(1, 65_535)
    .optional()
    .meta(about('Let the embedded Postgres listen on 127.0.0.1 at this port too, with a password')),
  roles: list(z.enum(roles, { error: `holds what is not one of ${roles.join(', ')}` }))
    .default([...roles])
    .meta(about('What this process does')),
  host: text.default('127.0.0.1').meta(about('Address of the API')),
  port: port.default(4680).meta(about('Port of the API; 0 takes a free one')),
  opsHost: text.default('127.0.0.1').meta(about('Address of health and metrics')),
  opsPort: port.default(4681).meta(about('Port of /livez, /readyz and /metrics; 0 takes a free one')),
  workerSlots: whole(1, 10_000).default(50).meta(about('Runs that this process executes at once')),
  workerQueues: list(queueName).default(['*']).meta(about('Queues that it serves; `*` for every queue')),
  ...containerFields,
  ...kubernetesFields,
  leaseMs: whole(1_000, 600_000).default(30_000).meta(about('How long a silent worker keeps its runs')),
  heartbeatMs: whole(200, 200_000)
    .default(10_000)
    .meta(about('How often a worker renews its lease; less than half of `leaseMs`')),
  drainMs: whole(0, 604_800_000).default(30_000).meta(about('How long running attempts may end on shutdown')),
  termMs: whole(1_000, 600_000)
    .default(15_000)
    .meta(about('How long a silent scheduler keeps its shards; renewed at a third of it')),
  rescueMs: whole(200, 600_000).default(5_000).meta(about('How often lost runs are looked for')),
  retentionDays: whole(2, 3_650).default(30).meta(about('Days that runs, attempts and occurrences are kept')),
  zoneDirectory: text
    .optional()
    .meta(
      about(
        'Compiled time zone data to look for before that of the system; used where it is not older than ' +
          'what comes with Belfry',
      ),
    ),
  egressAllow: list(cidr)
    .default([])
    .meta(
      about('Private networks that jobs may call, as CIDRs, with all their ports; all others are refused'),
    ),
  egressDeny: list(cidr)
    .default([])
    .meta(about('Networks that jobs may not call, as CIDRs, also where `egressAllow` opens them')),
  egressPorts: egressPorts
    .default([...defaultPorts])
    .meta(about('Ports that jobs may call outside `egressAllow`; `*` for every port')),
  ...quotaFields,
  logLevel: oneOf(['trace', 'debug', 'info', 'warn', 'error', 'silent'])
    .default('info')
    .meta(about('Least level logged')),
})
export type Config = z.infer<typeof configSchema>
export type ConfigKey = keyof Config

/** These have no prefix, as everywhere. */
const plainNames: readonly ConfigKey[] = [
  'databaseUrl',
  'databaseReadUrl',
  'redisUrl',
  'kafkaBrokers',
  'sqsQueueUrl',
]

/** Variable of a setting: `BELFRY_WORKER_SLOTS`; stores have `DATABASE_URL`, `REDIS_URL`, as everywhere. */
export function environmentName(key: ConfigKey): string {
  const words = key.replace(/[A-Z]/g, (letter) => `_${letter}`).toUpperCase()
  return plainNames.includes(key) ? words : `BELFRY_${words}`
}

export const configKeys = Object.keys(configSchema.shape) as ConfigKey[]

/** Never to be shown, and not to be taken from a command line. Addresses may hold a password besides. */
export const secretSettings: ReadonlySet<ConfigKey> = new Set(
  configKeys.filter((key) => configSchema.shape[key].meta()?.['secret'] === true),
)

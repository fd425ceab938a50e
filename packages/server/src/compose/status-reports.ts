/**
 * What `/readyz?verbose` tells besides the checks: versions, what this process holds, zone data and replans,
 * clock skew. Nothing here decides whether it is ready.
 */
import { shardCount } from '../domain/shard.ts'
import type { RedisLink } from '../adapters/redis/redis-link.ts'
import type { ZoneDataOnDisk, ZoneSource } from '../ports/zones.ts'
import type { Database } from '../postgres/database.ts'
import { readDatabaseFacts, readOpenReplans, readSchemaVersion } from '../postgres/health.ts'
import { createPostgresWorkflowResolving } from '../postgres/workflow-resolving.ts'
import { readNewestZoneData } from '../postgres/zone-records.ts'
import type { Finding, StatusReport } from '../telemetry/ops-server.ts'
import type { Engine } from './engine.ts'
import { zoneFinding } from './zone-finding.ts'

const alarmingSkewMs = 1_000
const alarmingBacklogMs = 60_000

export interface StatusParts {
  readonly db: Database
  readonly engine: Pick<Engine, 'worker' | 'scheduling' | 'databaseClock'>
  readonly redis: RedisLink | undefined
  readonly zones: ZoneSource
  readonly zonesOnDisk: () => ZoneDataOnDisk
}

export function statusReports({ db, engine, redis, zones, zonesOnDisk }: StatusParts): StatusReport[] {
  const { worker, scheduling } = engine
  return [
    {
      name: 'database_server',
      report: async () => {
        const { version, readOnly } = await readDatabaseFacts(db)
        return ok({ version, readOnly })
      },
    },
    { name: 'schema_version', report: async () => ok({ version: await readSchemaVersion(db) }) },
    { name: 'scheduler', report: () => schedulerFinding(scheduling) },
    { name: 'worker_session', report: () => workerFinding(worker) },
    {
      name: 'zone_data',
      report: async () => {
        const newestOnRecord = await readNewestZoneData(db)
        const verdict = scheduling?.replanner.zoneData()
        return zoneFinding({ zones, onDisk: zonesOnDisk(), newestOnRecord, verdict })
      },
    },
    { name: 'workflows', report: () => workflowsFinding(db) },
    { name: 'replans', report: () => replansFinding(db) },
    ...(redis === undefined ? [] : [{ name: 'redis', report: () => redisFinding(redis) }]),
    { name: 'clock_skew', report: () => skewFinding(engine.databaseClock.skewMs()) },
  ]
}

const ok = (facts: Finding['facts']): Finding => ({ status: 'ok', message: null, facts })

function schedulerFinding(scheduling: StatusParts['engine']['scheduling']): Finding {
  if (scheduling === undefined) return ok({ role: false })
  const held = scheduling.elector.heldShards()
  const facts = {
    role: true,
    nodeId: scheduling.elector.nodeId,
    shards: held.length,
    shardsInAll: shardCount,
    terms: Object.fromEntries(held.map(({ shard, term }) => [shard, term])),
  }
  if (held.length > 0) return ok(facts)
  const message = 'This process holds no shard: others hold them all, or it cannot renew its term.'
  return { status: 'warn', message, facts }
}

function workerFinding(worker: StatusParts['engine']['worker']): Finding {
  if (worker === undefined) return ok({ role: false })
  const facts = { role: true, ...worker.stats() }
  if (facts.sessionId !== null) return ok(facts)
  const message =
    'This worker has no session, so it claims nothing; it opens one as soon as the database answers.'
  return { status: 'warn', message, facts }
}

/** Of all resolvers together, so that it tells of it too where there is none. */
async function workflowsFinding(db: Database): Promise<Finding> {
  const { events, oldestMs, alive } = await createPostgresWorkflowResolving(db).backlog()
  const facts = { alive, eventsWaiting: events, oldestWaitsMs: Math.round(oldestMs) }
  if (oldestMs < alarmingBacklogMs) return ok(facts)
  const message =
    'What happened to workflow runs waits to be taken in, the oldest for ' +
    `${Math.round(oldestMs / 1_000)} s; ` +
    'see that a process with the role resolver or scheduler runs, and what it logs.'
  return { status: 'warn', message, facts }
}

/** The subject of a calendar is a tenant's, and stays out. */
async function replansFinding(db: Database): Promise<Finding> {
  const { count, replans } = await readOpenReplans(db)
  const open = replans.map(({ kind, subject, state, fromVersion, toVersion, total, done, moved, failed }) => {
    const what = kind === 'zone' ? { zone: subject, fromVersion, toVersion } : {}
    return { kind, ...what, state, total, done, moved, failed }
  })
  return ok({ open: count, replans: open })
}

/** Degraded, and ready all the same. */
function redisFinding(redis: RedisLink): Finding {
  const { up, sinceMs, fault } = redis.stats()
  const facts = { state: up ? 'up' : 'away', since: new Date(sinceMs).toISOString() }
  if (up) return ok(facts)
  const message =
    `Redis is away (${fault}); timers, leadership and hints go by Postgres until it is back. ` +
    'Check the server and "redisUrl".'
  return { status: 'warn', message, facts }
}

function skewFinding(skewMs: number): Finding {
  const facts = { skewMs: Math.round(skewMs) }
  if (Math.abs(skewMs) < alarmingSkewMs) return ok(facts)
  const message = `The clock here is ${Math.round(skewMs)} ms off that of the database; keep both by NTP.`
  return { status: 'warn', message, facts }
}

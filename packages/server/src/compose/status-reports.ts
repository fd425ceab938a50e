/**
 * What `/readyz?verbose` tells besides the checks: versions, what this process holds, zone data and replans,
 * clock skew. Nothing here decides whether it is ready.
 */
import { isAlarmingSkew } from '../domain/clock-skew.ts'
import { shardCount } from '../domain/shard.ts'
import type { DatabaseClock } from '../engine/database-clock.ts'
import type { ZoneDataOnDisk, ZoneSource } from '../ports/zones.ts'
import type { Database } from '../postgres/database.ts'
import { readDatabaseFacts, readOpenReplans, readSchemaVersion } from '../postgres/health.ts'
import { createPostgresWorkflowResolving } from '../postgres/workflow-resolving.ts'
import { readNewestZoneData } from '../postgres/zone-records.ts'
import type { Finding, StatusReport } from '../telemetry/ops-server.ts'
import type { Engine } from './engine.ts'
import type { Links } from './links.ts'
import type { OpenReplica } from './replica.ts'
import { zoneFinding } from './zone-finding.ts'

const alarmingBacklogMs = 60_000

export interface StatusParts {
  readonly db: Database
  readonly engine: Pick<Engine, 'worker' | 'scheduling' | 'announcing' | 'databaseClock'>
  readonly links: Pick<Links, 'reports'>
  readonly replica: Pick<OpenReplica, 'report'> | undefined
  readonly zones: ZoneSource
  readonly zonesOnDisk: () => ZoneDataOnDisk
}

export function statusReports(parts: StatusParts): StatusReport[] {
  const { db, engine, links, replica, zones, zonesOnDisk } = parts
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
    ...announcedReports(engine.announcing),
    ...links.reports,
    ...(replica === undefined ? [] : [replica.report]),
    { name: 'clock_skew', report: () => skewFinding(engine.databaseClock) },
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

function announcedReports({ announcer, announced }: Engine['announcing']): readonly StatusReport[] {
  if (announcer === undefined && announced === undefined) return []
  const report = (): Finding => {
    const { silentQueues = 0, waiting = 0 } = announced?.stats() ?? {}
    const { window = 0, unclaimed = 0, refused = 0 } = announcer?.stats() ?? {}
    const facts = { waiting, silentQueues, window, unclaimed, refusedQueues: refused }
    if (silentQueues === 0) return ok(facts)
    const message =
      `${silentQueues} queue(s) are claimed from Postgres directly, because runs came up in them that were ` +
      'not announced to this worker; see that a scheduler runs that reaches the same Kafka or SQS.'
    return { status: 'warn', message, facts }
  }
  return [{ name: 'announced_runs', report }]
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

function skewFinding(databaseClock: DatabaseClock): Finding {
  const [skewMs, errorMs] = [databaseClock.skewMs(), databaseClock.skewErrorMs()]
  if (!Number.isFinite(errorMs)) return ok({ skewMs: null, errorMs: null })
  const facts = { skewMs: Math.round(skewMs), errorMs: Math.ceil(errorMs) }
  if (!isAlarmingSkew(skewMs, errorMs)) return ok(facts)
  const message = `The clock here is ${Math.round(skewMs)} ms off that of the database; keep both by NTP.`
  return { status: 'warn', message, facts }
}

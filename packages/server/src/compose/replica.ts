/**
 * The replica of `databaseReadUrl`, with connections of its own: as many as requests have to the primary. And
 * what is said of it, by a server that runs and by the doctor.
 */
import { systemClock } from '../adapters/system/clock.ts'
import { systemRandom } from '../adapters/system/ids.ts'
import { connectionShares } from '../config/connection-shares.ts'
import type { Config } from '../config/schema.ts'
import type { EventSink } from '../ports/event-sink.ts'
import type { Database } from '../postgres/database.ts'
import { openDatabase } from '../postgres/database.ts'
import { describeTarget } from '../postgres/hosts.ts'
import type { ReadReplica } from '../postgres/read-replica.ts'
import { createReadReplica } from '../postgres/read-replica.ts'
import type { Finding, StatusReport } from '../telemetry/ops-server.ts'
import type { Diagnosis } from './diagnosis.ts'

const connectWithinMs = 2_000
const doctorWithinMs = 3_000
const doctorLookMs = 50

export interface OpenReplica extends ReadReplica {
  readonly report: StatusReport
}

/** Undefined where there is none, or this process answers no requests. */
export function openReplica(config: Config, primary: Database, events: EventSink): OpenReplica | undefined {
  const { api } = connectionShares(config)
  const made = api === 0 ? undefined : makeReplica(config, primary, api, events)
  return made && { ...made, report: { name: 'read_replica', report: () => finding(made) } }
}

function makeReplica(
  config: Config,
  primary: Database,
  maxConnections: number,
  events: EventSink,
): ReadReplica | undefined {
  const { databaseReadUrl, databaseReadLagMs } = config
  if (databaseReadUrl === undefined) return undefined
  const replica = openDatabase({
    connection: { connectionString: databaseReadUrl, wanted: 'any' },
    clock: systemClock,
    random: systemRandom,
    maxConnections,
    applicationName: 'belfry-reads',
    preparedStatements: config.databasePreparedStatements,
    connectTimeoutMs: connectWithinMs,
  })
  const parts = { clock: systemClock, random: systemRandom, events }
  const watched = createReadReplica({ ...parts, primary, replica, mostLagMs: databaseReadLagMs })
  return {
    ...watched,
    async close() {
      await watched.close()
      await replica.close()
    },
  }
}

/** Degraded, and ready all the same. */
function finding(replica: ReadReplica): Finding {
  const { up, sinceMs, fault, lagMs } = replica.stats()
  const facts = { state: up ? 'up' : 'away', since: new Date(sinceMs).toISOString(), lagMs }
  if (up) return { status: 'ok', message: null, facts }
  const message =
    `The read replica is not used (${fault}); lists come from the primary until it can be again. ` +
    'Check the replica and "databaseReadUrl".'
  return { status: 'warn', message, facts }
}

/** Looks at it as a server would. Never throws. */
export async function examineReplica(config: Config, primary: Database): Promise<Diagnosis[]> {
  const { databaseReadUrl } = config
  const replica = makeReplica(config, primary, 1, { emit: () => undefined })
  if (replica === undefined || databaseReadUrl === undefined) return []
  const target = describeTarget({ connectionString: databaseReadUrl })
  const name = 'read_replica'
  try {
    replica.start()
    const deadlineMs = systemClock.monotonicMs() + doctorWithinMs
    while (!replica.stats().up && systemClock.monotonicMs() < deadlineMs)
      await systemClock.sleep(doctorLookMs)
    const { up, fault, lagMs } = replica.stats()
    if (up)
      return [{ name, status: 'ok', message: `The replica, ${target}, is ${lagMs} ms behind.`, fix: null }]
    const message = `The replica, ${target}, cannot be used: ${fault}. Lists come from the primary meanwhile.`
    const fix =
      'Check DATABASE_READ_URL (host, user, password, name), and that the replica follows the primary.'
    return [{ name, status: 'warn', message, fix }]
  } finally {
    await replica.close()
  }
}

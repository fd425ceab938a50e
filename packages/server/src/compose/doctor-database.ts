/**
 * The Postgres of DATABASE_URL as a server here would meet it: does it answer, does it fit, may the login do
 * what it has to and no more, how far is its clock, what zone data is on record there. Reads only.
 */
import { systemClock } from '../adapters/system/clock.ts'
import { systemRandom } from '../adapters/system/ids.ts'
import type { Config } from '../config/schema.ts'
import type { Database } from '../postgres/database.ts'
import { openDatabase } from '../postgres/database.ts'
import { readDatabaseFacts, readOpenReplans, readSchemaVersion } from '../postgres/health.ts'
import type { Host } from '../postgres/hosts.ts'
import { connectToOne, cut, describeTarget, hostsOf, isStandby } from '../postgres/hosts.ts'
import { loginWarning } from '../postgres/login-rights.ts'
import { checkSchema, schemaMismatch } from '../postgres/migrate.ts'
import { readNewestZoneData } from '../postgres/zone-records.ts'
import type { Diagnosis, LocalZones } from './diagnosis.ts'
import { wordsOf } from './diagnosis.ts'
import { examineReplica } from './replica.ts'
import { zoneFinding } from './zone-finding.ts'

const oldestMajor = 15
const newestMajor = 18
const limitMs = 3_000
const alarmingSkewMs = 1_000

export async function examineDatabase(
  config: Config,
  connectionString: string,
  local: LocalZones,
): Promise<Diagnosis[]> {
  const db = openDatabase({
    connection: { connectionString },
    clock: systemClock,
    random: systemRandom,
    maxConnections: 1,
    applicationName: 'belfry-doctor',
    preparedStatements: false,
    connectTimeoutMs: limitMs,
    defaultTimeoutMs: limitMs,
  })
  try {
    const server = await examineServer(db, describeTarget({ connectionString }))
    if (server.some(({ name, status }) => name === 'database' && status === 'fail')) return server
    const schema = await examineSchema(db, config)
    const rights = await examined('database_rights', () => examineRights(db))
    const others = [...(await examineHosts(connectionString)), ...(await examineReplica(config, db))]
    const found = [...server, schema, rights, ...others]
    if (schema.status !== 'ok') return found
    const recorded = await examined('zone_data_on_record', () => examineRecord(db, local))
    return [...found, recorded, await examined('replans', () => examineReplans(db))]
  } finally {
    await db.close()
  }
}

/** A look that fails is a finding too. */
async function examined(name: string, look: () => Promise<Omit<Diagnosis, 'name'>>): Promise<Diagnosis> {
  try {
    return { name, ...(await look()) }
  } catch (error) {
    return { name, status: 'fail', message: wordsOf(error), fix: null }
  }
}

async function examineServer(db: Database, target: string): Promise<Diagnosis[]> {
  const sentMs = systemClock.monotonicMs()
  try {
    // the first connection takes longer than the answer; it must not count as skew
    await db.ping(limitMs)
    const askedMs = systemClock.monotonicMs()
    const { version, major, readOnly, nowMs } = await readDatabaseFacts(db)
    const tripMs = systemClock.monotonicMs() - askedMs
    const skewMs = systemClock.nowMs() - (nowMs + tripMs / 2)
    const took = Math.round(askedMs - sentMs)
    return [databaseDiagnosis({ target, version, major, readOnly, took }), skewDiagnosis(skewMs, tripMs)]
  } catch (error) {
    const message = `${target} does not let Belfry in: ${wordsOf(error)}.`
    const fix = 'Check DATABASE_URL (host, user, password, name), and that the server runs and is reachable.'
    return [{ name: 'database', status: 'fail', message, fix }]
  }
}

/** Of several hosts: who takes writes, who could, and who is not there when he is needed. */
async function examineHosts(connectionString: string): Promise<Diagnosis[]> {
  const { all } = hostsOf({ connectionString })
  if (all.length < 2) return []
  const found = await Promise.all(all.map(async (host) => ({ host, state: await stateOf(host) })))
  const message = `${found.map(({ host, state }) => `${host.place}: ${state}`).join('; ')}.`
  const name = 'database_hosts'
  if (found.every(({ state }) => state === primary || state === standby)) {
    return [{ name, status: 'ok', message, fix: null }]
  }
  const fix = 'Only a host that answers as a standby can take over; mend the others.'
  return [{ name, status: 'warn', message, fix }]
}

const primary = 'takes writes'
const standby = 'is a standby'

async function stateOf(host: Host): Promise<string> {
  const settings = { application_name: 'belfry-doctor', connectionTimeoutMillis: limitMs }
  try {
    const { client } = await connectToOne({ all: [host], wanted: 'read-write', choice: true }, settings)
    cut(client)
    return primary
  } catch (error) {
    return isStandby(error) ? standby : wordsOf(error)
  }
}

function databaseDiagnosis(found: {
  target: string
  version: string
  major: number
  readOnly: boolean
  took: number
}): Diagnosis {
  const { target, version, major, readOnly, took } = found
  const name = 'database'
  const message = `${target} answers (Postgres ${version}, ${took} ms).`
  if (major < oldestMajor) {
    const fix = `Belfry needs Postgres ${oldestMajor} to ${newestMajor}; upgrade the server.`
    return { name, status: 'fail', message, fix }
  }
  if (readOnly) {
    const words = `${message} It is read-only (a standby, or made so).`
    return { name, status: 'fail', message: words, fix: 'Let DATABASE_URL name the primary.' }
  }
  if (major <= newestMajor) return { name, status: 'ok', message, fix: null }
  const fix = `Belfry is tested with Postgres ${oldestMajor} to ${newestMajor}; look for a newer Belfry.`
  return { name, status: 'warn', message, fix }
}

function skewDiagnosis(skewMs: number, tripMs: number): Diagnosis {
  const name = 'database_clock'
  const off = Math.round(Math.abs(skewMs))
  const message = `The clock here is ${off} ms ${skewMs < 0 ? 'behind' : 'ahead of'} that of the database.`
  if (off < alarmingSkewMs + tripMs / 2) return { name, status: 'ok', message, fix: null }
  return { name, status: 'warn', message, fix: 'Keep both by NTP; see `timedatectl`.' }
}

async function examineSchema(db: Database, config: Config): Promise<Diagnosis> {
  return examined('schema', async () => {
    const mismatch = schemaMismatch(await checkSchema(db))
    const version = (await readSchemaVersion(db)) ?? 'empty'
    if (mismatch === undefined) return { status: 'ok', message: `The schema is ${version}.`, fix: null }
    const fixes = config.migrateAtStart ? 'The next start brings it up to date (migrateAtStart).' : null
    return { status: fixes === null ? 'fail' : 'warn', message: mismatch.message, fix: fixes }
  })
}

async function examineRights(db: Database): Promise<Omit<Diagnosis, 'name'>> {
  const warning = await loginWarning(db)
  if (warning !== undefined) return { status: 'warn', message: warning, fix: null }
  return { status: 'ok', message: 'The login has no rights but those of the roles that it takes.', fix: null }
}

async function examineRecord(db: Database, { zones, onDisk }: LocalZones): Promise<Omit<Diagnosis, 'name'>> {
  const newestOnRecord = await readNewestZoneData(db)
  const { status, message } = zoneFinding({ zones, onDisk, newestOnRecord })
  const found =
    newestOnRecord === null
      ? 'No scheduler has put its zone data on record yet.'
      : `Future times are computed with zone data ${newestOnRecord}.`
  return { status, message: found, fix: message }
}

async function examineReplans(db: Database): Promise<Omit<Diagnosis, 'name'>> {
  const { count, replans } = await readOpenReplans(db)
  if (count === 0) return { status: 'ok', message: 'No future times are being computed again.', fix: null }
  const shown = replans.slice(0, 3).map(({ kind, subject, done, total, moved }) => {
    const what = kind === 'zone' ? subject : 'a calendar'
    return `${what} ${done} of ${total ?? '?'} schedules, ${moved} moved`
  })
  const more = count > shown.length ? ` and ${count - shown.length} more` : ''
  return {
    status: 'ok',
    message: `Future times are being computed again: ${shown.join('; ')}${more}.`,
    fix: null,
  }
}
